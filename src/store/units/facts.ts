import type { Sender, Sql } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import type { EventState } from '../reports.ts';
import { audit, eventCounts, facts } from '../schema.ts';
import type { AuditEntry, Now } from '../store.ts';
import { insertInto, isOneOf, iso, single, sql, update, upsert } from './sql.ts';

/** Small tables that units of several files write: the audit, facts by name, and how many events are in each state. */

/** Returns its id. */
export async function noteAudit(
  unit: Sql,
  { actor, action, outcome, target }: AuditEntry,
  now: Now,
): Promise<number> {
  const entry = insertInto(audit, { at: iso(now.wall), actor, action, outcome, target });
  return (await single<number>(unit, sql`${entry} RETURNING ${audit.id}`))!;
}

export async function writeFact(unit: Sql, name: string, value: string): Promise<void> {
  await unit.change(writtenFact(name, value));
}

/** The statement of it. */
export const writtenFact = (name: string, value: string): SQL => upsert(facts, ['name'], { name, value });

export const readFact = (unit: Sql, name: string): Promise<string | null> =>
  single<string>(unit, sql`SELECT ${facts.value} FROM ${facts} WHERE ${facts.name} = ${name}`);

/** Moves the counts of events by state. */
export function tally(unit: Sender, moves: Readonly<Partial<Record<EventState, number>>>): void {
  const moving = Object.entries(moves).filter(([, by]) => by !== 0);
  if (moving.length === 0) return;
  const { state, count } = eventCounts;
  const by = moving.map(([name, by]) => sql`WHEN ${sql.raw(`'${name}'`)} THEN CAST(${by} AS bigint)`);
  const moved = sql`${count} + CASE ${state} ${sql.join(by, sql.raw(' '))} END`;
  const states = moving.map(([name]) => name);
  unit.send(update(eventCounts, { count: moved }, isOneOf(state, states)));
}
