import type { Sql } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import { audit, facts } from '../schema.sqlite.ts';
import type { AuditEntry, Now } from '../store.ts';
import { excluded, insertInto, iso, set, sql } from './sql.ts';

/** Returns its id. */
export async function noteAudit(
  unit: Sql,
  { actor, action, outcome, target }: AuditEntry,
  now: Now,
): Promise<number> {
  const [row] = await unit.query<{ id: number }>(
    sql`${insertInto(audit, { at: iso(now.wall), actor, action, outcome, target })} RETURNING ${audit.id}`,
  );
  return row!.id;
}

export async function writeFact(unit: Sql, name: string, value: string): Promise<void> {
  await unit.change(writtenFact(name, value));
}

/** The statement of it. */
export const writtenFact = (name: string, value: string): SQL =>
  sql`${insertInto(facts, { name, value })} ON CONFLICT (name) DO UPDATE SET ${set(facts, { value: excluded(facts.value) })}`;

export async function readFact(unit: Sql, name: string): Promise<string | null> {
  const [row] = await unit.query<{ value: string }>(
    sql`SELECT ${facts.value} FROM ${facts} WHERE ${facts.name} = ${name}`,
  );
  return row?.value ?? null;
}
