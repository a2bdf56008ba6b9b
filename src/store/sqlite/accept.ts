import { contentHashOf } from '../../inbox/content-hash.ts';
import { waitsForProcessing } from '../../process/payload.ts';
import type { Database, Numbers } from '../database.ts';
import {
  type AcceptOutcome,
  type DirtyTiming,
  DUPLICATES_KEPT,
  type InboxStore,
  type IncomingEvent,
  type Now,
} from '../store.ts';
import { keepUnusable } from '../units/not-accepted.ts';
import { iso } from '../units/sql.ts';
import type { Connection } from './connection.ts';
import type { SqliteRecords } from './records.ts';
import type { Arrivals } from './unprocessed-events.ts';

/** What comes in: events, and deliveries of which no event can be made. */
export function createAcceptVerb(
  db: Connection,
  { transact }: Database,
  records: SqliteRecords,
  arrivals: Arrivals,
): Pick<InboxStore, 'accept'> {
  const count = db.prepare('UPDATE event_counts SET count = count + ? WHERE state = ?');
  const insertEvent = db.prepare(
    `INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
       processed_at, address, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const countDelivery = db
    .prepare(
      `UPDATE events SET deliveries = deliveries + 1, last_delivered_at = ? WHERE id = ?
       RETURNING coalesce(content_hash, content_hash_of(body))`,
    )
    .pluck();
  const insertDuplicate = db.prepare(
    'INSERT INTO duplicates (received_at, event_id, type, kind, record_id, address) VALUES (?, ?, ?, ?, ?, ?)',
  );
  const dropDuplicates = db.prepare(
    'DELETE FROM duplicates WHERE id <= (SELECT max(id) FROM duplicates) - ?',
  );
  const anyTrimmed = db.prepare('SELECT EXISTS (SELECT 1 FROM trimmed_events)').pluck();
  const trimmedHash = db.prepare('SELECT content_hash FROM trimmed_events WHERE id = ?').pluck();

  function acceptOne(
    event: IncomingEvent,
    now: Now,
    nowIso: string,
    timing: DirtyTiming,
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
      event.address ?? null,
      event.body,
    );
    if (inserted.changes === 1) {
      numbers.next();
      if (event.kind !== null && event.recordId !== null) {
        records.dirty(event.kind, event.recordId, seq, now, nowIso, timing);
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

  function keepDuplicates(duplicates: readonly IncomingEvent[], nowIso: string): void {
    for (const { id, type, kind, recordId, address = null } of duplicates)
      insertDuplicate.run(nowIso, id, type, kind, recordId, address);
    if (duplicates.length > 0) dropDuplicates.run(DUPLICATES_KEPT);
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
        const repeats = (isConflicting: boolean) =>
          batch.events.filter((_, index) => {
            const outcome = outcomes[index]!;
            return outcome.status === 'duplicate' && outcome.conflicting === isConflicting;
          });
        keepDuplicates(repeats(false), nowIso);
        const conflicting = repeats(true);
        const { unusable } = batch;
        await keepUnusable(unit, records.shared, { conflicting, unusable }, now, timing);
        return outcomes;
      });
      arrivals.accepted(batch.events, outcomes, now.wall);
      return outcomes;
    },
  };
}
