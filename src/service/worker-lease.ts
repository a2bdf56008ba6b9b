import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, createNap, sharedClock, systemClock } from '../platform/clock.ts';
import type { Lease, Notice, Store } from '../store/store.ts';

/** The process that holds this lease is the worker: it processes events, asks the API, and does what one process does for all. */
const WORKER_LEASE = 'worker';

/**
 * The worker prolongs its lease four times within this time. When it is killed, another process takes over after at most this time
 * and one look.
 */
const LEASE_MS = 10_000;
const PROLONG_EVERY_MS = LEASE_MS / 4;
/** How often a process looks for a free lease, and for work whose notice was lost. */
const LOOK_EVERY_MS = 1_000;
/** A worker that could not prolong its lease stops this long before the lease ends, because clocks differ. */
const SAFETY_MS = 1_000;

/** What the worker has. Without a lease the process is alone. */
export interface Held {
  lease: Lease | null;
  /** Aborts when the lease is lost, or the service stops. */
  signal: AbortSignal;
}

type Work = (held: Held) => Promise<void>;

export type WorkerLease = ReturnType<typeof createWorkerLease>;

/** This process among those that share its database. On SQLite it is alone, and nothing here asks the database. */
export function createWorkerLease(options: {
  store: Pick<Store, 'engine' | 'takeLease' | 'releaseLease' | 'listen' | 'notify'>;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const { store, clock, onError } = options;
  const id = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const isAlone = store.engine === 'sqlite';
  const nap = createNap(clock);
  /** Notices that are on their way; true: once more after that. */
  const sending = new Map<Notice, boolean>();
  let isNotified = false;
  let isWorker = isAlone;

  /**
   * Runs all `works` whenever this process is the worker, until `signal` aborts. Their signal aborts when the lease is lost: they
   * must end soon then, because another process may begin.
   */
  async function hold(works: readonly Work[], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const askedAt = clock.steady();
        const lease = isAlone ? null : await store.takeLease(WORKER_LEASE, id, LEASE_MS, clock.steady());
        if (lease !== null) await whileHeld(lease, askedAt, works, signal);
        else if (isAlone) await allOrNone(works, { lease, signal });
      } catch (error) {
        onError(error);
      }
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
  }

  async function whileHeld(
    lease: Lease,
    takenAt: number,
    works: readonly Work[],
    outer: AbortSignal,
  ): Promise<void> {
    const lost = new AbortController();
    const done = new AbortController();
    const prolonging = prolong(lease, takenAt, lost, done.signal);
    isWorker = true;
    try {
      await allOrNone(works, { lease, signal: AbortSignal.any([outer, lost.signal]) });
    } finally {
      isWorker = false;
      done.abort();
      await prolonging;
      if (!lost.signal.aborted) await store.releaseLease(lease).catch(onError);
    }
  }

  async function prolong(
    lease: Lease,
    takenAt: number,
    lost: AbortController,
    done: AbortSignal,
  ): Promise<void> {
    let goodUntil = takenAt + LEASE_MS;
    await clock.sleep(PROLONG_EVERY_MS, done);
    while (!done.aborted) {
      const askedAt = clock.steady();
      const answered = new AbortController();
      // Also after the work has ended: a request that arrived after the release would take the lease again.
      const kept = await Promise.race([
        store.takeLease(lease.name, lease.owner, LEASE_MS, clock.steady()).catch(onError),
        // A network that loses the answer must not keep this process at work.
        clock.sleep(Math.max(1, goodUntil - SAFETY_MS - askedAt), answered.signal),
      ]);
      answered.abort();
      if (kept === null || (kept && kept.fence !== lease.fence)) return lost.abort();
      if (kept) goodUntil = askedAt + LEASE_MS;
      const leftMs = goodUntil - SAFETY_MS - clock.steady();
      if (leftMs <= 0) return lost.abort();
      await clock.sleep(Math.min(PROLONG_EVERY_MS, leftMs), done);
    }
  }

  /** Never rejects: every process looks without a notice too, and errors of the database are reported elsewhere. */
  async function send(notice: Notice): Promise<void> {
    do {
      sending.set(notice, false);
      await store.notify(notice).catch(() => undefined);
    } while (sending.get(notice) === true);
    sending.delete(notice);
  }

  function lookNow(): void {
    isNotified = true;
    nap.wake();
  }

  return {
    id,
    isAlone,
    hold,
    isWorker: () => isWorker,

    /** Notifies the other processes. While one is on its way, all that come share the next. Neither waits nor throws. */
    notify(notice: Notice): void {
      if (isAlone) return;
      if (sending.has(notice)) sending.set(notice, true);
      else void send(notice);
    },

    /**
     * Listens to the other processes until `signal` aborts. Calls `onEvents` when one has accepted events. Calls `look` after
     * other notices (`isNotified` is true), and once a second in case a notice was lost.
     */
    async listen(
      { onEvents, look }: { onEvents: () => void; look: (isNotified: boolean) => Promise<void> },
      signal: AbortSignal,
    ): Promise<void> {
      if (isAlone) return;
      const subscription = await store.listen((notice) => (notice === 'events' ? onEvents() : lookNow()));
      try {
        while (!signal.aborted) {
          const wasNotified = isNotified;
          isNotified = false;
          await look(wasNotified).catch((error) => {
            isNotified ||= wasNotified;
            onError(error);
          });
          await nap.sleep(LOOK_EVERY_MS, signal);
        }
      } finally {
        await subscription.stop();
      }
    },
  };
}

/** If one of them fails, the others are ended before this rejects with its error. */
async function allOrNone(works: readonly Work[], { lease, signal }: Held): Promise<void> {
  const failed = new AbortController();
  const held = { lease, signal: AbortSignal.any([signal, failed.signal]) };
  const runs = works.map((work) =>
    work(held).catch((error: unknown) => {
      failed.abort();
      throw error;
    }),
  );
  await Promise.allSettled(runs);
  await Promise.all(runs);
}

/** The database's time; null: no other process shares the database. */
export async function databaseClock(store: Pick<Store, 'sharedTime'>): Promise<Clock | null> {
  if ((await store.sharedTime(null)) === null) return null;
  const read = async (atLeast: number | null) => {
    const now = await store.sharedTime(atLeast);
    if (now === null) throw new Error('the database has no time of its own any more');
    return now;
  };
  return await sharedClock(read, { ...systemClock(), monotonic: () => performance.now() });
}
