import { createHash } from 'node:crypto';
import type { Kind } from '../../compliance/kinds.ts';
import { contentHashOf } from '../../inbox/content.ts';
import { senderOf } from '../../inbox/rejections.ts';
import { waitsForProcessing } from '../../process/handlers.ts';
import { coverableAt, gapOfFailed, gapOfQuarantined } from '../healing.ts';
import type { EventState } from '../reports.ts';
import {
  type AcceptOutcome,
  type ClaimedEvent,
  type GapKey,
  type HintTiming,
  type InboxStore,
  type IncomingEvent,
  type Now,
  OLD_REJECTIONS_LOOKED_AT,
  REJECTION_KEPT_MS,
  REJECTIONS_KEPT,
  type UnreadEvent,
  type UnusableDelivery,
} from '../store.ts';
import { acceptNew } from './accepting.ts';
import type { Claims } from './claims.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { healSettled, openGap } from './gaps.ts';
import { type Hint, hintRecords } from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';
import { rowsOf } from './rows.ts';
import { tally } from './tally.ts';
import { instantOf } from './types.ts';

/** Events that were given up: the API is asked for what they were about. */
export async function bury(
  unit: Unit,
  dead: readonly { event: ClaimedEvent; error: string }[],
  now: Now,
  timing: HintTiming,
): Promise<void> {
  const hints: Hint[] = [];
  const gaps: { key: GapKey; error: string }[] = [];
  for (const { event, error } of dead) {
    const { kind, recordId } = event;
    if (kind !== null && recordId !== null) hints.push({ kind, id: recordId, number: unit.numbers.next() });
    const key = gapOfFailed(kind, recordId);
    gaps.push({ key, error: `event ${event.id}: ${error}` });
  }
  hintRecords(unit, hints, now, timing);
  for (const { key, error } of gaps)
    await openGap(unit, key, error, instantOf(now.wall), coverableAt(key, now, timing));
}

type InboxVerbs = Omit<InboxStore, 'previewEvents' | 'retryEvent'>;

export function createInboxVerbs(database: Database, claims: Claims): InboxVerbs {
  return {
    ...claims.verbs,

    async accept(batch, now, timing) {
      const accepted =
        batch.unusable.length > 0 ? null : await acceptNew(database, batch.events, now, timing);
      if (accepted !== null) return accepted;
      return await database.transact(async (unit) => {
        const sorted = await sortOut(unit, batch.events);
        await insertEvents(unit, sorted.fresh, now);
        await countDeliveries(unit, sorted.again, now);
        const unusable = [
          ...sorted.conflicting.map((event) => ({ delivery: conflictOf(event), gap: CONFLICT })),
          ...batch.unusable.map((delivery) => ({ delivery, gap: UNUSABLE })),
        ];
        await quarantine(unit, unusable, now);
        const hints = [...sorted.fresh, ...sorted.conflictHints].flatMap(hintOf);
        for (const { delivery } of unusable.slice(sorted.conflicting.length)) {
          if (delivery.kind === null || delivery.recordId === null) continue;
          hints.push({ kind: delivery.kind, id: delivery.recordId, number: unit.numbers.next() });
        }
        hintRecords(unit, hints, now, timing);
        for (const { delivery, gap } of unusable) {
          const key = gapOfQuarantined(gap, delivery.kind, delivery.recordId);
          await openGap(unit, key, delivery.reason, instantOf(now.wall), coverableAt(key, now, timing));
        }
        return sorted.outcomes;
      });
    },

    async recordRejections(rejections) {
      await database.transact(async (unit) => {
        await unit.change(
          `INSERT INTO rejections (at, reason, t, bytes, body_sha256, header, body, address, network, times)
           SELECT at, reason, t, bytes, sha, header, decode(body, 'base64'), address, network, times
           FROM json_to_recordset($1::json)
             AS x (at timestamptz, reason text, t text, bytes bigint, sha text, header text, body text,
               address text, network text, times bigint)`,
          [
            rowsOf(
              rejections.map(({ wall, bodySha256, body, ...rest }) => ({
                ...rest,
                at: instantOf(wall),
                sha: bodySha256,
                network: senderOf(rest.address),
                body: body === null ? null : Buffer.from(body).toString('base64'),
              })),
            ),
          ],
        );
        const newest = Math.max(...rejections.map(({ wall }) => wall));
        await unit.change(
          'DELETE FROM rejections WHERE id IN (SELECT id FROM rejections ORDER BY id LIMIT $1::bigint) AND at < $2',
          [OLD_REJECTIONS_LOOKED_AT, instantOf(newest - REJECTION_KEPT_MS)],
        );
        await unit.change(
          `DELETE FROM rejections WHERE id IN (
             SELECT id FROM (
               SELECT id, row_number() OVER (PARTITION BY reason ORDER BY nth, id DESC) AS place FROM (
                 SELECT id, reason, row_number() OVER (PARTITION BY reason, network ORDER BY id DESC) AS nth
                 FROM rejections WHERE reason = ANY($1::text[])) AS senders) AS places
             WHERE place > $2::bigint)`,
          [[...new Set(rejections.map(({ reason }) => reason))], REJECTIONS_KEPT],
        );
      });
    },

    async nextAttemptWall() {
      const [row] = await database.sql.query<{ at: string | null }>(
        "SELECT min(next_attempt_at) AS at FROM events WHERE state = 'pending' AND next_attempt_at IS NOT NULL",
      );
      return row?.at == null ? null : Date.parse(row.at);
    },

    async deferEvents(failures, now, timing) {
      await database.transact(async (unit) => {
        const held = await claims.finish(
          unit,
          failures.map((failure) => failure.event),
        );
        const mine = new Set(held.map((event) => event.seq));
        const rows = failures
          .filter(({ event }) => mine.has(event.seq))
          .map(({ event, retryAtMs, error }) => ({
            seq: event.seq,
            error,
            at:
              retryAtMs === null
                ? null
                : instantOf(now.wall + Math.max(0, Math.round(retryAtMs - now.steady))),
          }));
        const moved = await unit.query<{ seq: number; state: EventState }>(
          `UPDATE events e SET attempts = e.attempts + 1, next_attempt_at = x.at, error = x.error,
             state = CASE WHEN x.at IS NULL THEN 'dead' ELSE e.state END,
             processed_at = CASE WHEN x.at IS NULL THEN $2::timestamptz ELSE e.processed_at END
           FROM json_to_recordset($1::json) AS x (seq bigint, at timestamptz, error text)
           WHERE e.seq = x.seq AND e.state = 'pending' RETURNING e.seq, e.state`,
          [rowsOf(rows), instantOf(now.wall)],
        );
        const gone = new Set(moved.filter((row) => row.state === 'dead').map((row) => row.seq));
        if (gone.size === 0) return;
        tally(unit, { pending: -gone.size, dead: gone.size });
        const dead = failures.filter(({ event }) => gone.has(event.seq));
        await bury(unit, dead, now, timing);
      });
    },

    async failedWithoutRecord(after, limit) {
      return await database.sql.query<UnreadEvent>(
        `SELECT seq, id, type, kind, attempts, body FROM events WHERE state = 'dead' AND kind IS NOT NULL
         AND record_id IS NULL AND body IS NOT NULL AND seq > $1 ORDER BY seq LIMIT $2`,
        [after, limit],
      );
    },

    async discardEvent(id, now) {
      return await database.transact(async (unit) => {
        const [event] = await unit.query<{
          seq: number;
          state: EventState;
          kind: Kind | null;
          record_id: string | null;
        }>(
          "SELECT seq, state, kind, record_id FROM events WHERE id = $1 AND state IN ('dead', 'pending') FOR UPDATE",
          [id],
        );
        if (event === undefined) return false;
        await unit.change(
          "UPDATE events SET state = 'discarded', processed_at = $2, next_attempt_at = NULL WHERE seq = $1",
          [event.seq, instantOf(now.wall)],
        );
        await trimBodiesAgainFrom(unit, event.seq);
        await claims.revoke(unit, event.seq);
        tally(unit, { [event.state]: -1, discarded: 1 });
        if (event.state === 'dead' && event.kind !== null) {
          await healSettled(unit, event.kind, event.record_id, instantOf(now.wall));
        }
        return true;
      });
    },

    async releaseQuarantined(id, now, timing) {
      return await database.transact(async (unit) => {
        const [row] = await unit.query<{ kind: Kind | null; record_id: string | null }>(
          'UPDATE quarantine SET released_at = $2 WHERE id = $1 AND released_at IS NULL RETURNING kind, record_id',
          [id, instantOf(now.wall)],
        );
        if (row === undefined) return false;
        const { kind, record_id } = row;
        if (kind !== null && record_id !== null) {
          hintRecords(unit, [{ kind, id: record_id, number: unit.numbers.next() }], now, timing);
          return true;
        }
        if (kind === 'risk_assessment') {
          // There is no list to read: that a person has seen to it is all that can settle it.
          await healSettled(unit, kind, null, instantOf(now.wall));
          return true;
        }
        const gap = gapOfQuarantined('unusable_delivery', kind, null);
        const from = coverableAt(gap, now, timing);
        await openGap(unit, gap, `quarantine ${id} released`, instantOf(now.wall), from);
        return true;
      });
    },
  };
}

const CONFLICT = 'conflicting_content' as const;
const UNUSABLE = 'unusable_delivery' as const;

type Numbered = IncomingEvent & { seq: number };

const hintOf = ({ kind, recordId, seq }: Numbered): Hint[] =>
  kind === null || recordId === null ? [] : [{ kind, id: recordId, number: seq }];

/** Which of them are new, and what becomes of the others. No other transaction accepts while this one holds the counter. */
async function sortOut(unit: Unit, events: readonly IncomingEvent[]) {
  const known = await knownContents(unit, events);
  const fresh: Numbered[] = [];
  const again: IncomingEvent[] = [];
  const conflicting: IncomingEvent[] = [];
  const conflictHints: Numbered[] = [];
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
    if (isOther) {
      conflicting.push(event);
      if (event.kind !== null && event.recordId !== null) {
        conflictHints.push({ ...event, seq: unit.numbers.next() });
      }
    }
    return { status: 'duplicate', conflicting: isOther };
  });
  return { outcomes, fresh, again, conflicting, conflictHints };
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
       processed_at, body)
     SELECT seq, id, type, created, "createdMs", kind, "recordId", $2::timestamptz, $2::timestamptz, CASE WHEN known THEN 'pending' ELSE 'ignored' END,
       CASE WHEN known THEN NULL ELSE $2::timestamptz END, body
     FROM json_to_recordset($1::json) AS x (seq bigint, id text, type text, created timestamptz, "createdMs" bigint,
       kind text, "recordId" text, known boolean, body text)`,
    [
      rowsOf(
        events.map(({ seq, id, type, createdMs, kind, recordId, known, body }) => ({
          ...{ seq, id, type, createdMs, kind, recordId, body },
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

function conflictOf(event: IncomingEvent): UnusableDelivery {
  return {
    reason: `the id ${event.id} was received before with other content`,
    t: event.t,
    body: Buffer.from(event.body),
    kind: event.kind,
    recordId: event.recordId,
  };
}

async function quarantine(
  sql: Sql,
  deliveries: readonly { delivery: UnusableDelivery }[],
  now: Now,
): Promise<void> {
  if (deliveries.length === 0) return;
  await sql.change(
    `INSERT INTO quarantine (received_at, reason, t, kind, record_id, body, body_sha256)
     SELECT $2::timestamptz, reason, t, kind, "recordId", decode(body, 'base64'), sha FROM json_to_recordset($1::json)
       AS x (reason text, t text, kind text, "recordId" text, body text, sha text)`,
    [
      rowsOf(
        deliveries.map(({ delivery: { reason, t, kind, recordId, body } }) => ({
          ...{ reason, t, kind, recordId },
          body: Buffer.from(body).toString('base64'),
          sha: createHash('sha256').update(body).digest('hex'),
        })),
      ),
      instantOf(now.wall),
    ],
  );
}
