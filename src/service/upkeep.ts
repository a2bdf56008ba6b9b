import { KINDS, type Kind } from '../compliance/kinds.ts';
import { ignoredFields } from '../compliance/pointers.ts';
import { type NotifierOptions, notify } from '../notify/notify.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { describeError } from '../platform/errors.ts';
import { stage } from '../platform/logger.ts';
import type { FieldLook, Store, TrimmedThing } from '../store/store.ts';
import type { Base } from './opening.ts';

/** Retention is counted in days, so an hour does not matter. */
const TRIM_EVERY_MS = 60 * 60_000;
/** Not at once, because a start has a backlog and full syncs first; but early enough for a service that restarts often. */
const TRIM_FIRST_MS = 60_000;

interface UpkeepOptions extends Pick<Base, 'store' | 'clock' | 'random' | 'metrics' | 'logger' | 'onError'> {
  config: Pick<Config, 'retention' | 'idPointers'>;
  notices: Pick<NotifierOptions, 'look' | 'show'> & { to: NotifierOptions['to'] | null };
  /** Aborts when the service stops, and not when the lease is lost. */
  stopping: AbortSignal;
}

/** The work that one replica does for all, until `signal` aborts: retention, notifications, typed columns. */
export async function keepUp(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  await Promise.all([
    keepTrimmed(options, signal),
    keepNotifying(options, signal),
    keepFields(options, signal),
  ]);
}

async function keepTrimmed(
  { config, store, clock, logger, onError }: UpkeepOptions,
  signal: AbortSignal,
): Promise<void> {
  const log = stage(logger, 'retention');
  const trim = createTrim({ store, clock, settings: config.retention });
  await clock.sleep(TRIM_FIRST_MS, signal);
  while (!signal.aborted) {
    const started = clock.steady();
    let isOver = true;
    try {
      const round = await trim(signal);
      isOver = round.isOver;
      for (const [what, count] of Object.entries(round.rows)) {
        log.info(
          { outcome: 'trimmed', type: what, count, duration_ms: clock.steady() - started },
          'retention',
        );
      }
    } catch (error) {
      onError(error);
    }
    if (isOver) await clock.sleep(TRIM_EVERY_MS, signal);
  }
}

/** Rows in one step. A step holds the write lock for a few milliseconds, which a waiting delivery does not notice. */
const STEP_ROWS = 200;
/** Between two steps others get the lock, so that trimming uses a small share of the disk. */
const PAUSE_MS = 50;
/** Steps of one round, about a minute. Then the result is reported, and the next round goes on where this one ended. */
const ROUND_STEPS = 1_000;

/** A sender retries for two days. A week leaves time to look at the rejections. */
const REJECTION_DAYS = 7;

/** A redelivery after so long is still a duplicate: more than a year, in which somebody may send old deliveries again. */
const EVENT_ID_DAYS = 400;

const DAY_MS = 86_400_000;

/** The things to trim, and how old they must be. Event ids come last, after the rows that have them. */
export function retentionTasks({
  bodyDays,
  historyDays,
}: Config['retention']): { thing: TrimmedThing; days: number }[] {
  const aged = (days: number, ...things: TrimmedThing[]) => things.map((thing) => ({ thing, days }));
  return [
    ...aged(REJECTION_DAYS, 'rejections'),
    ...aged(bodyDays, 'event_bodies', 'quarantined_bodies'),
    ...(historyDays > 0 ? aged(historyDays, 'events', 'changes', 'sync_history', 'audit') : []),
    ...aged(Math.max(EVENT_ID_DAYS, bodyDays), 'event_ids'),
  ];
}

/**
 * Trims what is old enough, one round per call, in short steps. The tasks take turns, so that the first does not use up the round.
 * A round ends early when its signal aborts. Rejects with StoreUnavailable as the store's verbs do.
 */
export function createTrim(options: {
  store: Pick<Store, 'trim'>;
  clock: Clock;
  settings: Config['retention'];
}) {
  const { store, clock, settings } = options;
  let left: { thing: TrimmedThing; days: number; after: number }[] = [];
  return async (signal: AbortSignal) => {
    const rows: Partial<Record<TrimmedThing, number>> = {};
    if (left.length === 0) left = retentionTasks(settings).map((task) => ({ ...task, after: 0 }));
    for (let steps = 0; steps < ROUND_STEPS && left.length > 0 && !signal.aborted; steps += 1) {
      const task = left[0]!;
      const now = clock.wall();
      const step = { before: now - task.days * DAY_MS, now, after: task.after, limit: STEP_ROWS };
      const { trimmed, next } = await store.trim(task.thing, step);
      if (trimmed > 0) rows[task.thing] = (rows[task.thing] ?? 0) + trimmed;
      left.shift();
      if (next === null) continue;
      left.push({ ...task, after: next });
      await clock.sleep(PAUSE_MS, signal);
    }
    return { rows, isOver: left.length === 0 };
  };
}

async function keepNotifying(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { notices, metrics, onError } = options;
  const { to } = notices;
  if (to === null) return;
  const log = stage(options.logger, 'notify');
  const { host } = to.url;
  await notify(
    {
      ...options,
      ...notices,
      to,
      facts: options.store,
      onAttempt({ news, reason, error }) {
        metrics.notifications.inc({ outcome: error === null ? 'delivered' : 'failed' });
        const line = { what: news.what, reason, host };
        if (error === null) log.info({ outcome: 'delivered', ...line }, 'notification');
        else log.warn({ outcome: 'failed', ...line, error }, 'notification');
      },
      onError: (error) => onError(new Error(`notification: ${describeError(error)}`, { cause: error })),
    },
    signal,
    options.stopping,
  );
}

/** How often new fields are looked for. Milliseconds. */
const LOOK_EVERY_MS = 1_000;
/** Rows in one look, which takes some milliseconds. Smaller looks would cost more in total. */
const LOOK_ROWS = 500;
/** After this many rows without a new field, the place is stored: a start looks again at no more rows than these. */
const KEEP_AFTER = 10_000;

/**
 * Gives the views `…_flat` a column for each field of the records, until `signal` aborts. It looks at the changes since its last
 * look, so deliveries are not slowed. It learns only at the end of a look, so that a column's type fits all values that were seen.
 */
async function keepFields(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { store, clock, onError } = options;
  const log = stage(options.logger, 'fields');
  const ignored = ignoredFields(options.config.idPointers);
  const full = (kind: Kind) => ({ reason: 'full_columns', kind, recordId: null }) as const;
  let look: FieldLook | null = null;
  let kept = 0;

  /** What a setting has excluded since. */
  async function forget(): Promise<void> {
    for (const kind of KINDS) {
      const count = await store.forgetFields(kind, ignored[kind]);
      if (count === null)
        log.warn(
          { outcome: 'not_forgotten', kind },
          'another view stands on a column that IGNORED_FIELDS names',
        );
      else if (count > 0) {
        log.info({ outcome: 'forgotten', kind, count }, 'fields');
        await store.endProblem(full(kind), momentOf(clock));
      }
    }
  }

  async function lookOn(): Promise<void> {
    do look = await store.seeFields(look, LOOK_ROWS, ignored);
    while (!look.isOver && !signal.aborted);
    if (look.seen.length === 0 && look.through - kept < KEEP_AFTER) return;
    const learned = Map.groupBy(await store.learnFields(look), ({ kind }) => kind);
    look = { ...look, seen: [], objects: [] };
    kept = look.through;
    for (const [kind, fields] of learned) {
      log.info({ outcome: 'learned', kind, count: fields.length }, 'fields');
      if (fields.some(({ isShown }) => !isShown)) {
        const reason = 'run `compliance-mirror migrate` as the owner of the views';
        log.warn({ outcome: 'not_shown', kind, reason }, 'the view belongs to another role');
      }
      // Told once: behind the first field without a column no others are looked for. So what a person has resolved stays so.
      const first = fields.find(({ column }) => column === null);
      if (first !== undefined)
        await store.openProblem(
          full(kind),
          `the first field without a column is ${first.path}`,
          momentOf(clock),
        );
    }
  }

  let isFailing = false;
  let isFirst = true;
  while (!signal.aborted) {
    try {
      if (isFirst) await forget();
      isFirst = false;
      await lookOn();
      isFailing = false;
    } catch (error) {
      // Reported once: a query may keep a view locked for an hour.
      if (!isFailing) onError(error);
      isFailing = true;
    }
    await clock.sleep(LOOK_EVERY_MS, signal);
  }
}
