import type { GapKeeper } from '../backfill/gaps.ts';
import type { Clock } from '../platform/clock.ts';
import type { BackfillStore } from '../store/store.ts';

/** The service was not there for longer than this: deliveries may have been given up meanwhile. */
const DOWNTIME_AFTER_MS = 30_000;

/**
 * Opens a gap when the last beat is too long ago: whatever kept the service from writing that it lives kept it from
 * taking deliveries, too. To be asked before each beat, not only at a start: a machine that slept, a process that was
 * held and a disk that was full come back without one.
 */
export async function noteDowntime(
  options: {
    store: Pick<BackfillStore, 'lastBeat'>;
    gaps: Pick<GapKeeper, 'open'>;
    clock: Pick<Clock, 'wall'>;
    eventsOnly: boolean;
  },
  what: string,
): Promise<void> {
  // Without the API nothing could ever resolve it.
  if (options.eventsOnly) return;
  const away = downtimeSince(await options.store.lastBeat(), options.clock.wall());
  if (away === null) return;
  await options.gaps.open(
    { reason: 'downtime', kind: null, recordId: null },
    `${what} for ${Math.round(away.ms / 1000)} s`,
  );
}

/** Whether the time since the last heartbeat is a gap, and how long it was. Pure. */
function downtimeSince(lastBeatWall: number | null, nowWall: number): { ms: number } | null {
  if (lastBeatWall === null) return null;
  const ms = nowWall - lastBeatWall;
  return ms >= DOWNTIME_AFTER_MS ? { ms } : null;
}
