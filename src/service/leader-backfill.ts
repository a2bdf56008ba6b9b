import type { Backfill } from '../backfill/backfill.ts';
import type { RunningSyncRun } from '../backfill/full-sync.ts';
import { NOTHING_KNOWN, type UpstreamHealth } from '../backfill/upstream.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { Lease } from '../store/replicas.ts';
import type { RepairStore, Store } from '../store/store.ts';
import type { Replicas } from './replicas.ts';

/**
 * Repairs and full syncs among several replicas. One of them does all of it, for as long as it holds the lease: the request
 * budget is what bounds them, so more hands would read no more, and what is known of the upstream (its failures, what
 * was seen alive, which records a full sync reads itself) stays in one place. The others pass on what they are asked for,
 * and show what the one that does it says of itself.
 */

const LEASE = 'backfill';
/** What the one that does it says of itself, for the pages of the others. */
const LIVE_FACT = 'backfill_live';
/** It is told again this often even if nothing has changed, and not believed for longer than this. */
const TELL_AGAIN_MS = 5_000;
const BELIEVED_MS = 15_000;
/** Requests that a stranger can provoke are made once by all replicas within the distance that each of them keeps. */
const FORGEABLE = 'rejected deliveries';

interface Live {
  at: number;
  health: UpstreamHealth;
  running: RunningSyncRun[];
}

export interface LeaderBackfill extends Backfill {
  /** Passes on what was asked for, takes what others were asked for, and learns how it goes. `isTold`: somebody says so. */
  look(isTold: boolean): Promise<void>;
  /** As `requestFullSync`, and kept when it resolves. */
  askForFullSync(kinds: readonly Kind[], reason: string): Promise<void>;
}

export function createLeaderBackfill(options: {
  store: Store;
  replicas: Replicas;
  clock: Clock;
  /** Nobody else was there when this process began. */
  isFirst: boolean;
  /** At least so far apart lie full syncs that a stranger can provoke. Milliseconds. */
  forgeableDistanceMs: number;
  /** Something is to be passed on: `look` should come soon. */
  onAsked: () => void;
  create: (store: RepairStore, interrupted: readonly { kind: Kind; pages: number }[]) => Backfill;
}): LeaderBackfill {
  const { store, replicas, clock, create } = options;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  /** Compares for whoever asks this replica. It is never run. */
  const idle = create(store, []);
  let held: Backfill | null = null;
  let reason = options.isFirst ? 'start' : 'takeover';
  let paused = false;
  const asked: { kinds: readonly Kind[]; reason: string }[] = [];
  let live: Live | null = null;
  let told = { at: Number.NEGATIVE_INFINITY, text: '' };

  async function work({ lease, signal }: { lease: Lease | null; signal: AbortSignal }): Promise<void> {
    // Whoever had it has lost it: what it left open is over.
    const interrupted = await store.interruptSyncRuns(now());
    const own = create(lease === null ? store : underLease(store, lease, clock), interrupted);
    if (paused) own.pause();
    own.requestFullSync(KINDS, reason);
    reason = 'takeover';
    held = own;
    try {
      await own.run(signal);
    } finally {
      held = null;
    }
  }

  async function passOn(): Promise<void> {
    for (let next = asked[0]; next !== undefined; next = asked[0]) {
      const isForgeable = next.reason === FORGEABLE;
      if (!isForgeable || (await replicas.takeTurn(`sync:${FORGEABLE}`, options.forgeableDistanceMs))) {
        await store.requestSyncRuns(next.kinds, next.reason, now());
        if (held === null) replicas.tell('work');
      }
      asked.shift();
    }
  }

  async function tellOfIt(own: Backfill): Promise<void> {
    const text = JSON.stringify({ health: own.health(), running: own.runningSyncRuns() });
    const at = clock.steady();
    if (text === told.text && at - told.at < TELL_AGAIN_MS) return;
    await store.writeFact(LIVE_FACT, `{"at":${at},${text.slice(1)}`);
    told = { at, text };
  }

  const believed = () => (live !== null && clock.steady() - live.at < BELIEVED_MS ? live : null);

  return {
    run: (signal) => replicas.hold(LEASE, work, signal),
    async look(isTold) {
      await passOn();
      const own = held;
      if (own === null) {
        const text = await store.readFact(LIVE_FACT);
        live = text === null ? null : (JSON.parse(text) as Live);
        return;
      }
      for (const request of await store.takeSyncRequests()) {
        own.requestFullSync([request.kind], request.reason);
      }
      if (isTold) own.wake();
      await tellOfIt(own);
    },
    async askForFullSync(kinds, why) {
      await store.requestSyncRuns(kinds, why, now());
      replicas.tell('work');
      options.onAsked();
    },
    requestFullSync(kinds, why) {
      asked.push({ kinds, reason: why });
      options.onAsked();
    },
    async refetch(kind, ids) {
      if (held !== null) return await held.refetch(kind, ids);
      await store.makeDue(kind, ids, now());
      replicas.tell('work');
    },
    dryRun: (kind, signal) => (held ?? idle).dryRun(kind, signal),
    wake() {
      if (held !== null) held.wake();
      else replicas.tell('work');
    },
    pause() {
      paused = true;
      held?.pause();
    },
    resume() {
      paused = false;
      held?.resume();
    },
    health: () => held?.health() ?? believed()?.health ?? NOTHING_KNOWN,
    runningSyncRuns: () => held?.runningSyncRuns() ?? believed()?.running ?? [],
  };
}

/** The store as whoever holds the lease uses it: what cannot be undone, it does only while it still holds it. */
function underLease(store: Store, lease: Lease, clock: Clock): RepairStore {
  // Another replica's clock may be this much behind: read later, so that the read covers what that one accepted.
  const marginMs = () => 2 * (clock.marginMs?.() ?? 0);
  return {
    ...store,
    concludeDeletions: (kind, proof, context, now) =>
      store.concludeDeletions(kind, proof, { ...context, lease }, now),
    dueRecords: (kind, now, timing, limit) =>
      store.dueRecords(kind, { ...now, steady: now.steady - marginMs() }, timing, limit),
    async nextDueAt(kind) {
      const at = await store.nextDueAt(kind);
      return at === null ? null : at + marginMs();
    },
  };
}
