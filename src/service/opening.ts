import { type Clock, type SharedClock, sharedClock, systemClock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { describeError, StoreUnavailable } from '../platform/errors.ts';
import { type Logger, stage } from '../platform/logger.ts';
import { isPostgres, openStore } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { Front } from './front.ts';

/** A database that is not there at a start may come within this, as when a whole site starts. Else the start has failed. */
const DATABASE_PATIENCE_MS = 60_000;
const DATABASE_AGAIN_MS = 1_000;

export interface OpeningOptions {
  config: Config;
  logger: Logger;
  clock: Clock;
  /** Learns what the start is at, for whoever asks whether it is ready. */
  front: Front;
  /** Ends the waiting. */
  signal?: AbortSignal | undefined;
  /** The store that was opened has been lost for good: the process must end. Null: it has no threads of its own. */
  onLost: ((error: StoreUnavailable) => void) | null;
}

/**
 * The store, migrated. Rejects with UsageError for a database that cannot be used, with the signal's reason once that
 * aborts, and otherwise once patience has run out.
 */
export async function openWithPatience(options: OpeningOptions): Promise<Store> {
  const { config, logger, clock, front, signal, onLost } = options;
  const until = clock.steady() + DATABASE_PATIENCE_MS;
  const log = stage(logger, 'store');
  for (;;) {
    try {
      return await openStore(config.databaseUrl, {
        postgres: config.database,
        ...(onLost === null ? {} : { inThread: { onLost } }),
        onMigrating: () => front.at('migrating'),
        onBackup: (path) => log.info({ outcome: 'backed_up', path }, 'migration'),
      });
    } catch (error) {
      // A file that cannot be opened now will not be in a minute.
      const mayCome = isPostgres(config.databaseUrl) && error instanceof StoreUnavailable && !error.fatal;
      if (!mayCome || clock.steady() >= until) throw error;
      log.warn({ outcome: 'failed', error: describeError(error) }, 'waiting for the database');
      await clock.sleep(DATABASE_AGAIN_MS, signal);
      signal?.throwIfAborted();
    }
  }
}

/** The database's time, where several processes share it; null: nobody does. */
export async function databaseClock(store: Store): Promise<SharedClock | null> {
  if ((await store.sharedTime(null)) === null) return null;
  const read = async (atLeast: number | null) => {
    const now = await store.sharedTime(atLeast);
    if (now === null) throw new Error('the database has no time of its own any more');
    return now;
  };
  return await sharedClock(read, { ...systemClock(), monotonic: () => performance.now() });
}
