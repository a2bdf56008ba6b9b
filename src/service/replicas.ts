import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type Clock, type SharedClock, sharedClock, systemClock } from '../platform/clock.ts';
import type { Lease, Notice } from '../store/replicas.ts';
import type { Store } from '../store/store.ts';

/**
 * Work that one replica does at a time is leased for this long, and prolonged four times within it. A replica that was
 * killed is followed by another after at most this and one look more.
 */
const LEASE_MS = 10_000;
const PROLONG_EVERY_MS = LEASE_MS / 4;
/** How often a replica looks whether a lease has become free. */
const LOOK_EVERY_MS = 1_000;
/** Before its lease is over by anyone's clock, a replica that could not prolong it stops by itself. */
const SAFETY_MS = 1_000;

/** A replica that has not been heard of for this long is taken for dead. The heartbeat comes every 5 s. */
export const REPLICA_LIFE_MS = 15_000;

/** A claim that its replica, killed, cannot give back is taken over after this. A batch takes well under a second. */
const CLAIM_LEASE_MS = 15_000;
/** How often a replica looks for events that another took and did not finish. */
const CLAIM_LOOK_MS = 2_000;

/** Notices of the same kind within this are told once: an accepted delivery should not cost a round trip more. */
const TELL_EVERY_MS = 100;

/** This process among those that share its database. */
export interface Replicas {
  /** Tells this process from every other one, past ones too. */
  readonly id: string;
  /** The file is this process's alone: nothing below asks the database. */
  readonly isAlone: boolean;
  /** How events are claimed beside the others; undefined: nobody else claims any. */
  readonly claims: { owner: string; leaseMs: number; lookEveryMs: number } | undefined;
  /** Says that this process lives, and resolves with how many others do; undefined: it is alone. */
  beat(): Promise<number | undefined>;
  /**
   * Runs `work` while this replica is the one that does it, again and again until `signal` aborts. `work` should end
   * soon after its own signal does: that aborts when the lease is lost, and another may have begun.
   */
  hold(
    name: string,
    work: (held: { lease: Lease | null; signal: AbortSignal }) => Promise<void>,
    signal: AbortSignal,
  ): Promise<void>;
  /** True for the first that asks within `everyMs`, of all replicas; the others come too late. */
  takeTurn(name: string, everyMs: number): Promise<boolean>;
  /** Tells the others, soon. Never waits and never fails: they also look for themselves. */
  tell(notice: Notice): void;
  /** Sends what is still to be told, and lets the others know at once that this process is gone. Never rejects. */
  leave(): Promise<void>;
}

export function createReplicas(options: {
  store: Pick<Store, 'engine' | 'takeLease' | 'releaseLease' | 'notify' | 'beatReplica' | 'leaveReplicas'>;
  clock: Clock;
  onError: (error: unknown) => void;
}): Replicas {
  const { store, clock, onError } = options;
  const id = `${hostname()}-${process.pid}-${randomUUID().slice(0, 8)}`;
  const isAlone = store.engine === 'sqlite';
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const telling = new Set<Notice>();
  const sending = new Set<Promise<void>>();

  async function hold(
    name: string,
    work: Parameters<Replicas['hold']>[1],
    signal: AbortSignal,
  ): Promise<void> {
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

  async function whileHeld(
    lease: Lease,
    takenAt: number,
    work: Parameters<Replicas['hold']>[1],
    outer: AbortSignal,
  ): Promise<void> {
    const { name, owner, fence } = lease;
    const lost = new AbortController();
    const done = new AbortController();
    const prolonging = prolong(lease, takenAt, lost, done.signal);
    try {
      const signal = AbortSignal.any([outer, lost.signal]);
      await work({ lease: { name, owner, fence }, signal });
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
        // A network that swallows the answer must not keep this one at work.
        clock.sleep(Math.max(1, goodUntil - SAFETY_MS - askedAt), done),
      ]);
      if (kept === null || (kept && kept.fence !== lease.fence)) return lost.abort();
      if (kept) goodUntil = askedAt + LEASE_MS;
      const leftMs = goodUntil - SAFETY_MS - clock.steady();
      if (leftMs <= 0) return lost.abort();
      await clock.sleep(Math.min(PROLONG_EVERY_MS, leftMs), done);
    }
  }

  return {
    ...{ id, isAlone, hold },
    claims: isAlone ? undefined : { owner: `${id}/`, leaseMs: CLAIM_LEASE_MS, lookEveryMs: CLAIM_LOOK_MS },
    async beat() {
      return isAlone ? undefined : (await store.beatReplica(id, REPLICA_LIFE_MS, now())).others;
    },
    async takeTurn(name, everyMs) {
      if (isAlone) return true;
      // By an owner of its own each time, and never let go: the lease is the distance.
      return (await store.takeLease(name, `${id}/${randomUUID()}`, everyMs, now())) !== null;
    },
    tell(notice) {
      if (isAlone || telling.has(notice)) return;
      telling.add(notice);
      const sent = clock
        .sleep(TELL_EVERY_MS)
        .then(() => {
          // Before it is sent: what happens from now on is told again.
          telling.delete(notice);
          return store.notify(notice);
        })
        // Lost notices are made good by looking, and the database's trouble is told by whoever needs it.
        .catch(() => undefined)
        .finally(() => sending.delete(sent));
      sending.add(sent);
    },
    async leave() {
      await Promise.all(sending);
      if (!isAlone) await store.leaveReplicas(id).catch(onError);
    },
  };
}

/** The database's time, where several processes share it; null: nobody does. */
export async function databaseClock(store: Pick<Store, 'sharedTime'>): Promise<SharedClock | null> {
  if ((await store.sharedTime(null)) === null) return null;
  const read = async (atLeast: number | null) => {
    const now = await store.sharedTime(atLeast);
    if (now === null) throw new Error('the database has no time of its own any more');
    return now;
  };
  return await sharedClock(read, { ...systemClock(), monotonic: () => performance.now() });
}
