import {
  closeSync,
  existsSync,
  fsyncSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { describeError, MirrorError, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import type { Database as MirrorDatabase } from '../database.ts';
import { type Steps, stepsOf, type TakenStep } from '../migrations.ts';
import { facts } from '../schema.ts';
import { sql } from '../statement.ts';
import { beginEpoch, EPOCH_FACT } from '../units/epoch.ts';
import { readFact, singleValue } from '../units/sql.ts';
import { type Connection, connect, flushLog, guarded, sizeOf } from './connection.ts';

/** What is done with the file as a whole: it is copied, restored, migrated, and a copy in its place is noticed. */

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
function copyInto(from: string, to: string, prepare: (copy: Connection, at: string) => void): number {
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

/**
 * Puts a copy in the place of the database, which nobody may have open, and returns its bytes. The next start begins a new epoch. Throws
 * UsageError for a file that is no mirror of this version or an earlier one, and leaves the database as it is if the copy is damaged.
 */
export function restoreSqlite(copy: string, database: string): number {
  const remedy = 'name a file that "backup" has made';
  if (!existsSync(copy)) throw new UsageError(`there is no file ${copy}`, remedy);
  if (isPartOf(database, copy)) throw new UsageError(`${copy} is the database itself`, remedy);
  return copyInto(copy, database, (db) => {
    if (schemaSteps(db).taken === 0) throw new UsageError(`${copy} is no mirror`, remedy);
    // Without this fact it was copied by another program: then its last heartbeat says how old it is.
    if (db.prepare('SELECT 1 FROM facts WHERE name = ?').get(COPIED_FACT) === undefined)
      db.prepare('DELETE FROM facts WHERE name = ?').run(EPOCH_FACT);
  });
}

// ─── a copy in its place ─────────────────────────────────────────────────────────────────────────────────────

/**
 * How a copy that was put in the place of the database is noticed, whatever program did it. A note beside the file holds its epoch and a
 * number that it has reached. If the note is ahead of the file, of another epoch or missing, the file is a copy.
 */
interface Note {
  epoch: string;
  number: number;
}

const NOTE_SUFFIX = '.epoch.json';

/** This fact is only in backups: when the copy was made. */
const COPIED_FACT = 'copied_at';

export function createNotes(db: Connection, database: MirrorDatabase) {
  const path = db.memory || db.readonly ? null : realpathSync(db.name);
  const isCopy = async (epoch: string, note: Note | null): Promise<boolean> => {
    if (path === null) return false;
    if (note === null) return (await singleValue(database.sql, sql`SELECT 1 FROM events LIMIT 1`)) !== null;
    return note.epoch !== epoch || note.number > (await database.currentNumber());
  };

  return {
    /** Begins a new epoch if the file is a copy, or if it has none: a person removes it from a copy made in another way. */
    async settleEpoch(): Promise<void> {
      // Read before the numbers of the file, which a service may be raising.
      const note = path === null ? null : readNote(path);
      const [copiedAt, epoch] = [
        await readFact(database.sql, COPIED_FACT),
        await readFact(database.sql, EPOCH_FACT),
      ];
      if (copiedAt === null && epoch !== null && !(await isCopy(epoch, note))) return;
      await database.transact(async (unit) => {
        // The service sets the problems' instants again at its start, with its own clock and settings.
        const now = Date.now();
        await beginEpoch(unit, copiedAt, { wall: now, steady: now });
        await unit.change(sql`DELETE FROM ${facts} WHERE ${facts.name} = ${COPIED_FACT}`);
      });
    },

    async write(): Promise<void> {
      if (path === null) return;
      const epoch = (await readFact(database.sql, EPOCH_FACT)) ?? '';
      const note: Note = { epoch, number: await database.currentNumber() };
      // The note must not come to the disk before what it says.
      flushLog(db);
      const partial = `${path}${NOTE_SUFFIX}.partial`;
      try {
        writeFileSync(partial, `${JSON.stringify(note)}\n`, { mode: 0o600, flush: true });
        renameSync(partial, path + NOTE_SUFFIX);
      } catch (error) {
        const what = `${partial} cannot be written to the disk: ${describeError(error)}`;
        throw new StoreUnavailable(what, { remedy: 'check the disk', cause: error });
      }
    },
  };
}

function readNote(path: string): Note | null {
  try {
    return JSON.parse(readFileSync(path + NOTE_SUFFIX, 'utf8')) as Note;
  } catch {
    return null;
  }
}

// ─── its schema ──────────────────────────────────────────────────────────────────────────────────────────────

/** Throws UsageError for a schema that this version cannot migrate. */
export function schemaSteps(db: Connection): Steps {
  const has = db.prepare('SELECT 1 FROM sqlite_master WHERE name = ?');
  const notes =
    has.get('__drizzle_migrations') === undefined
      ? []
      : db
          .prepare(
            'SELECT hash, CAST(created_at AS INTEGER) AS created_at FROM __drizzle_migrations ORDER BY created_at',
          )
          .all();
  return stepsOf('sqlite', notes as TakenStep[], has.get('record_state') !== undefined, {
    anothers: "the file is another program's database",
    backup: 'backup',
    useOwn: 'let DATABASE_URL name a file of its own',
    useNew: 'let DATABASE_URL name a new file',
  });
}

/** Brings the schema up to this version, in one transaction. Throws as `schemaSteps` does. */
export function migrateSchema(db: Connection): void {
  const { taken, missing } = schemaSteps(db);
  if (missing.length === 0) return;
  // Not by drizzle's migrator: if SQLite has rolled back already, as on a full disk, that reports only that its ROLLBACK failed.
  const takeSteps = db.transaction(() => {
    for (const statement of missing) db.exec(statement);
  });
  try {
    guarded(takeSteps.immediate);
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    const reason = describeError(error);
    throw new MirrorError('migration_failed', `the schema could not be migrated: ${reason}`, {
      cause: error,
      remedy:
        taken === 0 && /already exists/.test(reason)
          ? 'nothing was changed; let DATABASE_URL name a file of its own'
          : 'nothing was changed; free disk space or restore a backup, then start again',
    });
  }
}

/**
 * Copies the database at `path` into a file beside it, if this version is about to migrate it, and returns the copy's path. Null:
 * there is nothing to migrate. One of the same schema is replaced. Rejects if the copy fails, so that no migration begins without one.
 */
export async function backUpBeforeMigrating(path: string, onMigrating = () => {}): Promise<string | null> {
  if (path === ':memory:' || sizeOf(path) === 0) return null;
  const schema = schemaToMigrate(path);
  if (schema === null) return null;
  onMigrating();
  const to = `${path}.schema-${schema}.bak`;
  try {
    await backUpSqlite({ from: path, to, force: true });
  } catch (error) {
    if (error instanceof StoreUnavailable) throw error;
    throw new MirrorError(
      'backup_failed',
      `not migrated, since no backup could be made: ${describeError(error)}`,
      {
        remedy: `nothing was changed; free space in the folder of ${path}, and see that it can be written to`,
        cause: error,
      },
    );
  }
  return to;
}

/** How many steps the file's schema has; null if there is nothing to migrate. */
function schemaToMigrate(path: string): number | null {
  // Opened for writing, because an interrupted transaction must be rolled back first.
  const db = connect(path, { readOnly: false });
  try {
    const { taken, missing } = guarded(() => schemaSteps(db));
    return taken > 0 && missing.length > 0 ? taken : null;
  } finally {
    db.close();
  }
}
