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
  /** Aborted: nothing is left of the attempt. */
  signal?: AbortSignal;
}

/** Once all is done, the copy is being checked. */
export type BackupProgress = Record<'doneBytes' | 'totalBytes', number>;
export type BackupResult = Record<'bytes' | 'tables' | 'rows', number>;

/** Copied in one step, before the signal is checked again: some megabytes, which take a few milliseconds. */
const STEP_PAGES = 1_000;

/** Only in backups: the time from which on changes are missing. To open one for writing begins another epoch. */
export const COPIED_FACT = 'copied_at';

/** A copy of a copy that was never opened keeps the time of the first. */
const MARK_AS_COPY = 'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING';

/** What SQLite keeps beside a database. Left over from another one, it would be played into a new file. */
const COMPANIONS = ['-wal', '-shm', '-journal'];

/** What a service keeps beside its database: the lock, and who holds it. */
export const LOCK_SUFFIX = '.lock';
export const HOLDER_SUFFIX = '.holder.json';

/** Whether `path` names the file of `database`, by whatever name, or a file that goes with it. Throws UsageError where its folder is not there. */
export function isPartOf(database: string, path: string): boolean {
  const target = join(realFolder(path), basename(path));
  const source = existsSync(database) ? realpathSync(database) : resolve(database);
  const suffixes = ['', ...COMPANIONS, LOCK_SUFFIX, HOLDER_SUFFIX];
  return suffixes.some((suffix) => source + suffix === target) || isSameFile(source, path);
}

/**
 * Copies a database that others may be writing to, as it was at one moment, into one file (mode 0600). The name `to` appears when the
 * copy was opened again and checked, or not at all. Rejects with UsageError for a file that must not be replaced or cannot be made.
 *
 * SQLite's backup in steps, in a read transaction of our own: without that every write would start it over. VACUUM INTO can be
 * neither watched nor stopped.
 */
export async function backUpSqlite(options: BackupOptions): Promise<BackupResult> {
  const { from, to, force = false } = options;
  refuseTarget(from, to, force);
  const source = connect(from, { readOnly: true });
  const partial = `${to}.partial-${process.pid}`;
  try {
    makeFile(partial, to);
    // Before the moment that the copy shows: what is accepted while it is made is not in it.
    const at = new Date().toISOString();
    source.exec('BEGIN');
    const expected = guarded(() => inventory(source));
    await copy(source, partial, options);
    const { size } = statSync(partial);
    options.onProgress?.({ doneBytes: size, totalBytes: size });
    const result = verify(partial, expected, at);
    // The check of a large copy takes long, and nobody is heard meanwhile.
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
  // The driver leaves it out, and would write another file than the one that is checked here.
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

/** Before SQLite would make it, readable for everyone. */
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

/** A failure may be of the copy's disk as well as of the database's. */
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
  /** Everything that makes the schema, as SQL. */
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

/** Opens the copy as a restore would, and leaves it as one file that needs no log beside it. */
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
      // What was made before there were facts begins an epoch when it is migrated.
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
  return new StoreUnavailable(`the copy is damaged, and so is the database, or its disk: ${what}`, {
    fatal: true,
    remedy: 'the attempt was thrown away; earlier backups are as they were: restore one of them',
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

/** The name appears at once and whole; where it must not replace anything, by a link, which the system refuses then. */
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
      // Some file systems have no links.
      renameSync(partial, to);
    }
  }
  flush(dirname(resolve(to)));
}

function removeWithCompanions(path: string): void {
  for (const suffix of ['', ...COMPANIONS]) rmSync(path + suffix, { force: true });
}
