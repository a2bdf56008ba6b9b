import { createHash } from 'node:crypto';
import type { Kind } from '../../compliance/kinds.ts';
import { idFieldsOf } from '../../compliance/pointers.ts';
import { contentHashOf } from '../../inbox/content.ts';
import { decidePreview } from '../../mirror/decide.ts';
import { readPayload } from '../../process/handlers.ts';
import type { EventState } from '../reports.ts';
import type {
  AcceptOutcome,
  ClaimedEvent,
  HintTiming,
  InboxStore,
  IncomingEvent,
  Now,
  PreviewOutcome,
  PreviewRules,
  UnusableDelivery,
} from '../store.ts';
import { createArrivals, type PendingEvent } from './arrivals.ts';
import { createClaims } from './claims.ts';
import type { Connection, Numbers, Transact } from './connection.ts';
import type { Gaps } from './gaps.ts';
import { type Held, iso, type Records } from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';

/** Enough to tell what was going on; older ones say nothing new. */
const REFUSALS_KEPT = 100;

/** An instant, known to be one, that is written as we write it. */
const IN_MILLISECONDS = /^\d{4}-[-0-9T:]{14}\.\d{3}Z$/;

/** How many pending rows one claim looks over, so that one record's long queue cannot make it read the whole table. */
const CLAIM_SCAN_FACTOR = 4;

export function createInboxVerbs(
  db: Connection,
  transact: Transact,
  records: Records,
  gaps: Gaps,
): InboxStore {
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
  const insertRefusal = db.prepare(
    'INSERT INTO refusals (at, reason, t, bytes, body_sha256, header, body) VALUES (?, ?, ?, ?, ?, ?, ?)',
  );
  const trimRefusals = db.prepare('DELETE FROM refusals WHERE id <= (SELECT max(id) FROM refusals) - ?');
  const selectPending = db
    .prepare(
      `SELECT seq FROM events WHERE state = 'pending' AND seq > ? AND (next_attempt_at IS NULL OR next_attempt_at <= ?)
       ORDER BY seq LIMIT ?`,
    )
    .pluck();
  const selectEvent = db.prepare(
    `SELECT seq, id, type, created, created_ms AS createdMs, kind, record_id AS recordId, received_at, attempts, body
     FROM events WHERE seq = ?`,
  );
  const nextAttempt = db
    .prepare(
      "SELECT min(next_attempt_at) FROM events WHERE state = 'pending' AND next_attempt_at IS NOT NULL",
    )
    .pluck();
  const countPending = db.prepare("SELECT count(*) FROM events WHERE state = 'pending'").pluck();
  // One statement for a whole batch: a call for each of them costs as much as its work.
  const finishDone = db.prepare(
    `UPDATE events SET state = 'done', processed_at = ?, error = NULL, next_attempt_at = NULL
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );
  const finishDead = db.prepare(
    `UPDATE events SET state = 'dead', processed_at = ?, error = ?, next_attempt_at = NULL
     WHERE seq = ? AND state = 'pending'`,
  );
  const defer = db.prepare(
    "UPDATE events SET attempts = attempts + 1, next_attempt_at = ?, error = ? WHERE seq = ? AND state = 'pending'",
  );
  const bury = db.prepare(
    `UPDATE events SET attempts = attempts + 1, state = 'dead', next_attempt_at = NULL, processed_at = ?, error = ?
     WHERE seq = ? AND state = 'pending'`,
  );
  const retry = db.prepare(
    `UPDATE events SET state = 'pending', attempts = 0, next_attempt_at = NULL, processed_at = NULL, error = NULL
     WHERE id = ? AND state = 'dead' AND body IS NOT NULL RETURNING seq`,
  );
  const discard = db.prepare(
    "UPDATE events SET state = 'discarded', processed_at = ? WHERE id = ? AND state IN ('dead', 'pending') RETURNING seq",
  );
  const stateOf = db.prepare('SELECT state FROM events WHERE id = ?').pluck();
  const release = db.prepare(
    'UPDATE quarantine SET released_at = ? WHERE id = ? AND released_at IS NULL RETURNING kind, record_id',
  );

  const trimAgainFrom = trimBodiesAgainFrom(db);
  const adjust = db.prepare('UPDATE event_counts SET count = count + ? WHERE state = ?');
  const claims = createClaims();
  const arrivals = createArrivals();

  function tally(moves: Partial<Record<EventState, number>>): void {
    for (const [state, by] of Object.entries(moves)) if (by !== 0) adjust.run(by, state);
  }

  function readEvent(seq: number): PendingEvent {
    const row = selectEvent.get(seq) as Omit<PendingEvent, 'receivedWall'> & { received_at: string };
    const { received_at, ...event } = row;
    return { ...event, receivedWall: Date.parse(received_at) };
  }

  function finishAll(results: readonly PreviewOutcome[], nowIso: string): void {
    const done: number[] = [];
    for (const { event, outcome, error } of results) {
      if (outcome === 'dead') finishDead.run(nowIso, error, event.seq);
      else done.push(event.seq);
    }
    if (done.length > 0) finishDone.run(nowIso, JSON.stringify(done));
  }

  function acceptOne(
    event: IncomingEvent,
    now: Now,
    nowIso: string,
    timing: HintTiming,
    numbers: Numbers,
    trimmedIds: boolean,
  ): AcceptOutcome {
    const trimmed = trimmedIds ? (trimmedHash.get(event.id) as string | undefined) : undefined;
    if (trimmed !== undefined) return repeated(event, trimmed, now, nowIso, timing, numbers);
    const seq = numbers.current() + 1;
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
      event.known ? 'pending' : 'ignored',
      event.known ? null : nowIso,
      event.body,
    );
    if (inserted.changes === 1) {
      numbers.next();
      if (event.kind !== null && event.recordId !== null) {
        records.hint(event.kind, event.recordId, seq, now, nowIso, timing);
      }
      return { status: 'accepted', seq };
    }
    return repeated(event, countDelivery.get(nowIso, event.id) as string, now, nowIso, timing, numbers);
  }

  /** An id that was received before, with content of that hash. */
  function repeated(
    event: IncomingEvent,
    contentHash: string,
    now: Now,
    nowIso: string,
    timing: HintTiming,
    numbers: Numbers,
  ): AcceptOutcome {
    const conflicting = contentHash !== contentHashOf(event.body);
    if (conflicting) {
      keepUnusable(
        {
          reason: `the id ${event.id} was received before with other content`,
          t: event.t,
          body: Buffer.from(event.body),
          kind: event.kind,
          recordId: event.recordId,
        },
        'conflicting_content',
        now,
        nowIso,
        timing,
        numbers,
      );
    }
    return { status: 'duplicate', conflicting };
  }

  function keepUnusable(
    delivery: UnusableDelivery,
    gap: 'conflicting_content' | 'unusable_delivery',
    now: Now,
    nowIso: string,
    timing: HintTiming,
    numbers: Numbers,
  ): void {
    const { kind, recordId, body } = delivery;
    const hash = createHash('sha256').update(body).digest('hex');
    insertQuarantine.run(nowIso, delivery.reason, delivery.t, kind, recordId, body, hash);
    if (kind !== null && recordId !== null) records.hint(kind, recordId, numbers.next(), now, nowIso, timing);
    gaps.open(
      { reason: gap, kind, recordId: kind === null ? null : recordId },
      delivery.reason,
      nowIso,
      numbers,
    );
  }

  function die(
    event: ClaimedEvent,
    error: string,
    now: Now,
    nowIso: string,
    timing: HintTiming,
    numbers: Numbers,
  ): void {
    if (event.kind !== null && event.recordId !== null) {
      records.hint(event.kind, event.recordId, numbers.next(), now, nowIso, timing);
    }
    gaps.open(
      { reason: 'dead_letter', kind: event.kind, recordId: event.kind === null ? null : event.recordId },
      `event ${event.id}: ${error}`,
      nowIso,
      numbers,
    );
  }

  return {
    async accept(batch, now, timing) {
      const outcomes = transact((numbers) => {
        const nowIso = iso(now.wall);
        // Asked once per commit: most databases have trimmed nothing, and a look-up per event is not free.
        const trimmedIds = anyTrimmed.get() === 1;
        const outcomes = batch.events.map((event) =>
          acceptOne(event, now, nowIso, timing, numbers, trimmedIds),
        );
        const fresh = batch.events.filter((_, index) => outcomes[index]?.status === 'accepted');
        const pending = fresh.filter((event) => event.known).length;
        tally({ pending, ignored: fresh.length - pending });
        for (const delivery of batch.unusable) {
          keepUnusable(delivery, 'unusable_delivery', now, nowIso, timing, numbers);
        }
        return outcomes;
      });
      arrivals.accepted(batch.events, outcomes, now.wall);
      return outcomes;
    },

    async recordRefusals(refusals) {
      transact(() => {
        for (const r of refusals) {
          insertRefusal.run(iso(r.wall), r.reason, r.t, r.bytes, r.bodySha256, r.header, r.body);
        }
        trimRefusals.run(REFUSALS_KEPT);
      });
    },

    async claimEvents(owner, limit, leaseMs, now) {
      claims.expire(now.steady);
      const claimed: ClaimedEvent[] = [];
      const nowIso = iso(now.wall);
      let after = 0;
      for (let scanned = 0; scanned < CLAIM_SCAN_FACTOR && claimed.length < limit; scanned += 1) {
        const numbers = selectPending.all(after, nowIso, limit) as number[];
        for (const seq of numbers) {
          after = seq;
          if (claimed.length >= limit) break;
          const event = arrivals.get(seq) ?? readEvent(seq);
          if (claims.take(event, owner, now.steady + leaseMs)) claimed.push({ ...event, owner });
        }
        if (numbers.length < limit) break;
      }
      return claimed;
    },

    async releaseEvents(events) {
      for (const event of events) claims.letGo(event);
    },

    async recoverClaims() {
      claims.clear();
      return countPending.get() as number;
    },

    async nextAttemptWall() {
      const at = nextAttempt.get() as string | null;
      return at === null ? null : Date.parse(at);
    },

    async previewEvents(events, rules, now) {
      const nowIso = iso(now.wall);
      const mine = events.filter(claims.holds);
      const outcomes = transact((numbers) => {
        records.busy.check();
        const touched = new Map<string, Held>();
        const idFields = idFieldsOf(rules.pointers);
        const results = mine.map((event) => {
          const result = previewOne(event, touched, rules, idFields, now, nowIso, numbers);
          return result;
        });
        for (const held of touched.values()) {
          records.saveState(held);
          records.saveRow(held);
          records.busy.keep(held);
        }
        finishAll(results, nowIso);
        const dead = results.filter((result) => result.outcome === 'dead').length;
        tally({ pending: -results.length, dead, done: results.length - dead });
        // After the states are saved: a death hints its record, and saving would undo that.
        for (const result of results) {
          if (result.outcome === 'dead')
            die(result.event, result.error ?? '', now, nowIso, rules.timing, numbers);
        }
        return results;
      });
      for (const event of mine) {
        claims.letGo(event);
        arrivals.forget(event.seq);
      }
      return outcomes;
    },

    async deferEvents(failures, now, timing) {
      const nowIso = iso(now.wall);
      const mine = failures.filter(({ event }) => claims.holds(event));
      transact((numbers) => {
        for (const { event, retryAtMs, error } of mine) {
          arrivals.forget(event.seq);
          if (retryAtMs !== null) {
            defer.run(iso(now.wall + Math.max(0, retryAtMs - now.steady)), error, event.seq);
          } else if (bury.run(nowIso, error, event.seq).changes === 1) {
            tally({ pending: -1, dead: 1 });
            die(event, error, now, nowIso, timing, numbers);
          }
        }
      });
      for (const { event } of mine) claims.letGo(event);
    },

    async retryEvent(id) {
      return transact(() => {
        const moved = retry.get(id) as { seq: number } | undefined;
        if (moved === undefined) return false;
        tally({ dead: -1, pending: 1 });
        trimAgainFrom(moved.seq);
        return true;
      });
    },

    async discardEvent(id, now) {
      return transact(() => {
        const state = stateOf.get(id) as EventState | undefined;
        const discarded = discard.get(iso(now.wall), id) as { seq: number } | undefined;
        if (state === undefined || discarded === undefined) return false;
        // Whoever works on it finds the claim lost, and leaves it.
        claims.revoke(discarded.seq);
        arrivals.forget(discarded.seq);
        tally({ [state]: -1, discarded: 1 });
        trimAgainFrom(discarded.seq);
        return true;
      });
    },

    async releaseQuarantined(id, now, timing) {
      return transact((numbers) => {
        const nowIso = iso(now.wall);
        const row = release.get(nowIso, id) as { kind: Kind | null; record_id: string | null } | undefined;
        if (row === undefined) return false;
        if (row.kind !== null && row.record_id !== null) {
          records.hint(row.kind, row.record_id, numbers.next(), now, nowIso, timing);
        } else {
          gaps.open(
            { reason: 'unusable_delivery', kind: row.kind, recordId: null },
            `quarantine ${id} released`,
            nowIso,
            numbers,
          );
        }
        return true;
      });
    },
  };

  function previewOne(
    event: ClaimedEvent,
    touched: Map<string, Held>,
    rules: PreviewRules,
    idFields: ReadonlySet<string>,
    now: Now,
    nowIso: string,
    numbers: Numbers,
  ): PreviewOutcome {
    if (event.kind === null) return { event, outcome: 'dead', error: 'the event is of no known family' };
    const reading = readPayload(event.kind, arrivals.payloadOf(event), rules.pointers);
    if (!reading.usable) return { event, outcome: 'dead', error: reading.error };
    if (event.recordId === null)
      return { event, outcome: 'dead', error: 'the event was stored without a record' };

    const key = `${event.kind} ${event.recordId}`;
    let held = touched.get(key);
    if (held === undefined) {
      held = records.recall(event.kind, event.recordId);
      touched.set(key, held);
    }
    const verifiedAt = held.row?.verifiedAt;
    const decision = decidePreview(
      { ...event, kind: event.kind, content: reading.content, shows: reading.shows },
      { state: held.state, row: held.row, verifiedWall: verifiedAt ? Date.parse(verifiedAt) : null },
      { eventsOnly: rules.eventsOnly, toleranceMs: rules.toleranceMs, idFields },
      nowIso,
    );
    held.state = decision.state;
    if (decision.row !== null && decision.change !== null) {
      records.write(held, decision.row, decision.change, `event:${event.id}`, nowIso, numbers);
    }
    if (held.row !== null) {
      held.row.lastEventId = event.id;
      held.row.lastEventAt = IN_MILLISECONDS.test(event.created) ? event.created : iso(event.createdMs);
    }
    for (const id of reading.assessments) makeAssessmentKnown(id, touched, now);
    return { event, outcome: decision.outcome, error: null };
  }

  function makeAssessmentKnown(id: string, touched: Map<string, Held>, now: Now): void {
    const key = `risk_assessment ${id}`;
    if (touched.has(key)) return;
    const held = records.recall('risk_assessment', id);
    if (held.known) return;
    held.state = {
      ...held.state,
      hintAt: now.steady,
      firstHintAt: now.steady,
      unverifiedSince: now.wall,
      dueAt: now.steady,
    };
    touched.set(key, held);
  }
}
