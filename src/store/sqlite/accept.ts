import { createHash } from 'node:crypto';
import { contentHashOf } from '../../inbox/content.ts';
import { senderOf } from '../../inbox/rejections.ts';
import { waitsForProcessing } from '../../process/handlers.ts';
import type { Database, Numbers, Unit } from '../database.ts';
import { coverableAt, gapOfQuarantined } from '../healing.ts';
import {
  type AcceptOutcome,
  type HintTiming,
  type InboxStore,
  type IncomingEvent,
  type Now,
  OLD_REJECTIONS_LOOKED_AT,
  REJECTION_KEPT_MS,
  REJECTIONS_KEPT,
  type UnusableDelivery,
} from '../store.ts';
import { openGap } from '../units/gaps.ts';
import { iso } from '../units/sql.ts';
import type { Arrivals } from './arrivals.ts';
import type { Connection } from './connection.ts';
import type { SqliteRecords } from './records.ts';

type AcceptVerbs = Pick<InboxStore, 'accept' | 'recordRejections'>;

/** What comes in: events, deliveries of which no event can be made, and rejections. */
export function createAcceptVerbs(
  db: Connection,
  { transact }: Database,
  records: SqliteRecords,
  arrivals: Arrivals,
): AcceptVerbs {
  const count = db.prepare('UPDATE event_counts SET count = count + ? WHERE state = ?');
  const insertEvent = db.prepare(
    `INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
       processed_at, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const countDelivery = db
    .prepare(
      `UPDATE events SET deliveries = deliveries + 1, last_delivered_at = ? WHERE id = ?
       RETURNING coalesce(content_hash, content_hash_of(body))`,
    )
    .pluck();
  const anyTrimmed = db.prepare('SELECT EXISTS (SELECT 1 FROM trimmed_events)').pluck();
  const trimmedHash = db.prepare('SELECT content_hash FROM trimmed_events WHERE id = ?').pluck();
  const insertQuarantine = db.prepare(
    'INSERT INTO quarantine (received_at, reason, t, kind, record_id, body, body_sha256) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const insertRejection = db.prepare(
    `INSERT INTO rejections (at, reason, t, bytes, body_sha256, header, body, address, network, times)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const trimRejections = db.prepare(
    `DELETE FROM rejections WHERE id IN (
       SELECT id FROM (
         SELECT id, row_number() OVER (ORDER BY nth, id DESC) AS place FROM (
           SELECT id, row_number() OVER (PARTITION BY network ORDER BY id DESC) AS nth
           FROM rejections WHERE reason = ?))
       WHERE place > ?)`,
  );
  const forgetRejections = db.prepare(
    'DELETE FROM rejections WHERE id IN (SELECT id FROM rejections ORDER BY id LIMIT ?) AND at < ?',
  );

  function acceptOne(
    event: IncomingEvent,
    now: Now,
    nowIso: string,
    timing: HintTiming,
    numbers: Numbers,
    trimmedIds: boolean,
  ): AcceptOutcome {
    const trimmed = trimmedIds ? (trimmedHash.get(event.id) as string | undefined) : undefined;
    if (trimmed !== undefined) return repeated(event, trimmed);
    const seq = numbers.current() + 1;
    const waits = waitsForProcessing(event);
    const inserted = insertEvent.run(
      seq,
      event.id,
      event.type,
      event.created,
      event.createdMs,
      event.kind,
      event.recordId,
      nowIso,
      nowIso,
      waits ? 'pending' : 'ignored',
      waits ? null : nowIso,
      event.body,
    );
    if (inserted.changes === 1) {
      numbers.next();
      if (event.kind !== null && event.recordId !== null) {
        records.hint(event.kind, event.recordId, seq, now, nowIso, timing);
      }
      return { status: 'accepted', seq };
    }
    return repeated(event, countDelivery.get(nowIso, event.id) as string);
  }

  /** An id that was received before, with content of that hash. */
  const repeated = (event: IncomingEvent, contentHash: string): AcceptOutcome => ({
    status: 'duplicate',
    conflicting: contentHash !== contentHashOf(event.body),
  });

  const conflictOf = (event: IncomingEvent): UnusableDelivery => ({
    reason: `the id ${event.id} was received before with other content`,
    t: event.t,
    body: Buffer.from(event.body),
    kind: event.kind,
    recordId: event.recordId,
  });

  async function keepUnusable(
    unit: Unit,
    delivery: UnusableDelivery,
    gap: 'conflicting_content' | 'unusable_delivery',
    now: Now,
    timing: HintTiming,
  ): Promise<void> {
    const nowIso = iso(now.wall);
    const { kind, recordId, body } = delivery;
    const hash = createHash('sha256').update(body).digest('hex');
    insertQuarantine.run(nowIso, delivery.reason, delivery.t, kind, recordId, body, hash);
    if (kind !== null && recordId !== null)
      records.hint(kind, recordId, unit.numbers.next(), now, nowIso, timing);
    const key = gapOfQuarantined(gap, kind, recordId);
    await openGap(unit, key, delivery.reason, nowIso, coverableAt(key, now, timing));
  }

  return {
    async accept(batch, now, timing) {
      const outcomes = await transact(async (unit) => {
        const nowIso = iso(now.wall);
        // Asked once per commit: most databases have trimmed nothing, and a look-up per event is not free.
        const trimmedIds = anyTrimmed.get() === 1;
        const outcomes = batch.events.map((event) =>
          acceptOne(event, now, nowIso, timing, unit.numbers, trimmedIds),
        );
        const fresh = batch.events.filter((_, index) => outcomes[index]?.status === 'accepted');
        const pending = fresh.filter(waitsForProcessing).length;
        if (pending > 0) count.run(pending, 'pending');
        if (fresh.length > pending) count.run(fresh.length - pending, 'ignored');
        for (const [index, event] of batch.events.entries()) {
          const outcome = outcomes[index]!;
          if (outcome.status === 'duplicate' && outcome.conflicting)
            await keepUnusable(unit, conflictOf(event), 'conflicting_content', now, timing);
        }
        for (const delivery of batch.unusable) {
          await keepUnusable(unit, delivery, 'unusable_delivery', now, timing);
        }
        return outcomes;
      });
      arrivals.accepted(batch.events, outcomes, now.wall);
      return outcomes;
    },

    async recordRejections(rejections) {
      await transact(async () => {
        for (const r of rejections) {
          insertRejection.run(
            ...[iso(r.wall), r.reason, r.t, r.bytes, r.bodySha256, r.header, r.body],
            ...[r.address, senderOf(r.address), r.times],
          );
        }
        const newest = Math.max(...rejections.map((r) => r.wall));
        forgetRejections.run(OLD_REJECTIONS_LOOKED_AT, iso(newest - REJECTION_KEPT_MS));
        for (const reason of new Set(rejections.map((r) => r.reason))) {
          trimRejections.run(reason, REJECTIONS_KEPT);
        }
      });
    },
  };
}
