import type { Backfill } from '../backfill/backfill.ts';
import type { RunningSyncRun } from '../backfill/full-sync.ts';
import { NOTHING_KNOWN, type UpstreamHealth } from '../backfill/upstream.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { Lease, RepairStore, Store } from '../store/store.ts';
import type { Replicas } from './replicas.ts';

/**
 * Repairs and full syncs among several replicas. The leader does all of them: the request budget bounds them, so more
 * replicas would read no more, and what is known of the upstream (its failures, what was seen alive, which records a full
 * sync reads itself) stays in one place. The others pass on what they are asked for, and show what the leader says.
 */

/** Whoever holds it reads the API. */
export const READER_LEASE = 'backfill';
/** What the leader says of itself, for the pages of the others. */
const LIVE_FACT = 'backfill_live';
/** Written this often even if nothing has changed, and not believed for longer than this. */
const WRITE_AGAIN_MS = 5_000;
const BELIEVED_MS = 15_000;
/** Of what a stranger can cause, all replicas together ask no more often than one alone would. */
const FORGEABLE = 'rejected deliveries';

interface Live {
  at: number;
  health: UpstreamHealth;
  running: RunningSyncRun[];
}

export interface LeaderBackfill extends Backfill {
  /** Passes requests on, takes those of other replicas, and learns their state. `isNotified`: another replica has announced work. */
  look(isNotified: boolean): Promise<void>;
  /** As `requestFullSync`, and stored when it resolves. */
  askForFullSync(kinds: readonly Kind[], reason: string): Promise<void>;
}

export function createLeaderBackfill(options: {
  store: Store;
  replicas: Replicas;
  clock: Clock;
  /** No other replica lived when this process began. */
  isFirst: boolean;
  /** Full syncs that a stranger can cause are at least so far apart. Milliseconds. */
  forgeableDistanceMs: number;
  create: (store: RepairStore, interrupted: readonly { kind: Kind; pages: number }[]) => Backfill;
}): LeaderBackfill {
  const { store, replicas, clock, create } = options;
  const now = () => momentOf(clock);
  /** For dry runs while another replica leads. Never run. */
  const idle = create(store, []);
  let leading: Backfill | null = null;
  let startReason = options.isFirst ? 'start' : 'takeover';
  let paused = false;
  const asked: { kinds: readonly Kind[]; reason: string }[] = [];
  let live: Live | null = null;
  let written = { at: Number.NEGATIVE_INFINITY, text: '' };

  async function lead({ lease, signal }: { lease: Lease | null; signal: AbortSignal }): Promise<void> {
    // The leader before has lost its lease: what it left open is over.
    const interrupted = await store.interruptSyncRuns(now());
    const own = create(lease === null ? store : underLease(store, lease, clock), interrupted);
    if (paused) own.pause();
    own.requestFullSync(KINDS, startReason);
    startReason = 'takeover';
    leading = own;
    try {
      await own.run(signal);
    } finally {
      leading = null;
    }
  }

  async function passOn(): Promise<void> {
    for (let at = 0; at < asked.length; ) {
      const { kinds, reason } = asked[at]!;
      const isForgeable = reason === FORGEABLE;
      if (isForgeable && !(await replicas.takeTurn(`sync:${FORGEABLE}`, options.forgeableDistanceMs))) {
        // Put off, not dropped.
        at += 1;
        continue;
      }
      await store.requestSyncRuns(kinds, reason, now());
      if (leading === null) replicas.notify('work');
      asked.splice(at, 1);
    }
  }

  async function writeLive(own: Backfill): Promise<void> {
    const text = JSON.stringify({ health: own.health(), running: own.runningSyncRuns() });
    const at = clock.steady();
    if (text === written.text && at - written.at < WRITE_AGAIN_MS) return;
    await store.writeFact(LIVE_FACT, `{"at":${at},${text.slice(1)}`);
    written = { at, text };
  }

  const believed = () => (live !== null && clock.steady() - live.at < BELIEVED_MS ? live : null);

  return {
    run: (signal) => replicas.hold(READER_LEASE, lead, signal),
    async look(isNotified) {
      await passOn();
      const own = leading;
      if (own === null) {
        const text = await store.readFact(LIVE_FACT);
        live = text === null ? null : (JSON.parse(text) as Live);
        return;
      }
      for (const { kind, reason } of await store.takeSyncRequests()) own.requestFullSync([kind], reason);
      if (isNotified) own.wake();
      await writeLive(own);
    },
    async askForFullSync(kinds, reason) {
      await store.requestSyncRuns(kinds, reason, now());
      replicas.notify('work');
      replicas.lookNow();
    },
    requestFullSync(kinds, reason) {
      // Of those that wait for their turn one is enough, however long they wait.
      if (reason !== FORGEABLE || !asked.some((other) => other.reason === reason))
        asked.push({ kinds, reason });
      replicas.lookNow();
    },
    async refetch(kind, ids) {
      if (leading !== null) return await leading.refetch(kind, ids);
      await store.makeDue(kind, ids, now());
      replicas.notify('work');
    },
    dryRun: (kind, signal) => (leading ?? idle).dryRun(kind, signal),
    wake() {
      if (leading !== null) leading.wake();
      else replicas.notify('work');
    },
    pause() {
      paused = true;
      leading?.pause();
    },
    resume() {
      paused = false;
      leading?.resume();
    },
    health: () => leading?.health() ?? believed()?.health ?? NOTHING_KNOWN,
    runningSyncRuns: () => leading?.runningSyncRuns() ?? believed()?.running ?? [],
  };
}

/** The store as the leader uses it: the database refuses what cannot be undone, once another holds the lease. */
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
