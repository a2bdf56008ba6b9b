import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { describeError, MirrorError, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import { type Connection, connect, guarded } from './connection.ts';

export interface BackupOptions {
  /** Paths of files. */
  from: string;
  to: string;
  /** Whether a file that is there already may be replaced. */
  force?: boolean;
  onProgress?: (progress: BackupProgress) => void;
  /** To stop the backup; nothing is left of it then. */
  signal?: AbortSignal;
}

/** When all bytes are done, the copy is checked. */
export type BackupProgress = Record<'doneBytes' | 'totalBytes', number>;
export type BackupResult = Record<'bytes' | 'tables' | 'rows', number>;

/** How much one step copies before the signal is checked again: some megabytes, in a few milliseconds. */
const STEP_PAGES = 1_000;

/** This fact is only in backups: when the copy was made. Opening one for writing begins a new epoch. */
export const COPIED_FACT = 'copied_at';

/** A copy of a copy that was never opened keeps the first one's time. */
const MARK_AS_COPY = 'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING';

/** Files that SQLite keeps beside a database. If one is left over from another database, SQLite would write it into a new file. */
const COMPANIONS = ['-wal', '-shm', '-journal'];

/** Files that a service keeps beside its database: the lock, and the note of which process has it. */
export const LOCK_SUFFIX = '.lock';
export const HOLDER_SUFFIX = '.holder.json';

/** Whether `path` is the file of `database`, by any name, or a file beside it. Throws UsageError if the folder of `path` is missing. */
export function isPartOf(database: string, path: string): boolean {
  const target = join(realFolder(path), basename(path));
  const source = existsSync(database) ? realpathSync(database) : resolve(database);
  const suffixes = ['', ...COMPANIONS, LOCK_SUFFIX, HOLDER_SUFFIX];
  return suffixes.some((suffix) => source + suffix === target) || isSameFile(source, path);
}

/**
 * Copies a database as it is at one moment into one file (mode 0600), even while a service writes to it. The file `to` appears only
 * after the copy was opened and checked. Rejects with UsageError for a file that must not be replaced or cannot be made.
 *
 * It uses SQLite's backup in steps, within a read transaction: without one, every write would start the backup again. VACUUM INTO
 * shows no progress and cannot be stopped.
 */
export async function backUpSqlite(options: BackupOptions): Promise<BackupResult> {
  const { from, to, force = false } = options;
  refuseTarget(from, to, force);
  const source = connect(from, { readOnly: true });
  const partial = `${to}.partial-${process.pid}`;
  try {
    makeFile(partial, to);
    // Taken before the moment that the copy shows, so that no event is missing from before this time.
    const at = new Date().toISOString();
    source.exec('BEGIN');
    const expected = guarded(() => inventory(source));
    await copy(source, partial, options);
    const { size } = statSync(partial);
    options.onProgress?.({ doneBytes: size, totalBytes: size });
    const result = verify(partial, expected, at);
    // The check of a large copy takes long and blocks the event loop: now a signal can arrive.
    await setImmediate();
    refuseStopped(options);
    flush(partial);
    publish(partial, to, force);
    return result;
  } finally {
    removeWithCompanions(partial);
    source.close();
  }
}

function refuseTarget(from: string, to: string, force: boolean): void {
  // The driver would trim the name, and write another file than the one that is checked here.
  if (to !== to.trim()) throw new UsageError(`“${to}” begins or ends with a blank`, 'name another file');
  if (isPartOf(from, to)) {
    throw new UsageError(`${to} is the database itself`, 'name another file');
  }
  if (existsSync(to) && !statSync(to).isFile()) {
    throw new UsageError(`${to} is not a file`, 'name the file to write, not its folder');
  }
  const taken = [to, ...COMPANIONS.map((suffix) => to + suffix)].find((path) => existsSync(path));
  if (taken !== undefined && !force) {
    throw new UsageError(`${taken} is there already`, 'name another file, or replace it with --force');
  }
}

function realFolder(path: string): string {
  if (path === '') throw new UsageError('the name of the file to write is empty', 'name one');
  const folder = dirname(resolve(path));
  if (existsSync(folder)) return realpathSync(folder);
  throw new UsageError(`there is no folder ${folder}`, 'make it first');
}

function isSameFile(one: string, other: string): boolean {
  if (!existsSync(one) || !existsSync(other)) return false;
  const [a, b] = [statSync(one), statSync(other)];
  return a.ino === b.ino && a.dev === b.dev;
}

/** Makes the file before SQLite does, which would make it readable for everyone. */
function makeFile(partial: string, to: string): void {
  removeWithCompanions(partial);
  try {
    closeSync(openSync(partial, 'wx', 0o600));
  } catch (error) {
    throw new UsageError(`cannot write ${to}: ${describeError(error)}`, 'name a file in a writable folder');
  }
}

function refuseStopped({ signal }: Pick<BackupOptions, 'signal'>): void {
  if (signal?.aborted) throw new MirrorError('stopped', 'stopped; nothing is left of the attempt');
}

async function copy(source: Connection, partial: string, options: BackupOptions): Promise<void> {
  const pageBytes = source.pragma('page_size', { simple: true }) as number;
  const progress = ({ totalPages, remainingPages }: Database.BackupMetadata): number => {
    refuseStopped(options);
    options.onProgress?.({
      doneBytes: (totalPages - remainingPages) * pageBytes,
      totalBytes: totalPages * pageBytes,
    });
    return STEP_PAGES;
  };
  try {
    await source.backup(partial, { progress });
  } catch (error) {
    throw rephrase(error);
  }
}

/** The failing disk may be the copy's as well as the database's. */
function rephrase(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  if (error.code === 'SQLITE_FULL') {
    return new MirrorError('backup_failed', 'the disk is full', {
      remedy: 'nothing is left of the attempt; free space, or name a file on another disk',
      cause: error,
    });
  }
  return new MirrorError('backup_failed', `the database could not be copied: ${error.message}`, {
    remedy: 'nothing is left of the attempt; check the disks of the database and of the backup',
    cause: error,
  });
}

interface Inventory {
  /** The SQL of the whole schema. */
  schema: string;
  /** Rows by table. */
  rows: Map<string, number>;
}

function inventory(db: Connection): Inventory {
  const objects = db.prepare('SELECT type, name, sql FROM sqlite_master ORDER BY type, name').all() as {
    type: string;
    name: string;
    sql: string | null;
  }[];
  const tables = objects.filter((object) => object.type === 'table').map((object) => object.name);
  const rows = tables.map((name): [string, number] => [
    name,
    db
      .prepare(`SELECT count(*) FROM "${name.replaceAll('"', '""')}"`)
      .pluck()
      .get() as number,
  ]);
  return { schema: JSON.stringify(objects), rows: new Map(rows) };
}

/** Opens and checks the copy, as a restore would, and leaves it as one file without a log. */
function verify(partial: string, expected: Inventory, at: string): BackupResult {
  try {
    const db = new Database(partial);
    try {
      db.pragma('journal_mode = DELETE');
      const verdict = db.pragma('integrity_check(1)', { simple: true });
      if (verdict !== 'ok') throw damaged(`${verdict}`);
      const found = inventory(db);
      if (found.schema !== expected.schema) throw damaged('its schema is not that of the database');
      for (const [table, count] of expected.rows) {
        const copied = found.rows.get(table);
        if (copied !== count) throw damaged(`${table} has ${copied} rows, not ${count}`);
      }
      // A database without the table begins an epoch when it is migrated.
      if (found.rows.has('facts')) db.prepare(MARK_AS_COPY).run(COPIED_FACT, at);
      const rows = [...found.rows.values()].reduce((sum, count) => sum + count, 0);
      return { bytes: statSync(partial).size, tables: found.rows.size, rows };
    } finally {
      db.close();
    }
  } catch (error) {
    throw rephrase(error);
  }
}

function damaged(what: string): StoreUnavailable {
  return new StoreUnavailable(`the copy is damaged, so the database or a disk is damaged too: ${what}`, {
    fatal: true,
    remedy: 'the copy was deleted; restore an earlier backup',
  });
}

function flush(path: string): void {
  const file = openSync(path, 'r');
  try {
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
}

/** Gives the checked file its name. Without `force` by a link, because a rename would replace another file. */
function publish(partial: string, to: string, force: boolean): void {
  if (force) {
    for (const suffix of COMPANIONS) rmSync(to + suffix, { force: true });
    renameSync(partial, to);
  } else {
    try {
      linkSync(partial, to);
    } catch (error) {
      const code = (error as NodeJS.ErrnoException).code;
      if (code === 'EEXIST') throw new UsageError(`${to} is there already`, 'replace it with --force');
      // This file system has no links.
      renameSync(partial, to);
    }
  }
  flush(dirname(resolve(to)));
}

function removeWithCompanions(path: string): void {
  for (const suffix of ['', ...COMPANIONS]) rmSync(path + suffix, { force: true });
}
