import type { Sql } from '../database.ts';
import type { ListPaging, NumberedRows, NumberedTable, Period } from '../reports.ts';
import { type Column, gaps, type SQL } from '../schema.ts';
import { allOf, beforeOf, columnsAs, firstRow, isOneOf, limitOf, sql } from './sql.ts';

/** Lists with the newest row first, read downwards by the row's number. It grows with time, unless a clock was set back. */

export interface Numbered {
  table: string;
  number: string;
  time: string;
}

interface Listed {
  time: string;
  columns: string;
  /** It has a body, which is shown only with a single row. */
  hasBody?: true;
}

/** Their numbers are in the column `id`. */
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

/** Rows of the tables whose rows have a number and a time. */
export function createLists(to: Sql) {
  return {
    /** Rows without their bodies, newest first. */
    async list<Name extends NumberedTable>(
      name: Name,
      { open, reasons, ...paging }: ListPaging,
    ): Promise<NumberedRows[Name][]> {
      const { time, columns } = LISTED[name];
      const table = { table: name, number: 'id', time };
      const from = paging.since === undefined ? 0 : await firstSince(to, table, paging.since);
      const before = Math.min(beforeOf(paging), await numberAt(to, table, paging.until));
      const conditions = [
        sql`id < ${before}`,
        from === 0 ? null : sql`id >= ${from}`,
        isWithin(to, time, paging),
        open === undefined ? null : sql`resolved_at IS ${sql.raw(open ? 'NULL' : 'NOT NULL')}`,
        reasons === undefined ? null : isOneOf(gaps.reason, reasons),
      ];
      const rows = await to.query<StoredRow>(
        sql`SELECT ${sql.raw(columns)} FROM ${sql.raw(name)} WHERE ${allOf(conditions)} ORDER BY id DESC LIMIT ${limitOf(paging)}`,
      );
      return rows.map((row) => reportOf(to, name, row));
    },

    async show<Name extends NumberedTable>(name: Name, id: number): Promise<NumberedRows[Name] | null> {
      const { columns, hasBody } = LISTED[name];
      const all = sql.raw(hasBody ? `${columns}, body` : columns);
      const row = await firstRow<StoredRow>(to, sql`SELECT ${all} FROM ${sql.raw(name)} WHERE id = ${id}`);
      return row === null ? null : reportOf(to, name, row);
    },
  };
}

interface StoredRow {
  body?: Buffer | null;
  differences?: unknown;
}

/** Shows the body twice: as text to read, and as base64, which is exact. */
function reportOf<Name extends NumberedTable>({ dialect }: Sql, name: Name, row: StoredRow) {
  const { body = null, ...rest } = row;
  const bodies = { body: body?.toString('utf8') ?? null, body_base64: body?.toString('base64') ?? null };
  return {
    ...rest,
    ...('differences' in rest ? { differences: dialect.fromJson(rest.differences) } : {}),
    ...(LISTED[name].hasBody ? bodies : {}),
  } as NumberedRows[Name];
}

/** The row is of the period. */
export function isWithin({ dialect }: Sql, time: string, { since, until }: Period): SQL {
  return allOf([
    since === undefined ? null : sql`${sql.raw(time)} >= ${dialect.instant(since)}`,
    until === undefined ? null : sql`${sql.raw(time)} < ${dialect.instant(until)}`,
  ]);
}

/** All rows before `until` have numbers below this one. */
export async function numberAt(to: Sql, rows: Numbered, until: string | undefined): Promise<number> {
  return until === undefined ? Number.MAX_SAFE_INTEGER : await firstSince(to, rows, until);
}

/** The number from which on all rows are of `instant` or later: a binary search, since times have no index. */
export async function firstSince(
  to: Sql,
  { table, number, time }: Numbered,
  instant: string,
): Promise<number> {
  const select = sql.raw(`SELECT ${number} AS number, ${time} AS time FROM ${table} WHERE ${number}`);
  const newestUpTo = (last: number) =>
    firstRow<{ number: number; time: string }>(
      to,
      sql`${select} <= ${last} ORDER BY ${sql.raw(number)} DESC LIMIT 1`,
    );
  let low = 0;
  let high = (await newestUpTo(Number.MAX_SAFE_INTEGER))?.number ?? 0;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    const row = await newestUpTo(middle);
    if (row === null || row.time < instant) low = middle;
    else high = row.number - 1;
  }
  return low + 1;
}

/** How rows are read along an index: those of `rows` (FROM … WHERE …) in the order of `keys`. A cursor has the last key. */
export interface IndexScan {
  rows: SQL;
  keys: readonly (Column | SQL)[];
  order: 'ASC' | 'DESC';
  /** Shows a person how far a page came. */
  reach: Column | SQL;
}

/** A row's place in an index scan: `place` for a cursor, `reach` for a person. */
interface ScanPlace<Place> {
  place: Place;
  reach: string;
}

export interface ScannedPage<Row, Place> {
  items: Row[];
  /** The place of each item. */
  places: ScanPlace<Place>[];
  isFull: boolean;
  /** The place of the last row that was looked at; null: no row is left after it. */
  end: ScanPlace<Place> | null;
}

interface Bounds {
  limit: number;
  lookAt: number;
}

/** Returns at most `limit` rows that fit, from the first `lookAt` rows of the scan. */
export async function scanPage<Row extends object, Place = string>(
  to: Sql,
  { rows: scanned, keys, order, reach }: IndexScan,
  { selected, fits }: { selected: SQL; fits: SQL },
  { limit, lookAt }: Bounds,
): Promise<ScannedPage<Row, Place>> {
  const inOrder = (by: readonly (Column | SQL)[]) => {
    const directed = by.map((key) => sql`${key} ${sql.raw(order)}`);
    return sql.join(directed, sql`, `);
  };
  const along = sql`${scanned} ORDER BY ${inOrder(keys)}`;
  // The keys are the last columns, each once: then SQLite sees that the rows come in order, and stops as soon as it has enough.
  const [first, ...others] = keys;
  const marks = others.length === 0 ? { place: first! } : { before_place: first!, place: others.at(-1)! };
  const mark = columnsAs({ reach, ...marks });
  const rows = await to.query<Row & { place: Place; before_place?: unknown; reach: string; fits: unknown }>(
    sql`SELECT * FROM (SELECT ${selected}, (${fits}) AS fits, ${mark} ${along} LIMIT ${lookAt}) AS looked
      WHERE fits ORDER BY ${inOrder(Object.keys(marks).map((name) => sql.raw(name)))} LIMIT ${limit}`,
  );
  const items = rows.map(({ place, before_place, reach, fits, ...row }) => row as unknown as Row);
  const places = rows.map(({ place, reach }) => ({ place, reach }));
  if (rows.length === limit) return { items, places, isFull: true, end: rows.at(-1)! };
  const end = sql`SELECT ${mark} ${along} LIMIT 1 OFFSET ${lookAt - 1}`;
  return { items, places, isFull: false, end: await firstRow<ScanPlace<Place>>(to, end) };
}

/** The same for a list with the newest row first. */
export async function scanNewest<Row extends object>(
  to: Sql,
  table: Numbered,
  rows: SQL,
  what: { selected: SQL; fits: SQL },
  { since, ...bounds }: Bounds & Pick<Period, 'since'>,
): Promise<ScannedPage<Row, number>> {
  const { number, time } = table;
  const scan: IndexScan = { rows, keys: [sql.raw(number)], order: 'DESC', reach: sql.raw(time) };
  const page = await scanPage<Row, number>(to, scan, what, bounds);
  const { isFull, end } = page;
  if (isFull || end === null || since === undefined || end.reach >= since) return page;
  // A row from before the period does not end it: if a clock was set back, rows of the period may have lower numbers.
  return end.place < (await firstSince(to, table, since)) ? { ...page, end: null } : page;
}
