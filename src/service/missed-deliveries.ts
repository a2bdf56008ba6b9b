import type { Backfill } from '../backfill/backfill.ts';
import type { GapKeeper } from '../backfill/context.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { DeliveryOutcome } from '../receive/routes.ts';
import type { BackfillStore, DirtyTiming, GapKey, GapReason, OperatorStore } from '../store/store.ts';

/** After this long without a heartbeat the sender may have given up on deliveries. */
const DOWNTIME_AFTER_MS = 30_000;
/** Anyone can replay a captured delivery or invent a signature: full syncs because of either are at least this far apart. */
const FORGEABLE_FULL_SYNC_DISTANCE_MS = 10 * 60_000;
/** Deliveries that the database did not take for so long are no hiccup: it takes heartbeats, perhaps, and no events. */
const UNKEPT_AFTER_MS = 6_000;
/** What the last of them showed still holds for so long: a sender that found another replica comes here no more. */
const UNKEPT_HOLDS_MS = 60_000;
/** Rejections for their time are told of for so long after the last: a full sync has read by then what they said. */
const UNTIMELY_HOLDS_MS = 10 * 60_000;
/** So many rejections in a row look like a rotated secret, or a wrong clock, rather than a stranger. */
const REJECTED_BURST = 5;

/** Deliveries from which the usual pause is computed. More would include what was usual long ago. */
const USUAL_AMONG = 200;
/** Silence counts after this many times the longest usual pause … */
const USUAL_TIMES = 4;
/** … but never before this: a quiet hour is nothing. */
const USUAL_AT_LEAST_MS = 3_600_000;

const gapOf = (reason: GapReason): GapKey => ({ reason, kind: null, recordId: null });

/**
 * What every start must do before any stage runs, because the last process may have ended anywhere: full syncs that it left
 * open are over, nothing unverified counts as settled, and the time without a service is a gap. Returns how far those
 * full syncs had come. A replica that joins others leaves them their work.
 */
export async function recover(options: {
  store: BackfillStore & Pick<OperatorStore, 'readFact'>;
  gaps: Pick<GapKeeper, 'open'>;
  clock: Clock;
  timing: DirtyTiming;
  eventsOnly: boolean;
  /** Other replicas that are alive; absent: only this process has the database. */
  others?: number | undefined;
}): Promise<{ kind: Kind; pages: number }[]> {
  const { store, clock, others } = options;
  const now = momentOf(clock);
  // Among several, full syncs are over when another takes the lease.
  const interrupted = others === undefined ? await store.interruptSyncRuns(now) : [];
  // Others have gone on by the same clock, and their due times hold.
  if ((others ?? 0) === 0) await store.markUnverifiedDirty(now, options.timing);
  await noteDowntime(options, 'the service was not running');
  return interrupted;
}

/**
 * Opens a gap when the last heartbeat is too long ago, or too far ahead. Called before each one, not only at a start: a machine that
 * slept, a stopped process and a full disk come back without a start.
 */
export async function noteDowntime(
  options: {
    store: Pick<OperatorStore, 'readFact'>;
    gaps: Pick<GapKeeper, 'open'>;
    clock: Clock;
    eventsOnly: boolean;
  },
  what: string,
): Promise<void> {
  // Without the API nothing could ever resolve it.
  if (options.eventsOnly) return;
  const last = await options.store.readFact('heartbeat');
  const ms = last === null ? 0 : options.clock.wall() - Date.parse(last);
  if (Math.abs(ms) < DOWNTIME_AFTER_MS) return;
  const seconds = Math.round(Math.abs(ms) / 1000);
  // After a clock was set back, `complete_through` would be an instant to come until there are full syncs by the present one.
  const why = ms > 0 ? `${what} for ${seconds} s` : `the clock was set back by ${seconds} s`;
  await options.gaps.open(gapOf('downtime'), why);
}

/** How far apart full syncs are that a stranger can cause. Milliseconds. */
export function forgeableDistanceMs(fullSyncMs: number): number {
  return Math.max(FORGEABLE_FULL_SYNC_DISTANCE_MS, fullSyncMs);
}

export type DeliveryWatch = ReturnType<typeof createDeliveryWatch>;

/** Learns from the deliveries themselves what is missing. */
export function createDeliveryWatch(options: {
  store: Pick<BackfillStore, 'lastDelivery'>;
  gaps: GapKeeper;
  /** Null: events only, so that nothing can be read again. */
  backfill: Pick<Backfill, 'requestFullSync' | 'wake'> | null;
  clock: Clock;
  /** Wall-clock milliseconds. */
  startedAt: number;
  silenceMs: number;
  fullSyncMs: number;
  /** Whether this replica is the first of all to ask within this many milliseconds. */
  takeTurn: (name: string, everyMs: number) => Promise<boolean>;
  onError: (error: unknown) => void;
}) {
  const { gaps, backfill, clock, onError } = options;
  const distanceMs = forgeableDistanceMs(options.fullSyncMs);
  let rejectedInARow = 0;
  let burstIsOver = false;
  let lastBurstFullSync = Number.NEGATIVE_INFINITY;
  let lackedSecret = false;
  /** The last process may have left gaps open that only an accepted delivery closes. */
  let isFirst = true;
  let rejectedTimestamp: string | null = null;
  /** Correctly signed ones rejected for their time, since one came in time. `since`: wall; `last`: steady. */
  let untimely: { since: number; last: number; count: number } | null = null;
  let lastReplayFullSync = Number.NEGATIVE_INFINITY;
  let wasSilent = false;
  /** Deliveries that could not be kept, since one was; steady, but for `wall`. */
  let unkept: { wall: number; since: number; last: number; isTold: boolean } | null = null;

  const open = (reason: GapReason, error: string) => void gaps.open(gapOf(reason), error).catch(onError);
  const resolve = (reason: GapReason) => void gaps.resolve(gapOf(reason)).catch(onError);
  const readAgain = () => backfill?.requestFullSync(KINDS, 'rejected deliveries');

  function onRejected(reason: string): void {
    if (reason === 'bad_signature') {
      rejectedInARow += 1;
      if (rejectedInARow === REJECTED_BURST)
        open('rejected_signatures', 'several deliveries in a row carry a signature of no secret we know');
    } else if (reason === 'no_signing_secret' && !lackedSecret) {
      lackedSecret = true;
      open(reason, 'a delivery came before a signing secret was known that it could be signed with');
    }
  }

  function onAccepted(): void {
    // No stranger can cause this: it takes a new secret, and a delivery signed with it.
    if (lackedSecret) readAgain();
    // What was rejected before a start is read by the start's full sync.
    if (lackedSecret || isFirst) resolve('no_signing_secret');
    lackedSecret = false;
    if (isRejecting()) burstIsOver = true;
    rejectedInARow = 0;
    if (isFirst && !burstIsOver) resolve('rejected_signatures');
    isFirst = false;
    endBurst();
  }

  const isRejecting = () => rejectedInARow >= REJECTED_BURST;

  /** Reads again what a burst of rejections may have said. The gap stays open until then. */
  function endBurst(): void {
    if (!burstIsOver || isRejecting() || clock.steady() - lastBurstFullSync < distanceMs) return;
    burstIsOver = false;
    lastBurstFullSync = clock.steady();
    readAgain();
    resolve('rejected_signatures');
  }

  function onUnkept(): void {
    const { wall, steady } = momentOf(clock);
    unkept ??= { wall, since: steady, last: steady, isTold: false };
    unkept.last = steady;
  }

  /** The sender may give them up, as when the service is away. Of those until the end as well, once it is over. */
  async function openUnkept(isOver: boolean): Promise<void> {
    if (unkept === null) return;
    const ms = unkept.last - unkept.since;
    const isNews = ms >= DOWNTIME_AFTER_MS && (isOver || !unkept.isTold);
    unkept.isTold ||= isNews;
    if (isOver) unkept = null;
    // Without the API nothing could ever resolve it.
    if (!isNews || backfill === null) return;
    await gaps.open(gapOf('downtime'), `deliveries could not be kept for ${Math.round(ms / 1000)} s`);
    backfill.wake();
  }

  async function openRejectedTimestamp(): Promise<void> {
    if (rejectedTimestamp === null || clock.steady() - lastReplayFullSync < distanceMs) return;
    const error = `a correctly signed delivery was rejected: ${rejectedTimestamp}`;
    if (!(await options.takeTurn('rejected_timestamp', distanceMs))) return;
    rejectedTimestamp = null;
    lastReplayFullSync = clock.steady();
    await gaps.open(gapOf('rejected_timestamp'), error);
    backfill?.wake();
  }

  return {
    onDelivery(outcome: DeliveryOutcome, reason: string): void {
      if (outcome === 'accepted') onAccepted();
      else if (outcome === 'rejected') onRejected(reason);
      else if (outcome === 'failed' || reason === 'store_unavailable') onUnkept();
      if (outcome === 'accepted' || outcome === 'duplicate' || outcome === 'quarantined') {
        untimely = null;
        openUnkept(true).catch(onError);
      }
    },

    /** Wall-clock milliseconds since which no delivery could be kept; null: the last one was, or none comes. */
    unkeptSince(): number | null {
      if (unkept === null || clock.steady() - unkept.last >= UNKEPT_HOLDS_MS) return null;
      return unkept.last - unkept.since < UNKEPT_AFTER_MS ? null : unkept.wall;
    },

    /** Several deliveries in a row were rejected for their signature, and none has been accepted since. */
    isRejecting,

    /** Wall-clock milliseconds since which each of several correctly signed deliveries was rejected for its time; null: they are not. */
    untimelySince(): number | null {
      if (untimely === null || untimely.count < REJECTED_BURST) return null;
      return clock.steady() - untimely.last < UNTIMELY_HOLDS_MS ? untimely.since : null;
    },

    /** A correctly signed delivery came at the wrong time, so what it said is lost: put off where it comes too soon, not dropped. */
    onRejectedTimestamp(reason: string): void {
      rejectedTimestamp = reason;
      const { since, count } = untimely ?? { since: clock.wall(), count: 0 };
      untimely = { since, last: clock.steady(), count: count + 1 };
      openRejectedTimestamp().catch(onError);
    },

    /** Checks whether deliveries have stopped, and opens gaps that were deferred. Called by the heartbeat. */
    async check(): Promise<void> {
      await openRejectedTimestamp();
      await openUnkept(false);
      endBurst();
      if (options.silenceMs === 0) return;
      const delivery = await options.store.lastDelivery(USUAL_AMONG);
      const last = delivery.wall ?? options.startedAt;
      const isSilent = clock.wall() - last >= silenceLimitMs(options.silenceMs, delivery.longestPauseMs);
      if (!isSilent) await gaps.resolve(gapOf('silence'));
      else if (!wasSilent)
        await gaps.open(gapOf('silence'), `no delivery since ${new Date(last).toISOString()}`);
      wasSilent = isSilent;
    },
  };
}

/** After how long without a delivery something may be wrong: as configured, or sooner where deliveries usually are close. Pure. */
function silenceLimitMs(configuredMs: number, longestPauseMs: number | null): number {
  if (longestPauseMs === null) return configuredMs;
  return Math.min(configuredMs, Math.max(USUAL_AT_LEAST_MS, USUAL_TIMES * longestPauseMs));
}
