import type { AuditEntry, Now } from '../store.ts';
import type { Sql } from './connection.ts';
import { instantOf } from './types.ts';

export async function noteAudit(sql: Sql, entry: AuditEntry, now: Now): Promise<number> {
  const [row] = await sql.query<{ id: number }>(
    'INSERT INTO audit (at, actor, action, outcome, target) VALUES ($1, $2, $3, $4, $5) RETURNING id',
    [instantOf(now.wall), entry.actor, entry.action, entry.outcome, entry.target],
  );
  return row?.id ?? 0;
}

export async function writeFact(sql: Sql, name: string, value: string): Promise<void> {
  await sql.change(
    'INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [name, value],
  );
}

export async function readFact(sql: Sql, name: string): Promise<string | null> {
  const [row] = await sql.query<{ value: string }>('SELECT value FROM facts WHERE name = $1', [name]);
  return row?.value ?? null;
}
