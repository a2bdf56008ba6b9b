import type { Backfill } from '../backfill/backfill.ts';
import type { GapKeeper } from '../backfill/gaps.ts';
import { KINDS } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { DeliveryOutcome, ReceiverOptions } from '../receive/routes.ts';
import type { BackfillStore } from '../store/store.ts';

/** Anyone can replay a captured delivery or make up a signature: full syncs on account of either keep this distance at least. */
const FORGEABLE_FULL_SYNC_DISTANCE_MS = 10 * 60_000;

/** Deliveries that tell how long a pause is usual: more would remember what was usual long ago. */
const USUAL_AMONG = 200;

const REJECTED_SIGNATURES = { reason: 'rejected_signatures', kind: null, recordId: null } as const;
const REJECTED_TIMESTAMP = { reason: 'rejected_timestamp', kind: null, recordId: null } as const;
const NO_SECRET = { reason: 'no_signing_secret', kind: null, recordId: null } as const;
const SILENCE = { reason: 'silence', kind: null, recordId: null } as const;

/** What the stream of deliveries itself says is missing. */
export interface DeliveryWatch {
  onDelivery(outcome: DeliveryOutcome, reason: string): void;
  onRejectedTimestamp: NonNullable<ReceiverOptions['onRejectedTimestamp']>;
  /** Looks whether deliveries have stopped, and opens what was put off. For the heartbeat. */
  check(): Promise<void>;
}

/** How far apart full syncs lie that a stranger can provoke. Milliseconds. */
export function forgeableDistanceMs(fullSyncMs: number): number {
  return Math.max(FORGEABLE_FULL_SYNC_DISTANCE_MS, fullSyncMs);
}

export function createDeliveryWatch(options: {
  store: Pick<BackfillStore, 'lastDelivery'>;
  gaps: GapKeeper;
  /** Null: events only, so that nothing can be read again. */
  backfill: Pick<Backfill, 'requestFullSync' | 'wake'> | null;
  clock: Clock;
  startedWall: number;
  silenceMs: number;
  fullSyncMs: number;
  /** Of all replicas, the first within so many milliseconds. Default: there is one. */
  takeTurn?: (name: string, everyMs: number) => Promise<boolean>;
  onError: (error: unknown) => void;
}): DeliveryWatch {
  const { gaps, backfill, clock, onError } = options;
  const burst = createBurstWatch();
  const distanceMs = forgeableDistanceMs(options.fullSyncMs);
  let lastReplayFullSync = Number.NEGATIVE_INFINITY;
  let lastBurstFullSync = Number.NEGATIVE_INFINITY;
  let burstIsOver = false;
  let lackedSecret = false;
  /** A burst that the last process saw may have ended with it, its secret mended: the first delivery tells. */
  let mayHaveBeenLeftOpen = true;
  let putOff: string | null = null;
  let silent = false;

  async function openPutOff(): Promise<void> {
    if (putOff === null || clock.steady() - lastReplayFullSync < distanceMs) return;
    const error = `a correctly signed delivery was rejected: ${putOff}`;
    if (options.takeTurn !== undefined && !(await options.takeTurn('rejected_timestamp', distanceMs))) return;
    putOff = null;
    lastReplayFullSync = clock.steady();
    await gaps.open(REJECTED_TIMESTAMP, error);
    backfill?.wake();
  }

  return {
    onDelivery(outcome, reason) {
      if (outcome === 'rejected' && reason === 'bad_signature' && burst.rejectedOne()) {
        const error = 'several deliveries in a row carry a signature of no secret we know';
        gaps.open(REJECTED_SIGNATURES, error).catch(onError);
      } else if (outcome === 'rejected' && reason === 'no_signing_secret') {
        if (lackedSecret) return;
        lackedSecret = true;
        const error = 'a delivery came before a signing secret was known that it could be signed with';
        gaps.open(NO_SECRET, error).catch(onError);
      } else if (outcome === 'accepted') {
        if (lackedSecret) {
          // No stranger brings this about: it takes a secret that was not there before, and a delivery that it signs.
          lackedSecret = false;
          backfill?.requestFullSync(KINDS, 'rejected deliveries');
          gaps.resolve(NO_SECRET).catch(onError);
        }
        if (burst.acceptedOne()) burstIsOver = true;
        // The full sync of the start has made good what was rejected before it.
        if (mayHaveBeenLeftOpen) gaps.resolve(NO_SECRET).catch(onError);
        if (mayHaveBeenLeftOpen && !burstIsOver) gaps.resolve(REJECTED_SIGNATURES).catch(onError);
        mayHaveBeenLeftOpen = false;
        // Until then its gap stays open.
        if (!burstIsOver || clock.steady() - lastBurstFullSync < distanceMs) return;
        burstIsOver = false;
        lastBurstFullSync = clock.steady();
        // What was rejected meanwhile is lost on us, unless the sender still tries.
        backfill?.requestFullSync(KINDS, 'rejected deliveries');
        gaps.resolve(REJECTED_SIGNATURES).catch(onError);
      }
    },

    onRejectedTimestamp(reason) {
      // Put off, not dropped: what it told is lost all the same.
      putOff = reason;
      openPutOff().catch(onError);
    },

    async check() {
      await openPutOff();
      if (options.silenceMs === 0) return;
      const delivery = await options.store.lastDelivery(USUAL_AMONG);
      const last = delivery.wall ?? options.startedWall;
      const isSilent = clock.wall() - last >= silenceLimitMs(options.silenceMs, delivery.longestPauseMs);
      if (!isSilent) await gaps.resolve(SILENCE);
      else if (!silent) await gaps.open(SILENCE, `no delivery since ${new Date(last).toISOString()}`);
      silent = isSilent;
    },
  };
}

/** Silence is remarked on after this many times the longest pause that is usual … */
const USUAL_TIMES = 4;
/** … but never before this: a quiet hour is nothing. */
const USUAL_AT_LEAST_MS = 3_600_000;

/** After how long without a delivery something may be wrong: as configured, or as is unusual here. Pure. */
function silenceLimitMs(configuredMs: number, longestPauseMs: number | null): number {
  if (longestPauseMs === null) return configuredMs;
  return Math.min(configuredMs, Math.max(USUAL_AT_LEAST_MS, USUAL_TIMES * longestPauseMs));
}

/** Rejected signatures in a row, without an accepted delivery between, that look like a rotated secret … */
const REJECTED_BURST = 5;

/** … rather than a stranger: counts them, and says when the burst begins and when it is over. Pure but for its count. */
function createBurstWatch() {
  let rejected = 0;
  return {
    /** True: this one makes it a burst. */
    rejectedOne(): boolean {
      rejected += 1;
      return rejected === REJECTED_BURST;
    },
    /** True: this one ends a burst. */
    acceptedOne(): boolean {
      const ends = rejected >= REJECTED_BURST;
      rejected = 0;
      return ends;
    },
  };
}
