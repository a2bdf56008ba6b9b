import { readFileSync, readlinkSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { dirname, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { type StoreUnavailable, UsageError } from '../platform/errors.ts';
import type { Exposure, PostgresSettings } from './postgres/pool.ts';
import { makePlaceFor, translate } from './sqlite/connection.ts';
import { backUpSqlite, HOLDER_SUFFIX, isPartOf, LOCK_SUFFIX, restoreSqlite } from './sqlite/file.ts';
import { type OpeningOptions, openSqlite } from './sqlite/sqlite.ts';
import { openInThread } from './sqlite/thread.ts';
import type { Store } from './store.ts';

export interface OpenOptions extends OpeningOptions {
  postgres?: PostgresSettings;
  /** Called when a migration on PostgreSQL waits for the lock of `whom`. */
  onWaiting?: (whom: string) => void;
  /** For a service: threads read and write the file. `onLost` is called when one ends unexpectedly; then every verb rejects. */
  inThread?: { onLost: (error: StoreUnavailable) => void };
}

/** Migrates an older schema, after a backup of a SQLite file. Rejects with UsageError for an address that no engine takes. */
export async function openStore(url: string, options: OpenOptions = {}): Promise<Store> {
  if (isPostgres(url)) {
    // Loaded only when needed: a mirror on SQLite does not use pg.
    const { openPostgres } = await import('./postgres/postgres.ts');
    const { readOnly, onMigrating, onWaiting } = options;
    return await openPostgres(url, { ...options.postgres, readOnly, onMigrating, onWaiting });
  }
  const path = sqlitePath(url);
  const { inThread, readOnly } = options;
  // A database in memory has no disk that a thread would wait for.
  if (path === ':memory:') return await openSqlite(path, options);
  const isOpen = [...openFiles].some(({ file }) => file === withoutLinks(path));
  const store =
    inThread === undefined || readOnly
      ? await openSqlite(path, { ...options, isOpen })
      : await openInThread(path, { ...options, ...inThread });
  const opened = { file: withoutLinks(path) };
  openFiles.add(opened);
  return {
    ...store,
    async close() {
      await store.close();
      openFiles.delete(opened);
    },
  };
}

/** The files that this process has open: setup runs a service, and commands beside it. */
const openFiles = new Set<{ file: string }>();

/** What others could do to the connection to the database, as far as its address tells. Null: nothing. */
export async function databaseExposure(url: string, settings: PostgresSettings): Promise<Exposure | null> {
  return isPostgres(url) ? (await import('./postgres/pool.ts')).exposureOf(url, settings) : null;
}

/** PostgreSQL: several processes may serve one database. */
export function isPostgres(url: string): boolean {
  return /^postgres(ql)?:\/\//.test(url);
}

/** Backs up the store that `url` names, also while a service uses it. Resolves to its bytes. Rejects as `backUpSqlite` does. */
export async function backUpStore(url: string, options: { to: string; force?: boolean }): Promise<number> {
  return await backUpSqlite({ ...options, from: fileOf(url, 'backed up') });
}

/** Puts a backup in the place of the store that `url` names. Resolves to its bytes. Rejects as `restoreSqlite` throws, and while a service runs. */
export async function restoreStore(url: string, from: string): Promise<number> {
  const path = fileOf(url, 'restored');
  const lock = lockFile(url, new Date().toISOString());
  try {
    return restoreSqlite(from, path);
  } finally {
    lock.release();
  }
}

function fileOf(url: string, what: string): string {
  if (isPostgres(url)) {
    throw new UsageError(
      `only a SQLite file can be ${what} by this command, and DATABASE_URL names a PostgreSQL database`,
      'use pg_dump, or back up the whole server; docs/postgresql.md says how to put a dump back',
    );
  }
  const path = sqlitePath(url);
  if (path === ':memory:') throw new UsageError('DATABASE_URL names a database in memory', 'name a file');
  return path;
}

/** Whether `path` names the SQLite file of `url`, or a file that belongs to it. Throws UsageError if the folder of `path` is missing. */
export function isPartOfDatabase(url: string, path: string): boolean {
  if (isPostgres(url)) return false;
  const database = sqlitePath(url);
  return database !== ':memory:' && isPartOf(database, path);
}

/** The file that a `file:` address names: `file:./data/mirror.db` is relative to the working directory. */
export function sqlitePath(url: string): string {
  if (url === ':memory:' || url === 'file::memory:') return ':memory:';
  if (url.startsWith('file://')) return decodeURIComponent(new URL(url).pathname);
  // SQLite takes an empty path for a temporary database.
  if (url.startsWith('file:') && url !== 'file:') return url.slice('file:'.length);
  throw new UsageError('DATABASE_URL must be file:PATH', 'for example file:./data/mirror.db');
}

/** The process that serves a SQLite file, as its note beside the file says. */
export interface LockHolder {
  pid: number;
  host: string;
  /** Where its operators' listener answers; null until it listens. */
  opsUrl: string | null;
  startedAt: string;
}

export interface FileLock {
  announce(opsUrl: string): void;
  release(): void;
}

/** A killed process leaves its note behind, so only the lock shows whether it still runs. */
const lockPath = (path: string) => `${withoutLinks(path)}${LOCK_SUFFIX}`;
const notePath = (path: string) => `${withoutLinks(path)}${HOLDER_SUFFIX}`;

/** SQLite follows symbolic links, so a process that names the file by a link must meet the same lock. */
function withoutLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    return linkTarget(path) ?? path;
  }
}

/** Where a symbolic link to a file that does not exist points; null: `path` is no link. */
function linkTarget(path: string): string | null {
  try {
    return resolve(dirname(path), readlinkSync(path));
  } catch {
    return null;
  }
}

/**
 * Makes this process the only one that serves a SQLite file, by an open write transaction on a lock file beside it. The operating
 * system ends that transaction with the process, even if it is killed. Readers of the database are not blocked.
 */
export function lockFile(url: string, startedAt: string): FileLock {
  // Several processes may serve a PostgreSQL database: leases keep them apart.
  if (isPostgres(url)) return { announce: () => undefined, release: () => undefined };
  const path = sqlitePath(url);
  const db = tryLock(path);
  if (db === null) {
    const holder = readNote(path);
    const who = holder
      ? `process ${holder.pid} on ${holder.host}, since ${holder.startedAt}`
      : 'another process';
    throw new UsageError(
      `${path} is in use by ${who}`,
      'stop that service first, or give this one a DATABASE_URL of its own',
    );
  }
  const note = (opsUrl: string | null) => {
    const holder: LockHolder = { pid: process.pid, host: hostname(), opsUrl, startedAt };
    writeFileSync(notePath(path), `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  };
  const release = () => {
    try {
      rmSync(notePath(path), { force: true });
    } finally {
      db.close();
    }
  };
  try {
    note(null);
  } catch (error) {
    db.close();
    throw error;
  }
  return { announce: note, release };
}

/** The running service that has locked the file at `url`, or null; always null for PostgreSQL. */
export function holderOf(url: string): LockHolder | null {
  if (isPostgres(url)) return null;
  const path = sqlitePath(url);
  const note = readNote(path);
  if (note === null) return null;
  const db = tryLock(path);
  if (db === null) return note;
  db.close();
  return null;
}

function tryLock(path: string): Database.Database | null {
  makePlaceFor(lockPath(path));
  const db = new Database(lockPath(path), { timeout: 0 });
  try {
    db.exec('BEGIN EXCLUSIVE');
    return db;
  } catch (error) {
    db.close();
    if (error instanceof Database.SqliteError && error.code.startsWith('SQLITE_BUSY')) return null;
    throw translate(error);
  }
}

function readNote(path: string): LockHolder | null {
  try {
    return JSON.parse(readFileSync(notePath(path), 'utf8')) as LockHolder;
  } catch {
    return null;
  }
}
