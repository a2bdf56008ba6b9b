import { type Clock, systemClock } from '../platform/clock.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { databaseClock } from '../service/worker-lease.ts';
import type { LockHolder } from '../store/open.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';

/** The database engines. They take half a second to load, so help and usage errors must not load them. */
export const engines = () => import('../store/open.ts');

/** The settings for a command that works on the database itself. @throws UsageError with OPS_URL: the database is elsewhere. */
export function configHere({ env }: Pick<Cli, 'env'>, command: string, why?: string): Config {
  const config = loadConfig(env);
  if (config.remote === null) return config;
  const remedy = `run it there, without OPS_URL${why === undefined ? '' : `: ${why}`}`;
  throw new UsageError(`OPS_URL is set, and "${command}" works on the machine of the database`, remedy);
}

/** Opens the configured database for writing. Makes or migrates it if necessary. */
export async function openForWriting(
  { err }: Pick<Cli, 'err'>,
  { databaseUrl, database }: Pick<Config, 'databaseUrl' | 'database'>,
): Promise<Store> {
  const onMigrating = () => err.write('The database is migrated to this version, which may take long\n');
  const onBackup = (path: string) =>
    err.write(`Before it is migrated, the database was backed up to ${path}\n`);
  const onWaiting = (whom: string) => err.write(`The migration waits for ${whom}\n`);
  const told = { onMigrating, onBackup, onWaiting };
  return await (await engines()).openStore(databaseUrl, { postgres: database, ...told });
}

/**
 * How `withStore` opens the database. `read` and `write` refuse a database that is missing or has the tables of another version.
 * `make` makes or migrates it. All three work beside a running service. `alone` is `make` without a service: if one holds the SQLite
 * file, a UsageError names it.
 */
type Mode = 'read' | 'write' | 'make' | 'alone';

/** Runs `work` on the configured store. */
export async function withStore<T>(
  cli: Pick<Cli, 'env' | 'err'>,
  mode: Mode,
  work: (store: Store) => Promise<T>,
): Promise<T> {
  const config = loadConfig(cli.env);
  const { databaseUrl, database } = config;
  if (mode === 'write') await withStore(cli, 'read', async () => {});
  // The lock comes first: opening may migrate, which must not happen under a running service.
  const lock = mode === 'alone' ? (await engines()).lockFile(databaseUrl, new Date().toISOString()) : null;
  try {
    const store =
      mode === 'read'
        ? await (await engines()).openStore(databaseUrl, { postgres: database, readOnly: true })
        : await openForWriting(cli, config);
    try {
      return await work(store);
    } finally {
      await store.close();
    }
  } finally {
    lock?.release();
  }
}

/** The SQLite file; null: the database is on a server. */
export async function databasePath(databaseUrl: string): Promise<string | null> {
  const { isPostgres, sqlitePath } = await engines();
  return isPostgres(databaseUrl) ? null : sqlitePath(databaseUrl);
}

/** The service that holds the configured database, or null. */
export async function holderOfDatabase(databaseUrl: string): Promise<LockHolder | null> {
  return (await engines()).holderOf(databaseUrl);
}

/** The clock that a service uses: the database's if several processes share it, otherwise this machine's. */
export async function clockOf(store: Store): Promise<Clock> {
  return (await databaseClock(store)) ?? systemClock();
}

/** After this long without a heartbeat no service counts as running. */
const SERVED_MS = 15_000;

/** Whether a service runs over the database. */
export async function isServed(store: Store, databaseUrl: string): Promise<boolean> {
  if (store.engine === 'sqlite') return (await holderOfDatabase(databaseUrl)) !== null;
  const beat = Date.parse((await store.readFact('heartbeat')) ?? '');
  return Math.abs((await clockOf(store)).wall() - beat) < SERVED_MS;
}
