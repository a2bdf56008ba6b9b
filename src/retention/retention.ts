import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import type { RetentionStore, TrimmedThing } from '../store/store.ts';

/** Rows in one step. A step holds the write lock for a few milliseconds, which a waiting delivery does not notice. */
const STEP_ROWS = 200;
/** Between two steps others get the lock, so that trimming uses a small share of the disk. */
const PAUSE_MS = 50;
/** Steps of one round, about a minute. Then the result is reported, and the next round goes on where this one ended. */
const ROUND_STEPS = 1_000;

/** A sender retries for two days. A week leaves time to look at the rejections. */
const REJECTION_DAYS = 7;

const DAY_MS = 86_400_000;

/** The things to trim, and how old they must be. Event ids come last, after the rows that have them. */
export function retentionTasks({
  bodyDays,
  historyDays,
  dedupeDays,
}: Config['retention']): { thing: TrimmedThing; days: number }[] {
  const aged = (days: number, ...things: TrimmedThing[]) => things.map((thing) => ({ thing, days }));
  return [
    // Each registration has an `expires_at` of its own.
    ...aged(0, 'registrations'),
    ...aged(REJECTION_DAYS, 'rejections'),
    ...aged(bodyDays, 'event_bodies', 'quarantine_bodies', 'duplicates'),
    ...(historyDays > 0 ? aged(historyDays, 'events', 'changes', 'audit') : []),
    ...aged(dedupeDays, 'event_ids'),
  ];
}

/**
 * Trims what is old enough, one round per call, in short steps. The tasks take turns, so that the first does not use up the round.
 * A round ends early when its signal aborts. Rejects with StoreUnavailable as the store's verbs do.
 */
export function createTrim(options: { store: RetentionStore; clock: Clock; settings: Config['retention'] }) {
  const { store, clock, settings } = options;
  let left: { thing: TrimmedThing; days: number; after: number }[] = [];
  return async (signal: AbortSignal) => {
    const rows: Partial<Record<TrimmedThing, number>> = {};
    if (left.length === 0) left = retentionTasks(settings).map((task) => ({ ...task, after: 0 }));
    for (let steps = 0; steps < ROUND_STEPS && left.length > 0 && !signal.aborted; steps += 1) {
      const task = left[0]!;
      const before = clock.wall() - task.days * DAY_MS;
      const { trimmed, next } = await store.trim(task.thing, { before, after: task.after, limit: STEP_ROWS });
      if (trimmed > 0) rows[task.thing] = (rows[task.thing] ?? 0) + trimmed;
      left.shift();
      if (next === null) continue;
      left.push({ ...task, after: next });
      await clock.sleep(PAUSE_MS, signal);
    }
    return { rows, isOver: left.length === 0 };
  };
}
