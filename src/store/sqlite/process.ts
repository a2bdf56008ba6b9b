import { idFieldsOf } from '../../compliance/pointers.ts';
import type { ClaimedEvent, HintTiming, InboxStore, Now, PreviewOutcome } from '../store.ts';
import type { PendingEvent } from './arrivals.ts';
import type { Numbers } from './connection.ts';
import type { InboxParts } from './inbox.ts';
import { createPreviewer } from './previews.ts';
import { type Held, iso } from './records.ts';

/** How many pending rows one claim looks over, so that one record's long queue cannot make it read the whole table. */
const CLAIM_SCAN_FACTOR = 4;

type ProcessVerbs = Pick<
  InboxStore,
  'claimEvents' | 'releaseEvents' | 'recoverClaims' | 'nextAttemptWall' | 'previewEvents' | 'deferEvents'
>;

/** What becomes of an event: claimed, shown in the mirror, put off, or given up. */
export function createProcessVerbs(parts: InboxParts): ProcessVerbs {
  const { db, transact, records, gaps, arrivals, claims, tally } = parts;
  const previewOne = createPreviewer(records, arrivals);
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
  // One statement for a whole batch: a call for each of them costs as much as its work. OR FAIL, since SQLite otherwise
  // copies every page aside first, in order to undo this statement alone; ours always fall with their transaction.
  const finishDone = db.prepare(
    `UPDATE OR FAIL events SET state = 'done', attempts = attempts + 1, processed_at = ?, error = NULL, next_attempt_at = NULL
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );
  const finishDead = db.prepare(
    `UPDATE events SET state = 'dead', attempts = attempts + 1, processed_at = ?, error = ?, next_attempt_at = NULL
     WHERE seq = ? AND state = 'pending'`,
  );
  const defer = db.prepare(
    "UPDATE events SET attempts = attempts + 1, next_attempt_at = ?, error = ? WHERE seq = ? AND state = 'pending'",
  );
  const bury = db.prepare(
    `UPDATE events SET attempts = attempts + 1, state = 'dead', next_attempt_at = NULL, processed_at = ?, error = ?
     WHERE seq = ? AND state = 'pending'`,
  );

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
        const moment = { now, nowIso, numbers };
        const results = mine.map((event) => previewOne(event, touched, { ...rules, idFields }, moment));
        for (const held of touched.values()) {
          records.savePreviewed(held);
          records.busy.keep(held, records.saveRow(held));
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
  };
}
