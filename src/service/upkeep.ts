import type { Verdict } from '../notify/decide.ts';
import { notify } from '../notify/notify.ts';
import type { Config } from '../platform/config.ts';
import { describeError } from '../platform/errors.ts';
import { stage } from '../platform/logger.ts';
import { createTrim } from '../retention/retention.ts';
import type { FieldLook } from '../store/store.ts';
import type { Base } from './opening.ts';

/** Retention is counted in days, so an hour does not matter. */
const TRIM_EVERY_MS = 60 * 60_000;
/** Not at once, because a start has a backlog and full syncs first; but early enough for a service that restarts often. */
const TRIM_FIRST_MS = 60_000;

interface UpkeepOptions extends Pick<Base, 'store' | 'clock' | 'random' | 'metrics' | 'logger' | 'onError'> {
  config: Pick<Config, 'retention' | 'notify'>;
  about: { version: string; operators: string };
  verdict(): Promise<Verdict>;
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
  { config, store, clock, metrics, logger, onError }: UpkeepOptions,
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
        metrics.trimmedRows.inc({ what }, count);
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

async function keepNotifying(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { config, store, clock, random, metrics, about, verdict, onError } = options;
  if (config.notify.url === null) return;
  const log = stage(options.logger, 'notify');
  const { host } = config.notify.url;
  await notify(
    {
      url: config.notify.url,
      format: config.notify.format,
      clock,
      random,
      verdict,
      facts: store,
      about,
      onAttempt({ topic, ok, error }) {
        metrics.notifications.inc({ outcome: ok ? 'delivered' : 'failed' });
        if (ok) log.info({ outcome: 'delivered', reason: topic, host }, 'notification');
        else log.warn({ outcome: 'failed', reason: topic, host, error }, 'notification');
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
  let look: FieldLook | null = null;
  let kept = 0;

  async function lookOn(): Promise<void> {
    do look = await store.seeFields(look, LOOK_ROWS);
    while (!look.isOver && !signal.aborted);
    if (look.seen.length === 0 && look.through - kept < KEEP_AFTER) return;
    const learned = Map.groupBy(await store.learnFields(look), ({ kind }) => kind);
    look = { ...look, seen: [] };
    kept = look.through;
    for (const [kind, fields] of learned) {
      log.info({ outcome: 'learned', kind, count: fields.length }, 'fields');
      if (fields.some(({ column }) => column === null)) {
        log.warn({ outcome: 'full', kind }, 'no more columns are made: the rest is in data');
      }
    }
  }

  let isFailing = false;
  while (!signal.aborted) {
    try {
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
