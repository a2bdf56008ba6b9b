import PQueue from 'p-queue';
import { type Backoff, backoffMs, type Clock, createNap, momentOf } from '../platform/clock.ts';
import { describeError, StoreUnavailable } from '../platform/errors.ts';
import type { ClaimedEvent, InboxStore, ProvisionalOutcome, ProvisionalRules } from '../store/store.ts';

/** The most events in one transaction. They share its commit, but deliveries wait for it. */
const LARGEST_BATCH = 256;

/** A claim expires only if its process is gone. Long enough for a disk that hangs. */
const LEASE_MS = 60_000;

/** Wait after the database could not commit. */
const STORE_PAUSE_MS = 1_000;

/**
 * Milliseconds to wait after a batch that was not full, so that the next batch is larger. Under load, a commit for 250 events
 * instead of 60 saved 5 µs of processor time per event. After a quiet time an event is claimed at once.
 */
export const GATHER_MS = 50;

/** For events that our own processing fails on: a locked database passes in seconds, a bug never does. */
const EVENT_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 10 * 60_000 };

/** The worker looks for deferred events at least this often, even if clocks are wrong. */
const LONGEST_NAP_MS = 30_000;
/** It rests at least this long, because a due event may be claimed by another process, or by one that has died. */
const SHORTEST_NAP_MS = 50;

const ALONE = { owner: '', leaseMs: LEASE_MS, lookEveryMs: LONGEST_NAP_MS };

interface WorkerOptions {
  store: Pick<
    InboxStore,
    'claimEvents' | 'releaseEvents' | 'recoverClaims' | 'applyEvents' | 'deferEvent' | 'nextAttemptWall'
  >;
  clock: Clock;
  rules: ProvisionalRules;
  concurrency: number;
  maxAttempts: number;
  /** The wait after a batch that was not full: `GATHER_MS`. Default: none. */
  gatherMs?: number;
  /** For several processes: the name of this one in claims, how long a claim lasts, and the longest rest. */
  claims?: { owner: string; leaseMs: number; lookEveryMs: number } | undefined;
  random: () => number;
  onOutcome: (outcome: ProvisionalOutcome) => void;
  onRetry: (event: ClaimedEvent, error: string, delayMs: number | null) => void;
  onError: (error: unknown) => void;
}

/**
 * Claims batches of pending events and applies them to the mirror, through a p-queue. The backlog stays in the database, and the
 * queue has at most `concurrency` batches, so memory does not grow with the backlog.
 */
export function createWorker(options: WorkerOptions) {
  const { store, clock, gatherMs = 0 } = options;
  const { owner, leaseMs, lookEveryMs } = options.claims ?? ALONE;
  const queue = new PQueue({ concurrency: options.concurrency });
  const nap = createNap(clock);
  let woken = false;
  let paused = false;
  let batches = 0;

  const now = () => momentOf(clock);

  function wake(): void {
    woken = true;
    nap.wake();
  }

  async function rest(signal: AbortSignal): Promise<void> {
    if (woken) return;
    const retryAt = paused ? null : await orIfFailed(store.nextAttemptWall(), null);
    const leftMs = retryAt === null ? lookEveryMs : retryAt - clock.wall();
    if (!woken) await nap.sleep(Math.min(lookEveryMs, Math.max(SHORTEST_NAP_MS, leftMs)), signal);
  }

  /** The result; if the database failed, that is reported, and the result is `instead`. */
  function orIfFailed<T, U>(work: Promise<T>, instead: U): Promise<T | U> {
    return work.catch((error: unknown) => {
      options.onError(error);
      return instead;
    });
  }

  const recovered = () =>
    orIfFailed(
      store.recoverClaims().then(() => true),
      false,
    );

  async function claim(): Promise<readonly ClaimedEvent[]> {
    batches += 1;
    try {
      return await store.claimEvents(`${owner}batch-${batches}`, LARGEST_BATCH, leaseMs, now());
    } catch (error) {
      options.onError(error);
      await clock.sleep(STORE_PAUSE_MS);
      // There may be events to claim.
      woken = true;
      return [];
    }
  }

  /** Claimed events are worked on at once: a claim that waits would keep its records from other processes. */
  async function waitForSlot(): Promise<void> {
    while (queue.pending >= options.concurrency) {
      const { promise, resolve } = Promise.withResolvers<void>();
      queue.addEventListener('next', () => resolve(), { once: true });
      await promise;
    }
  }

  async function work(batch: readonly ClaimedEvent[]): Promise<void> {
    try {
      await apply(batch);
    } catch (error) {
      // Our database failed, not the events: no attempt is counted. The claims are kept, so that nobody else tries either.
      options.onError(error);
      await clock.sleep(STORE_PAUSE_MS);
      await store.releaseEvents(batch);
    }
  }

  /** Applies the events, or defers those that it cannot apply. Either ends their claims. */
  async function apply(batch: readonly ClaimedEvent[]): Promise<void> {
    let outcomes: readonly ProvisionalOutcome[];
    try {
      outcomes = await store.applyEvents(batch, options.rules, now());
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      const [event, ...others] = batch;
      if (event !== undefined && others.length === 0) {
        await fail(event, error);
        return;
      }
      // One event breaks the batch. One by one they show which.
      for (const each of batch) await apply([each]);
      return;
    }
    outcomes.forEach(options.onOutcome);
  }

  async function fail(event: ClaimedEvent, error: unknown): Promise<void> {
    const text = describeError(error);
    const attempts = event.attempts + 1;
    const isLast = attempts >= options.maxAttempts;
    const delayMs = isLast ? null : backoffMs(EVENT_BACKOFF, attempts, options.random());
    const retryAtMs = delayMs === null ? null : clock.steady() + delayMs;
    await store.deferEvent({ event, retryAtMs, error: text }, now(), options.rules.timing);
    options.onRetry(event, text, delayMs);
  }

  return {
    /** Something may have become claimable. */
    wake,
    pause(): void {
      paused = true;
    },
    resume(): void {
      paused = false;
      wake();
    },
    /** Works until `signal` aborts; then finishes what is claimed and resolves. */
    async run(signal: AbortSignal): Promise<void> {
      while (!(await recovered()) && !signal.aborted) await clock.sleep(STORE_PAUSE_MS, signal);
      while (!signal.aborted) {
        woken = false;
        const batch = paused ? [] : await claim();
        const claimed = batch.length;
        if (claimed > 0) void queue.add(() => work(batch)).catch(options.onError);
        await waitForSlot();
        // Deliveries come first: this lets the event loop send their answers.
        if (claimed > 0 && claimed < LARGEST_BATCH && gatherMs > 0) await clock.sleep(gatherMs, signal);
        else if (claimed > 0) await new Promise((resolve) => setImmediate(resolve));
        else if (queue.pending > 0) await queue.onIdle();
        else await rest(signal);
      }
      await queue.onIdle();
    },
  };
}
