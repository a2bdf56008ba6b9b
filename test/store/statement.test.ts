import { expect, it } from 'vitest';
import { write } from '../../src/store/postgres/dialect.ts';
import { events, problems } from '../../src/store/schema.ts';
import { json, type SQL, sql } from '../../src/store/statement.ts';
import { set } from '../../src/store/units/sql.ts';

const body = new Uint8Array([1, 0]);

it.each<{ what: string; statement: SQL; text: string; params: readonly unknown[] }>([
  {
    what: 'has its values as parameters',
    statement: sql`SELECT ${events.id} FROM ${events} WHERE ${events.seq} > ${7} AND ${'e "1"'} <> ${null}`,
    text: 'SELECT "events"."id" FROM "events" WHERE "events"."seq" > $1 AND $2 <> $3',
    params: [7, 'e "1"', null],
  },
  {
    what: 'holds others, with their parameters in order',
    statement: sql`UPDATE ${problems} SET ${set(problems, { error: 'e', times: sql`times + ${1}` })} WHERE ${sql`id = ${2}`}`,
    text: 'UPDATE "problems" SET "error" = $1, "times" = times + $2 WHERE id = $3',
    params: ['e', 1, 2],
  },
  {
    what: 'begins and ends with others',
    statement: sql`${sql`${1}`}${sql.join([sql`a`, sql`${2}`, sql`b`], ' -> ')}${sql`${3}`}`,
    text: '$1a -> $2 -> b$3',
    params: [1, 2, 3],
  },
  {
    what: 'takes a name as one, whatever is in it',
    statement: sql`SELECT ${sql.identifier('odd "name"')}, ${sql.join([])}${sql.raw("now('x')")}`,
    text: `SELECT "odd ""name""", now('x')`,
    params: [],
  },
  {
    what: 'takes lists, bytes and JSON as one parameter each',
    statement: sql`${['a', 'b']} ${body} ${json({ a: [1] })} ${json(null)}`,
    text: '$1 $2 $3 $4',
    params: [['a', 'b'], body, '{"a":[1]}', null],
  },
])('a statement $what', ({ statement, text, params }) => {
  expect(write(statement)).toEqual({ text, params });
});
