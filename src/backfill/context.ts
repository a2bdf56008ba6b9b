import type { Kind } from '../compliance/kinds.ts';
import type { PagingSettings } from '../compliance/paging.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Clock, Moment } from '../platform/clock.ts';
import type { Applied, DirtyTiming, ReadMoment, RepairStore } from '../store/store.ts';

/** What the parts of the backfill work with. Each part picks what it needs. */
export interface Context {
  store: RepairStore;
  clock: Clock;
  timing: DirtyTiming;
  pointers: IdPointers;
  paging: PagingSettings;
  /** From 0 to 1, for the jitter of retries. */
  random: () => number;
  signal: AbortSignal;
  onApplied: (kind: Kind, applied: readonly Applied[], cause: string) => void;
}

/** The `cause` of what a read writes. Null: a refetch by itself, outside a sync run. */
export const causeOf = (syncRunId: number | null): string =>
  syncRunId === null ? 'refetch' : `sync:${syncRunId}`;

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
