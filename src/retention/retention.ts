import type { Clock } from '../platform/clock.ts';
import type { RetentionStore, Trimmed } from '../store/store.ts';

/** Rows that one step looks at: a few milliseconds of the write lock, which a delivery waiting for it does not notice. */
const STEP_ROWS = 200;
/** Between two steps: whoever waits for the lock gets it, and trimming takes a small share of the disk. */
const PAUSE_MS = 50;
/** Steps of one round: a minute or so, after which what it did is told. The next one goes on where it ended. */
const ROUND_STEPS = 1_000;

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

/** What is to be trimmed, and how old it must be, in this order: event ids come last, after the rows that have them. */
export function retentionTasks(store: RetentionStore, settings: RetentionSettings): Task[] {
  const { bodyDays, historyDays, dedupeDays } = settings;
  const limit = STEP_ROWS;
  const tasks: Task[] = [
    // Registrations have an end of their own.
    { thing: 'registrations', days: 0, step: (before) => store.trimRegistrations({ before, limit }) },
    { thing: 'event_bodies', days: bodyDays, step: (before) => store.trimEventBodies({ before, limit }) },
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
  if (historyDays > 0) {
    tasks.push(
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
    );
  }
  tasks.push({
    thing: 'event_ids',
    days: dedupeDays,
    step: (before) => store.trimEventIds({ before, limit }),
  });
  return tasks;
}

/** Trims whatever is old enough, a round at a time. Rejects with StoreUnavailable as the store's verbs do. */
export type Trim = (signal: AbortSignal) => Promise<{
  rows: TrimmedRows;
  /** Nothing that old is left. */
  isOver: boolean;
}>;

/**
 * Steps are short, with pauses between, and each task takes its turn: else the first would leave nothing of a round to those behind
 * it. A round ends early when its signal aborts.
 */
export function createTrim(options: {
  store: RetentionStore;
  clock: Clock;
  settings: RetentionSettings;
}): Trim {
  const { store, clock, settings } = options;
  let left: (Task & { after: number })[] = [];
  return async (signal) => {
    const rows: TrimmedRows = {};
    if (left.length === 0) left = retentionTasks(store, settings).map((task) => ({ ...task, after: 0 }));
    for (let steps = 0; steps < ROUND_STEPS && left.length > 0 && !signal.aborted; steps += 1) {
      const task = left[0]!;
      const { trimmed, next }: Trimmed = await task.step(clock.wall() - task.days * DAY_MS, task.after);
      if (trimmed > 0) rows[task.thing] = (rows[task.thing] ?? 0) + trimmed;
      left.shift();
      if (next === null) continue;
      left.push({ ...task, after: next });
      await clock.sleep(PAUSE_MS, signal);
    }
    return { rows, isOver: left.length === 0 };
  };
}
