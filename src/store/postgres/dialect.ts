import type { Dialect, Sql } from '../database.ts';
import { type Column, drizzleModule, type SQL } from '../drizzle.ts';
import { createWriter } from '../statement.ts';
import type { Finders } from '../units/reports.ts';
import { LAST, sql } from '../units/sql.ts';
import { keepJson } from './values.ts';

/** PostgreSQL's own SQL, for the verbs that are written once. */

export const write = createWriter(
  new (drizzleModule('drizzle-orm/pg-core').PgDialect)(),
  (position) => `$${position}`,
);

export const DIALECT: Dialect = {
  isAmong: (column, values) =>
    sql`${column} = ANY (${sql.param(values)}::${sql.raw(column.dataType === 'number' ? 'bigint' : 'text')}[])`,
  json: (value) => (value == null ? sql`NULL` : sql`${keepJson(value)}::jsonb`),
  fromJson: (stored) => stored,
  instant: (iso) => sql`${iso}::timestamptz`,
  listed: (ids) => sql`unnest(${sql.param(ids)}::text[]) AS listed (id)`,
  entries: (values) => sql`json_each_text(${keepJson(values)}::json)`,
  forShare: sql`FOR SHARE`,
  forUpdate: sql`FOR UPDATE`,
  hourOf: (column) => sql`date_trunc('hour', ${column})`,
  millisecondsBetween: (earlier, later) => sql`(extract(epoch FROM ${later} - ${earlier}) * 1000)::float8`,
  indexedBy: () => sql``,
  knowsSizes: true,
  folded,
  // The range uses the index, which has only the beginnings of names.
  beginsWith: (column, text) => sql`${folded(column)} < ${folded(text)} || ${LAST}::text
    AND starts_with(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C"))`,
  indexed: (text) => sql`left(${text}::text, 200)`,
  holds: (column, text) => sql`strpos(lower(${column} COLLATE "C"), lower(${text}::text COLLATE "C")) > 0`,
  contains: (column, text) =>
    column.dataType === 'buffer'
      ? sql`position(convert_to(${text}, 'UTF8') IN ${column}) > 0`
      : sql`strpos(${column}, ${text}) > 0`,
  isBehind: ([first, second], [a, b]) => sql`(${first}, ${second}) > (${a}, ${b})`,
  // By a function, since the service's user need own no view.
  flatView: (kind) => [sql`SELECT show_fields(${kind})`],
};

function folded(text: Column | string): SQL {
  return sql`left(lower(${text}::text COLLATE "C"), 200)`;
}

/** Searches for one record through its index, and the size of the schema. */
export function createFinders(statements: Sql): Finders {
  async function numbers(statement: SQL): Promise<number[]> {
    return (await statements.query<{ seq: number }>(statement)).map(({ seq }) => seq);
  }
  return {
    eventsOfRecord: (id, before, limit) =>
      numbers(
        sql`SELECT seq FROM events WHERE record_id = ${id} AND seq < ${before} ORDER BY seq DESC LIMIT ${limit}`,
      ),
    changesOfRecord: (kind, id, from, limit, order) =>
      numbers(
        sql`SELECT seq FROM changes WHERE kind = ${kind} AND record_id = ${id}
          AND seq ${sql.raw(order === 'ASC' ? '>' : '<')} ${from} ORDER BY seq ${sql.raw(order)} LIMIT ${limit}`,
      ),
    async sizes(to) {
      const [row] = await to.query<{ bytes: number }>(
        sql`SELECT sum(pg_total_relation_size(c.oid)) AS bytes FROM pg_class c
         WHERE c.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema()) AND c.relkind = 'r'`,
      );
      // The log is the whole server's, and other databases' too.
      return { database_bytes: row!.bytes, wal_bytes: 0 };
    },
  };
}
