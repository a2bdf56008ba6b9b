import type { Kind } from '../../compliance/kinds.ts';
import { idFieldsOf, type LearnedPointer, withLearned } from '../../compliance/pointers.ts';
import { describeError, StoreUnavailable } from '../../errors.ts';
import { noRecordIn, recordOf, stateAfter } from '../../process/handlers.ts';
import { coverableAt, gapOfFailed } from '../healing.ts';
import type { EventState } from '../reports.ts';
import type {
  ClaimedEvent,
  HintTiming,
  InboxStore,
  Now,
  PreviewOutcome,
  PreviewRules,
  RetryOutcome,
  UnreadEvent,
} from '../store.ts';
import type { PendingEvent } from './arrivals.ts';
import { LEARNED_POINTERS } from './backfill.ts';
import type { Numbers } from './connection.ts';
import type { InboxParts } from './inbox.ts';
import { createPreviewer, type Moment } from './previews.ts';
import { type Held, iso } from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';

/** How many pending rows one claim looks over, so that one record's long queue cannot make it read the whole table. */
const CLAIM_SCAN_FACTOR = 4;

type ProcessVerbs = Pick<
  InboxStore,
  | 'claimEvents'
  | 'releaseEvents'
  | 'recoverClaims'
  | 'nextAttemptWall'
  | 'previewEvents'
  | 'deferEvents'
  | 'retryEvent'
  | 'failedWithoutRecord'
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
    `UPDATE OR FAIL events SET state = ?, attempts = attempts + 1, processed_at = ?, error = NULL, next_attempt_at = NULL
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );
  const finishDead = db.prepare(
    `UPDATE events SET state = 'dead', attempts = attempts + 1, processed_at = ?, error = ?, next_attempt_at = ?
     WHERE seq = ? AND state = 'pending'`,
  );
  const selectLearned = db.prepare(LEARNED_POINTERS);
  const tellAnew = db.prepare('UPDATE events SET kind = ?, record_id = ? WHERE seq = ?');
  const selectFailed = db.prepare(
    `SELECT seq, id, type, created, created_ms AS createdMs, kind, record_id AS recordId, received_at, attempts, body, state
     FROM events WHERE id = ?`,
  );
  const reopen = db.prepare(
    "UPDATE events SET state = 'pending', attempts = 0, next_attempt_at = NULL WHERE seq = ?",
  );
  const failAgain = db.prepare(
    "UPDATE events SET attempts = attempts + 1, error = ?, processed_at = ? WHERE id = ? AND state = 'dead'",
  );
  const selectNameless = db.prepare(
    `SELECT seq, id, type, kind, attempts, body FROM events INDEXED BY events_dead
     WHERE state = 'dead' AND kind IS NOT NULL AND record_id IS NULL AND body IS NOT NULL AND seq > ? ORDER BY seq LIMIT ?`,
  );
  const trimAgainFrom = trimBodiesAgainFrom(db);
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

  function finishAll(results: readonly PreviewOutcome[], rules: PreviewRules, { now, nowIso }: Moment): void {
    const finished: Record<'done' | 'ignored', number[]> = { done: [], ignored: [] };
    for (const result of results) {
      const { event, error } = result;
      const state = stateAfter(result);
      if (state !== 'dead') finished[state].push(event.seq);
      else finishDead.run(nowIso, error, soughtFrom(event, rules, now), event.seq);
    }
    const { done, ignored } = finished;
    if (done.length > 0) finishDone.run('done', nowIso, JSON.stringify(done));
    if (ignored.length > 0) finishDone.run('ignored', nowIso, JSON.stringify(ignored));
    const dead = results.length - done.length - ignored.length;
    tally({ pending: -results.length, dead, done: done.length, ignored: ignored.length });
  }

  /** Of a failed event that names no record: from when on it is sought. Null: nobody can, or need. */
  function soughtFrom(event: ClaimedEvent, rules: PreviewRules, now: Now): string | null {
    const isSought = event.kind !== null && event.recordId === null && !rules.eventsOnly;
    return isSought ? iso(now.wall + rules.timing.settleMs) : null;
  }

  const learned = () => selectLearned.all() as LearnedPointer[];

  /** Shows events in their records, and marks each done, ignored or dead. */
  function previewAll(
    events: readonly ClaimedEvent[],
    rules: PreviewRules,
    moment: Moment,
  ): PreviewOutcome[] {
    const { now, nowIso, numbers } = moment;
    records.busy.check();
    // Those that named no record as they came are read anew. Before any record is looked at, since each becomes dirty by it.
    const nameless = new Set(events.filter((event) => event.kind !== null && event.recordId === null));
    const widened = nameless.size === 0 ? rules.pointers : withLearned(rules.pointers, learned());
    const touched = new Map<string, Held>();
    const readBy = (pointers: PreviewRules['pointers']) => ({
      ...rules,
      pointers,
      idFields: idFieldsOf(pointers),
    });
    const usual = readBy(rules.pointers);
    const named =
      nameless.size === 0
        ? events
        : events.map((event) =>
            nameless.has(event) ? nameRecord(event, recordOf(event, widened), rules.timing, moment) : event,
          );
    const results = named.map((event, index): PreviewOutcome => {
      const wasNameless = nameless.size > 0 && nameless.has(events[index]!);
      // All that one of an unknown type does is to have its record read.
      if (wasNameless && event.recordId !== null && stateAfter({ event, outcome: 'hinted' }) === 'ignored')
        return { event, outcome: 'hinted', error: null };
      return previewOne(event, touched, wasNameless ? readBy(widened) : usual, moment);
    });
    for (const held of touched.values()) {
      records.savePreviewed(held);
      records.busy.keep(held, records.saveRow(held));
    }
    finishAll(results, rules, moment);
    // After the states are saved: a death hints its record, and saving would undo that.
    for (const { event, outcome, error } of results) {
      if (outcome === 'dead') die(event, error ?? '', now, nowIso, rules.timing, numbers);
    }
    return results;
  }

  /** It is about that record, which becomes dirty by it. */
  function nameRecord(
    event: ClaimedEvent,
    record: ReturnType<typeof recordOf>,
    timing: HintTiming,
    { now, nowIso, numbers }: Moment,
  ): ClaimedEvent {
    if (record === null) return event;
    tellAnew.run(record.kind, record.recordId, event.seq);
    records.hint(record.kind, record.recordId, numbers.next(), now, nowIso, timing);
    records.searchAnew(record.kind, record.recordId, event.seq);
    return { ...event, ...record };
  }

  /** It was processed, and what it was taken to be about is nothing that the API or an event has ever shown. */
  function isAboutNothing({ kind, recordId }: PendingEvent, state: EventState): boolean {
    if (kind === null || recordId === null || (state !== 'done' && state !== 'ignored')) return false;
    const { state: known, row } = records.load(kind, recordId);
    return !known.returned && row === null;
  }

  function forget(kind: Kind, id: string, nowIso: string): void {
    if (!records.forgetUnnamed(kind, id)) return;
    gaps.healRecord(kind, id, nowIso);
    gaps.heal({ reason: 'unreadable_answer', kind, recordId: id }, nowIso);
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
    const gap = gapOfFailed(event.kind, event.recordId);
    gaps.open(gap, `event ${event.id}: ${error}`, nowIso, numbers, coverableAt(gap, now, timing));
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
      const outcomes = transact((numbers) => previewAll(mine, rules, { now, nowIso, numbers }));
      for (const event of mine) {
        claims.letGo(event);
        arrivals.forget(event.seq);
      }
      return outcomes;
    },

    async retryEvent(id, rules, now) {
      const nowIso = iso(now.wall);
      try {
        return transact((numbers): RetryOutcome => {
          const row = selectFailed.get(id) as
            | (PendingEvent & { received_at: string; state: EventState })
            | undefined;
          if (row === undefined) return { outcome: 'unknown' };
          const { state, received_at, ...stored } = row;
          if (state !== 'dead' && !isAboutNothing(stored, state)) return { outcome: 'other_state', state };
          if (stored.body === null) return { outcome: 'trimmed' };
          const moment = { now, nowIso, numbers };
          const record = recordOf(stored, withLearned(rules.pointers, learned()));
          if (state !== 'dead' && (record === null || record.recordId === stored.recordId))
            return { outcome: 'other_state', state };
          if (record === null) {
            const error =
              stored.kind === null
                ? 'the event is of no known family'
                : noRecordIn(stored.kind, rules.pointers);
            failAgain.run(error, nowIso, id);
            return { outcome: 'failed', error };
          }
          reopen.run(stored.seq);
          tally({ [state]: -1, pending: 1 });
          const claimed = { ...stored, receivedWall: Date.parse(received_at), owner: '' };
          // As one that names none yet, so that it is shown by what was learned as well, and its record becomes dirty.
          const [result] = previewAll([{ ...claimed, recordId: null }], rules, moment);
          if (result === undefined || result.outcome === 'dead') {
            return { outcome: 'failed', error: result?.error ?? 'it was not processed' };
          }
          trimAgainFrom(stored.seq);
          if (stored.kind !== null) gaps.healSettled(stored.kind, stored.recordId, nowIso);
          if (stored.kind !== null && stored.recordId !== null) forget(stored.kind, stored.recordId, nowIso);
          return { outcome: 'processed', ...record };
        });
      } catch (failure) {
        if (failure instanceof StoreUnavailable) throw failure;
        const error = describeError(failure);
        transact(() => failAgain.run(error, nowIso, id));
        return { outcome: 'failed', error };
      }
    },

    async failedWithoutRecord(after, limit) {
      return selectNameless.all(after, limit) as UnreadEvent[];
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
