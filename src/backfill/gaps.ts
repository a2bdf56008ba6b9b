import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore, GapKey, OperatorStore } from '../store/store.ts';

/** The service was not there for longer than this: deliveries may have been given up meanwhile. */
const DOWNTIME_AFTER_MS = 30_000;

/** Opens and resolves gaps. */
export interface GapKeeper {
  open(gap: GapKey, error: string | null): Promise<void>;
  resolve(gap: GapKey): Promise<void>;
  /** What the upstream said of our credentials, for the audit trail. */
  credentials(kind: Kind, outcome: string): Promise<void>;
}

export function createGapKeeper(options: {
  store: Pick<BackfillStore, 'openGap' | 'resolveGap'> & Pick<OperatorStore, 'audit'>;
  clock: Clock;
}): GapKeeper {
  const { store, clock } = options;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  return {
    open: (gap, error) => store.openGap(gap, error, now()),
    resolve: (gap) => store.resolveGap(gap, now()),
    async credentials(kind, outcome) {
      await store.audit({ actor: 'upstream', action: 'credentials', outcome, target: kind }, now());
    },
  };
}

const nothing = async () => undefined;

/** Of a reading that must not be seen in the database: whatever it meets is the next real reading's to write down. */
export const SILENT_GAPS: GapKeeper = {
  open: nothing,
  resolve: nothing,
  credentials: nothing,
};

/** Whether the time since the last heartbeat is a gap, and how long it was. Pure. */
export function downtimeSince(lastBeatWall: number | null, nowWall: number): { ms: number } | null {
  if (lastBeatWall === null) return null;
  const ms = nowWall - lastBeatWall;
  return ms >= DOWNTIME_AFTER_MS ? { ms } : null;
}

/** At most this many ids are named in a gap's text. */
const NAMED_IDS = 20;

export function listed(ids: readonly string[]): string {
  const named = ids.slice(0, NAMED_IDS).join(', ');
  return ids.length > NAMED_IDS ? `${named} and ${ids.length - NAMED_IDS} more` : named;
}

/** Silence is remarked on after this many times the longest pause that is usual … */
const USUAL_TIMES = 4;
/** … but never before this: a quiet hour is nothing. */
const USUAL_AT_LEAST_MS = 3_600_000;

/** After how long without a delivery something may be wrong: as configured, or as is unusual here. Pure. */
export function silenceLimitMs(configuredMs: number, longestPauseMs: number | null): number {
  if (longestPauseMs === null) return configuredMs;
  return Math.min(configuredMs, Math.max(USUAL_AT_LEAST_MS, USUAL_TIMES * longestPauseMs));
}

/** Rejected signatures in a row, without an accepted delivery between, that look like a rotated secret … */
const REJECTED_BURST = 5;

/** … rather than a stranger: counts them, and says when the burst begins and when it is over. Pure but for its count. */
export function createBurstWatch() {
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
