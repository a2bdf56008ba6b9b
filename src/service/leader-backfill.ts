import type { Backfill } from '../backfill/backfill.ts';
import type { RunningSyncRun } from '../backfill/full-sync.ts';
import { NOTHING_KNOWN, type UpstreamHealth } from '../backfill/upstream.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { Lease, RepairStore, Store } from '../store/store.ts';
import type { Replicas } from './replicas.ts';

/**
 * Repairs and full syncs among several replicas. The leader does all of them: the request budget limits them, so more
 * replicas could not read more, and what is known of the upstream (its failures, what was seen alive, which records a full
 * sync reads itself) stays in one place. The other replicas pass on requests and show what the leader reports.
 */

/** The replica that holds this lease is the leader. */
export const READER_LEASE = 'backfill';
/** What the leader reports, for the pages of the other replicas. */
const LIVE_FACT = 'backfill_live';
/** The leader's report is written this often even without changes, and is believed for this long. */
const WRITE_AGAIN_MS = 5_000;
const BELIEVED_MS = 15_000;
/** The reason that a stranger can cause: all replicas together request full syncs for it no more often than one alone would. */
const FORGEABLE = 'rejected deliveries';

interface Live {
  at: number;
  health: UpstreamHealth;
  running: RunningSyncRun[];
}

/** Whether the API gave no useful answer when the last process that read it said so. */
export const readUnreachable = async (facts: Pick<Store, 'readFact'>) =>
  (await facts.readFact('unreachable')) === '1';

export interface LeaderBackfill extends Backfill {
  /** Passes requests on, takes those of others as the leader, and writes or reads the report. `isNotified`: another replica has announced work. */
  look(isNotified: boolean): Promise<void>;
  /** As `requestFullSync`, but the request is stored when this resolves. */
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
  create: (
    store: RepairStore,
    interrupted: readonly { kind: Kind; pages: number }[],
    wasUnreachable?: boolean,
  ) => Backfill;
}): LeaderBackfill {
  const { store, replicas, clock, create } = options;
  const now = () => momentOf(clock);
  /** Only for dry runs while another replica is the leader. */
  const idle = create(store, []);
  let leading: (Backfill & { lease: Lease }) | null = null;
  let startReason = options.isFirst ? 'start' : 'takeover';
  let paused = false;
  const asked = new Set<{ kinds: readonly Kind[]; reason: string }>();
  let live: Live | null = null;
  let written = { at: Number.NEGATIVE_INFINITY, text: '' };

  async function lead({ lease, signal }: { lease: Lease | null; signal: AbortSignal }): Promise<void> {
    // A process that is alone makes no `LeaderBackfill`.
    if (lease === null) return;
    // The previous leader has lost its lease, so the sync runs that it left open are over.
    const interrupted = await store.interruptSyncRuns(now(), lease);
    const own = create(underLease(store, lease, clock), interrupted, await readUnreachable(store));
    if (paused) own.pause();
    own.requestFullSync(KINDS, startReason);
    startReason = 'takeover';
    leading = { ...own, lease };
    try {
      await own.run(signal);
    } finally {
      // Believed until the next leader reports: while this process stops, the API is still what it was.
      live = { at: clock.steady(), health: own.health(), running: [] };
      leading = null;
    }
  }

  async function passOn(): Promise<void> {
    for (const request of asked) {
      const { kinds, reason } = request;
      const isForgeable = reason === FORGEABLE;
      // Without a turn it is tried again later.
      if (isForgeable && !(await replicas.takeTurn(`sync:${FORGEABLE}`, options.forgeableDistanceMs)))
        continue;
      await store.requestSyncRuns(kinds, reason, now());
      if (leading === null) replicas.notify('work');
      asked.delete(request);
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
      for (const { kind, reason } of await store.takeSyncRequests(own.lease))
        own.requestFullSync([kind], reason);
      if (isNotified) own.wake();
      await writeLive(own);
    },
    async askForFullSync(kinds, reason) {
      await store.requestSyncRuns(kinds, reason, now());
      replicas.notify('work');
      replicas.lookNow();
    },
    requestFullSync(kinds, reason) {
      // One waiting request of this reason is enough.
      const isWaiting = [...asked].some((other) => other.reason === reason);
      if (reason !== FORGEABLE || !isWaiting) asked.add({ kinds, reason });
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

/** The store for the leader. The database refuses its sync runs and deletions once another replica holds the lease. */
function underLease(store: Store, lease: Lease, clock: Clock): RepairStore {
  // Another replica's clock may be this much behind. A read that is later by it covers what that replica has accepted.
  const marginMs = () => 2 * (clock.marginMs?.() ?? 0);
  return {
    ...store,
    startSyncRun: (kind, reason, now) => store.startSyncRun(kind, reason, now, lease),
    concludeDeletions: (kind, proof, context, now) =>
      store.concludeDeletions(kind, proof, { ...context, lease }, now),
    dueRecords: (kind, now, timing, ...rest) =>
      store.dueRecords(kind, { ...now, steady: now.steady - marginMs() }, timing, ...rest),
    async nextDueAt(kind) {
      const at = await store.nextDueAt(kind);
      return at === null ? null : at + marginMs();
    },
  };
}
