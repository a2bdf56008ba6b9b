import type Database from 'better-sqlite3';
import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { StoreUnavailable } from '../../platform/errors.ts';
import {
  type Dialect,
  type Database as MirrorDatabase,
  numbersFrom,
  type Sender,
  type Sql,
  type Unit,
} from '../database.ts';
import { drizzleModule, type SQL } from '../drizzle.ts';
import { createWriter } from '../statement.ts';
import type { Field } from '../store.ts';
import { tableName } from '../units/records.ts';
import { LAST, sql } from '../units/sql.ts';
import { type Connection, guardedVerb } from './connection.ts';

const write = createWriter(new (drizzleModule('drizzle-orm/sqlite-core').SQLiteSyncDialect)(), () => '?');

const DIALECT: Dialect = {
  isAmong: (expression, values) =>
    sql`${expression} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  json: (value) => (value == null ? sql`NULL` : sql`${JSON.stringify(value)}`),
  fromJson: (stored) => (stored === null ? null : parseJson(String(stored))),
  instant: (iso) => sql`${iso}`,
  listed: (ids) => sql`(SELECT value AS id FROM json_each(${JSON.stringify(ids)})) AS listed`,
  entries: (values) => sql`json_each(${JSON.stringify(values)})`,
  // Only one process writes the file.
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

/** The statement as SQLite reads it, prepared once. */
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
 * Units over one connection; the caller runs one at a time. BEGIN IMMEDIATE, because a transaction
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
        const numbers = numbersFrom(start);
        const asked = (await first?.(statements)) as First;
        const result = await work({ ...statements, numbers, gapChanges: [] }, asked);
        if (numbers.current() !== start) save.run(numbers.current());
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
    // Only one process writes the file: there is nobody to wait for.
    transactApart: (_table, work) => transact(work),
  };
}

/** What every record has; as in the first of these views, which a migration makes. */
const columnsOf = (kind: Kind) =>
  `id, name, ${kind === 'policy' ? 'version, ' : ''}status, data, first_seen_at, synced_at, verified_at, unverified_since, last_event_id, last_event_at, cause`;

/** Makes the view anew. Readers see the old one or the new one: SQLite prepares their statements again by itself. */
function flatView(kind: Kind, fields: readonly Field[]): SQL[] {
  const view = `${tableName(kind)}_flat`;
  const columns = [columnsOf(kind), ...fields.map((field) => `${expressionOf(field)} AS "${field.column}"`)];
  return [
    sql.raw(`DROP VIEW IF EXISTS ${view}`),
    sql.raw(
      `CREATE VIEW ${view} AS SELECT ${columns.join(',\n  ')}\nFROM ${tableName(kind)} WHERE deleted_at IS NULL`,
    ),
  ];
}

/** A later value that does not fit the column's type gives null, or itself; never an error. */
function expressionOf({ keys, type }: Field): string {
  const path = literal(`$${keys.map((key) => `.${JSON.stringify(key)}`).join('')}`);
  const isOf = (...types: string[]) => `json_type(data, ${path}) IN (${types.map(literal).join(', ')})`;
  switch (type) {
    case 'number':
      return `CASE WHEN ${isOf('integer', 'real')} THEN data ->> ${path} END`;
    case 'boolean':
      return `CASE WHEN ${isOf('true', 'false')} THEN data ->> ${path} END`;
    case 'date':
      return `CASE WHEN data ->> ${path} GLOB ${literal(DAY)} THEN date(data ->> ${path}) END`;
    case 'instant':
      // In UTC, as every instant here, so that their order as text is their order in time.
      return `CASE WHEN data ->> ${path} GLOB ${literal(`${DAY}T*`)} THEN strftime('%Y-%m-%dT%H:%M:%fZ', data ->> ${path}) END`;
    case 'text':
      return `CASE WHEN ${isOf('text')} THEN data ->> ${path} ELSE nullif(data -> ${path}, 'null') END`;
    case 'json':
      return `nullif(data -> ${path}, 'null')`;
  }
}

/** Without it SQLite takes `now`, and numbers, for times. */
const DAY = '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]';

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;
