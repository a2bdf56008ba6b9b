import type { Kind } from '../../compliance/kinds.ts';
import type { AcceptOutcome, HintTiming, IncomingEvent, Now } from '../store.ts';
import type { Database } from './connection.ts';
import { hinting, latestHints } from './records.ts';
import { rowsOf } from './rows.ts';
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
  const pending = events.filter((event) => event.known).length;
  const hints = latestHints(
    events.flatMap(({ kind, recordId }, index) =>
      kind === null || recordId === null ? [] : [{ kind, id: recordId, number: index + 1 }],
    ),
  );
  const [taken] = await database.transactAtOnce<{ before: number }>(
    statement(new Set(hints.map((hint) => hint.kind))),
    [
      rowsOf(events.map(rowOf)),
      ids,
      pending,
      events.length - pending,
      instantOf(now.wall),
      rowsOf(hints),
      now.steady,
      now.steady + timing.settleMs,
    ],
  );
  if (taken === undefined) return null;
  return ids.map((_, index) => ({ status: 'accepted', seq: taken.before + index + 1 }));
}

const rowOf = ({ id, type, createdMs, kind, recordId, known, body }: IncomingEvent, index: number) => ({
  ...{ place: index + 1, id, type, createdMs, kind, recordId, known, body },
  created: instantOf(createdMs),
});

/** All of it hangs on `taken`, which is empty where an id is known. */
const statement = (kinds: ReadonlySet<Kind>): string => `
  WITH known AS (
    SELECT (SELECT count(*) FROM events WHERE id = ANY ($2::text[]))
      + (SELECT count(*) FROM trimmed_events WHERE id = ANY ($2::text[])) AS ids
  ), taken AS (
    UPDATE counter SET value = value + $3::bigint + $4::bigint WHERE one = 1 AND (SELECT ids FROM known) = 0
    RETURNING value - $3::bigint - $4::bigint AS before
  ), counted AS (
    UPDATE event_counts SET count = count + CASE state WHEN 'pending' THEN $3::bigint ELSE $4::bigint END
    WHERE state IN ('pending', 'ignored') AND EXISTS (SELECT FROM taken)
  ), stored AS (
    INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
      processed_at, body)
    SELECT before + place, id, type, created, "createdMs", kind, "recordId", $5::timestamptz, $5::timestamptz,
      CASE WHEN known THEN 'pending' ELSE 'ignored' END, CASE WHEN known THEN NULL ELSE $5::timestamptz END, body
    FROM taken, json_to_recordset($1::json) AS x (place bigint, id text, type text, created timestamptz,
      "createdMs" bigint, kind text, "recordId" text, known boolean, body text)
  ), given_hints AS (
    SELECT kind, id, before + number AS number FROM taken,
      json_to_recordset($6::json) AS x (kind text, id text, number bigint)
  ), ${hinting(kinds, { at: '$7', dueAt: '$8', since: '$5' })}
  SELECT before FROM taken`;
