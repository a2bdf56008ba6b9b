import type { Sql } from '../database.ts';
import type {
  ListedName,
  ListedRows,
  ListPaging,
  NumberedRows,
  NumberedTable,
  Period,
  ViewName,
} from '../reports.ts';
import { problems } from '../schema.ts';
import { fromJson, type SQL, sql } from '../statement.ts';
import { allOf, beforeOf, firstRow, isOneOf, limitOf } from './sql.ts';

/** Lists with the newest row first, read downwards by the row's number. It grows with time, unless a clock was set back. */

export interface Numbered {
  table: string;
  number: string;
  time: string;
}

interface Listed {
  time: string;
  columns: string;
}

export const PROBLEM_COLUMNS =
  'id, kind, record_id, reason, verdict, needs, opened_at, resolved_at, times, error, digest';

/** Their numbers are in the column `id`. */
const LISTED: Readonly<Record<NumberedTable, Listed>> = {
  problems: {
    time: 'opened_at',
    columns: PROBLEM_COLUMNS,
  },
  sync_runs: {
    time: 'started_at',
    columns: `id, kind, reason, started_at, finished_at, pages, seen, inserted, updated, deleted, unchanged, outcome, error,
      differences`,
  },
  audit: { time: 'at', columns: 'id, at, actor, action, outcome, target' },
};

const isView = (name: ListedName): name is ViewName => name in VIEWS;

const VIEWS: Readonly<Record<ViewName, { columns: string; order: string }>> = {
  fields: { columns: 'kind, "column", path, type, first_seen_at', order: 'kind, position' },
  sync_status: { columns: '*', order: 'kind' },
  sync_history: { columns: 'kind, verdict, complete, since, until', order: 'id' },
};

/** Rows of the tables whose rows have a number and a time. */
export function createLists(to: Sql) {
  return {
    /** Newest first; rows of a small table or view in its own order, and their cursor is how many came before. */
    async list<Name extends ListedName>(
      name: Name,
      { open, reasons, ...paging }: ListPaging,
    ): Promise<ListedRows[Name][]> {
      if (isView(name)) {
        const { columns, order } = VIEWS[name];
        return await to.query(
          sql`SELECT ${sql.raw(columns)} FROM ${sql.raw(name)} ORDER BY ${sql.raw(order)}
            LIMIT ${limitOf(paging)} OFFSET ${Number(paging.after ?? 0)}`,
        );
      }
      const table: NumberedTable = name as never;
      const { time, columns } = LISTED[table];
      const conditions = [
        sql`id < ${beforeOf(paging)}`,
        isWithin(to, time, paging),
        open === undefined ? null : sql`resolved_at IS ${sql.raw(open ? 'NULL' : 'NOT NULL')}`,
        reasons === undefined ? null : isOneOf(problems.reason, reasons),
      ];
      const rows = await to.query<StoredRow>(
        sql`SELECT ${sql.raw(columns)} FROM ${sql.raw(table)} WHERE ${allOf(conditions)} ORDER BY id DESC LIMIT ${limitOf(paging)}`,
      );
      return rows.map((row) => reportOf(row) as ListedRows[Name]);
    },

    async show<Name extends NumberedTable>(name: Name, id: number): Promise<NumberedRows[Name] | null> {
      const columns = sql.raw(LISTED[name].columns);
      const row = await firstRow<StoredRow>(
        to,
        sql`SELECT ${columns} FROM ${sql.raw(name)} WHERE id = ${id}`,
      );
      return row === null ? null : (reportOf(row) as NumberedRows[Name]);
    },
  };
}

interface StoredRow {
  differences?: unknown;
}

function reportOf(row: StoredRow): object {
  const read = 'differences' in row ? { differences: fromJson(row.differences) } : {};
  return { ...row, ...read };
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
async function firstSince(to: Sql, { table, number, time }: Numbered, instant: string): Promise<number> {
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

/** A row's place in a scan: its number for a cursor, and its time for a person. */
interface ScanPlace {
  place: number;
  reach: string;
}

export interface ScannedPage<Row> {
  items: Row[];
  isFull: boolean;
  /** The place of the last row that was looked at; null: no row is left after it. */
  end: ScanPlace | null;
}

/** Returns at most `limit` rows that fit, of the first `lookAt` of `rows` (FROM … WHERE …), the newest first. */
export async function scanNewest<Row extends object>(
  to: Sql,
  table: Numbered,
  rows: SQL,
  { selected, fits }: { selected: SQL; fits: SQL },
  { limit, lookAt, since }: { limit: number; lookAt: number } & Pick<Period, 'since'>,
): Promise<ScannedPage<Row>> {
  const mark = sql.raw(`${table.time} AS reach, ${table.number} AS place`);
  const along = sql`${rows} ORDER BY ${sql.raw(table.number)} DESC`;
  const found = await to.query<Row & ScanPlace & { fits: unknown }>(
    sql`SELECT * FROM (SELECT ${selected}, (${fits}) AS fits, ${mark} ${along} LIMIT ${lookAt}) AS looked
      WHERE fits ORDER BY place DESC LIMIT ${limit}`,
  );
  const items = found.map(({ place, reach, fits, ...row }) => row as unknown as Row);
  if (found.length === limit) return { items, isFull: true, end: found.at(-1)! };
  const end = await firstRow<ScanPlace>(to, sql`SELECT ${mark} ${along} LIMIT 1 OFFSET ${lookAt - 1}`);
  // A row from before the period does not end it: if a clock was set back, rows of the period may have lower numbers.
  const isOver = end !== null && since !== undefined && end.reach < since;
  return {
    items,
    isFull: false,
    end: isOver && end.place < (await firstSince(to, table, since)) ? null : end,
  };
}
