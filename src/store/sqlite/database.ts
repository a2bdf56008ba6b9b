import type Database from 'better-sqlite3';
import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { StoreUnavailable } from '../../platform/errors.ts';
import {
  type Dialect,
  type Database as MirrorDatabase,
  numbersFrom,
  PAGE_BYTES,
  type RowsOfRecord,
  type Sql,
  type Unit,
} from '../database.ts';
import { recordColumns } from '../reports.ts';
import { type Column, drizzleModule, type SQL } from '../schema.ts';
import type { Field } from '../store.ts';
import { tableName } from '../units/records.ts';
import { createWriter, isOneOf, LAST, sql, withDefaults } from '../units/sql.ts';
import { type Connection, guardedVerb, sizeOf } from './connection.ts';

const write = createWriter(new (drizzleModule('drizzle-orm/sqlite-core').SQLiteSyncDialect)(), () => '?');

const DIALECT: Dialect = {
  isAmong: (expression, values) =>
    sql`${expression} IN (SELECT value FROM json_each(${JSON.stringify(values)}))`,
  isNewest: isOneOf,
  json: (value) => (value == null ? sql`NULL` : sql`${JSON.stringify(value)}`),
  fromJson: (stored) => (stored === null ? null : parseJson(String(stored))),
  isJson(found, value) {
    const json = JSON.stringify(value);
    if (typeof value !== 'object' || value === null) return sql`${found} = ${json}`;
    const parts = (of: SQL) => sql`SELECT fullkey, type, atom FROM json_tree(${of})`;
    const without = (one: SQL, other: SQL) => sql`NOT EXISTS (${parts(one)} EXCEPT ${parts(other)})`;
    return sql`(${without(found, sql`${json}`)} AND ${without(sql`${json}`, found)})`;
  },
  instant: (iso) => sql`${iso}`,
  listed: (ids) => sql`(SELECT value AS id, rowid AS nth FROM json_each(${JSON.stringify(ids)})) AS listed`,
  given(columns, rows) {
    const values = columns.map((column) => `value ->> '${column}' AS ${column}`);
    return sql`(SELECT ${sql.raw(values.join(', '))} FROM json_each(${JSON.stringify(rows)})) AS given`;
  },
  // Only one process writes the file.
  forUpdate: sql``,
  hourOf: (column) => sql`substr(${column}, 1, 13) || ':00:00.000Z'`,
  millisecondsBetween: (earlier, later) => sql`(julianday(${later}) - julianday(${earlier})) * 86400000`,
  indexedBy: (index) => (index === null ? sql` NOT INDEXED` : sql` INDEXED BY ${sql.identifier(index)}`),
  folded: (text) => sql`${text} COLLATE NOCASE`,
  beginsWith: (column, text) => sql`${column} COLLATE NOCASE < ${`${text}${LAST}`}`,
  indexed: (text) => sql`${text}`,
  holds: (column, text) => sql`instr(lower(${column}), lower(${text})) > 0`,
  contains: (column, text) =>
    sql`instr(${column}, ${column.dataType === 'buffer' ? Buffer.from(text) : text}) > 0`,
  // Not as a comparison of pairs: with a collation SQLite uses no index for that.
  isBehind: ([first, second], [a, b]) => sql`${first} >= ${a} AND (${first} > ${a} OR ${second} > ${b})`,
  flatView,
  withEach: (object, value) => sql`(SELECT json_group_object(key, ${value}) FROM json_each(${object}))`,
  numbersOf,
  async lastProcessed(from, kind, records) {
    const condition = sql`state = 'processed'`;
    const last = { table: 'events', kind, condition, order: 'DESC', limit: 1 } as const;
    const found = records.map(({ id, through }) => numbersOf(from, { ...last, id, below: through + 1 }));
    return (await Promise.all(found)).flat();
  },
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
    const { text, params } = write(statement);
    let known = prepared.get(text);
    if (known === undefined) {
      known = db.prepare(text);
      prepared.set(text, known);
    }
    return { prepared: known, params };
  };
}

type Statement = Database.Statement<unknown[], unknown>;

/** The caller runs one unit at a time. BEGIN IMMEDIATE: a unit that reads before it has the lock fails if another writer comes between. */
export function createDatabase(db: Connection): MirrorDatabase {
  const begin = db.prepare('BEGIN IMMEDIATE');
  const commit = db.prepare('COMMIT');
  const rollback = db.prepare('ROLLBACK');
  const beginReading = db.prepare('BEGIN');
  const readCounter = db.prepare('SELECT value FROM counter').pluck();
  const saveCounter = db.prepare('UPDATE counter SET value = ?');
  const statement = statementsOf(db);
  const statements: Sql & Pick<Unit, 'send'> = {
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
        for (const { name } of json) bytes += Buffer.byteLength(row[name]!);
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
  const transact = <T, First>(
    work: (unit: Unit, read: First) => Promise<T>,
    first?: (sql: Sql) => Promise<First>,
  ) =>
    guardedVerb(async () => {
      // SQLite would only say that a transaction is open already.
      if (db.readonly)
        throw new StoreUnavailable('the database cannot be written: it was opened for reading');
      begin.run();
      try {
        const start = readCounter.get() as number;
        const numbers = numbersFrom(start);
        const asked = (await first?.(statements)) as First;
        const result = await work({ ...statements, numbers, gapChanges: [] }, asked);
        if (numbers.current() !== start) saveCounter.run(numbers.current());
        commit.run();
        return result;
      } catch (error) {
        // On a full disk SQLite may have rolled back already.
        if (db.inTransaction) rollback.run();
        throw error;
      }
    });
  return {
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
  };
}

/** Replaces the view. Readers see the old or the new one: SQLite prepares their statements again by itself. */
function flatView(kind: Kind, fields: readonly Field[]): SQL[] {
  const view = `${tableName(kind)}_flat`;
  // The same columns as in the migration, which makes the first of these views.
  const ofAll = recordColumns(kind).filter((column) => column !== 'deleted_at');
  const columns = [...ofAll, ...fields.map((field) => `${expressionOf(field)} AS "${field.column}"`)];
  return [
    sql.raw(`DROP VIEW IF EXISTS ${view}`),
    sql.raw(
      `CREATE VIEW ${view} AS SELECT ${columns.join(',\n  ')}\nFROM ${tableName(kind)} WHERE deleted_at IS NULL`,
    ),
  ];
}

/**
 * A value that does not fit the column's type becomes null, or stays JSON in a text column; it is never an error. SQLite also takes
 * `now`, numbers and 30 February for times: only of a day and a time of day does it write back the same.
 */
function expressionOf({ keys, type }: Field): string {
  const path = literal(`$${keys.map((key) => `.${JSON.stringify(key)}`).join('')}`);
  const isOf = (...types: string[]) => `json_type(data, ${path}) IN (${types.map(literal).join(', ')})`;
  switch (type) {
    case 'number':
      return `CASE WHEN ${isOf('integer', 'real')} THEN data ->> ${path} END`;
    case 'boolean':
      return `CASE WHEN ${isOf('true', 'false')} THEN data ->> ${path} END`;
    case 'date':
      return `CASE WHEN date(data ->> ${path}) = data ->> ${path} THEN data ->> ${path} END`;
    case 'instant':
      // In UTC, like all instants, so that their order as text is their order in time. It must have a zone.
      return `CASE WHEN strftime('%Y-%m-%dT%H:%M:%S', substr(data ->> ${path}, 1, 19)) = substr(data ->> ${path}, 1, 19)
    AND data ->> ${path} GLOB '*T*[-+Z]*' THEN strftime('%Y-%m-%dT%H:%M:%fZ', data ->> ${path}) END`;
    case 'text':
      return `CASE WHEN ${isOf('text')} AND NOT (${hasHalf(path)}) THEN data ->> ${path} ELSE nullif(data -> ${path}, 'null') END`;
    case 'json':
      return `nullif(data -> ${path}, 'null')`;
  }
}

/**
 * The text has half of a surrogate pair, which JSON can only hold as an escape. SQLite would make invalid UTF-8 of it, and strict readers
 * refuse all rows of such a result; so the text stays JSON. Most records have none, which the search of the whole `data` shows first.
 */
const hasHalf = (path: string) =>
  String.raw`instr(data, '\ud') > 0 AND instr(replace(data -> ${path}, '\\', ''), '\ud') > 0`;

const literal = (text: string) => `'${text.replaceAll("'", "''")}'`;

/**
 * The rows of one record are found block by block, of 2^12 numbers each. Events of one commit would be spread over an index by record
 * alone, and each would change another page of it: a fifth of what it costs to accept and show an event. The part of one block is
 * a few pages. A search pays for that with a look-up in each block: 2,400 for ten million numbers.
 */
const BLOCK_BITS = 12;
const blockOf = (seq: number) => Math.floor(seq / 2 ** BLOCK_BITS);

/** How many blocks one statement searches: enough for a quick long search, and not many more than a full page of results needs. */
const BLOCKS_AT_ONCE = 64;

async function numbersOf(from: Sql, rows: RowsOfRecord): Promise<number[]> {
  const { table, id, above, below, condition, isOfKind, order, limit } = withDefaults(rows);
  const of = sql.identifier(table);
  const [ends] = await from.query<{ oldest: number | null; newest: number | null }>(
    sql`SELECT (SELECT min(seq) FROM ${of}) AS oldest, (SELECT max(seq) FROM ${of}) AS newest`,
  );
  const found: number[] = [];
  if (ends === undefined || ends.oldest === null || ends.newest === null) return found;
  const lowest = blockOf(Math.max(ends.oldest, above + 1));
  const highest = blockOf(Math.min(ends.newest, below - 1));
  const step = order === 'ASC' ? 1 : -1;
  let block = order === 'ASC' ? lowest : highest;
  while (block >= lowest && block <= highest && found.length < limit) {
    const last = Math.min(highest, Math.max(lowest, block + step * (BLOCKS_AT_ONCE - 1)));
    const next = await from.query<{ seq: number }>(
      sql`WITH RECURSIVE block(n) AS (VALUES (${block}) UNION ALL SELECT n + ${sql.raw(String(step))} FROM block WHERE n <> ${last})
        SELECT seq FROM block CROSS JOIN ${of} AS in_block${DIALECT.indexedBy(`${table}_record`)}
        WHERE seq >> ${sql.raw(String(BLOCK_BITS))} = block.n AND record_id = ${id} AND ${isOfKind} AND seq > ${above} AND seq < ${below}
          AND ${condition} ORDER BY seq ${sql.raw(order)} LIMIT ${limit - found.length}`,
    );
    found.push(...next.map(({ seq }) => seq));
    block = last + step;
  }
  return found;
}
