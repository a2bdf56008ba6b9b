import type { Kind } from '../compliance/kinds.ts';
import type { PagingSettings } from '../compliance/paging.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Clock } from '../platform/clock.ts';
import type { Applied, DirtyTiming, RepairStore } from '../store/store.ts';
import type { GapKeeper } from './gaps.ts';
import type { Upstream } from './upstream.ts';

/** What the parts of the backfill work with. A part that needs little of it picks that. */
export interface Context {
  store: RepairStore;
  upstream: Upstream;
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
