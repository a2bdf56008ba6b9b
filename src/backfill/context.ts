import type { Kind } from '../compliance/kinds.ts';
import type { PagingSettings } from '../compliance/paging.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Backoff, Clock, Moment } from '../platform/clock.ts';
import type { Applied, Cause, DirtyTiming, ReadMoment, Verbs } from '../store/store.ts';

/** What the parts of the backfill work with. Each part picks what it needs. */
export interface Context {
  store: Verbs;
  clock: Clock;
  timing: DirtyTiming;
  pointers: IdPointers;
  /** DELETION_GUARD_PERCENT. */
  guardPercent: number;
  paging: PagingSettings;
  /** From 0 to 1, for the jitter of retries. */
  random: () => number;
  signal: AbortSignal;
  onApplied: (kind: Kind, applied: readonly Applied[], cause: Cause) => void;
}

/** For one record or page whose read failed. */
export const READ_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 5 * 60_000 };

/** For ids that the API does not know. Most of them never will be known. */
export const UNRESOLVED_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 6 * 3_600_000 };

/** Tries for one record or page within one full sync. */
export const READ_TRIES = 4;

/** Why answers of this age are older than they may be. */
export const agedText = (agedMs: number): string =>
  `its answers come from a cache and are up to ${Math.round(agedMs / 1000)} s old (Age): have the cache leave them out, or set SYNC_SETTLE_SECONDS to more`;

/** The `cause` of what a read writes. Null: a refetch by itself, outside a sync run. */
export const causeOf = (syncRunId: number | null): Cause =>
  syncRunId === null ? { cause: 'refetch', causeId: null } : { cause: 'sync', causeId: String(syncRunId) };

/** When a read began and ended; on a shared clock the earliest and the latest moment that it may be. `number`: the counter before it. */
export function readMoment(
  clock: Pick<Clock, 'marginMs'>,
  number: number,
  began: Pick<Moment, 'steady'>,
  ended: Moment,
): ReadMoment {
  const marginMs = clock.marginMs?.() ?? 0;
  return {
    number,
    beganAt: began.steady - marginMs,
    endedAt: ended.steady + marginMs,
    endedWall: ended.wall,
  };
}
