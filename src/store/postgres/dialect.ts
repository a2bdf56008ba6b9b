import pg from 'pg';
import { parseJson } from '../../compliance/json.ts';
import { type Dialect, PAGE_BYTES, type RowsOfRecord, type Sql } from '../database.ts';
import { type Column, drizzleModule, type SQL } from '../schema.ts';
import { createWriter, LAST, sql, withDefaults } from '../units/sql.ts';

/** PostgreSQL's SQL, for the verbs that are written once for both engines. */

export const write = createWriter(
  new (drizzleModule('drizzle-orm/pg-core').PgDialect)(),
  (position) => `$${position}`,
);

export const DIALECT: Dialect = {
  isAmong: (column, values) =>
    sql`${column} = ANY (${sql.param(values)}::${sql.raw(column.dataType === 'number' ? 'bigint' : 'text')}[])`,
  // While somebody's query has its snapshot open, all older versions stay. The index has versions with the same key in the order of
  // their places, so nearly always the newest one last; an equation would begin with the oldest, and so would any order beside it.
  isNewest: (key, values) =>
    sql`ctid IN (${sql.join(
      values.map(
        (value) =>
          sql`(SELECT ctid FROM ${key.table} WHERE ${key} BETWEEN ${value} AND ${value} ORDER BY ${key} DESC LIMIT 1)`,
      ),
      sql`, `,
    )})`,
  json: (value) => (value == null ? sql`NULL` : sql`${escapedJson(value)}::jsonb`),
  fromJson: (stored) => stored,
  isJson: (found, value) => sql`${found} = ${escapedJson(value)}::jsonb`,
  instant: (iso) => sql`${iso}::timestamptz`,
  listed: (ids) => sql`unnest(${textArray(ids)}::text[]) WITH ORDINALITY AS listed (id, nth)`,
  given: (columns, rows) =>
    sql`json_to_recordset(${escapedJson(rows)}::json) AS given (${sql.raw(columns.map((column) => `${column} text`).join(', '))})`,
  forUpdate: sql`FOR UPDATE`,
  hourOf: (column) => sql`date_trunc('hour', ${column})`,
  millisecondsBetween: (earlier, later) => sql`(extract(epoch FROM ${later} - ${earlier}) * 1000)::float8`,
  indexedBy: () => sql``,
  folded,
  // The first condition uses the index, which has only the beginnings of names.
  beginsWith: (column, text) => sql`${folded(column)} < ${folded(text)} || ${LAST}::text
    AND starts_with(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C"))`,
  indexed: (text) => sql`left(${text}::text, 200)`,
  holds: (column, text) => sql`strpos(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C")) > 0`,
  contains: (column, text) =>
    column.dataType === 'buffer'
      ? sql`position(${Buffer.from(text)}::bytea IN ${column}) > 0`
      : sql`strpos(${column}, ${text}) > 0`,
  isBehind: ([first, second], [a, b]) => sql`(${first}, ${second}) > (${a}, ${b})`,
  // A function does it, since the service's user need not own the view.
  flatView: (kind) => [sql`SELECT show_fields(${kind})`],
  withEach: (object, value) =>
    sql`(SELECT jsonb_object_agg(key, ${value}::bigint) FROM jsonb_object_keys(${object}) AS key)`,
  numbersOf,
  // One round trip, since all replicas wait for the counter meanwhile.
  async lastProcessed(from, kind, records) {
    const found = await from.query<{ seq: number }>(
      sql`SELECT last.seq FROM ${DIALECT.listed(records.map(({ id }) => id))} CROSS JOIN LATERAL (SELECT seq FROM events
        WHERE record_id = listed.id AND kind = ${kind} AND state = 'processed' ORDER BY seq DESC LIMIT 1) AS last`,
    );
    return found.map(({ seq }) => seq);
  },
  async sizes(from) {
    const [row] = await from.query<{ bytes: number }>(
      sql`SELECT sum(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c
        WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind = 'r'`,
    );
    // Not the log, which is the whole server's.
    return { database_bytes: row!.bytes, wal_bytes: 0 };
  },
};

/** The size of a JSON value. A compressed one has to be unpacked for that. */
export const bytesOf = (column: Column | SQL): SQL =>
  sql`CASE WHEN pg_column_compression(${column}) IS NULL THEN pg_column_size(${column}) ELSE octet_length(${column}::text) END`;

/** The columns that `upTo` adds. */
export interface Counted {
  own: number;
  bytes: number;
  over: number;
}

/**
 * The first of `rows`, at most `limit`, and only until they have `maxBytes` together; `own` is the size of one row. `over` counts the rows
 * that are too many. Because a count only grows, the server stops at the first of these, and does not read the rows behind it.
 */
export const upTo = (maxBytes: number, rows: SQL, own: SQL, limit: number): SQL =>
  sql`SELECT * FROM (SELECT *, count(CASE WHEN bytes - own >= ${maxBytes} THEN 1 END) OVER (ROWS UNBOUNDED PRECEDING) AS over
    FROM (SELECT *, sum(own) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT *, ${own} AS own FROM (${rows}) AS asked LIMIT ${limit}) AS sized) AS summed) AS counted
    WHERE over < 1`;

export const uncounted = <Row>({ own, bytes, over, ...row }: Row & Counted) => row as unknown as Row;

export const pagesBy =
  (query: Sql['query']): Sql['page'] =>
  async <Row>(statement: SQL, json: readonly Column[], limit: number, maxBytes = PAGE_BYTES) => {
    const own = json.map(({ name }) => bytesOf(sql`${sql.identifier(name)}`));
    const found = await query<Row & Counted>(upTo(maxBytes, statement, sql.join(own, sql` + `), limit));
    const isFull = found.length === limit || (found.at(-1)?.bytes ?? 0) >= maxBytes;
    return { rows: found.map((row) => uncounted<Row>(row)), isFull };
  };

function folded(text: Column | string): SQL {
  return sql`left(lower(${text}::text COLLATE "C"), 200)`;
}

async function numbersOf(from: Sql, rows: RowsOfRecord): Promise<number[]> {
  const { table, id, above, below, condition, isOfKind, order, limit } = withDefaults(rows);
  const found = await from.query<{ seq: number }>(
    sql`SELECT seq FROM ${sql.identifier(table)} WHERE record_id = ${id} AND ${isOfKind} AND seq > ${above} AND seq < ${below}
      AND ${condition} ORDER BY seq ${sql.raw(order)} LIMIT ${limit}`,
  );
  return found.map(({ seq }) => seq);
}

/** How values are converted between PostgreSQL's types and the port's, which are SQLite's. */

const { TEXT, BOOL, INT8, NUMERIC, TIMESTAMPTZ, JSON: JSON_TEXT, JSONB } = pg.types.builtins;

/**
 * PostgreSQL accepts neither U+0000 nor half of a surrogate pair, in text or in jsonb. We write them as escapes that begin with U+0001,
 * and undo that when we read: `01 01` is U+0000, `01 02` is U+0001, and `01 03 d800` is that half of a pair. With U+0001 escaped texts
 * have the same order as the original ones. Readers with SQL see the escapes, but hardly any real payload has one.
 */

const UNSTORABLE = /[\u0000\u0001]/;
const UNSTORABLE_ALL = /[\u0000\u0001]|\p{Surrogate}/gu;
const UNSTORABLE_IN_JSON = /\\u(?:000[01]|d[89a-f])/;
/** Matches escape by escape, so that a `u0000` after an escaped backslash is left alone. */
const JSON_ESCAPES = /\\(?:u(?:([0-9a-f]{4}))|.)/g;
const ESCAPED = /\u0001(?:([\u0001\u0002])|\u0003([0-9a-f]{4}))/g;
const ESCAPED_IN_JSON = /\\u0001(?:\\u000([12])|\\u0003([0-9a-f]{4}))|\\./g;

/** The text as PostgreSQL can store it. */
export function escapeText(text: string): string {
  if (text.isWellFormed() && !UNSTORABLE.test(text)) return text;
  return text.replace(UNSTORABLE_ALL, (unit) => {
    if (unit === '\u0000') return '\u0001\u0001';
    return unit === '\u0001' ? '\u0001\u0002' : `\u0001\u0003${unit.charCodeAt(0).toString(16)}`;
  });
}

export function unescapeText(escaped: string): string {
  if (!escaped.includes('\u0001')) return escaped;
  return escaped.replace(ESCAPED, (_all, which: string | undefined, unit: string | undefined) => {
    if (unit !== undefined) return String.fromCharCode(Number.parseInt(unit, 16));
    return which === '\u0001' ? '\u0000' : '\u0001';
  });
}

/** The value as JSON text that jsonb accepts; `parseEscapedJson` returns the same value. */
export function escapedJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!UNSTORABLE_IN_JSON.test(json)) return json;
  return json.replace(JSON_ESCAPES, (written, unit: string | undefined) => {
    if (unit === '0000') return '\\u0001\\u0001';
    if (unit === '0001') return '\\u0001\\u0002';
    // JSON.stringify writes a surrogate as an escape only where its other half is missing.
    return unit?.startsWith('d') ? `\\u0001\\u0003${unit}` : written;
  });
}

/** Reads jsonb's text, which has U+0001 and U+0003 as JSON escapes. */
export function parseEscapedJson(escaped: string): unknown {
  if (!escaped.includes('\\u0001')) return parseJson(escaped);
  return parseJson(
    escaped.replace(ESCAPED_IN_JSON, (written, which: string | undefined, unit: string | undefined) => {
      if (unit !== undefined) return `\\u${unit}`;
      return which === undefined ? written : `\\u000${which === '1' ? '0' : '1'}`;
    }),
  );
}

const PARSERS = new Map<number, (text: string) => unknown>([
  [TEXT, unescapeText],
  [INT8, readInteger],
  [NUMERIC, Number],
  [TIMESTAMPTZ, readInstant],
  [JSON_TEXT, parseEscapedJson],
  [JSONB, parseEscapedJson],
]);

/** How columns are read on our connections. Not in pg's registry, which all users of pg in the process share. */
export const TYPES = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    (format === 'binary' ? undefined : PARSERS.get(oid)) ??
    pg.types.getTypeParser(oid, format as 'text')) as typeof pg.types.getTypeParser,
};

function readInteger(text: string): number {
  const number = Number(text);
  if (!Number.isSafeInteger(number)) throw new Error(`the database holds ${text}, too large a number`);
  return number;
}

const INSTANT = /^(\d{4,})-(\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00( BC)?$/;

/** The server's text of an instant, in UTC, as ISO 8601 with milliseconds. */
function readInstant(text: string): string {
  const [, year, day, time, fraction = '', before] = INSTANT.exec(text) ?? [];
  if (year === undefined) throw new Error(`the database holds ${text}, which is no instant`);
  const millis = fraction.slice(0, 3).padEnd(3, '0');
  // 1 BC is the year 0.
  if (before !== undefined) return isoYear(1 - Number(year), `${day}T${time}.${millis}Z`);
  return year.length === 4
    ? `${year}-${day}T${time}.${millis}Z`
    : isoYear(Number(year), `${day}T${time}.${millis}Z`);
}

function isoYear(year: number, rest: string): string {
  if (year >= 0 && year <= 9999) return `${String(year).padStart(4, '0')}-${rest}`;
  return `${year < 0 ? '-' : '+'}${String(Math.abs(year)).padStart(6, '0')}-${rest}`;
}

/**
 * The columns of a batch are parameters in PostgreSQL's binary format, for which pg sends a Buffer unchanged. In a text format, the quotes
 * and backslashes of every body would be escaped here and parsed there, which was most of a batch's cost.
 */

/** Five integers: dimensions, whether there are nulls, the elements' type, how many there are, the first one's number. */
const HEADER_BYTES = 5 * 4;
const LENGTH_BYTES = 4;
const INTEGER_BYTES = 8;
const NULL_LENGTH = -1;
/** PostgreSQL counts time in microseconds from this instant. */
const EPOCH_MS = Date.UTC(2000, 0, 1);

export function textArray(texts: readonly (string | null)[]): Buffer {
  const escaped = texts.map((text) => (text === null ? null : escapeText(text)));
  const bytes = escaped.reduce(
    (sum, text) => sum + LENGTH_BYTES + (text === null ? 0 : Buffer.byteLength(text)),
    HEADER_BYTES,
  );
  const array = Buffer.allocUnsafe(bytes);
  let at = writeHeader(array, TEXT, escaped.length);
  for (const text of escaped) {
    const length = text === null ? 0 : array.write(text, at + LENGTH_BYTES);
    array.writeInt32BE(text === null ? NULL_LENGTH : length, at);
    at += LENGTH_BYTES + length;
  }
  return array;
}

/** Of safe integers. Clocks give fractions, which no column has. */
export const bigintArray = (numbers: readonly (number | null)[]): Buffer =>
  arrayOf(INT8, INTEGER_BYTES, numbers, (array, number, at) =>
    array.writeBigInt64BE(BigInt(Math.round(number)), at),
  );

/** Of milliseconds since 1970. The server rejects instants before 4713 BC. */
export const timestampArray = (walls: readonly (number | null)[]): Buffer =>
  arrayOf(TIMESTAMPTZ, INTEGER_BYTES, walls, (array, wall, at) =>
    array.writeBigInt64BE(BigInt(Math.trunc(wall) - EPOCH_MS) * 1000n, at),
  );

const booleanArray = (flags: readonly boolean[]): Buffer =>
  arrayOf(BOOL, 1, flags, (array, flag, at) => array.writeUInt8(Number(flag), at));

/** Of values that all have this many bytes. `write` returns where the next value begins. */
function arrayOf<T>(
  type: number,
  bytes: number,
  values: readonly (T | null)[],
  write: (array: Buffer, value: T, at: number) => number,
): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + values.length * (LENGTH_BYTES + bytes));
  let at = writeHeader(array, type, values.length);
  for (const value of values) {
    at = array.writeInt32BE(value === null ? NULL_LENGTH : bytes, at);
    if (value !== null) at = write(array, value, at);
  }
  return array.subarray(0, at);
}

/** A column of a batch, by its type. Values of jsonb columns are texts, made by `escapedJson`, and the statement converts them. */
export const ARRAY_OF = {
  text: (values: readonly (string | null)[]) => sql`${textArray(values)}::text[]`,
  jsonb: (values: readonly (string | null)[]) => sql`${textArray(values)}::text[]`,
  bigint: (values: readonly (number | null)[]) => sql`${bigintArray(values)}::bigint[]`,
  timestamptz: (values: readonly (number | null)[]) => sql`${timestampArray(values)}::timestamptz[]`,
  boolean: (values: readonly boolean[]) => sql`${booleanArray(values)}::boolean[]`,
} as const;

function writeHeader(array: Buffer, type: number, length: number): number {
  let at = array.writeInt32BE(1, 0);
  at = array.writeInt32BE(1, at);
  at = array.writeInt32BE(type, at);
  at = array.writeInt32BE(length, at);
  return array.writeInt32BE(1, at);
}
