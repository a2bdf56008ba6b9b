import type { GapKeeper } from '../backfill/gaps.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore, DirtyTiming } from '../store/store.ts';
import { noteDowntime } from './downtime.ts';

/**
 * What every start must do before any stage runs, because the last process may have ended anywhere: full syncs it left
 * open are over, nothing unverified counts as settled, and the time it was away is a gap. Returns how far its
 * full syncs had come. A replica that joins others leaves them their work.
 */
export async function recover(options: {
  store: BackfillStore;
  gaps: GapKeeper;
  clock: Clock;
  timing: DirtyTiming;
  eventsOnly: boolean;
  /** Replicas that live besides this one; absent: the database is this process's alone. */
  others?: number | undefined;
}): Promise<{ kind: Kind; pages: number }[]> {
  const { store, clock } = options;
  const now = { wall: clock.wall(), steady: clock.steady() };
  // Among several, full syncs are over when another takes their lease.
  const interrupted = options.others === undefined ? await store.interruptSyncRuns(now) : [];
  // Others have gone on by the same clock, and their due times hold.
  if ((options.others ?? 0) === 0) await store.markUnverifiedDirty(now, options.timing);
  await noteDowntime(options, 'the service was not running');
  return interrupted;
}
