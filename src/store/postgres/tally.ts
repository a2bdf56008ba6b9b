import type { EventState } from '../reports.ts';
import type { Sender } from './connection.ts';
import { rowsOf } from './rows.ts';

/** How many events move between states, where `moves` says so. */
export function tally(unit: Sender, moves: Partial<Record<EventState, number>>): void {
  const rows = Object.entries(moves).flatMap(([state, by]) => (by === 0 ? [] : [{ state, by }]));
  if (rows.length === 0) return;
  unit.send(
    `UPDATE event_counts c SET count = c.count + x.by FROM json_to_recordset($1::json) AS x (state text, by bigint)
     WHERE c.state = x.state`,
    [rowsOf(rows)],
  );
}
