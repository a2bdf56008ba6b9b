import type { Sql } from '../database.ts';
import type { Column, SQL } from '../drizzle.ts';
import type { ListPaging, NumberedRows, NumberedTable, Period } from '../reports.ts';
import { allOf, as, beforeOf, limitOf, one, sql } from './sql.ts';

/** Lists that show the newest first. They are read downwards by a number that grows with time, unless a clock was set back. */

export interface Numbered {
  table: string;
  number: string;
  time: string;
}

interface Listed {
  time: string;
  columns: string;
  /** It has a body, which only a single row shows. */
  hasBody?: true;
}

/** Tables that are numbered by `id`. */
const LISTED: Readonly<Record<NumberedTable, Listed>> = {
  gaps: {
    time: 'opened_at',
    columns: 'id, kind, record_id, reason, opened_at, resolved_at, attempts, error',
  },
  sync_runs: {
    time: 'started_at',
    columns: `id, kind, reason, started_at, finished_at, pages, seen, inserted, updated, deleted, unchanged, outcome, error,
      differences`,
  },
  quarantine: {
    time: 'received_at',
    hasBody: true,
    columns: 'id, received_at, reason, t, body_sha256, released_at, address',
  },
  rejections: {
    time: 'at',
    hasBody: true,
    columns: 'id, at, reason, t, bytes, body_sha256, header, address, times',
  },
  audit: { time: 'at', columns: 'id, at, actor, action, outcome, target' },
};

export async function listOf<Name extends NumberedTable>(
  to: Sql,
  name: Name,
  { open, ...paging }: ListPaging,
): Promise<NumberedRows[Name][]> {
  const { time, columns } = LISTED[name];
  const table = { table: name, number: 'id', time };
  const from = paging.since === undefined ? 0 : await firstSince(to, table, paging.since);
  const before = Math.min(beforeOf(paging), await numberAt(to, table, paging.until));
  const conditions = [
    sql`id < ${before}`,
    ...(from === 0 ? [] : [sql`id >= ${from}`]),
    ...isWithin(to, time, paging),
    ...(open === undefined ? [] : [sql`resolved_at IS ${sql.raw(open ? 'NULL' : 'NOT NULL')}`]),
  ];
  const rows = await to.query<StoredRow>(
    sql`SELECT ${sql.raw(columns)} FROM ${sql.raw(name)} WHERE ${allOf(conditions)} ORDER BY id DESC LIMIT ${limitOf(paging)}`,
  );
  return rows.map((row) => reportOf(to, name, row));
}

export async function rowOf<Name extends NumberedTable>(
  to: Sql,
  name: Name,
  id: number,
): Promise<NumberedRows[Name] | null> {
  const { columns, hasBody } = LISTED[name];
  const all = sql.raw(hasBody ? `${columns}, body` : columns);
  const row = await one<StoredRow>(to, sql`SELECT ${all} FROM ${sql.raw(name)} WHERE id = ${id}`);
  return row === null ? null : reportOf(to, name, row);
}

interface StoredRow {
  body?: Buffer | null;
  differences?: unknown;
}

/** The body twice: as text for reading, and in full as base64. */
function reportOf<Name extends NumberedTable>({ dialect }: Sql, name: Name, row: StoredRow) {
  const { body = null, ...rest } = row;
  const bodies = { body: body?.toString('utf8') ?? null, body_base64: body?.toString('base64') ?? null };
  return {
    ...rest,
    ...('differences' in rest ? { differences: dialect.fromJson(rest.differences) } : {}),
    ...(LISTED[name].hasBody ? bodies : {}),
  } as NumberedRows[Name];
}

/** The conditions for rows of the period. */
export function isWithin({ dialect }: Sql, time: string, { since, until }: Period): SQL[] {
  return [
    ...(since === undefined ? [] : [sql`${sql.raw(time)} >= ${dialect.instant(since)}`]),
    ...(until === undefined ? [] : [sql`${sql.raw(time)} < ${dialect.instant(until)}`]),
  ];
}

/** The first number of `until` or later, found without an index of times: all rows of the period are below it. */
export async function numberAt(to: Sql, rows: Numbered, until: string | undefined): Promise<number> {
  return until === undefined ? Number.MAX_SAFE_INTEGER : await firstSince(to, rows, until);
}

/** The number from which on all rows are of `instant` or later. */
export async function firstSince(
  to: Sql,
  { table, number, time }: Numbered,
  instant: string,
): Promise<number> {
  const look = sql.raw(`SELECT ${number} AS number, ${time} AS time FROM ${table} WHERE ${number}`);
  const newestUpTo = (most: number) =>
    one<{ number: number; time: string }>(
      to,
      sql`${look} <= ${most} ORDER BY ${sql.raw(number)} DESC LIMIT 1`,
    );
  let least = 0;
  let most = (await newestUpTo(Number.MAX_SAFE_INTEGER))?.number ?? 0;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    const row = await newestUpTo(middle);
    if (row === null || row.time < instant) least = middle;
    else most = Math.max(least, row.number - 1);
  }
  return least + 1;
}

/** A way along an index: rows of `walked` (FROM … WHERE …) in the order of `keys`; the last key marks the place of a row. */
export interface Way {
  walked: SQL;
  keys: readonly (Column | SQL)[];
  order: 'ASC' | 'DESC';
  /** What a person reads of how far a page came. */
  reach: Column | SQL;
}

/** One page of a walk. */
export interface Looked<Row, Place> {
  items: Row[];
  /** Of each item. */
  ends: { place: Place; reach: string }[];
  isFull: boolean;
  /** The last row that was looked at; null: nothing is left after it. */
  end: { place: Place; reach: string } | null;
}

interface Bounds {
  limit: number;
  lookAt: number;
}

/** At most `limit` of those that fit among the first `lookAt` rows of the way. */
export async function lookAlong<Row extends object, Place = string>(
  to: Sql,
  { walked, keys, order, reach }: Way,
  { selected, fits }: { selected: SQL; fits: SQL },
  { limit, lookAt }: Bounds,
): Promise<Looked<Row, Place>> {
  const inOrder = (by: readonly (Column | SQL)[]) => {
    const directed = by.map((key) => sql`${key} ${sql.raw(order)}`);
    return sql.join(directed, sql`, `);
  };
  const along = sql`${walked} ORDER BY ${inOrder(keys)}`;
  // As the last columns, each once: then SQLite sees that the rows come in order, and looks at no more than it needs.
  const [first, ...others] = keys;
  const marks = others.length === 0 ? { place: first! } : { before_place: first!, place: others.at(-1)! };
  const mark = as({ reach, ...marks });
  const rows = await to.query<Row & { place: Place; before_place?: unknown; reach: string; fits: unknown }>(
    sql`SELECT * FROM (SELECT ${selected}, (${fits}) AS fits, ${mark} ${along} LIMIT ${lookAt}) AS looked
      WHERE fits ORDER BY ${inOrder(Object.keys(marks).map((name) => sql.raw(name)))} LIMIT ${limit}`,
  );
  const items = rows.map(({ place, before_place, reach, fits, ...row }) => row as unknown as Row);
  const ends = rows.map(({ place, reach }) => ({ place, reach }));
  if (rows.length === limit) return { items, ends, isFull: true, end: rows.at(-1)! };
  const end = sql`SELECT ${mark} ${along} LIMIT 1 OFFSET ${lookAt - 1}`;
  return { items, ends, isFull: false, end: await one<{ place: Place; reach: string }>(to, end) };
}

/** The same of a list whose newest come first. */
export async function lookDown<Row extends object>(
  to: Sql,
  { walked, ...rows }: Numbered & { walked: SQL },
  what: { selected: SQL; fits: SQL },
  { since, ...bounds }: Bounds & Pick<Period, 'since'>,
): Promise<Looked<Row, number>> {
  const way: Way = { walked, keys: [sql.raw(rows.number)], order: 'DESC', reach: sql.raw(rows.time) };
  const looked = await lookAlong<Row, number>(to, way, what, bounds);
  const { isFull, end } = looked;
  if (isFull || end === null || since === undefined || end.reach >= since) return looked;
  // One older row does not end it: where a clock was set back, rows of the period may have lower numbers.
  return end.place < (await firstSince(to, rows, since)) ? { ...looked, end: null } : looked;
}
