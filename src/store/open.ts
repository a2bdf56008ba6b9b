import { type StoreUnavailable, UsageError } from '../platform/errors.ts';
import type { Exposure, PostgresSettings } from './postgres/address.ts';
import { type BackupOptions, type BackupResult, backUpSqlite } from './sqlite/backup.ts';
import { probePlaceFor } from './sqlite/place.ts';
import { type OpeningOptions, openMigrated, openSqlite } from './sqlite/sqlite.ts';
import { openInThread } from './sqlite/thread.ts';
import type { Store } from './store.ts';

export interface OpenOptions extends OpeningOptions {
  readOnly?: boolean;
  /** For a `postgres://` address. */
  postgres?: PostgresSettings;
  /** For a service: threads read and write the file. `onLost` is called when one ends by itself; then the store is of no use. */
  inThread?: { onLost: (error: StoreUnavailable) => void };
}

/**
 * Opens the store that `DATABASE_URL` names. One with an older schema is backed up beside itself and migrated; if that
 * fails it is as it was. Rejects with UsageError for an address that no engine takes.
 */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  if (isPostgres(url)) return await openServer(url, options);
  const path = sqlitePath(url);
  if (options.readOnly === true) return await openSqlite({ path, readOnly: true });
  // In memory there is nothing to wait for.
  return options.inThread === undefined || path === ':memory:'
    ? await openMigrated(path, options)
    : await openInThread(path, { ...options, ...options.inThread });
}

/** Whether a database can be made or written where `url` names a file; rejects as `openStore` would. Leaves nothing behind. */
export function probePlace(url: string): void {
  if (!isPostgres(url) && sqlitePath(url) !== ':memory:') probePlaceFor(sqlitePath(url));
}

async function openServer(url: string, options: OpenOptions): Promise<Store> {
  // Loaded only when needed: a mirror in a file does not use it.
  const { openPostgres } = await import('./postgres/postgres.ts');
  const { readOnly = false, onMigrating } = options;
  return await openPostgres(url, {
    ...{ ...options.postgres, readOnly },
    ...(onMigrating === undefined ? {} : { onMigrating }),
  });
}

/** What others could do to the connection to the database. Null: nothing, judged by the address. */
export async function databaseExposure(url: string, settings: PostgresSettings): Promise<Exposure | null> {
  return isPostgres(url) ? (await import('./postgres/address.ts')).exposureOf(url, settings) : null;
}

/** Whether several processes may serve the database that `url` names. */
export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

/** Backs up the store that `url` names, also while a service uses it. Rejects as `backUpSqlite` does. */
export async function backUpStore(url: string, options: Omit<BackupOptions, 'from'>): Promise<BackupResult> {
  if (isPostgres(url)) {
    throw new UsageError(
      'this makes a copy of a SQLite file, and DATABASE_URL names a PostgreSQL database',
      'use pg_dump, or back up the whole server; docs/postgresql.md says how to put a dump back',
    );
  }
  const path = sqlitePath(url);
  if (path === ':memory:') {
    throw new UsageError('DATABASE_URL names a database in memory', 'name the file to back up');
  }
  return await backUpSqlite({ ...options, from: path });
}

/** The file that a `file:` address names: `file:./data/mirror.db` is relative to the working directory. */
export function sqlitePath(url: string): string {
  if (url === ':memory:' || url === 'file::memory:') return ':memory:';
  if (url.startsWith('file://')) return decodeURIComponent(new URL(url).pathname);
  // No path would be a temporary database, gone at the end.
  if (url.startsWith('file:') && url !== 'file:') return url.slice('file:'.length);
  if (isPostgres(url)) {
    throw new UsageError('this needs a SQLite file, and DATABASE_URL names a PostgreSQL database');
  }
  throw new UsageError('DATABASE_URL must be file:PATH', 'for example file:./data/mirror.db');
}
