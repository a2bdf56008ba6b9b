import type { Kind } from '../compliance/kinds.ts';
import type { PagingSettings } from '../compliance/paging.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import { type Clock, type Moment, momentOf } from '../platform/clock.ts';
import type {
  Applied,
  BackfillStore,
  DirtyTiming,
  GapKey,
  OperatorStore,
  ReadMoment,
  RepairStore,
} from '../store/store.ts';

/** What the parts of the backfill work with. Each part picks what it needs. */
export interface Context {
  store: RepairStore;
  gaps: GapKeeper;
  clock: Clock;
  timing: DirtyTiming;
  pointers: IdPointers;
  paging: PagingSettings;
  /** From 0 to 1, for the jitter of retries. */
  random: () => number;
  signal: AbortSignal;
  onApplied: (kind: Kind, applied: readonly Applied[], cause: string) => void;
}

export type GapKeeper = ReturnType<typeof createGapKeeper>;

export function createGapKeeper(options: {
  store: Pick<BackfillStore, 'openGap' | 'resolveGap'> & Pick<OperatorStore, 'audit'>;
  clock: Clock;
}) {
  const { store, clock } = options;
  return {
    open: (gap: GapKey, error: string | null): Promise<void> => store.openGap(gap, error, momentOf(clock)),
    /** Whether it was open. A dry run, which resolves none, does not say. */
    resolve: (gap: GapKey): Promise<boolean | undefined> => store.resolveGap(gap, momentOf(clock)),
    /** Notes in the audit what the API said about our credentials, or that none could be sent (`unusable`). */
    async auditCredentials(kind: Kind, outcome: string): Promise<void> {
      const actor = outcome === 'unusable' ? 'service' : 'upstream';
      await store.audit({ actor, action: 'credentials', outcome, target: kind }, momentOf(clock));
    },
  };
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
