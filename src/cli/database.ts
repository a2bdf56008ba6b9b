import { type Clock, systemClock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { databaseClock, REPLICA_LIFE_MS } from '../service/replicas.ts';
import type { LockHolder } from '../store/lock.ts';
import type { BackupOptions, BackupResult } from '../store/sqlite/backup.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';

/** Loaded when first needed: the engines take half a second, which help and a wrong option should not cost. */
const engines = () => import('../store/open.ts');
const locks = () => import('../store/lock.ts');

/** For commands that do without the operators' listener: with OPS_URL the database is elsewhere, and none is made here. */
export function refuseFromAfar({ remote }: Pick<Config, 'remote'>, command: string, why = ''): void {
  if (remote === null) return;
  const remedy = `run it there, without OPS_URL${why === '' ? '' : `: ${why}`}`;
  throw new UsageError(`OPS_URL is set, and "${command}" works on the machine of the database`, remedy);
}

/** Opens the configured database for writing; it is made, or migrated, if need be. */
export async function openForWriting(
  { databaseUrl, database }: Pick<Config, 'databaseUrl' | 'database'>,
  onBackup: (path: string) => void = () => undefined,
): Promise<Store> {
  return await (await engines()).openStore(databaseUrl, { postgres: database, onBackup });
}

/** Runs `work` on the configured store for writing; it is made, or migrated, if need be. */
export async function withWritableStore<T>(config: Config, work: (store: Store) => Promise<T>): Promise<T> {
  const store = await openForWriting(config);
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** The same of a database that is there: one that is not is no more made than one of another version is migrated. */
export async function withPresentStore<T>(
  cli: Cli,
  config: Config,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  await withStore(cli, async () => {});
  return await withWritableStore(config, work);
}

/** Runs `work` on the configured store for reading, beside a running service or without one. */
export async function withStore<T>(cli: Cli, work: (store: Store) => Promise<T>): Promise<T> {
  const { databaseUrl, database } = loadConfig(cli.env);
  const store = await (await engines()).openStore(databaseUrl, { postgres: database, readOnly: true });
  try {
    return await work(store);
  } finally {
    await store.close();
  }
}

/** Runs `work` on the configured store, as its only writer where that is a file; a UsageError names the service that holds it. */
export async function withLockedStore<T>(cli: Cli, work: (store: Store) => Promise<T>): Promise<T> {
  const config = loadConfig(cli.env);
  // Before it is opened, since opening migrates, and that must not happen under a running service.
  const lock = (await locks()).lockFile(config.databaseUrl, new Date().toISOString());
  try {
    const store = await openForWriting(config, (path) =>
      cli.err.write(`Before it is migrated, the database was backed up to ${path}\n`),
    );
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  } finally {
    lock.release();
  }
}

/** Backs the configured database up, beside a running service or without one. */
export async function backUpDatabase(
  databaseUrl: string,
  options: Omit<BackupOptions, 'from'>,
): Promise<BackupResult> {
  return await (await engines()).backUpStore(databaseUrl, options);
}

/** What is open to others on the way to the configured database, and what to do about it; null: nothing. */
export async function exposureOfDatabase({
  databaseUrl,
  database,
}: Pick<Config, 'databaseUrl' | 'database'>) {
  return await (await engines()).databaseExposure(databaseUrl, database);
}

/** The SQLite file; null: the database is on a server. */
export async function databasePath(databaseUrl: string): Promise<string | null> {
  const { isPostgres, sqlitePath } = await engines();
  return isPostgres(databaseUrl) ? null : sqlitePath(databaseUrl);
}

/** Rejects as "serve" would where no database can be made or written. Leaves nothing behind. */
export async function probeDatabase({ databaseUrl }: Pick<Config, 'databaseUrl'>): Promise<void> {
  (await engines()).probePlace(databaseUrl);
}

/** The service that holds the configured database, or null. */
export async function holderOfDatabase(databaseUrl: string): Promise<LockHolder | null> {
  return (await locks()).holderOf(databaseUrl);
}

/** The clock that the service's instants are of: the database's where several processes share it, else this machine's. */
export async function clockOf(store: Store): Promise<Clock> {
  return (await databaseClock(store)) ?? systemClock();
}

/** How many services share the database; 0 for a file, which one service holds. */
export async function livingReplicas(store: Store, clock: Clock): Promise<number> {
  if (store.engine === 'sqlite') return 0;
  return await store.countReplicas(REPLICA_LIFE_MS, { wall: clock.wall(), steady: clock.steady() });
}
