import type { Kind } from '../compliance/kinds.ts';
import type { PagingSettings } from '../compliance/paging.ts';
import type { IdPointers } from '../compliance/pointers.ts';
import type { Clock } from '../platform/clock.ts';
import type { Applied, DirtyTiming, GapKey, RepairStore } from '../store/store.ts';

/** Opens and resolves gaps. */
export interface GapKeeper {
  open(gap: GapKey, error: string | null): Promise<void>;
  resolve(gap: GapKey): Promise<void>;
  /** Writes the API's verdict on our credentials into the audit trail. */
  credentials(kind: Kind, outcome: string): Promise<void>;
}

/** What the parts of the backfill work with. A part that needs little of it picks that. */
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
