import type { Backfill } from '../backfill/backfill.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { senderOf } from '../platform/addresses.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { About, DeliveryOutcome } from '../receive/routes.ts';
import type { BackfillStore, DirtyTiming, GapKey, GapReason, OperatorStore } from '../store/store.ts';

/** After this long without a heartbeat the sender may have given up on deliveries. */
const DOWNTIME_AFTER_MS = 30_000;
/** Anyone can replay a captured delivery or invent a signature. Full syncs for such reasons are at least this far apart. */
const FORGEABLE_FULL_SYNC_DISTANCE_MS = 10 * 60_000;
/** If the database takes no deliveries for this long it is a failure, even if it takes heartbeats. */
const UNKEPT_AFTER_MS = 6_000;
/** The failure counts for this long after the last such delivery: the sender may have found another replica. */
const UNKEPT_HOLDS_MS = 60_000;
/** Records of such deliveries that are read again one by one. If there are more, full syncs are cheaper. */
const UNKEPT_RECORDS_MAX = 100;
/** Deliveries at a wrong time are reported for this long after the last one: by then a full sync has read what they said. */
const UNTIMELY_HOLDS_MS = 10 * 60_000;
/** This many rejections in a row are a sign of a rotated secret or a wrong clock rather than of a stranger. */
const REJECTED_BURST = 5;
/** Networks that accepted deliveries came from, and those of a burst of rejections. Of more the latest count. */
const NETWORKS_KEPT = 1_000;

/** How many of the last deliveries show the usual pause. More would show what was usual long ago. */
const USUAL_AMONG = 200;
/** Silence opens a gap after this many times the longest usual pause, */
const USUAL_TIMES = 4;
/** but never before this: a quiet hour means nothing. */
const USUAL_AT_LEAST_MS = 3_600_000;

const gapOf = (reason: GapReason): GapKey => ({ reason, kind: null, recordId: null });

interface DowntimeOptions {
  store: Pick<OperatorStore, 'readFact'> & Pick<BackfillStore, 'openGap'>;
  clock: Clock;
  eventsOnly: boolean;
}

/**
 * What every start does before any stage runs, because the last process may have ended anywhere: it ends the full syncs that were
 * left open, marks unverified records dirty, and opens a gap for the time without a service. Returns how far those full syncs had
 * come. A replica that joins others leaves them their work.
 */
export async function recover(
  options: DowntimeOptions & {
    store: BackfillStore;
    timing: DirtyTiming;
    /** Other replicas that are alive; absent: only this process has the database. */
    others?: number | undefined;
  },
): Promise<{ kind: Kind; pages: number }[]> {
  const { store, clock, others } = options;
  const now = momentOf(clock);
  // Among several replicas, the next leader ends the open full syncs.
  const interrupted = others === undefined ? await store.interruptSyncRuns(now) : [];
  // Other replicas went on by the same clock, so the due times are still right.
  if ((others ?? 0) === 0) await store.markUnverifiedDirty(now, options.timing);
  await noteDowntime(options, 'the service was not running');
  return interrupted;
}

/**
 * Opens a gap if the last heartbeat is too long ago, or too far in the future. Called before each heartbeat and not only at a start,
 * because a sleeping machine, a stopped process and a full disk come back without a start.
 */
export async function noteDowntime(options: DowntimeOptions, what: string): Promise<void> {
  // Without the API nothing could resolve the gap.
  if (options.eventsOnly) return;
  const last = await options.store.readFact('heartbeat');
  const ms = last === null ? 0 : options.clock.wall() - Date.parse(last);
  if (Math.abs(ms) < DOWNTIME_AFTER_MS) return;
  const seconds = Math.round(Math.abs(ms) / 1000);
  // After a clock was set back, `complete_through` would be in the future until the next full syncs.
  const why = ms > 0 ? `${what} for ${seconds} s` : `the clock was set back by ${seconds} s`;
  await options.store.openGap(gapOf('downtime'), why, momentOf(options.clock));
}

/** The shortest time between full syncs that a stranger can cause. Milliseconds. */
export function forgeableDistanceMs(fullSyncMs: number): number {
  return Math.max(FORGEABLE_FULL_SYNC_DISTANCE_MS, fullSyncMs);
}

export type DeliveryWatch = ReturnType<typeof createDeliveryWatch>;

/** Opens and resolves gaps by what the outcomes of deliveries show. */
export function createDeliveryWatch(options: {
  store: Pick<BackfillStore, 'lastDelivery' | 'markDirty' | 'openGap' | 'resolveGap'>;
  /** Null: events only, so nothing can be read again. */
  backfill: Pick<Backfill, 'requestFullSync' | 'wake'> | null;
  clock: Clock;
  timing: DirtyTiming;
  /** Wall-clock milliseconds. */
  startedAt: number;
  silenceMs: number;
  fullSyncMs: number;
  /** Whether this replica is the first of all to ask within this many milliseconds. */
  takeTurn: (name: string, everyMs: number) => Promise<boolean>;
  /** How many other replicas were alive when this one last looked. */
  others: () => number;
  onError: (error: unknown) => void;
}) {
  const { store, backfill, clock, onError } = options;
  const distanceMs = forgeableDistanceMs(options.fullSyncMs);
  let rejectedInARow = 0;
  let burstIsOver = false;
  const senders = new Set<string>();
  const rejectedFrom = new Set<string>();
  /** Whether the sender may have sent what was rejected, in a burst since the last full sync for one. */
  let mayBeSenders = false;
  let lastBurstFullSync = Number.NEGATIVE_INFINITY;
  let lackedSecret = false;
  /** The first accepted delivery resolves gaps that the last process may have left open. */
  let isFirst = true;
  let othersBefore = options.others();
  /** Likewise, since the last accepted delivery: a replica that is gone may have left gaps open. */
  let isOneGone = false;
  let rejectedTimestamp: string | null = null;
  /** Correctly signed deliveries at a wrong time, since the last one at a right time. `since`: wall; `last`: steady. */
  let untimely: { since: number; last: number; count: number } | null = null;
  let lastReplayFullSync = Number.NEGATIVE_INFINITY;
  let wasSilent = false;
  /** Deliveries that could not be stored, since the last one that was. Only `wall` is by the wall clock. */
  let unkept: { wall: number; since: number; last: number; isTold: boolean } | null = null;
  /** What deliveries were about that could not be stored, and whether there were more, or one that does not say. */
  const unread = new Map<string, { kind: Kind; id: string }>();
  let isAllUnread = false;
  /** The text of a gap about such deliveries that the database did not take either. */
  let unopened: string | null = null;
  /** Gaps that are over, until the database has resolved them. */
  const unresolved = new Set<GapReason>();

  const openGap = (reason: GapReason, error: string) => store.openGap(gapOf(reason), error, momentOf(clock));
  const resolveGap = (reason: GapReason) => store.resolveGap(gapOf(reason), momentOf(clock));
  function open(reason: GapReason, error: string): void {
    unresolved.delete(reason);
    openGap(reason, error).catch(onError);
  }
  function resolve(reason: GapReason): void {
    unresolved.add(reason);
    resolveGap(reason)
      .then(() => unresolved.delete(reason))
      .catch(onError);
  }
  const readAgain = () => backfill?.requestFullSync(KINDS, 'rejected deliveries');

  function onRejected(reason: string, network: string): void {
    if (reason === 'bad_signature') {
      keepLatest(rejectedFrom, network);
      rejectedInARow += 1;
      if (rejectedInARow === REJECTED_BURST)
        open('rejected_signatures', 'several deliveries in a row carry a signature of no secret we know');
    } else if (reason === 'no_signing_secret' && !lackedSecret) {
      lackedSecret = true;
      open(reason, 'a delivery came before a signing secret was known that it could be signed with');
    }
  }

  function onAccepted(network: string): void {
    // A stranger cannot cause this: it takes a new secret and a delivery that is signed with it.
    if (lackedSecret) readAgain();
    // The full sync at the start has read what was rejected before it.
    if (lackedSecret || isFirst) resolve('no_signing_secret');
    lackedSecret = false;
    keepLatest(senders, network);
    const wasRejecting = isRejecting();
    burstIsOver ||= wasRejecting;
    if (wasRejecting) mayBeSenders ||= [...rejectedFrom].some((from) => senders.has(from));
    rejectedInARow = 0;
    rejectedFrom.clear();
    if (isFirst) resolve('rejected_signatures');
    isFirst = false;
    endBurst();
    // The full sync waits until it may begin again. A stranger must not hold the verdict that long.
    if (wasRejecting && burstIsOver && !mayBeSenders) resolve('rejected_signatures');
    if (isOneGone) resolveLeft().catch(onError);
  }

  /** Unlike after a start, no full sync has read what the replica rejected. */
  async function resolveLeft(): Promise<void> {
    isOneGone = false;
    const lacked = await resolveGap('no_signing_secret');
    const rejected = !burstIsOver && (await resolveGap('rejected_signatures'));
    if (lacked || rejected) readAgain();
  }

  const isRejecting = () => rejectedInARow >= REJECTED_BURST;

  /** After a burst of rejections, requests a full sync and resolves the gap. */
  function endBurst(): void {
    if (!burstIsOver || isRejecting() || clock.steady() - lastBurstFullSync < distanceMs) return;
    burstIsOver = false;
    mayBeSenders = false;
    lastBurstFullSync = clock.steady();
    readAgain();
    resolve('rejected_signatures');
  }

  function onUnkept(): void {
    const { wall, steady } = momentOf(clock);
    unkept ??= { wall, since: steady, last: steady, isTold: false };
    unkept.last = steady;
  }

  function noteUnread({ kind, recordId: id }: About): void {
    // Without the API nothing can be read.
    if (backfill === null) return;
    const key = `${kind} ${id}`;
    if (kind === null || id === null || (unread.size >= UNKEPT_RECORDS_MAX && !unread.has(key)))
      isAllUnread = true;
    else unread.set(key, { kind, id });
  }

  /** Records about which a delivery could not be stored are read again, as after an event: the sender may give the delivery up. */
  async function markUnread(): Promise<void> {
    const records = [...unread.values()];
    unread.clear();
    try {
      await store.markDirty(records, momentOf(clock), options.timing);
    } catch (error) {
      for (const { kind, id } of records) noteUnread({ kind, recordId: id });
      throw error;
    }
    backfill?.wake();
  }

  /** Opens a gap for deliveries that could not be stored, if they are many or for long; and again when that is over. */
  async function openUnkept(isOver: boolean): Promise<void> {
    if (unread.size > 0) await markUnread();
    if (unkept !== null) {
      const ms = unkept.last - unkept.since;
      const isNews = (isAllUnread || ms >= DOWNTIME_AFTER_MS) && (isOver || !unkept.isTold);
      unkept.isTold ||= isNews;
      // Without the API nothing could resolve the gap.
      if (isNews && backfill !== null)
        unopened = `deliveries could not be kept for ${Math.ceil(ms / 1000)} s`;
      if (isOver) {
        unkept = null;
        isAllUnread = false;
      }
    }
    if (unopened === null) return;
    const text = unopened;
    unopened = null;
    try {
      await openGap('downtime', text);
    } catch (error) {
      unopened ??= text;
      throw error;
    }
    backfill?.wake();
  }

  async function openRejectedTimestamp(): Promise<void> {
    // Without the API nothing could resolve the gap.
    if (rejectedTimestamp === null || backfill === null) return;
    if (clock.steady() - lastReplayFullSync < distanceMs) return;
    const error = `a correctly signed delivery was rejected: ${rejectedTimestamp}`;
    if (!(await options.takeTurn('rejected_timestamp', distanceMs))) return;
    lastReplayFullSync = clock.steady();
    await openGap('rejected_timestamp', error);
    rejectedTimestamp = null;
    backfill.wake();
  }

  return {
    onDelivery(outcome: DeliveryOutcome, reason: string, address: string | null): void {
      if (outcome === 'accepted') onAccepted(senderOf(address));
      else if (outcome === 'rejected') onRejected(reason, senderOf(address));
      else if (outcome === 'failed' || reason === 'store_unavailable') onUnkept();
      if (outcome === 'accepted' || outcome === 'duplicate' || outcome === 'quarantined') {
        untimely = null;
        openUnkept(true).catch(onError);
      }
    },

    /** A correctly signed delivery could not be stored. */
    onUnkept: noteUnread,

    /** Since when no delivery could be stored, in wall-clock milliseconds; null: the last one was stored, or none comes. */
    unkeptSince(): number | null {
      if (unkept === null || clock.steady() - unkept.last >= UNKEPT_HOLDS_MS) return null;
      return unkept.last - unkept.since < UNKEPT_AFTER_MS ? null : unkept.wall;
    },

    /** Several deliveries in a row were rejected for their signature, and none has been accepted since. */
    isRejecting,

    /** Since when all correctly signed deliveries come at a wrong time, in wall-clock milliseconds; null: they do not, or are too few. */
    untimelySince(): number | null {
      if (untimely === null || untimely.count < REJECTED_BURST) return null;
      return clock.steady() - untimely.last < UNTIMELY_HOLDS_MS ? untimely.since : null;
    },

    /** A correctly signed delivery came at a wrong time, so its event is lost. Opens a gap, now or later. */
    onRejectedTimestamp(reason: string): void {
      rejectedTimestamp = reason;
      const { since, count } = untimely ?? { since: clock.wall(), count: 0 };
      untimely = { since, last: clock.steady(), count: count + 1 };
      openRejectedTimestamp().catch(onError);
    },

    /** Checks whether deliveries have stopped, and opens gaps that were put off. Called by the heartbeat. */
    async check(): Promise<void> {
      const others = options.others();
      isOneGone ||= others < othersBefore;
      othersBefore = others;
      await openRejectedTimestamp();
      await openUnkept(false);
      endBurst();
      for (const reason of unresolved) resolve(reason);
      if (options.silenceMs === 0) return;
      const delivery = await store.lastDelivery(USUAL_AMONG);
      const last = delivery.wall ?? options.startedAt;
      const isSilent = clock.wall() - last >= silenceLimitMs(options.silenceMs, delivery.longestPauseMs);
      if (!isSilent) await resolveGap('silence');
      else if (!wasSilent) await openGap('silence', `no delivery since ${new Date(last).toISOString()}`);
      wasSilent = isSilent;
    },
  };
}

function keepLatest(networks: Set<string>, network: string): void {
  networks.delete(network);
  networks.add(network);
  if (networks.size > NETWORKS_KEPT) networks.delete(networks.keys().next().value!);
}

/** How long silence may last: as configured, or less if the usual pauses are short. Pure. */
function silenceLimitMs(configuredMs: number, longestPauseMs: number | null): number {
  if (longestPauseMs === null) return configuredMs;
  return Math.min(configuredMs, Math.max(USUAL_AT_LEAST_MS, USUAL_TIMES * longestPauseMs));
}
