import pg from 'pg';
import { parseJson } from '../../compliance/json.ts';
import { type Dialect, PAGE_BYTES, type RowsOfRecord, type Sql } from '../database.ts';
import { type Column, createWriter, drizzleModule, type SQL } from '../drizzle.ts';
import { LAST, sql, withDefaults } from '../units/sql.ts';

/** PostgreSQL's own SQL, for the verbs that are written once. */

export const write = createWriter(
  new (drizzleModule('drizzle-orm/pg-core').PgDialect)(),
  (position) => `$${position}`,
);

export const DIALECT: Dialect = {
  isAmong: (column, values) =>
    sql`${column} = ANY (${sql.param(values)}::${sql.raw(column.dataType === 'number' ? 'bigint' : 'text')}[])`,
  json: (value) => (value == null ? sql`NULL` : sql`${keepJson(value)}::jsonb`),
  fromJson: (stored) => stored,
  isJson: (found, value) => sql`${found} = ${keepJson(value)}::jsonb`,
  instant: (iso) => sql`${iso}::timestamptz`,
  listed: (ids) => sql`unnest(${textArray(ids)}::text[]) WITH ORDINALITY AS listed (id, nth)`,
  given: (columns, rows) =>
    sql`json_to_recordset(${rowsOf(rows)}::json) AS given (${sql.raw(columns.map((column) => `${column} text`).join(', '))})`,
  forUpdate: sql`FOR UPDATE`,
  hourOf: (column) => sql`date_trunc('hour', ${column})`,
  millisecondsBetween: (earlier, later) => sql`(extract(epoch FROM ${later} - ${earlier}) * 1000)::float8`,
  indexedBy: () => sql``,
  folded,
  // The range uses the index, which has only the beginnings of names.
  beginsWith: (column, text) => sql`${folded(column)} < ${folded(text)} || ${LAST}::text
    AND starts_with(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C"))`,
  indexed: (text) => sql`left(${text}::text, 200)`,
  holds: (column, text) => sql`strpos(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C")) > 0`,
  contains: (column, text) =>
    column.dataType === 'buffer'
      ? sql`position(${Buffer.from(text)}::bytea IN ${column}) > 0`
      : sql`strpos(${column}, ${text}) > 0`,
  isBehind: ([first, second], [a, b]) => sql`(${first}, ${second}) > (${a}, ${b})`,
  // By a function, since the service's user need own no view.
  flatView: (kind) => [sql`SELECT show_fields(${kind})`],
  withEach: (object, value) =>
    sql`(SELECT jsonb_object_agg(key, ${value}::bigint) FROM jsonb_object_keys(${object}) AS key)`,
  numbersOf,
  // In one round trip, since all replicas wait for the counter meanwhile.
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
    // The log is the whole server's, and other databases' too.
    return { database_bytes: row!.bytes, wal_bytes: 0 };
  },
};

/** Of a value of JSON. How much is in what is stored compressed, only its text tells. */
export const bytesOf = (column: Column | SQL): SQL =>
  sql`CASE WHEN pg_column_compression(${column}) IS NULL THEN pg_column_size(${column}) ELSE octet_length(${column}::text) END`;

/** What `upTo` adds to the columns. */
export interface Counted {
  own: number;
  bytes: number;
  over: number;
}

/**
 * The first of `rows`, `limit` at most, until those before have `most` bytes together, `own` being those of each. Row by row: with the
 * count, which only grows, the server ends at the first row that is too many, before it looks at those behind it.
 */
export const upTo = (most: number, rows: SQL, own: SQL, limit: number): SQL =>
  sql`SELECT * FROM (SELECT *, count(CASE WHEN bytes - own >= ${most} THEN 1 END) OVER (ROWS UNBOUNDED PRECEDING) AS over
    FROM (SELECT *, sum(own) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT *, ${own} AS own FROM (${rows}) AS asked LIMIT ${limit}) AS sized) AS summed) AS counted
    WHERE over < 1`;

export const uncounted = <Row>({ own, bytes, over, ...row }: Row & Counted) => row as unknown as Row;

export const pagesBy =
  (query: Sql['query']): Sql['page'] =>
  async <Row>(statement: SQL, json: readonly Column[], limit: number, most = PAGE_BYTES) => {
    const own = json.map(({ name }) => bytesOf(sql`${sql.identifier(name)}`));
    const found = await query<Row & Counted>(upTo(most, statement, sql.join(own, sql` + `), limit));
    const isFull = found.length === limit || (found.at(-1)?.bytes ?? 0) >= most;
    return { rows: found.map((row) => uncounted<Row>(row)), isFull };
  };

function folded(text: Column | string): SQL {
  return sql`left(lower(${text}::text COLLATE "C"), 200)`;
}

async function numbersOf(from: Sql, rows: RowsOfRecord): Promise<number[]> {
  const { table, id, above, below, among, isOfKind, order, limit } = withDefaults(rows);
  const found = await from.query<{ seq: number }>(
    sql`SELECT seq FROM ${sql.identifier(table)} WHERE record_id = ${id} AND ${isOfKind} AND seq > ${above} AND seq < ${below}
      AND ${among} ORDER BY seq ${sql.raw(order)} LIMIT ${limit}`,
  );
  return found.map(({ seq }) => seq);
}

/** How values pass between the port's types, which are those of SQLite, and PostgreSQL's. */

const { TEXT, INT8, NUMERIC, TIMESTAMPTZ, JSON: JSON_TEXT, JSONB } = pg.types.builtins;

/**
 * PostgreSQL takes neither U+0000 nor half a surrogate pair, in text or in jsonb. Both are escaped on the way in and
 * come back as they were, behind U+0001: `01 01` is U+0000, `01 02` is U+0001, `01 03 d800` is that half of a pair.
 * U+0001 because escaped texts then sort among the others as the texts themselves would. A reader with SQL sees the
 * escapes; hardly any real payload has one.
 */

const HOSTILE = /[\u0000\u0001]/;
const HOSTILE_ALL = /[\u0000\u0001]|\p{Surrogate}/gu;
const HOSTILE_IN_JSON = /\\u(?:000[01]|d[89a-f])/;
/** Escape by escape, so that the `u0000` behind an escaped backslash is left alone. */
const JSON_ESCAPES = /\\(?:u(?:([0-9a-f]{4}))|.)/g;
const KEPT = /\u0001(?:([\u0001\u0002])|\u0003([0-9a-f]{4}))/g;
const KEPT_IN_JSON = /\\u0001(?:\\u000([12])|\\u0003([0-9a-f]{4}))|\\./g;

/** A text as PostgreSQL can hold it. */
export function keepText(text: string): string {
  if (text.isWellFormed() && !HOSTILE.test(text)) return text;
  return text.replace(HOSTILE_ALL, (unit) => {
    if (unit === '\u0000') return '\u0001\u0001';
    return unit === '\u0001' ? '\u0001\u0002' : `\u0001\u0003${unit.charCodeAt(0).toString(16)}`;
  });
}

export function readText(kept: string): string {
  if (!kept.includes('\u0001')) return kept;
  return kept.replace(KEPT, (_all, which: string | undefined, unit: string | undefined) =>
    unit === undefined
      ? which === '\u0001'
        ? '\u0000'
        : '\u0001'
      : String.fromCharCode(Number.parseInt(unit, 16)),
  );
}

/** A value as JSON text that jsonb takes, and that gives the same value back. */
export function keepJson(value: unknown): string {
  const json = JSON.stringify(value);
  if (!HOSTILE_IN_JSON.test(json)) return json;
  return json.replace(JSON_ESCAPES, (written, unit: string | undefined) => {
    if (unit === '0000') return '\\u0001\\u0001';
    if (unit === '0001') return '\\u0001\\u0002';
    // JSON.stringify writes a surrogate as an escape only where its other half is missing.
    return unit?.startsWith('d') ? `\\u0001\\u0003${unit}` : written;
  });
}

/** Many rows as one parameter, for json_to_recordset. Instants are text, and so is what `keepJson` made for a jsonb column. */
export const rowsOf = (rows: readonly object[]): string => keepJson(rows);

/** As jsonb writes itself out: U+0001 and U+0003 come as escapes there too. */
export function readJson(kept: string): unknown {
  if (!kept.includes('\\u0001')) return parseJson(kept);
  return parseJson(
    kept.replace(KEPT_IN_JSON, (written, which: string | undefined, unit: string | undefined) => {
      if (unit !== undefined) return `\\u${unit}`;
      return which === undefined ? written : `\\u000${which === '1' ? '0' : '1'}`;
    }),
  );
}

const PARSERS = new Map<number, (text: string) => unknown>([
  [TEXT, readText],
  [INT8, readInteger],
  [NUMERIC, Number],
  [TIMESTAMPTZ, readInstant],
  [JSON_TEXT, readJson],
  [JSONB, readJson],
]);

/** What columns are read as, for our pool alone: pg's registry is shared by all that use pg in the process. */
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

/** ISO 8601 with milliseconds, from what a session in UTC writes. */
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

/** An instant as PostgreSQL reads it: it does not understand ISO text of years beyond four digits, or of year 0. */
export function asInstant(iso: string): string {
  if (iso.length === 24 && !iso.startsWith('0000')) return iso;
  const [, sign = '', digits, rest] = /^([+-]?)(\d+)-(.*)Z$/.exec(iso) ?? [];
  const year = Number(`${sign}${digits}`);
  if (year > 0) return `${year}-${rest}Z`;
  return `${String(1 - year).padStart(4, '0')}-${rest?.replace('T', ' ')}+00 BC`;
}

export const instantOf = (wall: number): string => asInstant(new Date(wall).toISOString());

/**
 * Columns of a batch as parameters in PostgreSQL's binary format: pg sends a Buffer as it is. As text, the quotes and
 * backslashes of every body would be escaped here and read back there, which was most of what a batch cost.
 */

/** Dimensions, whether there may be nulls, the type of the elements, how many there are, the number of the first. */
const HEADER_BYTES = 5 * 4;
const LENGTH_BYTES = 4;
const INTEGER_BYTES = 8;
const NULL_LENGTH = -1;
/** Where PostgreSQL's own time begins. It counts in microseconds. */
const EPOCH_MS = Date.UTC(2000, 0, 1);

export function textArray(texts: readonly (string | null)[]): Buffer {
  const kept = texts.map((text) => (text === null ? null : keepText(text)));
  const bytes = kept.reduce(
    (sum, text) => sum + LENGTH_BYTES + (text === null ? 0 : Buffer.byteLength(text)),
    HEADER_BYTES,
  );
  const array = Buffer.allocUnsafe(bytes);
  let at = writeHeader(array, TEXT, kept.length);
  for (const text of kept) {
    const length = text === null ? 0 : array.write(text, at + LENGTH_BYTES);
    array.writeInt32BE(text === null ? NULL_LENGTH : length, at);
    at += LENGTH_BYTES + length;
  }
  return array;
}

/** Of safe integers. */
export const bigintArray = (numbers: readonly number[]): Buffer => integers(INT8, numbers.map(BigInt));

/** Of milliseconds since 1970. Those before 4713 BC are refused by the server. */
export const timestampArray = (walls: readonly number[]): Buffer =>
  integers(
    TIMESTAMPTZ,
    walls.map((wall) => BigInt(wall - EPOCH_MS) * 1000n),
  );

function integers(type: number, numbers: readonly bigint[]): Buffer {
  const array = Buffer.allocUnsafe(HEADER_BYTES + numbers.length * (LENGTH_BYTES + INTEGER_BYTES));
  let at = writeHeader(array, type, numbers.length);
  for (const number of numbers) {
    at = array.writeInt32BE(INTEGER_BYTES, at);
    at = array.writeBigInt64BE(number, at);
  }
  return array;
}

function writeHeader(array: Buffer, type: number, length: number): number {
  let at = array.writeInt32BE(1, 0);
  at = array.writeInt32BE(1, at);
  at = array.writeInt32BE(type, at);
  at = array.writeInt32BE(length, at);
  return array.writeInt32BE(1, at);
}
