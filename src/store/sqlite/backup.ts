import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { describeError, MirrorError, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import { type Connection, connect } from './connection.ts';
import { COPIED_FACT, NOTE_SUFFIX } from './copies.ts';

/** Files that SQLite keeps beside a database. If one is left over from another database, SQLite would write it into a new file. */
const COMPANIONS = ['-wal', '-shm', '-journal'];

/** Files that a service keeps beside its database: the lock, and the note of which process has it. */
export const LOCK_SUFFIX = '.lock';
export const HOLDER_SUFFIX = '.holder.json';

/** Whether `path` is the file of `database`, by any name, or a file beside it. Throws UsageError if the folder of `path` is missing. */
export function isPartOf(database: string, path: string): boolean {
  const target = join(realFolder(path), basename(path));
  const source = existsSync(database) ? realpathSync(database) : resolve(database);
  const suffixes = ['', ...COMPANIONS, LOCK_SUFFIX, HOLDER_SUFFIX, NOTE_SUFFIX];
  return suffixes.some((suffix) => source + suffix === target) || isSameFile(source, path);
}

/**
 * Copies a database as it is at one moment into one file (mode 0600), even while a service writes to it, and returns its bytes. The file
 * `to` appears only after the copy was checked. Throws UsageError for a file that must not be replaced or cannot be made.
 */
export async function backUpSqlite({
  from,
  to,
  force = false,
}: {
  from: string;
  to: string;
  force?: boolean;
}): Promise<number> {
  refuseTarget(from, to, force);
  return copyInto(from, to, (db, at) => {
    // A copy of a copy that was never opened keeps the first one's time.
    const mark = 'INSERT INTO facts (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING';
    if (db.prepare("SELECT 1 FROM sqlite_master WHERE name = 'facts'").get() !== undefined)
      db.prepare(mark).run(COPIED_FACT, at);
  });
}

/**
 * Copies, checks, prepares and flushes beside `to`, then gives the copy that name. Returns its bytes. Killed in between, it leaves a
 * file that the next attempt removes. `at`: before the moment that the copy shows.
 */
export function copyInto(from: string, to: string, prepare: (copy: Connection, at: string) => void): number {
  const partial = `${to}.partial`;
  const source = connect(from, { readOnly: true });
  try {
    makeFile(partial, to);
    // Taken before the moment that the copy shows, so that no event is missing from before this time.
    const at = new Date().toISOString();
    source.prepare('VACUUM INTO ?').run(partial);
    const copy = new Database(partial);
    try {
      const verdict = copy.pragma('integrity_check(1)', { simple: true });
      if (verdict !== 'ok') throw damaged(`${verdict}`);
      prepare(copy, at);
    } finally {
      copy.close();
    }
    flush(partial);
    const { size } = statSync(partial);
    renameSync(partial, to);
    // In this order: a copy beside the log of another database is refused when it is opened.
    for (const suffix of COMPANIONS) rmSync(to + suffix, { force: true });
    flush(dirname(resolve(to)));
    return size;
  } catch (error) {
    throw rephrase(error);
  } finally {
    source.close();
    removeWithCompanions(partial);
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

/** The failing disk may be the copy's as well as the database's. */
function rephrase(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const isFull = error.code === 'SQLITE_FULL';
  return new MirrorError(
    'backup_failed',
    isFull ? 'the disk is full' : `the database could not be copied: ${error.message}`,
    {
      remedy: `nothing is left of the attempt; ${isFull ? 'free space, or name a file on another disk' : 'check the disks of the database and of the copy'}`,
      cause: error,
    },
  );
}

function damaged(what: string): StoreUnavailable {
  return new StoreUnavailable(`the copy is damaged, so the file or a disk is damaged too: ${what}`, {
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

function removeWithCompanions(path: string): void {
  for (const suffix of ['', ...COMPANIONS]) rmSync(path + suffix, { force: true });
}
