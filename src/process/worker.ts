import PQueue from 'p-queue';
import { type Backoff, backoffMs, type Clock, createNap, momentOf } from '../platform/clock.ts';
import { describeError, StoreUnavailable } from '../platform/errors.ts';
import type { ClaimedEvent, InboxStore, ProvisionalOutcome, ProvisionalRules } from '../store/store.ts';

/** Events in one transaction, at most: its commit is shared by all of them, and deliveries wait for it. */
const LARGEST_BATCH = 256;

/** A claim runs out only if its process is gone; long enough for a disk that hangs. */
const LEASE_MS = 60_000;

/** Wait after the database could not commit. */
const STORE_PAUSE_MS = 1_000;

/**
 * After a batch that was not full, wait for the next one to fill. Under load, a commit shared by 250 events instead of 60 saved
 * 5 µs of processor time per event, and nobody notices a delay this short. After a quiet time an event is claimed at once.
 * Milliseconds.
 */
export const GATHER_MS = 50;

/** Failures of our own processing: a locked database passes in seconds, a bug never does. */
const EVENT_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 10 * 60_000 };

/** Deferred events are looked for at least this often, even if clocks are wrong. */
const LONGEST_NAP_MS = 30_000;
/** And at most this often: one that is due may be claimed by another process, or by one that has died. */
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
  /** How long to wait after a batch that was not full: `GATHER_MS`. Default: not at all. */
  gatherMs?: number;
  /** Where several processes claim: marks this one's claims. `leaseMs`: how long a claim lasts that is not given back. */
  claims?: { owner: string; leaseMs: number; lookEveryMs: number } | undefined;
  random: () => number;
  onOutcome: (outcome: ProvisionalOutcome) => void;
  onRetry: (event: ClaimedEvent, error: string, delayMs: number | null) => void;
  onError: (error: unknown) => void;
}

/**
 * The asynchronous processor: claims batches of pending events and applies them to the mirror, by a p-queue. The backlog stays in
 * the database, and the queue has at most `concurrency` batches, so memory does not grow with the backlog.
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
    if (!paused) nap.wake();
  }

  async function rest(signal: AbortSignal): Promise<void> {
    const isWanted = () => signal.aborted || (woken && !paused);
    if (isWanted()) return;
    const retryAt = paused ? null : await nextRetry();
    const leftMs = retryAt === null ? lookEveryMs : retryAt - clock.wall();
    if (!isWanted()) await nap.sleep(Math.min(lookEveryMs, Math.max(SHORTEST_NAP_MS, leftMs)), signal);
  }

  async function nextRetry(): Promise<number | null> {
    try {
      return await store.nextAttemptWall();
    } catch (error) {
      options.onError(error);
      return null;
    }
  }

  async function recovered(): Promise<boolean> {
    try {
      await store.recoverClaims();
      return true;
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || error.fatal) throw error;
      options.onError(error);
      return false;
    }
  }

  async function claim(): Promise<readonly ClaimedEvent[]> {
    batches += 1;
    try {
      return await store.claimEvents(`${owner}batch-${batches}`, LARGEST_BATCH, leaseMs, now());
    } catch (error) {
      options.onError(error);
      await clock.sleep(STORE_PAUSE_MS);
      // There may have been some to claim.
      woken = true;
      return [];
    }
  }

  /** Claimed events are worked on at once: a claim that waits would keep its records from other processes. */
  async function slotFree(): Promise<void> {
    while (queue.pending >= options.concurrency) {
      const { promise, resolve } = Promise.withResolvers<void>();
      queue.addEventListener('next', () => resolve(), { once: true });
      await promise;
    }
  }

  async function work(batch: readonly ClaimedEvent[]): Promise<void> {
    try {
      // The claim of an event ends with it: as a rule there is none left to give back.
      if ((await apply(batch)) === batch.length) return;
    } catch (error) {
      // Our database failed, not the events: no attempt is counted. The claims are kept, so that nobody else tries either.
      options.onError(error);
      await clock.sleep(STORE_PAUSE_MS);
    }
    await store.releaseEvents(batch);
  }

  /** Resolves to the number of those that are done. */
  async function apply(batch: readonly ClaimedEvent[]): Promise<number> {
    let outcomes: readonly ProvisionalOutcome[];
    try {
      outcomes = await store.applyEvents(batch, options.rules, now());
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      // One event breaks the batch: one by one they show which.
      let done = 0;
      if (batch.length > 1) for (const event of batch) done += await apply([event]);
      else for (const event of batch) await fail(event, error);
      return done;
    }
    outcomes.forEach(options.onOutcome);
    return outcomes.length;
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
        await slotFree();
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
