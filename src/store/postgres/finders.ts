import type { SQL } from '../drizzle.ts';
import { changes, events } from '../schema.ts';
import type { Finders } from '../units/reports.ts';
import { as, sql } from '../units/sql.ts';
import type { Sql } from './connection.ts';

/** What reports ask of one record through its index, and how large the schema is. */
export function createFinders(statements: Sql): Finders {
  async function numbers(statement: SQL): Promise<number[]> {
    return (await statements.query<{ seq: number }>(statement)).map(({ seq }) => seq);
  }
  return {
    eventsOfRecord: (id, before, limit) =>
      numbers(
        sql`SELECT ${as({ seq: events.seq })} FROM ${events} WHERE ${events.recordId} = ${id} AND ${events.seq} < ${before}
          ORDER BY ${events.seq} DESC LIMIT ${limit}`,
      ),
    changesOfRecord: (kind, id, before, limit) =>
      numbers(
        sql`SELECT ${as({ seq: changes.seq })} FROM ${changes} WHERE ${changes.kind} = ${kind} AND ${changes.recordId} = ${id}
          AND ${changes.seq} < ${before} ORDER BY ${changes.seq} DESC LIMIT ${limit}`,
      ),
    changesAfter: (kind, id, after, limit) =>
      numbers(
        sql`SELECT ${as({ seq: changes.seq })} FROM ${changes} WHERE ${changes.kind} = ${kind} AND ${changes.recordId} = ${id}
          AND ${changes.seq} > ${after} ORDER BY ${changes.seq} LIMIT ${limit}`,
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
