import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import Database from 'better-sqlite3';
import { UsageError } from '../platform/errors.ts';
import { isPostgres, sqlitePath } from './open.ts';
import { isReadOnly, makePlaceFor } from './sqlite/place.ts';

/** The process that serves a SQLite file, as its note beside the file says. */
export interface LockHolder {
  pid: number;
  host: string;
  /** Where its operators' listener answers; null until it listens. */
  opsUrl: string | null;
  /** ISO 8601. */
  startedAt: string;
}

export interface FileLock {
  announce(opsUrl: string): void;
  release(): void;
}

/** A killed process leaves its note behind; only the lock shows whether it runs. */
const lockPath = (path: string) => `${path}.lock`;
const notePath = (path: string) => `${path}.holder.json`;

/**
 * Makes this process the only one that serves `path`. The lock is an open write transaction on a small file of
 * its own: the operating system releases it whenever the process ends, killed or not, which a pid in a file
 * would not, and readers of the database itself are not shut out.
 */
export function lockFile(url: string, startedAt: string): FileLock {
  if (isPostgres(url)) return NOTHING_TO_LOCK;
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

/** Several processes share a PostgreSQL database, and its own locks keep them apart. */
const NOTHING_TO_LOCK: FileLock = { announce: () => undefined, release: () => undefined };

/** The running service that has locked the file at `url`, or null; always null for PostgreSQL. */
export function holderOf(url: string): LockHolder | null {
  if (isPostgres(url)) return null;
  const path = sqlitePath(url);
  const note = readNote(path);
  // On a read-only file system the note is a copy's and old: a service writes beside its file.
  if (note === null || isReadOnly(path)) return null;
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
    throw error;
  }
}

function readNote(path: string): LockHolder | null {
  try {
    return JSON.parse(readFileSync(notePath(path), 'utf8')) as LockHolder;
  } catch {
    return null;
  }
}
