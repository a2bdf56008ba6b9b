import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { getTableColumns, getTableName, is, Table } from 'drizzle-orm';
import { PgTable, getTableConfig as postgresConfig } from 'drizzle-orm/pg-core';
import { SQLiteTable, getTableConfig as sqliteConfig } from 'drizzle-orm/sqlite-core';
import { describe, expect, it } from 'vitest';
import * as postgres from '../../src/store/schema.postgres.ts';
import * as sqlite from '../../src/store/schema.sqlite.ts';

const DRIZZLE = fileURLToPath(new URL('../../drizzle/', import.meta.url));

/** What SQLite keeps in the memory of its one process. */
const POSTGRES_ONLY = ['claims'];

/** Text in SQLite that is JSON: the only columns that are `jsonb`, and all of them. */
const JSON_COLUMNS = [
  'changes.after',
  'changes.before',
  'fields.keys',
  'policies.data',
  'policies.shown',
  'registrations.delivers',
  'registrations.events',
  'risk_assessments.data',
  'risk_assessments.shown',
  'sync_runs.differences',
  'vendors.data',
  'vendors.shown',
];

/** The type of a column in SQLite, and those that hold the same in PostgreSQL. */
const SAME: Readonly<Record<string, readonly string[]>> = {
  text: ['text', 'text COLLATE "C"', 'timestamp with time zone', 'jsonb'],
  integer: ['integer', 'bigint', 'boolean'],
  blob: ['bytea'],
};

const tablesOf = (schema: object) =>
  new Map(
    Object.values(schema)
      .filter((value): value is Table => is(value, Table))
      .map((table) => [getTableName(table), table] as const),
  );
const inSqlite = tablesOf(sqlite);
const inPostgres = tablesOf(postgres);
const shared = [...inSqlite.keys()];
const columnsOf = (table: Table | undefined) =>
  table === undefined ? [] : Object.values(getTableColumns(table));

describe('the two schemas', () => {
  it('have the same tables', () => {
    expect([...inPostgres.keys()].filter((name) => !POSTGRES_ONLY.includes(name)).sort()).toEqual(
      shared.sort(),
    );
  });

  it.each(shared)('agree in the columns of %s: names, order, what may be null, and type', (name) => {
    const theirs = new Map(columnsOf(inPostgres.get(name)).map((column) => [column.name, column]));
    expect([...theirs.keys()]).toEqual(columnsOf(inSqlite.get(name)).map((column) => column.name));
    for (const column of columnsOf(inSqlite.get(name))) {
      const other = theirs.get(column.name)!;
      const what = `${name}.${column.name}`;
      expect(other.notNull, what).toBe(column.notNull);
      // A whole number that is a key in SQLite always has one.
      if (!column.primary) expect(other.hasDefault, `${what} has a default`).toBe(column.hasDefault);
      expect(SAME[column.getSQLType()], what).toContain(other.getSQLType());
    }
  });

  it('agree in keys and indexes, by name, columns and uniqueness', () => {
    for (const name of shared) {
      const one = sqliteConfig(inSqlite.get(name) as SQLiteTable);
      const other = postgresConfig(inPostgres.get(name) as PgTable);
      const keys = (config: typeof one | typeof other) =>
        config.primaryKeys.map((key) => key.columns.map((column) => column.name));
      expect(keys(other), name).toEqual(keys(one));
      const indexes = (config: typeof one | typeof other) =>
        config.indexes.map(({ config: index }) => [index.name, index.columns.length, index.unique]);
      expect(indexes(other), name).toEqual(indexes(one));
    }
    expect(shared.every((name) => is(inSqlite.get(name), SQLiteTable))).toBe(true);
    expect(shared.every((name) => is(inPostgres.get(name), PgTable))).toBe(true);
  });

  it('hold as jsonb what is JSON, and nothing else', () => {
    const json = [...inPostgres].flatMap(([name, table]) =>
      columnsOf(table)
        .filter((column) => column.getSQLType() === 'jsonb')
        .map((column) => `${name}.${column.name}`),
    );
    expect(json.sort()).toEqual(JSON_COLUMNS);
  });

  it('have migrations under the same numbers and names', () => {
    const steps = (engine: string) => {
      const journal = JSON.parse(readFileSync(`${DRIZZLE}${engine}/meta/_journal.json`, 'utf8')) as {
        entries: { idx: number; tag: string }[];
      };
      const files = readdirSync(`${DRIZZLE}${engine}`).filter((file) => file.endsWith('.sql'));
      expect(files.sort()).toEqual(journal.entries.map((entry) => `${entry.tag}.sql`));
      return journal.entries.map((entry) => `${entry.idx} ${entry.tag}`);
    };
    expect(steps('postgres')).toEqual(steps('sqlite'));
  });
});
