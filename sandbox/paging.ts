import type { Meta } from '../src/compliance/envelope.ts';
import { unfit } from './problems.ts';
import type { Shapes } from './shapes.ts';

/** Which rows a request for a page gets, and what the answer's `meta` says of them. */

export interface Page<Row> {
  rows: Row[];
  meta: Meta;
}

/** A page past the end is empty. Throws a Problem, 422, for a parameter that is no whole number in its range. */
export function pageOf<Row>(
  records: readonly Row[],
  query: Readonly<Record<string, string>>,
  paging: Shapes['paging'],
): Page<Row> {
  const { by, startName, firstPage } = paging;
  const total = records.length;
  if (by === 'nothing') return { rows: [...records], meta: { page: firstPage, perPage: total, total } };
  const size = Math.min(numberIn(query, paging.sizeName, 1) ?? paging.size, paging.maxSize);
  const start =
    by === 'page'
      ? ((numberIn(query, startName, firstPage) ?? firstPage) - firstPage) * size
      : by === 'offset'
        ? (numberIn(query, startName, 0) ?? 0)
        : startOf(query[startName]);
  const rows = records.slice(start, start + size);
  const meta = { page: Math.floor(start / size) + firstPage, perPage: size, total };
  const isLast = start + size >= total;
  return {
    rows,
    meta: by === 'cursor' ? { ...meta, nextCursor: isLast ? null : cursorOf(start + size) } : meta,
  };
}

/** Digits only: `1e3`, ` 5` and `0x10` are mistakes of the sender. */
function numberIn(query: Readonly<Record<string, string>>, name: string, least: number): number | null {
  const text = query[name];
  if (text === undefined) return null;
  const number = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (number >= least) return number;
  throw unfit(`${name}: a whole number from ${least} on.`);
}

const CURSOR_PREFIX = 'after:';

function cursorOf(start: number): string {
  return Buffer.from(`${CURSOR_PREFIX}${start}`).toString('base64url');
}

function startOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0;
  const text = Buffer.from(cursor, 'base64url').toString();
  const start = text.startsWith(CURSOR_PREFIX) ? Number(text.slice(CURSOR_PREFIX.length)) : Number.NaN;
  if (Number.isSafeInteger(start) && start >= 0) return start;
  throw unfit('The cursor is none that this list has given.');
}
