import { createBudget, type Lane } from '../compliance/budget.ts';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';

/** What the worker has asked of the API within the last minute. */
const ASKED_FACT = 'asked_of_api';

/** The part of the budget that is noted before it is used, so that not each request costs a commit. */
const NOTED_AHEAD = 1 / 20;
/** For how long requests may leave that were noted ahead. A worker cannot have lost its lease for longer. Milliseconds. */
const GOOD_FOR_MS = 5_000;

interface Asked {
  /** Counts only for the same service. */
  address: string;
  wall: number;
  requests: number;
  pausedForMs: number;
}

/**
 * The budget of a worker. Only the worker asks the API, and every request is noted in the database before it leaves: so whoever comes
 * after it, however it ended, does not spend the minute again, and goes on with the pause that the service at `address` asked for.
 */
export async function createRememberedBudget({
  store,
  address,
  requestsPerMinute,
  clock,
  onError,
}: {
  store: Pick<Store, 'readFact' | 'writeFact'>;
  address: string;
  requestsPerMinute: number;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const budget = createBudget({ requestsPerMinute, clock });
  const ahead = Math.max(1, Math.floor(requestsPerMinute * NOTED_AHEAD));
  const before = JSON.parse((await store.readFact(ASKED_FACT)) ?? 'null') as Asked | null;
  if (before?.address === address) {
    // Not negative, even if a clock was set back.
    const notedAt = clock.steady() - Math.max(0, clock.wall() - before.wall);
    budget.alreadySent(before.requests, notedAt + GOOD_FOR_MS);
    budget.pauseUntil(notedAt + before.pausedForMs);
  }
  let noted = 0;
  let goodUntil = Number.NEGATIVE_INFINITY;
  let last: Promise<void> = Promise.resolve();
  let next: Promise<void> | null = null;

  const isNoted = () => budget.inUse() <= noted && clock.steady() < goodUntil;

  async function write(): Promise<void> {
    next = null;
    const [at, wall] = [clock.steady(), clock.wall()];
    const requests = Math.min(requestsPerMinute, budget.inUse() + ahead);
    const { pausedForMs } = budget.left();
    const asked: Asked = { address, wall, requests, pausedForMs };
    await store.writeFact(ASKED_FACT, JSON.stringify(asked));
    noted = requests;
    goodUntil = at + GOOD_FOR_MS;
  }

  /** Notes are written one after another. All that wait share the next one. */
  function note(): Promise<void> {
    next ??= last.then(write);
    last = next.catch(() => undefined);
    return next;
  }

  return {
    run<T>(lane: Lane, signal: AbortSignal, send: () => Promise<T>): Promise<T> {
      return budget.run(lane, signal, async () => {
        while (!isNoted()) await note();
        return await send();
      });
    },
    pauseUntil(steadyMs: number): void {
      budget.pauseUntil(steadyMs);
      note().catch(onError);
    },
    left: budget.left,
  };
}
