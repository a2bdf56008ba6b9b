import type { Sql } from '../database.ts';
import type { Column, SQL, Table } from '../drizzle.ts';
import type { Period } from '../reports.ts';
import { as, sql } from './sql.ts';

/** Rows whose numbers grow with time, but for a clock that was set back. */
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

/** The numbers of a period, found without an index of times: from `from` on, and below `before`. */
export async function numbersWithin(
  to: Sql,
  rows: Numbered,
  { since, until }: Period,
): Promise<{ from: number; before: number }> {
  return {
    from: since === undefined ? 0 : await firstSince(to, rows, since),
    before: until === undefined ? Number.MAX_SAFE_INTEGER : await firstSince(to, rows, until),
  };
}

/** The number from which on all is of `instant` or later. */
export async function firstSince(
  to: Sql,
  { table, number, time }: Numbered,
  instant: string,
): Promise<number> {
  const newestUpTo = async (most: number) => {
    const [row] = await to.query<{ number: number; time: string }>(
      sql`SELECT ${as({ number, time })} FROM ${table} WHERE ${number} <= ${most} ORDER BY ${number} DESC LIMIT 1`,
    );
    return row;
  };
  let least = 0;
  let most = (await newestUpTo(Number.MAX_SAFE_INTEGER))?.number ?? 0;
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    const row = await newestUpTo(middle);
    if (row === undefined || row.time < instant) least = middle;
    else most = Math.max(least, row.number - 1);
  }
  return least + 1;
}
