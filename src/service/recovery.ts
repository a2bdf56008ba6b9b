import { downtimeSince, type GapKeeper } from '../backfill/gaps.ts';
import type { Clock } from '../clock.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { BackfillStore, HintTiming } from '../store/store.ts';

/**
 * What every start must do before any stage runs, because the last process may have ended anywhere: sweeps it left
 * open are over, nothing unverified counts as settled, and the time it was away is a gap. Returns how far its
 * sweeps had come.
 */
export async function recover(options: {
  store: BackfillStore;
  gaps: GapKeeper;
  clock: Clock;
  timing: HintTiming;
  eventsOnly: boolean;
}): Promise<{ kind: Kind; pages: number }[]> {
  const { store, gaps, clock } = options;
  const now = { wall: clock.wall(), steady: clock.steady() };
  const interrupted = await store.interruptSweeps(now);
  await store.rehintUnverified(now, options.timing);
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
