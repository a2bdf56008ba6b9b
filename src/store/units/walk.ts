import type { Sql } from '../database.ts';
import type { Column, SQL, Table } from '../drizzle.ts';
import type { Period } from '../reports.ts';
import { allOf, as, one, sql } from './sql.ts';

/** Lists whose newest come first, walked down by numbers that grow with time, but for a clock that was set back. */

export interface Numbered {
  table: Table;
  number: Column;
  time: Column;
}

/** What a row of the period fulfils. */
export function isWithin({ dialect }: Sql, time: SQL | Column, { since, until }: Period): SQL[] {
  return [
    ...(since === undefined ? [] : [sql`${time} >= ${dialect.instant(since)}`]),
    ...(until === undefined ? [] : [sql`${time} < ${dialect.instant(until)}`]),
  ];
}

/** The first number that is of `until` or later, found without an index of times: all of the period are below it. */
export async function numberAt(to: Sql, rows: Numbered, until: string | undefined): Promise<number> {
  return until === undefined ? Number.MAX_SAFE_INTEGER : await firstSince(to, rows, until);
}

/** The number from which on all is of `instant` or later. */
export async function firstSince(
  to: Sql,
  { table, number, time }: Numbered,
  instant: string,
): Promise<number> {
  const newestUpTo = (most: number) =>
    one<{ number: number; time: string }>(
      to,
      sql`SELECT ${as({ number, time })} FROM ${table} WHERE ${number} <= ${most} ORDER BY ${number} DESC LIMIT 1`,
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

/** One page of a walk. */
export interface Looked<Row> {
  items: Row[];
  /** The page was full. */
  isFull: boolean;
  /** Below this row nothing was looked at; null: nothing is left. */
  end: { number: number; at: string } | null;
}

/**
 * Of the first `lookAt` rows of `walked` (FROM … WHERE …) those that fulfil `conditions`, at most `limit`. Rows of `selected` have
 * their number as `number`, and their time as `received_at`.
 */
export async function lookDown<Row extends { number: number; received_at: string }>(
  to: Sql,
  rows: Numbered,
  { selected, walked }: { selected: SQL; walked: SQL },
  { conditions, since }: { conditions: readonly SQL[]; since: string | undefined },
  { limit, lookAt }: { limit: number; lookAt: number },
): Promise<Looked<Row>> {
  const { number, time } = rows;
  const down = sql`${walked} ORDER BY ${number} DESC`;
  const items = await to.query<Row>(
    sql`SELECT * FROM (SELECT ${selected} ${down} LIMIT ${lookAt}) AS looked
      WHERE ${allOf(conditions)} ORDER BY number DESC LIMIT ${limit}`,
  );
  const last = items.at(-1);
  if (last !== undefined && items.length === limit)
    return { items, isFull: true, end: { number: last.number, at: last.received_at } };
  const end = await one<{ number: number; at: string }>(
    to,
    sql`SELECT ${as({ number, at: time })} ${down} LIMIT 1 OFFSET ${lookAt - 1}`,
  );
  // An older one does not end it by itself: where a clock was set back, some of the period stand before it.
  const isOver =
    end === null ||
    (since !== undefined && end.at < since && end.number < (await firstSince(to, rows, since)));
  return { items, isFull: false, end: isOver ? null : end };
}
