import { expect, it } from 'vitest';
import { drizzleModule, events, problems } from '../../src/store/schema.ts';
import { columnsAs, createWriter, insertInto, isOneOf, set, sql } from '../../src/store/units/sql.ts';

const { asc, count, eq } = drizzleModule('drizzle-orm');
const { PgDialect } = drizzleModule('drizzle-orm/pg-core');
const { SQLiteSyncDialect } = drizzleModule('drizzle-orm/sqlite-core');

const STATEMENTS = [
  sql`SELECT ${columnsAs({ seq: events.seq, at: events.createdMs })} FROM ${events} WHERE ${events.id} = ${'e "1"'}`,
  sql`UPDATE ${problems} SET ${set(problems, { error: null, resolvedAt: sql`now${sql.raw('()')}` })} WHERE ${problems.id} > ${7} AND ${true}`,
  insertInto(problems, { reason: 'silence', kind: 'vendor' }),
  sql`SELECT ${sql.identifier('odd "name"')} FROM ${sql.param(['a', 'b'])} ${undefined}${sql.empty()} ${new Uint8Array([1, 0])}`,
  sql`DELETE FROM ${problems} WHERE ${isOneOf(problems.reason, ['silence', 'downtime'])}`,
  // With parts that none of ours have so far.
  sql`SELECT ${count(events.id)} FROM ${events} WHERE ${eq(events.id, 'x')} AND ${events.seq} IN ${[1, 2]} ORDER BY ${asc(events.seq)}`,
];

it.each([
  { name: 'SQLite', dialect: new SQLiteSyncDialect(), placeholder: () => '?' },
  { name: 'PostgreSQL', dialect: new PgDialect(), placeholder: (position: number) => `$${position}` },
])('a statement is written for $name as drizzle writes it', ({ dialect, placeholder }) => {
  const write = createWriter(dialect, placeholder);
  // Twice: names are asked for once.
  for (const statement of [...STATEMENTS, ...STATEMENTS]) {
    const { sql: text, params } = dialect.sqlToQuery(statement);
    expect(write(statement)).toEqual({ text, params });
  }
});
