import type { Clock } from '../platform/clock.ts';
import type { RetentionStore, Trimmed } from '../store/store.ts';

/** Rows that one step looks at: a few milliseconds of the write lock, which a delivery waiting for it does not notice. */
const STEP_ROWS = 200;
/** Between two steps: whoever waits for the lock gets it, and trimming takes a small share of the disk. */
const PAUSE_MS = 50;
/**
 * Steps of one round at most, so that a first round over years of history spreads over hours. At 200 rows every
 * hour it still trims four million rows a day, more than come in.
 */
const STEPS_MAX = 1_000;

const DAY_MS = 86_400_000;

/** As the settings of the same names. Days. */
export interface RetentionSettings {
  bodyDays: number;
  /** 0: for ever. */
  historyDays: number;
  dedupeDays: number;
}

/** What one round took away, by what it was; nothing where nothing was. */
export type TrimmedRows = Partial<Record<TrimmedThing, number>>;
export type TrimmedThing =
  | 'event_bodies'
  | 'quarantine_bodies'
  | 'duplicates'
  | 'events'
  | 'changes'
  | 'audit'
  | 'event_ids'
  | 'registrations';

interface Task {
  thing: TrimmedThing;
  days: number;
  step: (before: number, after: number) => Promise<Trimmed>;
}

/** Pure but for what the steps do: what is to be trimmed, and how old it must be. Ids last, of rows just taken away. */
export function retentionTasks(store: RetentionStore, settings: RetentionSettings): Task[] {
  const { bodyDays, historyDays, dedupeDays } = settings;
  const limit = STEP_ROWS;
  const bodies: Task[] = [
    {
      thing: 'event_bodies',
      days: bodyDays,
      step: (before) => store.trimEventBodies({ before, limit }),
    },
    {
      thing: 'quarantine_bodies',
      days: bodyDays,
      step: (before, after) => store.trimQuarantineBodies({ before, after, limit }),
    },
    {
      thing: 'duplicates',
      days: bodyDays,
      step: (before, after) => store.trimDuplicates({ before, after, limit }),
    },
  ];
  const history: Task[] = [
    {
      thing: 'events',
      days: historyDays,
      step: (before, after) => store.trimEvents({ before, after, limit }),
    },
    {
      thing: 'changes',
      days: historyDays,
      step: (before, after) => store.trimChanges({ before, after, limit }),
    },
    {
      thing: 'audit',
      days: historyDays,
      step: (before, after) => store.trimAudit({ before, after, limit }),
    },
  ];
  const ids: Task = {
    thing: 'event_ids',
    days: dedupeDays,
    step: (before) => store.trimEventIds({ before, limit }),
  };
  // Their end is an instant of its own, and no age.
  const registrations: Task = {
    thing: 'registrations',
    days: 0,
    step: (before) => store.trimRegistrations({ before, limit }),
  };
  return [registrations, ...bodies, ...(historyDays > 0 ? history : []), ids];
}

/**
 * One round: trims whatever is old enough, in short steps with pauses between. Ends early when `signal` aborts or
 * after STEPS_MAX; the next round goes on. Rejects with StoreUnavailable as the store's verbs do.
 */
export async function trim(
  options: { store: RetentionStore; clock: Clock; settings: RetentionSettings },
  signal: AbortSignal,
): Promise<TrimmedRows> {
  const { store, clock, settings } = options;
  const rows: TrimmedRows = {};
  let steps = 0;
  for (const { thing, days, step } of retentionTasks(store, settings)) {
    const before = clock.wall() - days * DAY_MS;
    let after: number | null = 0;
    while (after !== null && steps < STEPS_MAX && !signal.aborted) {
      const { trimmed, next }: Trimmed = await step(before, after);
      if (trimmed > 0) rows[thing] = (rows[thing] ?? 0) + trimmed;
      after = next;
      steps += 1;
      if (after !== null) await clock.sleep(PAUSE_MS, signal);
    }
  }
  return rows;
}
