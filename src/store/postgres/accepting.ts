import { waitsForProcessing } from '../../process/handlers.ts';
import type { AcceptOutcome, HintTiming, IncomingEvent, Now } from '../store.ts';
import { bigintArray, textArray, timestampArray } from './arrays.ts';
import type { Database } from './connection.ts';
import { hintColumns } from './records.ts';
import { instantOf } from './types.ts';

/**
 * What nearly every group of deliveries is: events that nobody has seen. They are taken in with one statement and one
 * round trip, because all replicas wait for whoever holds the counter.
 *
 * Null, and nothing done, where it is another case: an id that is known, or comes twice in the group.
 */
export async function acceptNew(
  database: Database,
  events: readonly IncomingEvent[],
  now: Now,
  timing: HintTiming,
): Promise<AcceptOutcome[] | null> {
  const ids = events.map((event) => event.id);
  if (events.length === 0 || new Set(ids).size < events.length) return null;
  const hints = events.flatMap(({ kind, recordId }, index) =>
    kind === null || recordId === null ? [] : [{ kind, id: recordId, number: index + 1 }],
  );
  const [taken] = await database.transactAtOnce<{ before: number | null }>(
    'SELECT accept_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) AS before',
    [
      textArray(ids),
      textArray(events.map((event) => event.type)),
      timestampArray(events.map((event) => event.createdMs)),
      bigintArray(events.map((event) => event.createdMs)),
      textArray(events.map((event) => event.kind)),
      textArray(events.map((event) => event.recordId)),
      textArray(events.map((event) => (waitsForProcessing(event) ? 'pending' : 'ignored'))),
      textArray(events.map((event) => event.body)),
      ...hintColumns(hints),
      now.steady,
      now.steady + timing.settleMs,
      instantOf(now.wall),
    ],
  );
  const before = taken?.before;
  if (before == null) return null;
  return ids.map((_, index) => ({ status: 'accepted', seq: before + index + 1 }));
}
