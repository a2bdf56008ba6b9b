import type { Database, Dialect, Sql } from '../database.ts';
import { PAGE_LIMIT_MAX, type Paging, type Period } from '../reports.ts';
import { audit, type Column, drizzleModule, facts, type Table } from '../schema.ts';
import { type Json, type SQL, sql } from '../statement.ts';
import type { AuditEntry, Now } from '../values.ts';

const { getTableColumns } = drizzleModule('drizzle-orm');

type Columns<T extends Table> = T['_']['columns'];
/** A parameter of a statement, or an expression. */
type Value = string | number | boolean | null | Uint8Array | Json | SQL | Column;
type Values<T extends Table> = { [Name in keyof Columns<T>]?: Value };

const named = (column: Column) => sql.identifier(column.name);

/** `"column" = value, …`, after SET. */
export function set<T extends Table>(table: T, values: Values<T>): SQL {
  return sql.join(entriesOf(table, values).map(([column, value]) => sql`${named(column)} = ${value}`));
}

export const update = <T extends Table>(table: T, values: Values<T>, condition: SQL): SQL =>
  sql`UPDATE ${table} SET ${set(table, values)} WHERE ${condition}`;

export function insertInto<T extends Table>(table: T, values: Values<T>): SQL {
  const entries = entriesOf(table, values);
  const columns = sql.join(entries.map(([column]) => sql`${named(column)}`));
  return sql`INSERT INTO ${table} (${columns}) VALUES (${sql.join(entries.map(([, value]) => sql`${value}`))})`;
}

/** Inserts, or if a row with this key exists, gives each other column its new value, or the one in `instead`. */
export function upsert<T extends Table>(
  table: T,
  key: readonly (keyof Columns<T> & string)[],
  values: Values<T>,
  instead: Values<T> = {},
): SQL {
  const own = ofTable(table);
  const others = Object.keys(values).filter((name) => !key.includes(name));
  const changed = {
    ...Object.fromEntries(others.map((name) => [name, excluded(own[name]!)])),
    ...instead,
  } as Values<T>;
  const target = sql.join(key.map((name) => sql`${named(own[name]!)}`));
  return sql`${insertInto(table, values)} ON CONFLICT (${target}) DO UPDATE SET ${set(table, changed)}`;
}

/** `"table"."column" AS "name", …`, after SELECT. */
export function columnsAs(columns: Readonly<Record<string, Column | SQL>>): SQL {
  return sql.join(Object.entries(columns).map(([name, column]) => sql`${column} AS ${sql.identifier(name)}`));
}

/** The columns of a table by the names that the code has for them, after SELECT; default: all. */
export const columnsOf = <T extends Table>(
  table: T,
  names: readonly (keyof Columns<T> & string)[] = Object.keys(getTableColumns(table)),
): SQL => columnsAs(Object.fromEntries(names.map((name) => [name, ofTable(table)[name]!])));

/** In ON CONFLICT: the value that would have been inserted. */
export const excluded = (column: Column): SQL => sql`excluded.${named(column)}`;

export const iso = (wall: number): string => new Date(wall).toISOString();

/** The form in which we write instants. */
const IN_MILLISECONDS = /^\d{4}-[-0-9T:]{12}[0-5]\d\.\d{3}Z$/;

/** An event's `created` in our form: senders may leave out the fraction, or use another time zone. */
export const createdIn = ({ created, createdMs }: { created: string; createdMs: number }): string =>
  IN_MILLISECONDS.test(created) ? created : iso(createdMs);

/** Equal, or both null. Not IS NOT DISTINCT FROM, which uses no index. */
export function equals(column: Column, value: string | number | null): SQL {
  return value === null ? sql`${column} IS NULL` : sql`${column} = ${value}`;
}

/** `column IN ('…', …)`, only for constants of the code. */
export function isOneOf(column: Column, values: readonly string[]): SQL {
  return sql`${column} IN (${sql.raw(values.map((value) => `'${value}'`).join(', '))})`;
}

/** All conditions that are not null. */
export function allOf(conditions: readonly (SQL | null)[]): SQL {
  const given = conditions.filter((each) => each !== null);
  return given.length === 0 ? sql`true` : sql`(${sql.join(given, ' AND ')})`;
}

/** What a filter's value asks for. */
export type Condition<Value> = (value: NonNullable<Value>) => SQL | null;

/** The row is of the period. */
export const within = (dialect: Dialect, time: string) =>
  ({
    since: (since) => sql`${sql.raw(time)} >= ${dialect.instant(since)}`,
    until: (until) => sql`${sql.raw(time)} < ${dialect.instant(until)}`,
  }) satisfies { [Name in keyof Period]: Condition<Period[Name]> };

/** All that the filters ask for. */
export function conditionOf<Filter extends object>(
  filter: Filter,
  conditions: { [Name in keyof Filter]?: Condition<Filter[Name]> },
): SQL {
  return allOf(
    Object.entries(conditions as Record<string, Condition<unknown>>).map(([name, condition]) => {
      const value = filter[name as keyof Filter] ?? null;
      return value === null ? null : condition(value);
    }),
  );
}

/** Sorts after every character: texts that begin with `a` are between `a` and `a` followed by this. */
export const LAST = '\u{10ffff}';

export async function firstRow<Row>(from: Sql, statement: SQL): Promise<Row | null> {
  return (await from.query<Row>(statement))[0] ?? null;
}

/** The value of a statement with one row and one column. Null: no row, or a null in it. */
export async function singleValue<Value extends string | number>(
  from: Sql,
  statement: SQL,
): Promise<Value | null> {
  const [row] = await from.query<Record<string, Value | null>>(statement);
  return row === undefined ? null : (Object.values(row)[0] ?? null);
}

/** Runs a statement as a unit of its own. */
export const writerOf =
  ({ transact }: Pick<Database, 'transact'>) =>
  async (statement: SQL): Promise<void> => {
    await transact((unit) => unit.change(statement));
  };

export async function idsOf(from: Sql, statement: SQL): Promise<string[]> {
  return (await from.query<{ id: string }>(statement)).map(({ id }) => id);
}

export const limitOf = ({ limit }: Pick<Paging, 'limit'>): number =>
  Math.min(Math.max(1, limit), PAGE_LIMIT_MAX);

const ofTable = (table: Table) => table as unknown as Record<string, Column>;

function entriesOf<T extends Table>(table: T, values: Values<T>): [Column, Value][] {
  return Object.entries(values as Record<string, Value>).map(([name, value]) => [
    ofTable(table)[name]!,
    value,
  ]);
}

/** Small tables that units of several files write: the audit and facts. */

/** Returns the entry's id. */
export async function noteAudit(
  unit: Sql,
  { actor, action, outcome, target }: AuditEntry,
  now: Now,
): Promise<number> {
  const entry = insertInto(audit, { at: iso(now.wall), actor, action, outcome, target });
  return (await singleValue<number>(unit, sql`${entry} RETURNING ${audit.id}`))!;
}

export async function writeFact(unit: Sql, name: string, value: string): Promise<void> {
  await unit.change(writtenFact(name, value));
}

/** The statement of `writeFact`. */
export const writtenFact = (name: string, value: string): SQL => upsert(facts, ['name'], { name, value });

export const readFact = (unit: Sql, name: string): Promise<string | null> =>
  singleValue<string>(unit, sql`SELECT ${facts.value} FROM ${facts} WHERE ${facts.name} = ${name}`);
