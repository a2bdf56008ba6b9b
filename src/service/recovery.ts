import { downtimeSince, type GapKeeper } from '../backfill/gaps.ts';
import type { Clock } from '../clock.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { BackfillStore, HintTiming } from '../store/store.ts';

/**
 * What every start must do before any stage runs, because the last process may have ended anywhere: sweeps it left
 * open are over, nothing unverified counts as settled, and the time it was away is a gap. Returns how far its
 * sweeps had come. A replica that joins others leaves them their work.
 */
export async function recover(options: {
  store: BackfillStore;
  gaps: GapKeeper;
  clock: Clock;
  timing: HintTiming;
  eventsOnly: boolean;
  /** Replicas that live besides this one; absent: the database is this process's alone. */
  others?: number;
}): Promise<{ kind: Kind; pages: number }[]> {
  const { store, gaps, clock } = options;
  const now = { wall: clock.wall(), steady: clock.steady() };
  // Among several, sweeps are over when another takes their lease.
  const interrupted = options.others === undefined ? await store.interruptSweeps(now) : [];
  // Others have gone on by the same clock, and their due times hold.
  if ((options.others ?? 0) === 0) await store.rehintUnverified(now, options.timing);
  const away = downtimeSince(await store.lastBeat(), now.wall);
  // Without the API nothing could ever heal it.
  if (away !== null && !options.eventsOnly) {
    await gaps.open(
      { reason: 'downtime', kind: null, recordId: null },
      `the service was not running for ${Math.round(away.ms / 1000)} s`,
    );
  }
  return interrupted;
}
