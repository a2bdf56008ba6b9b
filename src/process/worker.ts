import PQueue from 'p-queue';
import { type Backoff, backoffMs, type Clock, momentOf } from '../platform/clock.ts';
import type { NamedEvent, ProvisionalOutcome, ProvisionalRules, Verbs } from '../store/store.ts';

/** The most events in one transaction. They share its commit, but deliveries wait for it. */
const LARGEST_BATCH = 256;

/**
 * Under load, a batch that was not full but had at least so many events is followed by this wait, in which the next one grows. Each
 * batch has a commit, and a commit for 250 events in place of 60 saved 5 µs of processor time per event. A single event never waits.
 */
const GATHER_FROM = 16;
export const GATHER_MS = 10;

/** How soon deferred events that are due are found, and on PostgreSQL events whose notice was lost. Else somebody calls `wake`. */
const LOOK_EVERY_MS = 5_000;

/**
 * A batch is one transaction, for which deliveries wait. If one took longer than this, as with records of megabytes, the next has half
 * as many events.
 */
const LONGEST_BATCH_MS = 500;

/** Wait after the database could not commit. */
const STORE_PAUSE_MS = 1_000;

/** For events that our own code fails on: a bug never passes, and the next release should find most of them still pending. */
const RETRY_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 10 * 60_000 };
/** After so many failures an event fails: with the waits between them, after about forty minutes. */
const MOST_ATTEMPTS = 10;

interface WorkerOptions {
  clock: Clock;
  rules: ProvisionalRules;
  /** `GATHER_MS`. Default: no wait. */
  gatherMs?: number;
  random: () => number;
  onOutcome: (outcome: ProvisionalOutcome) => void;
  /** Our own code failed on the event. `delayMs` null: it is not tried again. */
  onDeferred: (event: NamedEvent, error: string, delayMs: number | null) => void;
  onError: (error: unknown) => void;
}

/**
 * Applies pending events to the mirror in the order of their numbers, a batch at a time, in a p-queue at concurrency 1: at any time at
 * most one turn is at work and one waits. The backlog itself is in the database.
 */
export function createWorker(options: WorkerOptions) {
  const { clock, rules, gatherMs = 0, random, onOutcome, onDeferred, onError } = options;
  const queue = new PQueue({ concurrency: 1 });
  let limit = LARGEST_BATCH;
  /** While this process is the worker. */
  let work: { store: Pick<Verbs, 'processPending'>; signal: AbortSignal } | null = null;

  function wake(): void {
    if (work !== null && queue.size === 0) void queue.add(turn);
  }

  /** Never rejects. */
  async function turn(): Promise<void> {
    if (work === null || work.signal.aborted) return;
    const { store, signal } = work;
    try {
      const retryDelaysMs = Array.from({ length: MOST_ATTEMPTS - 1 }, (_, nth) =>
        backoffMs(RETRY_BACKOFF, nth + 1, random()),
      );
      const begun = momentOf(clock);
      const turn = { limit, rules, retryDelaysMs };
      const { outcomes, deferred, isFull } = await store.processPending(turn, begun);
      const wasLong = clock.steady() - begun.steady > LONGEST_BATCH_MS;
      limit = wasLong ? Math.ceil(limit / 2) : Math.min(2 * limit, LARGEST_BATCH);
      outcomes.forEach(onOutcome);
      if (deferred !== null) onDeferred(deferred.event, deferred.error, deferred.delayMs);
      if (isFull) wake();
      else if (outcomes.length >= GATHER_FROM && gatherMs > 0) await clock.sleep(gatherMs, signal);
    } catch (error) {
      // The database failed, not the events.
      onError(error);
      await clock.sleep(STORE_PAUSE_MS, signal);
      wake();
    }
  }

  return {
    /** Something may have become pending. */
    wake,
    pause(): void {
      queue.pause();
    },
    resume(): void {
      queue.start();
    },
    /** Works until `signal` aborts; then finishes the batch that it is at, and resolves. */
    async run(store: Pick<Verbs, 'processPending'>, signal: AbortSignal): Promise<void> {
      work = { store, signal };
      while (!signal.aborted) {
        wake();
        await clock.sleep(LOOK_EVERY_MS, signal);
      }
      queue.clear();
      await queue.onPendingZero();
      work = null;
    },
  };
}
