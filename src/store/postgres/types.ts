import pg from 'pg';
import { readJson, readText } from './text.ts';

/** What columns come back as: the port's types, which are those of SQLite. */

const { builtins } = pg.types;

const PARSERS = new Map<number, (text: string) => unknown>([
  [builtins.TEXT, readText],
  [builtins.INT8, readInteger],
  [builtins.NUMERIC, Number],
  [builtins.TIMESTAMPTZ, readInstant],
  [builtins.JSON, readJson],
  [builtins.JSONB, readJson],
]);

/** For this pool alone: pg's own registry is shared with whoever else uses pg in the process. */
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

/** An instant as PostgreSQL reads it: of the years beyond four digits, and of year 0, ISO text is not understood. */
export function asInstant(iso: string): string {
  if (iso.length === 24 && !iso.startsWith('0000')) return iso;
  const [, sign = '', digits, rest] = /^([+-]?)(\d+)-(.*)Z$/.exec(iso) ?? [];
  const year = Number(`${sign}${digits}`);
  if (year > 0) return `${year}-${rest}Z`;
  return `${String(1 - year).padStart(4, '0')}-${rest?.replace('T', ' ')}+00 BC`;
}

export const instantOf = (wall: number): string => asInstant(new Date(wall).toISOString());
