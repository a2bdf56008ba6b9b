import pg from 'pg';
import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { DATE, INSTANT, TIMESTAMP } from '../../mirror/flat-columns.ts';
import { type Dialect, PAGE_BYTES, type Sql, type Writing } from '../database.ts';
import type { Column } from '../schema.ts';
import { Json, json, type SQL, sql } from '../statement.ts';
import { flatViews } from '../units/flat-views.ts';
import type { Field } from '../values.ts';

/** PostgreSQL's SQL, for the verbs that are written once for both engines. */

/** The text for the server, and the parameters. */
export const write = ({ texts, params }: SQL): { text: string; params: unknown[] } => ({
  text: texts.reduce((text, next, position) => `${text}$${position}${next}`),
  params: params.map(parameter),
});

/** The types of columns, by those of the schema. */
const TYPE_OF: Readonly<Record<Writing['columns'][number]['type'], string>> = {
  string: 'text',
  number: 'bigint',
  boolean: 'boolean',
  custom: 'timestamptz',
  json: 'jsonb',
};

/** All rows at once, as an array for each column, so that many cost little more than one. As JSON they cost the server two thirds more. */
export function writing({ table, columns, key, conflict }: Writing, rows: readonly object[]): SQL {
  const names = columns.map(({ name }) => name).join(', ');
  const arrays = columns.map(({ field, type }) => {
    const values = (rows as Record<string, unknown>[]).map((row) => row[field] ?? null);
    return sql`${type === 'json' ? values.map(json) : values}::${sql.raw(TYPE_OF[type])}[]`;
  });
  const given = sql`unnest(${sql.join(arrays)}) AS given (${sql.raw(names)})`;
  if (key === null)
    return sql`INSERT INTO ${sql.raw(`${table} (${names}) SELECT ${names}`)} FROM ${given} ${sql.raw(conflict)}`;
  const set = columns.flatMap(({ name }) => (name === key ? [] : `${name} = given.${name}`));
  return sql`UPDATE ${sql.raw(`${table} SET ${set.join(', ')}`)} FROM ${given} WHERE ${sql.raw(`${table}.${key} = given.${key}`)}`;
}

function parameter(value: unknown): unknown {
  if (typeof value === 'string') return escapeText(value);
  // Clocks give fractions, which no column has.
  if (typeof value === 'number') return Math.round(value);
  if (value instanceof Json) return escapedJson(value.value);
  return Array.isArray(value) ? value.map(parameter) : value;
}

export const DIALECT: Dialect = {
  isAmong: (column, values) =>
    sql`${column} = ANY (${values}::${sql.raw(column.dataType === 'number' ? 'bigint' : 'text')}[])`,
  isJson: (found, value) => sql`${found} = ${new Json(value)}::jsonb`,
  instant: (iso) => sql`${iso}::timestamptz`,
  documents: (objects) =>
    sql`unnest(${objects.map(({ id }) => id)}::text[], ${objects.map(({ json }) => escapedText(json))}::jsonb[]) AS given (id, data)`,
  textAt(path, isNumber) {
    const at = `ARRAY[${path.map(pg.escapeLiteral).join(', ')}]`;
    const number = isNumber ? ` WHEN 'number' THEN substring(r.data #>> ${at} FROM '^-?[0-9]{1,15}$')` : '';
    return `CASE jsonb_typeof(r.data #> ${at}) WHEN 'string' THEN r.data #>> ${at}${number} END`;
  },
  listed: (ids) => sql`unnest(${ids}::text[]) AS listed (id)`,
  given: (columns, rows) =>
    sql`json_to_recordset(${new Json(rows)}::json) AS given (${sql.raw(columns.map((column) => `${column} text`).join(', '))})`,
  millisecondsBetween: (earlier, later) => sql`(extract(epoch FROM ${later} - ${earlier}) * 1000)::float8`,
  indexedBy: () => sql``,
  holds: (name, text) => sql`strpos(lower(${name} COLLATE "C"), lower(${text}::text COLLATE "C")) > 0`,
  contains: (column, text) =>
    column.dataType === 'buffer'
      ? sql`position(${Buffer.from(text)}::bytea IN ${column}) > 0`
      : sql`strpos(${column}, ${text}) > 0`,
  timeText: (name, type) =>
    type === 'date'
      ? sql`CAST(${name} AS text)`
      : type === 'timestamp'
        ? sql`to_char(${name}, 'YYYY-MM-DD"T"HH24:MI:SS.US')`
        : sql`to_char(${name} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`,
  showFields,
  withEach: (object, field, value) =>
    sql`jsonb_set(${object}, ${`{${field}}`}::text[], coalesce((SELECT jsonb_object_agg(key, ${value}::bigint) FROM jsonb_object_keys(${object} -> ${field}::text) AS key), '{}'))`,
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
const bytesOf = (column: Column | SQL): SQL =>
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
const upTo = (maxBytes: number, rows: SQL, own: SQL, limit: number): SQL =>
  sql`SELECT * FROM (SELECT *, count(CASE WHEN bytes - own >= ${maxBytes} THEN 1 END) OVER (ROWS UNBOUNDED PRECEDING) AS over
    FROM (SELECT *, sum(own) OVER (ROWS UNBOUNDED PRECEDING) AS bytes
      FROM (SELECT *, ${own} AS own FROM (${rows}) AS asked LIMIT ${limit}) AS sized) AS summed) AS counted
    WHERE over < 1`;

const uncounted = <Row>({ own, bytes, over, ...row }: Row & Counted) => row as unknown as Row;

export const pagesBy =
  (query: Sql['query']): Sql['page'] =>
  async <Row>(statement: SQL, json: readonly Column[], limit: number, maxBytes = PAGE_BYTES) => {
    const own = json.map(({ name }) => bytesOf(sql`${sql.identifier(name)}`));
    const found = await query<Row & Counted>(upTo(maxBytes, statement, sql.join(own, ' + '), limit));
    const isFull = found.length === limit || (found.at(-1)?.bytes ?? 0) >= maxBytes;
    return { rows: found.map((row) => uncounted<Row>(row)), isFull };
  };

/** How values are converted between PostgreSQL's types and the port's, which are SQLite's. */

const { TEXT, INT8, NUMERIC, TIMESTAMPTZ, JSON: JSON_TEXT, JSONB } = pg.types.builtins;

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
export const escapedJson = (value: unknown): string => escapedText(JSON.stringify(value));

/** The same for a value that is JSON text already. */
function escapedText(json: string): string {
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

const SERVER_INSTANT = /^(\d{4,})-(\d\d-\d\d) (\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?\+00( BC)?$/;

/** The server's text of an instant, in UTC, as ISO 8601 with milliseconds. */
function readInstant(text: string): string {
  const [, year, day, time, fraction = '', before] = SERVER_INSTANT.exec(text) ?? [];
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

// ─── the views with typed columns ────────────────────────────────────────────────────────────────────────────

const { escapeIdentifier: quoted, escapeLiteral: literal } = pg;

/** How long a query that holds the view is waited for. Short, since readers wait behind us. */
const VIEW_WAIT_MS = 250;

/**
 * Gives the views `…_flat` and `…_history` of the kind these typed columns. False: they belong to another role, so this one may not;
 * `migrate` as that role does it. Refused: a function with the owner's rights, which every caller could try to turn against him.
 *
 * Nothing is dropped, so that grants and other views on them stay: columns get other names, and more come behind them. Only where a
 * column has gone is the view made anew; false too if another view stands on it.
 */
async function showFields(to: Sql, kind: Kind, fields: readonly Field[]): Promise<boolean> {
  const typed = fields.map((field) => ({ name: field.column!, is: expressionOf(field) }));
  for (const { view, columns, from } of flatViews(kind)) {
    const shown = [...columns, ...typed];
    if (!(await showView(to, view, shown, from))) return false;
  }
  return true;
}

async function showView(
  to: Sql,
  view: string,
  shown: readonly { name: string; is: string }[],
  from: string,
): Promise<boolean> {
  const present = await to.query<{ name: string; isOurs: boolean }>(
    sql`SELECT attname AS name, pg_has_role(relowner, 'USAGE') AS "isOurs" FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0
      WHERE c.oid = to_regclass(${view}) ORDER BY attnum`,
  );
  if (present.length === shown.length && present.every(({ name }, nth) => name === shown[nth]!.name))
    return true;
  if (!present.every(({ isOurs }) => isOurs)) return false;
  const run = (text: string) => to.change(sql.raw(text));
  await run(`SET LOCAL lock_timeout = ${VIEW_WAIT_MS}`);
  const isShorter = present.length > shown.length;
  const grants = isShorter ? await grantsOn(to, view) : [];
  if (isShorter) {
    if (await isUsed(to, view)) return false;
    await run(`DROP VIEW ${view}`);
  }
  for (const [nth, { name }] of present.entries()) {
    const wanted = shown[nth]?.name;
    if (!isShorter && wanted !== name)
      await run(`ALTER VIEW ${view} RENAME COLUMN ${quoted(name)} TO ${quoted(wanted!)}`);
  }
  const columns = shown.map(({ name, is }) => `${is} AS ${quoted(name)}`).join(',\n  ');
  await run(`CREATE OR REPLACE VIEW ${view} AS SELECT ${columns}\nFROM ${from}`);
  for (const grant of grants) await run(grant);
  return true;
}

/** What makes the rights on a view again, once it was dropped. */
const grantsOn = async (to: Sql, view: string): Promise<string[]> =>
  (
    await to.query<{ granting: string }>(
      sql`SELECT format('GRANT %s ON ${sql.raw(view)} TO %s', privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END) AS granting
        FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = to_regclass(${view}) AND grantee <> relowner`,
    )
  ).map(({ granting }) => granting);

/** Whether another view stands on it. */
const isUsed = async (to: Sql, view: string): Promise<boolean> =>
  (
    await to.query(
      sql`SELECT 1 FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass(${view}) AND r.ev_class <> d.refobjid LIMIT 1`,
    )
  ).length > 0;

/** A value that does not fit the column's type becomes null, or stays JSON in a text column; it is never an error. */
function expressionOf({ keys, type }: Field): string {
  const path = keys.map(literal);
  const value = ['data', ...path].join('->');
  const written = `(${['data', ...path.slice(0, -1)].join('->')}->>${path.at(-1)})`;
  // PostgreSQL would round what is behind the microseconds, and so make another day of the end of one.
  const cut = `regexp_replace(${written}, '([.][0-9]{6})[0-9]+', '\\1')`;
  const matching = (pattern: string) => `WHEN ${written} ~ ${literal(pattern)} THEN`;
  switch (type) {
    case 'number':
      return `CASE jsonb_typeof(${value}) WHEN 'number' THEN (${value})::numeric END`;
    case 'boolean':
      return `CASE jsonb_typeof(${value}) WHEN 'boolean' THEN (${value})::boolean END`;
    case 'date':
      return `CASE ${matching(DATE)} ${written}::date END`;
    case 'timestamp':
      return `CASE ${matching(DATE)} ${written}::timestamp ${matching(TIMESTAMP)} ${cut}::timestamp END`;
    case 'instant':
      return `CASE ${matching(DATE)} (${written} || 'T00:00:00Z')::timestamptz ${matching(INSTANT)} ${cut}::timestamptz END`;
    case 'json':
      return `nullif(${value}, 'null')`;
    case 'text':
      return written;
  }
}
