import { contentHashOf } from '../../inbox/content-hash.ts';
import { waitsForProcessing } from '../../process/payload.ts';
import {
  type AcceptOutcome,
  type DirtyTiming,
  DUPLICATES_KEPT,
  type InboxStore,
  type IncomingEvent,
  type Now,
} from '../store.ts';
import { keepUnusable } from '../units/not-accepted.ts';
import type { Dirtied } from '../units/records.ts';
import { bigintArray, textArray, timestampArray } from './arrays.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { dirtyColumns, RECORDS } from './records.ts';
import { rowsOf } from './text.ts';
import { instantOf } from './types.ts';

/** What comes in: events, and deliveries of which no event can be made. */
export const createAcceptVerb = (database: Database): Pick<InboxStore, 'accept'> => ({
  async accept(batch, now, timing) {
    const accepted = batch.unusable.length > 0 ? null : await acceptNew(database, batch.events, now, timing);
    if (accepted !== null) return accepted;
    return await database.transact(async (unit) => {
      const { outcomes, fresh, again, conflicting } = await sortOut(unit, batch.events);
      await insertEvents(unit, fresh, now);
      await countDeliveries(unit, again, now);
      const duplicates = again.filter((event) => !conflicting.includes(event));
      await keepDuplicates(unit, duplicates, now);
      RECORDS.dirty(unit, fresh.flatMap(remedyOf), now, timing);
      await keepUnusable(unit, RECORDS, { conflicting, unusable: batch.unusable }, now, timing);
      return outcomes;
    });
  },
});

/**
 * What nearly every group of deliveries is: events that nobody has seen. They are taken in with one statement and one
 * round trip, because all replicas wait for whoever holds the counter.
 *
 * Null, and nothing done, where it is another case: an id that is known, or comes twice in the group.
 */
async function acceptNew(
  database: Database,
  events: readonly IncomingEvent[],
  now: Now,
  timing: DirtyTiming,
): Promise<AcceptOutcome[] | null> {
  const ids = events.map((event) => event.id);
  if (events.length === 0 || new Set(ids).size < events.length) return null;
  const dirtied = events.flatMap(({ kind, recordId }, index) =>
    kind === null || recordId === null ? [] : [{ kind, id: recordId, number: index + 1 }],
  );
  const [taken] = await database.transactAtOnce<{ before: number | null }>(
    'SELECT accept_events($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) AS before',
    [
      textArray(ids),
      textArray(events.map((event) => event.type)),
      timestampArray(events.map((event) => event.createdMs)),
      bigintArray(events.map((event) => event.createdMs)),
      textArray(events.map((event) => event.kind)),
      textArray(events.map((event) => event.recordId)),
      textArray(events.map((event) => (waitsForProcessing(event) ? 'pending' : 'ignored'))),
      textArray(events.map((event) => event.body)),
      ...dirtyColumns(dirtied),
      now.steady,
      now.steady + timing.settleMs,
      instantOf(now.wall),
      textArray(events.map((event) => event.address ?? null)),
    ],
  );
  const before = taken?.before;
  if (before == null) return null;
  return ids.map((_, index) => ({ status: 'accepted', seq: before + index + 1 }));
}

type Numbered = IncomingEvent & { seq: number };

const remedyOf = ({ kind, recordId, seq }: Numbered): Dirtied[] =>
  kind === null || recordId === null ? [] : [{ kind, id: recordId, number: seq }];

/** Which of them are new, and what becomes of the others. No other transaction accepts while this one holds the counter. */
async function sortOut(unit: Unit, events: readonly IncomingEvent[]) {
  const known = await knownContents(unit, events);
  const fresh: Numbered[] = [];
  const again: IncomingEvent[] = [];
  const conflicting: IncomingEvent[] = [];
  const outcomes = events.map((event): AcceptOutcome => {
    const before = known.get(event.id);
    if (before === undefined) {
      const seq = unit.numbers.next();
      known.set(event.id, { contentHash: null, body: event.body });
      fresh.push({ ...event, seq });
      return { status: 'accepted', seq };
    }
    again.push(event);
    const isOther = !isSameContent(before, event.body);
    if (isOther) conflicting.push(event);
    return { status: 'duplicate', conflicting: isOther };
  });
  return { outcomes, fresh, again, conflicting };
}

/** What is left of an event to compare others with: its body, or what that came to when it was trimmed. */
interface Content {
  contentHash: string | null;
  body: string | null;
}

async function knownContents(sql: Sql, events: readonly IncomingEvent[]): Promise<Map<string, Content>> {
  if (events.length === 0) return new Map();
  const rows = await sql.query<Content & { id: string }>(
    `SELECT id, content_hash AS "contentHash", body FROM events WHERE id = ANY ($1::text[])
     UNION ALL SELECT id, content_hash, NULL FROM trimmed_events WHERE id = ANY ($1::text[])`,
    [events.map((event) => event.id)],
  );
  return new Map(rows.map((row) => [row.id, row]));
}

function isSameContent({ contentHash, body }: Content, again: string): boolean {
  if (body === again) return true;
  return contentHashOf(again) === (contentHash ?? contentHashOf(body ?? ''));
}

async function insertEvents(sql: Sql, events: readonly Numbered[], now: Now): Promise<void> {
  if (events.length === 0) return;
  const pending = events.filter(waitsForProcessing).length;
  await sql.change(
    `WITH counted AS (
       UPDATE event_counts SET count = count + CASE state WHEN 'pending' THEN $3::bigint ELSE $4::bigint END
       WHERE state IN ('pending', 'ignored')
     ) INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
       processed_at, address, body)
     SELECT seq, id, type, created, "createdMs", kind, "recordId", $2::timestamptz, $2::timestamptz, CASE WHEN known THEN 'pending' ELSE 'ignored' END,
       CASE WHEN known THEN NULL ELSE $2::timestamptz END, address, body
     FROM json_to_recordset($1::json) AS x (seq bigint, id text, type text, created timestamptz, "createdMs" bigint,
       kind text, "recordId" text, known boolean, address text, body text)`,
    [
      rowsOf(
        events.map(({ seq, id, type, createdMs, kind, recordId, known, address, body }) => ({
          ...{ seq, id, type, createdMs, kind, recordId, address, body },
          known: waitsForProcessing({ known, kind, recordId }),
          created: instantOf(createdMs),
        })),
      ),
      instantOf(now.wall),
      pending,
      events.length - pending,
    ],
  );
}

async function countDeliveries(sql: Sql, events: readonly IncomingEvent[], now: Now): Promise<void> {
  if (events.length === 0) return;
  const times = new Map<string, number>();
  for (const { id } of events) times.set(id, (times.get(id) ?? 0) + 1);
  await sql.change(
    `UPDATE events e SET deliveries = e.deliveries + x.times, last_delivered_at = $2::timestamptz
     FROM json_to_recordset($1::json) AS x (id text, times int) WHERE e.id = x.id`,
    [rowsOf([...times].map(([id, count]) => ({ id, times: count }))), instantOf(now.wall)],
  );
}

async function keepDuplicates(sql: Sql, duplicates: readonly IncomingEvent[], now: Now): Promise<void> {
  if (duplicates.length === 0) return;
  await sql.change(
    `INSERT INTO duplicates (received_at, event_id, type, kind, record_id, address)
     SELECT $2::timestamptz, id, type, kind, "recordId", address
     FROM json_to_recordset($1::json) AS x (id text, type text, kind text, "recordId" text, address text)`,
    [
      rowsOf(
        duplicates.map(({ id, type, kind, recordId, address }) => ({ id, type, kind, recordId, address })),
      ),
      instantOf(now.wall),
    ],
  );
  await sql.change('DELETE FROM duplicates WHERE id <= (SELECT max(id) FROM duplicates) - $1', [
    DUPLICATES_KEPT,
  ]);
}
