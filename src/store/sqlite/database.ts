import type Database from 'better-sqlite3';
import type { Kind } from '../../compliance/kinds.ts';
import { StoreUnavailable } from '../../platform/errors.ts';
import {
  type Dialect,
  type Flush,
  type Database as MirrorDatabase,
  numbersFrom,
  PAGE_BYTES,
  type Sql,
  type Unit,
  type Writing,
} from '../database.ts';
import type { Column } from '../schema.ts';
import { Json, type SQL, sql } from '../statement.ts';
import type { Field } from '../store.ts';
import { flatViews } from '../units/flat-views.ts';
import { assertDurable, type Connection, flushLog, guardedVerb, sizeOf } from './connection.ts';

const DIALECT: Dialect = {
  isAmong: (expression, values) =>
    sql`${expression} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  isJson(found, value) {
    const json = JSON.stringify(value);
    if (typeof value !== 'object' || value === null) return sql`${found} = ${json}`;
    const parts = (of: SQL) => sql`SELECT fullkey, type, atom FROM json_tree(${of})`;
    const without = (one: SQL, other: SQL) => sql`NOT EXISTS (${parts(one)} EXCEPT ${parts(other)})`;
    return sql`(${without(found, sql`${json}`)} AND ${without(sql`${json}`, found)})`;
  },
  instant: (iso) => sql`${iso}`,
  documents: (objects) =>
    sql`(SELECT value ->> 'id' AS id, value ->> 'json' AS data FROM json_each(${new Json(objects)})) AS given`,
  textAt(path, isNumber) {
    const at = literal(`$${path.map((step) => `."${step}"`).join('')}`);
    const number = isNumber ? ` WHEN 'integer' THEN CAST(r.data ->> ${at} AS TEXT)` : '';
    return `CASE json_type(r.data, ${at}) WHEN 'text' THEN r.data ->> ${at}${number} END`;
  },
  listed: (ids) => sql`(SELECT value AS id FROM json_each(${JSON.stringify(ids)})) AS listed`,
  given(columns, rows) {
    const values = columns.map((column) => `value ->> '${column}' AS ${column}`);
    return sql`(SELECT ${sql.raw(values.join(', '))} FROM json_each(${JSON.stringify(rows)})) AS given`;
  },
  millisecondsBetween: (earlier, later) => sql`(julianday(${later}) - julianday(${earlier})) * 86400000`,
  indexedBy: (index) => (index === null ? sql` NOT INDEXED` : sql` INDEXED BY ${sql.identifier(index)}`),
  holds: (name, text) => sql`instr(lower(${name}), lower(${text})) > 0`,
  contains: (column, text) =>
    sql`instr(${column}, ${column.dataType === 'buffer' ? Buffer.from(text) : text}) > 0`,
  // The view has them so.
  timeText: (name) => name,
  showFields,
  withEach: (object, field, value) =>
    sql`json_set(${object}, ${`$.${field}`}, json((SELECT json_group_object(key, ${value}) FROM json_each(${object}, ${`$.${field}`}))))`,
  async sizes(from) {
    const [main] = await from.query<{ file: string }>(
      sql`SELECT file FROM pragma_database_list WHERE name = 'main'`,
    );
    const { file } = main!;
    return { database_bytes: sizeOf(file), wal_bytes: sizeOf(`${file}-wal`) };
  },
};

/** Prepares each statement once. */
export function statementsOf(db: Connection) {
  const prepared = new Map<string, Statement>();
  return (statement: SQL): { prepared: Statement; params: unknown[] } => {
    const text = statement.texts.join('?');
    let known = prepared.get(text);
    if (known === undefined) {
      known = db.prepare(text);
      prepared.set(text, known);
    }
    return { prepared: known, params: statement.params.map(parameter) };
  };
}

/** A row at a time: with the rows as JSON, as PostgreSQL gets them, it takes half as long again. */
function writerOf(db: Connection): Unit['write'] {
  const prepared = new Map<Writing, Statement>();
  return (how, rows) => {
    let statement = prepared.get(how);
    if (statement === undefined) {
      statement = db.prepare(textOf(how));
      prepared.set(how, statement);
    }
    for (const row of rows as Record<string, unknown>[])
      statement.run(...how.columns.map(({ field }) => stored(row[field])));
  };
}

function textOf({ table, columns, key, conflict }: Writing): string {
  const names = columns.map(({ name }) => name);
  if (key === null)
    return `INSERT INTO ${table} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')}) ${conflict}`;
  const set = names.slice(0, -1).map((name) => `${name} = ?`);
  return `UPDATE ${table} SET ${set.join(', ')} WHERE ${key} = ?`;
}

function stored(value: unknown): unknown {
  if (typeof value === 'boolean') return Number(value);
  if (value === undefined || value === null) return null;
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' && !ArrayBuffer.isView(value) ? JSON.stringify(value) : value;
}

const parameter = (value: unknown): unknown => (value instanceof Json ? JSON.stringify(value.value) : value);

type Statement = Database.Statement<unknown[], unknown>;

/**
 * The most numbers that may be given out before they are on the disk. After an unclean end the counter goes on further on, by more than
 * these and those of one unit: no number that anybody has seen in the file is given out again.
 */
const MOST_UNFLUSHED = 2 ** 14;
const SKIPPED = 2 * MOST_UNFLUSHED;

export interface SqliteDatabase extends MirrorDatabase {
  /** Makes durable what was committed without a flush, before it is shown to anybody. */
  flush(): void;
  /** After an unclean end. */
  skipNumbers(): Promise<void>;
}

/** The caller runs one unit at a time. BEGIN IMMEDIATE: a unit that reads before it has the lock fails if another writer comes between. */
export function createDatabase(db: Connection): SqliteDatabase {
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const beginReading = db.prepare('BEGIN');
  const readCounter = db.prepare('SELECT value FROM counter').pluck();
  const saveCounter = db.prepare('UPDATE counter SET value = ?');
  const statement = statementsOf(db);
  const statements: Sql & Pick<Unit, 'send' | 'write'> = {
    write: writerOf(db),
    dialect: DIALECT,
    async query<Row>(asked: SQL) {
      const { prepared, params } = statement(asked);
      return prepared.all(...params) as Row[];
    },
    async page<Row>(asked: SQL, json: readonly Column[], limit: number, maxBytes = PAGE_BYTES) {
      const { prepared, params } = statement(sql`${asked} LIMIT ${limit}`);
      const rows: Row[] = [];
      let bytes = 0;
      for (const row of prepared.iterate(...params) as Iterable<Record<string, string>>) {
        rows.push(row as Row);
        for (const { name } of json) bytes += Buffer.byteLength(row[name] ?? '');
        if (bytes >= maxBytes) break;
      }
      return { rows, isFull: rows.length === limit || bytes >= maxBytes };
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
  const dataVersion = db.prepare('PRAGMA data_version').pluck();
  /** Whether commits wait for the disk. */
  let isFlushing = true;
  let isUnflushed = false;
  /** The last number, and the last that is surely on the disk. */
  let number = readCounter.get() as number;
  let flushed = number;
  let flushedVersion: unknown = null;

  function flushCommits(on: boolean): void {
    if (on === isFlushing) return;
    // Not prepared: this statement has its effect when it is compiled.
    db.pragma(`synchronous = ${on ? 'FULL' : 'NORMAL'}`);
    if (on) assertDurable(db);
    isFlushing = on;
  }

  const transact = <T, First>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
    flush: Flush = 'first',
  ) =>
    guardedVerb(async () => {
      // SQLite would only say that a transaction is open already.
      if (db.readonly)
        throw new StoreUnavailable('the database cannot be written: it was opened for reading');
      // The log is written in order, so the next commit that waits for the disk waits for this one too.
      flushCommits(flush !== 'later' || number - flushed >= MOST_UNFLUSHED);
      begin.run();
      try {
        const start = readCounter.get() as number;
        const numbers = numbersFrom(start);
        const asked = (await first?.(statements)) as First;
        const result = await work({ ...statements, numbers, problemChanges: [] }, asked);
        if (numbers.current() !== start) saveCounter.run(numbers.current());
        commit.run();
        number = numbers.current();
        if (!isFlushing) isUnflushed = true;
        // A commit that has written nothing does not wait for the disk.
        else if (number !== start) {
          isUnflushed = false;
          flushed = number;
        }
        return result;
      } catch (error) {
        // On a full disk SQLite may have rolled back already.
        if (db.inTransaction) rollback.run();
        throw error;
      }
    });
  return {
    keepsTime: false,
    sql: statements,
    currentNumber: async () => readCounter.get() as number,
    async atOneMoment(work) {
      if (db.inTransaction) return await work(statements);
      beginReading.run();
      try {
        return await work(statements);
      } finally {
        if (db.inTransaction) rollback.run();
      }
    },
    transact,
    // Only one process writes the file: there is nobody to wait for.
    transactApart: (_table, work) => transact(work),
    flush() {
      const version = db.readonly ? dataVersion.get() : null;
      if (db.readonly ? version === flushedVersion : !isUnflushed) return;
      flushLog(db);
      flushedVersion = version;
      isUnflushed = false;
      flushed = number;
    },
    async skipNumbers() {
      await transact(async ({ numbers }) => numbers.skip(SKIPPED));
    },
  };
}

/** Replaces the views. Readers see the old or the new ones: SQLite prepares their statements again by itself. */
async function showFields(to: Sql, kind: Kind, fields: readonly Field[]): Promise<boolean> {
  const typed = fields.map((field) => ({ name: field.column!, is: expressionOf(field) }));
  for (const { view, columns, from } of flatViews(kind)) {
    const shown = [...columns, ...typed].map(({ name, is }) => `${is} AS "${name}"`);
    await to.change(sql.raw(`DROP VIEW IF EXISTS ${view}`));
    await to.change(sql.raw(`CREATE VIEW ${view} AS SELECT ${shown.join(',\n  ')}\nFROM ${from}`));
  }
  return true;
}

/**
 * A value that does not fit the column's type becomes null, or stays JSON in a text column; it is never an error. The casts are for
 * programs that ask for a column's type. SQLite also takes `now`, numbers and 30 February for times: only of a day and a time of day
 * does it write back the same.
 */
function expressionOf({ keys, type }: Field): string {
  const path = literal(`$${keys.map((key) => `.${JSON.stringify(key)}`).join('')}`);
  const isOf = (...types: string[]) => `json_type(data, ${path}) IN (${types.map(literal).join(', ')})`;
  const text = (is: string) => `CAST(${is} AS TEXT)`;
  const time = (...cases: string[]) =>
    text(
      `(SELECT CASE WHEN ${IS_DAY} THEN CASE ${cases.join(' ')} END END FROM ${partsOf(`data ->> ${path}`)})`,
    );
  switch (type) {
    case 'number':
      return `CAST(CASE WHEN ${isOf('integer', 'real')} THEN data ->> ${path} END AS NUMERIC)`;
    case 'boolean':
      return `CAST(CASE WHEN ${isOf('true', 'false')} THEN data ->> ${path} END AS INTEGER)`;
    case 'date':
      return time("WHEN rest = '' THEN day");
    case 'timestamp':
      return time(
        "WHEN rest = '' THEN day || 'T00:00:00.000000'",
        `WHEN ${IS_TIME} AND zone = '' THEN day || 'T' || time || ${FRACTION}`,
      );
    case 'instant':
      // In UTC, like all instants, so that their order as text is their order in time.
      return time(
        "WHEN rest = '' THEN day || 'T00:00:00.000000Z'",
        `WHEN ${IS_TIME} AND (zone = 'Z' OR day NOT GLOB '0001*' AND day NOT GLOB '9999*')
        THEN strftime('%Y-%m-%dT%H:%M:%S', day || 'T' || time || ${OFFSET}) || ${FRACTION} || 'Z'`,
      );
    case 'text':
      return text(
        `CASE WHEN ${isOf('text')} AND NOT (${hasHalf(path)}) THEN data ->> ${path} ELSE nullif(data -> ${path}, 'null') END`,
      );
    case 'json':
      return text(`nullif(data -> ${path}, 'null')`);
  }
}

/** The parts of a time that is written as text. `rest`: all behind the day; `tail`: all behind the time. */
const partsOf = (value: string) =>
  `(SELECT *, substr(tail, 2, max(0, length(tail) - length(zone) - 1)) AS digits
    FROM (SELECT *, ltrim(tail, '.0123456789') AS zone
    FROM (SELECT substr(v, 1, 10) AS day, substr(v, 11) AS rest, substr(v, 12, 8) AS time, substr(v, 20) AS tail FROM (SELECT ${value} AS v))))`;
const IS_DAY = "date(day) = day AND day >= '0001'";
const IS_TIME = `substr(rest, 1, 1) IN ('T', ' ') AND strftime('%H:%M:%S', time) = time
        AND (tail = zone OR tail LIKE '.%' AND digits GLOB '[0-9]*' AND digits NOT GLOB '*[^0-9]*')`;
/** Microseconds, cut and not rounded, so that the end of a day stays in it. */
const FRACTION = "'.' || substr(digits || '000000', 1, 6)";
const OFFSET = `CASE WHEN zone = 'Z' OR zone GLOB '[+-][01][0-9]:[0-5][0-9]' THEN zone
        WHEN zone GLOB '[+-][01][0-9][0-5][0-9]' THEN substr(zone, 1, 3) || ':' || substr(zone, 4)
        WHEN zone GLOB '[+-][01][0-9]' THEN zone || ':00' END`;

/**
 * The text has half of a surrogate pair, which JSON can only hold as an escape. SQLite would make invalid UTF-8 of it, and strict readers
 * refuse all rows of such a result; so the text stays JSON. Most records have none, which the search of the whole `data` shows first.
 */
const hasHalf = (path: string) =>
  String.raw`instr(data, '\ud') > 0 AND instr(replace(data -> ${path}, '\\', ''), '\ud') > 0`;

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
