import { createHash } from 'node:crypto';
import { contentHashOf } from '../../inbox/content.ts';
import { senderOf } from '../../inbox/rejections.ts';
import { waitsForProcessing } from '../../process/handlers.ts';
import { coverableAt, gapOfQuarantined } from '../healing.ts';
import {
  type AcceptOutcome,
  type InboxStore,
  type IncomingEvent,
  type Now,
  OLD_REJECTIONS_LOOKED_AT,
  REJECTION_KEPT_MS,
  REJECTIONS_KEPT,
  type UnusableDelivery,
} from '../store.ts';
import { createEventVerbs } from '../units/events.ts';
import { openGap } from '../units/gaps.ts';
import type { Hint } from '../units/records.ts';
import { acceptNew } from './accepting.ts';
import type { Claims } from './claims.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { HOT_PATH } from './previews.ts';
import { hintRecords } from './records.ts';
import { rowsOf } from './text.ts';
import { instantOf } from './types.ts';

export function createInboxVerbs(
  database: Database,
  claims: Claims,
): Omit<InboxStore, keyof Claims['verbs']> {
  return {
    ...createEventVerbs(database, claims, HOT_PATH),

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
