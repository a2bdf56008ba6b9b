import type { Sql } from '../database.ts';
import { type Column, drizzleModule, type SQL, type Table } from '../drizzle.ts';
import { PAGE_LIMIT_MAX, type Paging } from '../reports.ts';

export const { sql } = drizzleModule('drizzle-orm');

type Columns<T extends Table> = T['_']['columns'];
/** What stands in a statement: a parameter, or an expression. */
type Value = string | number | boolean | null | Uint8Array | SQL;

const named = (column: Column) => sql.identifier(column.name);
const joined = (parts: SQL[]) => sql.join(parts, sql.raw(', '));

/** `"column" = value, …`: behind SET. */
export function set<T extends Table>(table: T, values: { [Name in keyof Columns<T>]?: Value }): SQL {
  return joined(entriesOf(table, values).map(([column, value]) => sql`${named(column)} = ${value}`));
}

/** `INSERT INTO table (columns) VALUES (values)`. */
export function insertInto<T extends Table>(table: T, values: { [Name in keyof Columns<T>]?: Value }): SQL {
  const entries = entriesOf(table, values);
  const columns = joined(entries.map(([column]) => sql`${named(column)}`));
  return sql`INSERT INTO ${table} (${columns}) VALUES (${joined(entries.map(([, value]) => sql`${value}`))})`;
}

/** `"table"."column" AS "name", …`: what rows are made of. */
export function as(columns: Readonly<Record<string, Column | SQL>>): SQL {
  return joined(Object.entries(columns).map(([name, column]) => sql`${column} AS ${sql.identifier(name)}`));
}

/** Under their own names. */
export const columns = (...some: Column[]): SQL => joined(some.map((column) => sql`${column}`));

/** In ON CONFLICT: what would have been inserted. */
export const excluded = (column: Column): SQL => sql`excluded.${named(column)}`;

export const iso = (wall: number): string => new Date(wall).toISOString();

/** Null is a value like another. Spelled out, since a comparison that takes null for equal finds nothing in an index. */
export function is(column: Column, value: string | number | null): SQL {
  return value === null ? sql`${column} IS NULL` : sql`${column} = ${value}`;
}

/** `column IN ('…', …)`, of values that are ours and never change. */
export function isOneOf(column: Column, values: readonly string[]): SQL {
  return sql`${column} IN (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;
}

/** Above every character: what begins with a text lies between it and it with this behind. */
export const LAST = '\u{10ffff}';

export async function idsOf(from: Sql, statement: SQL): Promise<string[]> {
  return (await from.query<{ id: string }>(statement)).map(({ id }) => id);
}

export const limitOf = ({ limit }: Pick<Paging, 'limit'>): number =>
  Math.min(Math.max(1, limit), PAGE_LIMIT_MAX);

/** Of a list whose newest come first, which a number orders. The first page asks in the same words as the others. */
export const beforeOf = ({ after }: Paging): number =>
  after === undefined ? Number.MAX_SAFE_INTEGER : Number(after);

function entriesOf<T extends Table>(
  table: T,
  values: { [Name in keyof Columns<T>]?: Value },
): [Column, Value][] {
  const columns = table as unknown as Record<string, Column>;
  return Object.entries(values as Record<string, Value>).map(([name, value]) => [columns[name]!, value]);
}
