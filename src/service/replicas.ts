import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, createNap, momentOf, sharedClock, systemClock } from '../platform/clock.ts';
import type { Lease, Notice, Store } from '../store/store.ts';

/**
 * How long the lease of work that only one replica does lasts. The leader prolongs it four times within that time. When a replica
 * is killed, another takes over after at most this time and one look.
 */
const LEASE_MS = 10_000;
const PROLONG_EVERY_MS = LEASE_MS / 4;
/** How often a replica looks for a free lease, and for work whose notice was lost. */
const LOOK_EVERY_MS = 1_000;
/** A replica that could not prolong its lease stops this long before the lease ends, because clocks differ. */
const SAFETY_MS = 1_000;

/** A replica without a heartbeat (every 5 s) for this long counts as dead. */
export const REPLICA_LIFE_MS = 15_000;

/** Other replicas take over the claimed events of a killed replica after this. A batch takes well under a second. */
const CLAIM_LEASE_MS = 15_000;
/** How often a replica looks for events that another claimed and did not finish. */
const CLAIM_LOOK_MS = 2_000;

/** Equal notices within this time are sent once, so that not every accepted delivery costs another round trip. */
const NOTIFY_EVERY_MS = 100;

type Work = (held: { lease: Lease | null; signal: AbortSignal }) => Promise<void>;

export type Replicas = ReturnType<typeof createReplicas>;

/** This process among the replicas that share its database. On SQLite it is alone, and nothing here asks the database. */
export function createReplicas(options: {
  store: Pick<
    Store,
    'engine' | 'takeLease' | 'releaseLease' | 'listen' | 'notify' | 'beatReplica' | 'leaveReplicas'
  >;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const { store, clock, onError } = options;
  const id = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const isAlone = store.engine === 'sqlite';
  const now = () => momentOf(clock);
  const scheduled = new Set<Notice>();
  const sending = new Set<Promise<void>>();

  const nap = createNap(clock);
  let isNotified = false;
  let others = 0;

  /**
   * Runs `work` whenever this replica holds the lease, until `signal` aborts. The signal of `work` aborts when the lease is
   * lost: the work must end soon then, because another replica may begin it.
   */
  async function hold(name: string, work: Work, signal: AbortSignal): Promise<void> {
    if (isAlone) return await work({ lease: null, signal });
    while (!signal.aborted) {
      try {
        const askedAt = clock.steady();
        const lease = await store.takeLease(name, id, LEASE_MS, now());
        if (lease !== null) await whileHeld(lease, askedAt, work, signal);
      } catch (error) {
        onError(error);
      }
      await clock.sleep(LOOK_EVERY_MS, signal);
    }
  }

  async function whileHeld(lease: Lease, takenAt: number, work: Work, outer: AbortSignal): Promise<void> {
    const lost = new AbortController();
    const done = new AbortController();
    const prolonging = prolong(lease, takenAt, lost, done.signal);
    try {
      await work({ lease, signal: AbortSignal.any([outer, lost.signal]) });
    } finally {
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
        store.takeLease(lease.name, lease.owner, LEASE_MS, now()).catch(onError),
        // A network that loses the answer must not keep this replica at work.
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

  /** Never rejects: the other replicas look without a notice too, and errors of the database are reported elsewhere. */
  async function send(notice: Notice): Promise<void> {
    await clock.sleep(NOTIFY_EVERY_MS);
    // Before it is sent: later events need another notice.
    scheduled.delete(notice);
    await store.notify(notice).catch(() => undefined);
  }

  function lookNow(): void {
    isNotified = true;
    nap.wake();
  }

  return {
    id,
    isAlone,
    hold,
    lookNow,
    /** How events are claimed among several replicas; undefined: this process is alone. */
    claims: isAlone ? undefined : { owner: `${id}/`, leaseMs: CLAIM_LEASE_MS, lookEveryMs: CLAIM_LOOK_MS },

    /** Shows that this process is alive. Resolves with how many others are; undefined: this process is alone. */
    async beat(): Promise<number | undefined> {
      if (isAlone) return undefined;
      others = (await store.beatReplica(id, REPLICA_LIFE_MS, now())).others;
      return others;
    },
    /** As of the last beat. */
    others: () => others,

    /** True for the first of all replicas that asks within `everyMs`. */
    async takeTurn(name: string, everyMs: number): Promise<boolean> {
      if (isAlone) return true;
      // A lease with a new owner each time, never released: it ends by itself after `everyMs`.
      return (await store.takeLease(name, `${id}/${randomUUID()}`, everyMs, now())) !== null;
    },

    /** Notifies the other replicas soon. Neither waits nor throws. */
    notify(notice: Notice): void {
      if (isAlone || scheduled.has(notice)) return;
      scheduled.add(notice);
      const sent = send(notice).finally(() => sending.delete(sent));
      sending.add(sent);
    },

    /**
     * Listens to the other replicas until `signal` aborts. Calls `onEvents` when one has accepted events. Calls `look` after
     * other notices and `lookNow` (`isNotified` is true), and once a second in case a notice was lost.
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

    /** Sends pending notices, and takes this process off the list of replicas. Never rejects. */
    async leave(): Promise<void> {
      await Promise.all(sending);
      if (!isAlone) await store.leaveReplicas(id).catch(onError);
    },
  };
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
