import { existsSync, readFileSync, statSync } from 'node:fs';
import Database from 'better-sqlite3';
import { type MigrationMeta, readMigrationFiles } from 'drizzle-orm/migrator';
import { parseJson } from '../../compliance/json.ts';
import { contentHashOf } from '../../inbox/content-hash.ts';
import { MirrorError, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import { packagePath } from '../../platform/package.ts';
import type { Dialect, Database as MirrorDatabase, Sender, Sql, Unit } from '../database.ts';
import { drizzleModule, type SQL } from '../drizzle.ts';
import { createWriter } from '../statement.ts';
import { type TakenStep, UNFIT, unfit } from '../steps.ts';
import { LAST, sql } from '../units/sql.ts';
import { flatView } from './flat-views.ts';
import { isReadOnly, makePlaceFor, refuseFolder } from './place.ts';

/** How long a statement waits for another process's write lock. Longer would stall every delivery behind it. */
const LOCK_WAIT_MS = 1_000;

/** The write-ahead log is folded back at about 64 MiB: rarely enough to be cheap, and small enough to read fast. */
const CHECKPOINT_PAGES = 16_000;

/**
 * Pages kept in memory, in KiB: the records and index pages of a thousand busy records, a few times over. SQLite's own
 * 2 MiB made each event read pages again that the one before had just written.
 */
const PAGE_CACHE_KIB = 16_384;

const MIGRATIONS = packagePath('drizzle/sqlite');

export type Connection = Database.Database;

/** Opens the file (or `:memory:`), durable: WAL and FULL, both asserted, since a silent NORMAL loses acknowledged rows. */
export function connect(path: string, options: { readOnly: boolean }): Connection {
  // A nameless one is temporary: it has no place, and is refused below.
  if (path !== ':memory:' && path !== '') {
    if (options.readOnly && !existsSync(path)) {
      throw new UsageError(
        `there is no database at ${path}`,
        'start the service once, or run `compliance-mirror migrate`',
      );
    }
    if (options.readOnly) refuseFolder(path);
    else makePlaceFor(path);
  }
  return guarded(() => {
    const file = options.readOnly ? whereRead(path) : path;
    const db = new Database(file, { readonly: options.readOnly, timeout: LOCK_WAIT_MS });
    db.function('content_hash_of', { deterministic: true }, (body) => contentHashOf(String(body)));
    if (options.readOnly) return db;
    try {
      db.pragma('journal_mode = WAL');
      db.pragma('synchronous = FULL');
      db.pragma('foreign_keys = ON');
      db.pragma(`wal_autocheckpoint = ${CHECKPOINT_PAGES}`);
      db.pragma(`cache_size = -${PAGE_CACHE_KIB}`);
      assertDurable(db, path);
    } catch (error) {
      db.close();
      throw error;
    }
    return db;
  });
}

/** Of a file that is read as a whole; what is larger would take too much memory. */
const MOST_IN_MEMORY = 2 ** 30;

/**
 * The file at `path`, or what is in it: a database with a write-ahead log cannot be opened where its log cannot be made, and a
 * file system that takes no writes changes nothing beneath us. A log that is there is read in its place, if its index is there, too.
 */
function whereRead(path: string): string | Buffer {
  if (!isReadOnly(path)) return path;
  const there = `${path} is on a read-only file system`;
  const into = 'to a folder that can be written to, and let DATABASE_URL name the copy';
  const log = `${path}-wal`;
  if ((statSync(log, { throwIfNoEntry: false })?.size ?? 0) > 0) {
    if (existsSync(`${path}-shm`)) return path;
    throw new UsageError(
      `${there}, and its log, ${log}, cannot be read there without the file ${path}-shm`,
      `copy the file and its log ${into}`,
    );
  }
  if (statSync(path).size > MOST_IN_MEMORY) {
    throw new UsageError(`${there}, and too large to be read from there`, `copy it ${into}`);
  }
  const image = readFileSync(path);
  // How it is written and read, of the file's format: by a journal, not by a log.
  image.fill(1, 18, 20);
  return image;
}

function assertDurable(db: Connection, path: string): void {
  const journal = db.pragma('journal_mode', { simple: true });
  const synchronous = db.pragma('synchronous', { simple: true });
  const expected = path === ':memory:' ? 'memory' : 'wal';
  if (journal === expected && synchronous === 2) return;
  throw new StoreUnavailable(
    `the database is not durable: journal_mode ${journal}, synchronous ${synchronous}`,
    {
      fatal: true,
      remedy: 'the file system must support write-ahead logging: a local disk, not a network share',
    },
  );
}

/** A table or another thing of the name is there, and we have not made it. */
const TAKEN = /already exists/;

/**
 * Brings the schema up to this version, in one transaction. A schema newer than this version is refused, because
 * an older program would write rows that the newer one does not expect. Returns how many steps were taken.
 */
export function migrateSchema(db: Connection): number {
  const known = readMigrationFiles({ migrationsFolder: MIGRATIONS });
  const applied = appliedMigrations(db, known);
  const last = applied.at(-1) ?? 0;
  try {
    takeSteps(
      db,
      known.filter((step) => step.folderMillis > last),
    );
  } catch (error) {
    const translated = translate(error);
    if (translated instanceof StoreUnavailable) throw translated;
    throw new MirrorError('migration_failed', `the schema could not be migrated: ${reasonOf(error)}`, {
      cause: error,
      remedy:
        applied.length === 0 && TAKEN.test(reasonOf(error))
          ? 'nothing was changed; let DATABASE_URL name a file of its own'
          : 'nothing was changed; free disk space or restore a backup, then start again',
    });
  }
  return known.length - applied.length;
}

/**
 * All of them or none, and noted as drizzle's own migrator does. Not by that migrator: where SQLite has rolled
 * back already, as it does when the disk fails or is full, its ROLLBACK fails, and that failure is all it reports.
 */
function takeSteps(db: Connection, steps: readonly MigrationMeta[]): void {
  if (steps.length === 0) return;
  db.exec('BEGIN IMMEDIATE');
  try {
    db.exec(
      'CREATE TABLE IF NOT EXISTS __drizzle_migrations (id SERIAL PRIMARY KEY, hash text NOT NULL, created_at numeric)',
    );
    const note = db.prepare('INSERT INTO __drizzle_migrations (hash, created_at) VALUES (?, ?)');
    for (const step of steps) {
      for (const statement of step.sql) db.exec(statement);
      note.run(step.hash, step.folderMillis);
    }
    db.exec('COMMIT');
  } catch (error) {
    if (db.inTransaction) db.exec('ROLLBACK');
    throw error;
  }
}

/** Whether the schema is the one that this version reads. Throws UsageError for one that it cannot migrate. */
export function schemaIsCurrent(db: Connection): boolean {
  const known = readMigrationFiles({ migrationsFolder: MIGRATIONS });
  return appliedMigrations(db, known).at(-1) === known.at(-1)?.folderMillis;
}

/** How many steps the schema has taken, and whether it is one that this version would migrate. Throws as `schemaIsCurrent` does. */
export function schemaAge(db: Connection): { steps: number; isOlder: boolean } {
  const known = readMigrationFiles({ migrationsFolder: MIGRATIONS });
  const newest = known.at(-1)?.folderMillis ?? 0;
  const applied = appliedMigrations(db, known);
  return { steps: applied.length, isOlder: applied.length > 0 && (applied.at(-1) ?? 0) < newest };
}

const REMEDIES = {
  newer: 'start that version, or restore the backup made before it migrated',
  unreleased:
    'let DATABASE_URL name a new file: what the API shows is read into it, and the old one keeps its history',
};

/** Throws UsageError where the notes are another program's, as drizzle keeps everybody's alike, or tell of tables that are not ours to migrate. */
function appliedMigrations(db: Connection, known: readonly MigrationMeta[]): number[] {
  const has = db.prepare('SELECT 1 FROM sqlite_master WHERE name = ?');
  if (has.get('__drizzle_migrations') === undefined) return [];
  const rows = db
    .prepare(
      'SELECT hash, CAST(created_at AS INTEGER) AS created_at FROM __drizzle_migrations ORDER BY created_at',
    )
    .all() as TakenStep[];
  if (rows.length > 0 && has.get('record_state') === undefined) {
    throw new UsageError(
      "the file is another program's database: it holds that one's migrations, and no mirror",
      'let DATABASE_URL name a file of its own',
    );
  }
  const why = unfit(rows, known);
  if (why !== null) throw new UsageError(UNFIT[why], REMEDIES[why]);
  return rows.map((row) => row.created_at);
}

/** Runs `work`, turning what SQLite throws into what callers can act on. */
export function guarded<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw translate(error);
  }
}

/** The same for a verb: one that only reads may find the file damaged too. */
export async function guardedVerb<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw translate(error);
  }
}

function translate(error: unknown): unknown {
  if (!(error instanceof Database.SqliteError)) return error;
  const { code } = error;
  if (code === 'SQLITE_FULL') {
    return new StoreUnavailable('the disk is full', {
      cause: error,
      remedy: 'free space; nothing acknowledged is lost',
    });
  }
  if (code.startsWith('SQLITE_BUSY') || code.startsWith('SQLITE_LOCKED')) {
    return new StoreUnavailable('another process holds the database', {
      cause: error,
      remedy: 'end the program that keeps a write transaction open on the file',
    });
  }
  if (code.startsWith('SQLITE_READONLY') || code === 'SQLITE_CANTOPEN' || code === 'SQLITE_PERM') {
    return new StoreUnavailable(`the database cannot be written: ${error.message}`, {
      cause: error,
      remedy: 'the file and its folder must be writable by the user that runs the service',
    });
  }
  if (code.startsWith('SQLITE_IOERR') || code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    return new StoreUnavailable(`the database cannot be trusted any more: ${error.message}`, {
      fatal: true,
      cause: error,
      remedy: 'check the disk; if the file is damaged, restore a backup: a gap says then what it lacks',
    });
  }
  return error;
}

function reasonOf(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
  return cause instanceof Error ? cause.message : String(cause);
}

const write = createWriter(new (drizzleModule('drizzle-orm/sqlite-core').SQLiteSyncDialect)(), () => '?');

const DIALECT: Dialect = {
  isAmong: (expression, values) =>
    sql`${expression} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  json: (value) => (value == null ? sql`NULL` : sql`${JSON.stringify(value)}`),
  fromJson: (stored) => (stored === null ? null : parseJson(String(stored))),
  instant: (iso) => sql`${iso}`,
  listed: (ids) => sql`(SELECT value AS id FROM json_each(${JSON.stringify(ids)})) AS listed`,
  entries: (values) => sql`json_each(${JSON.stringify(values)})`,
  // One process holds the file.
  forShare: sql``,
  forUpdate: sql``,
  hourOf: (column) => sql`substr(${column}, 1, 13) || ':00:00.000Z'`,
  millisecondsBetween: (earlier, later) => sql`(julianday(${later}) - julianday(${earlier})) * 86400000`,
  indexedBy: (index) => (index === null ? sql` NOT INDEXED` : sql` INDEXED BY ${sql.identifier(index)}`),
  knowsSizes: false,
  folded: (text) => sql`${text} COLLATE NOCASE`,
  beginsWith: (column, text) => sql`${column} COLLATE NOCASE < ${`${text}${LAST}`}`,
  indexed: (text) => sql`${text}`,
  holds: (column, text) => sql`instr(lower(${column}), lower(${text})) > 0`,
  contains: (column, text) =>
    sql`instr(${column}, ${column.dataType === 'buffer' ? Buffer.from(text) : text}) > 0`,
  // Of a pair that is compared as one, no index is used where a collation is named.
  isBehind: ([first, second], [a, b]) => sql`${first} >= ${a} AND (${first} > ${a} OR ${second} > ${b})`,
  flatView,
};

/** The statement as this engine has it, prepared once. */
export function statementsOf(db: Connection) {
  const prepared = new Map<string, Statement>();
  return (statement: SQL): { prepared: Statement; params: unknown[] } => {
    const { text, params } = write(statement);
    let known = prepared.get(text);
    if (known === undefined) {
      known = db.prepare(text);
      prepared.set(text, known);
    }
    return {
      prepared: known,
      params: params.map((param) => (typeof param === 'boolean' ? Number(param) : param)),
    };
  };
}

type Statement = Database.Statement<unknown[], unknown>;

/**
 * Units over one connection. Whoever calls sees to it that one at a time runs. BEGIN IMMEDIATE, because a transaction
 * that reads first and writes later fails at once with SQLITE_BUSY_SNAPSHOT when another writer came between.
 */
export function createDatabase(db: Connection): MirrorDatabase {
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const look = db.prepare('BEGIN');
  const read = db.prepare('SELECT value FROM counter').pluck();
  const save = db.prepare('UPDATE counter SET value = ?');
  const statement = statementsOf(db);
  const statements: Sql & Sender = {
    dialect: DIALECT,
    async query<Row>(asked: SQL) {
      const { prepared, params } = statement(asked);
      return prepared.all(...params) as Row[];
    },
    async change(asked) {
      const { prepared, params } = statement(asked);
      return prepared.run(...params).changes;
    },
    send(asked) {
      const { prepared, params } = statement(asked);
      prepared.run(...params);
    },
  };
  const transact = <T, First>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
  ) =>
    guardedVerb(async () => {
      // SQLite itself would only say that a look is under way.
      if (db.readonly)
        throw new StoreUnavailable('the database cannot be written: it was opened for reading');
      begin.run();
      try {
        const start = read.get() as number;
        let value = start;
        const numbers = {
          current: () => value,
          next: () => {
            value += 1;
            return value;
          },
        };
        const asked = (await first?.(statements)) as First;
        const result = await work({ ...statements, numbers, gapChanges: [] }, asked);
        if (value !== start) save.run(value);
        commit.run();
        return result;
      } catch (error) {
        // A full disk may have rolled back already.
        if (db.inTransaction) rollback.run();
        throw error;
      }
    });
  return {
    sql: statements,
    currentNumber: async () => read.get() as number,
    async atOneMoment(work) {
      if (db.inTransaction) return await work(statements);
      look.run();
      try {
        return await work(statements);
      } finally {
        if (db.inTransaction) rollback.run();
      }
    },
    transact,
    // One process holds the file: nobody is held up.
    transactApart: (_table, work) => transact(work),
  };
}
