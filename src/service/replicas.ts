import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, createNap, momentOf, sharedClock, systemClock } from '../platform/clock.ts';
import type { Lease, Notice, Store } from '../store/store.ts';

/**
 * Work that one replica does at a time is leased for this long, and prolonged four times within it. When a replica is
 * killed, another takes over after at most this and one look more.
 */
const LEASE_MS = 10_000;
const PROLONG_EVERY_MS = LEASE_MS / 4;
/** How often a replica looks for a free lease, and for work whose notice was lost. */
const LOOK_EVERY_MS = 1_000;
/** A replica that could not prolong its lease stops this long before its end, because clocks differ. */
const SAFETY_MS = 1_000;

/** A replica without a heartbeat (every 5 s) for this long counts as dead. */
export const REPLICA_LIFE_MS = 15_000;

/** Events that a killed replica had claimed are taken over after this. A batch takes well under a second. */
const CLAIM_LEASE_MS = 15_000;
/** How often a replica looks for events that another claimed and did not finish. */
const CLAIM_LOOK_MS = 2_000;

/** Equal notices within this are sent once, so that an accepted delivery does not cost a round trip more. */
const NOTIFY_EVERY_MS = 100;

type Work = (held: { lease: Lease | null; signal: AbortSignal }) => Promise<void>;

export type Replicas = ReturnType<typeof createReplicas>;

/** This process among those that share its database. On SQLite it is alone, and nothing below asks the database. */
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

  /**
   * Runs `work` while this replica holds the lease, again and again until `signal` aborts. The signal of `work` aborts
   * when the lease is lost: work must end soon then, because another replica may have begun.
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
      const { name, owner, fence } = lease;
      await work({ lease: { name, owner, fence }, signal: AbortSignal.any([outer, lost.signal]) });
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
      const kept = await Promise.race([
        store.takeLease(lease.name, lease.owner, LEASE_MS, now()).catch(onError),
        // A network that loses the answer must not keep this replica at work.
        clock.sleep(Math.max(1, goodUntil - SAFETY_MS - askedAt), done),
      ]);
      if (kept === null || (kept && kept.fence !== lease.fence)) return lost.abort();
      if (kept) goodUntil = askedAt + LEASE_MS;
      const leftMs = goodUntil - SAFETY_MS - clock.steady();
      if (leftMs <= 0) return lost.abort();
      await clock.sleep(Math.min(PROLONG_EVERY_MS, leftMs), done);
    }
  }

  /** Resolves soon, and never fails: others look without a notice too, and report the database's trouble. */
  async function send(notice: Notice): Promise<void> {
    await clock.sleep(NOTIFY_EVERY_MS);
    // Before sending: what happens from now on needs another notice.
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
    /** How events are claimed among several replicas; undefined: there are none. */
    claims: isAlone ? undefined : { owner: `${id}/`, leaseMs: CLAIM_LEASE_MS, lookEveryMs: CLAIM_LOOK_MS },

    /** Says that this process lives, and resolves with how many others do; undefined: it is alone. */
    async beat(): Promise<number | undefined> {
      return isAlone ? undefined : (await store.beatReplica(id, REPLICA_LIFE_MS, now())).others;
    },

    /** True for the first of all replicas that asks within `everyMs`. */
    async takeTurn(name: string, everyMs: number): Promise<boolean> {
      if (isAlone) return true;
      // With an owner of its own each time, and never released: the lease is the distance.
      return (await store.takeLease(name, `${id}/${randomUUID()}`, everyMs, now())) !== null;
    },

    /** Notifies the other replicas soon. Does not wait and does not fail. */
    notify(notice: Notice): void {
      if (isAlone || scheduled.has(notice)) return;
      scheduled.add(notice);
      const sent = send(notice).finally(() => sending.delete(sent));
      sending.add(sent);
    },

    /**
     * Listens to the other replicas until `signal` aborts: `onEvents` when one has accepted events, `look` for any other
     * notice (`isNotified`), at each `lookNow`, and once a second in case a notice was lost.
     */
    async listen(
      { onEvents, look }: { onEvents: () => void; look: (isNotified: boolean) => Promise<void> },
      signal: AbortSignal,
    ): Promise<void> {
      if (isAlone) return;
      const ears = await store.listen((notice) => (notice === 'events' ? onEvents() : lookNow()));
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
        await ears.stop();
      }
    },

    /** Sends pending notices, and takes this process off the list of replicas. Never rejects. */
    async leave(): Promise<void> {
      await Promise.all(sending);
      if (!isAlone) await store.leaveReplicas(id).catch(onError);
    },
  };
}

/** The database's time if several processes share it; else null. */
export async function databaseClock(store: Pick<Store, 'sharedTime'>): Promise<Clock | null> {
  if ((await store.sharedTime(null)) === null) return null;
  const read = async (atLeast: number | null) => {
    const now = await store.sharedTime(atLeast);
    if (now === null) throw new Error('the database has no time of its own any more');
    return now;
  };
  return await sharedClock(read, { ...systemClock(), monotonic: () => performance.now() });
}
