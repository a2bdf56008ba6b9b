import type { Sender } from '../database.ts';
import type { EventState } from '../reports.ts';
import { eventCounts } from '../schema.sqlite.ts';
import { isOneOf, set, sql } from './sql.ts';

/** Moves the counts of events by state. */
export function tally(unit: Sender, moves: Readonly<Partial<Record<EventState, number>>>): void {
  const moving = Object.entries(moves).filter(([, by]) => by !== 0);
  if (moving.length === 0) return;
  const { state, count } = eventCounts;
  const by = moving.map(([name, by]) => sql`WHEN ${sql.raw(`'${name}'`)} THEN CAST(${by} AS bigint)`);
  const moved = sql`${count} + CASE ${state} ${sql.join(by, sql.raw(' '))} END`;
  const states = moving.map(([name]) => name);
  unit.send(
    sql`UPDATE ${eventCounts} SET ${set(eventCounts, { count: moved })} WHERE ${isOneOf(state, states)}`,
  );
}
