import type { Verdict } from '../notify/decide.ts';
import { notify } from '../notify/notify.ts';
import type { Clock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { describeError } from '../platform/errors.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import { createTrim } from '../retention/retention.ts';
import type { Store } from '../store/store.ts';
import { keepFields } from './flat-columns.ts';

/** Retention is counted in days: what is an hour late is not late. */
const TRIM_EVERY_MS = 60 * 60_000;
/** Not at once: a start has a backlog and full syncs to see to first. But early enough for one that restarts often. */
const TRIM_FIRST_MS = 60_000;

interface UpkeepOptions {
  config: Pick<Config, 'retention' | 'notify'>;
  store: Store;
  clock: Clock;
  random: () => number;
  metrics: Metrics;
  logger: Logger;
  about: { version: string; operators: string };
  verdict(): Promise<Verdict>;
  onError: (error: unknown) => void;
}

/** What runs beside the data's way until `signal` aborts: trimming what is too old, telling of the verdict, typed columns. */
export async function keepUp(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  await Promise.all([keepTrimmed(options, signal), keepTold(options, signal), keepFields(options, signal)]);
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

async function keepTold(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { config, store, clock, random, metrics, about, verdict, onError } = options;
  if (config.notify.url === null) return;
  const log = stage(options.logger, 'notify');
  const { host } = config.notify.url;
  await notify(
    {
      ...{
        url: config.notify.url,
        format: config.notify.format,
        clock,
        random,
        verdict,
        facts: store,
        about,
      },
      onAttempt({ topic, ok, error }) {
        metrics.notifications.inc({ outcome: ok ? 'delivered' : 'failed' });
        if (ok) log.info({ outcome: 'delivered', reason: topic, host }, 'notification');
        else log.warn({ outcome: 'failed', reason: topic, host, error }, 'notification');
      },
      onError: (error) => onError(new Error(`notification: ${describeError(error)}`, { cause: error })),
    },
    signal,
  );
}
