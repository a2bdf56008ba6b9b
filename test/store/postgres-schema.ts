import { drizzleModule, tablesOf, type Vocabulary } from '../../src/store/schema.ts';

const {
  bigint,
  boolean,
  customType,
  index,
  integer,
  jsonb,
  pgTable,
  primaryKey,
  text,
  timestamp,
  uniqueIndex,
} = drizzleModule('drizzle-orm/pg-core');

/** Ordered byte by byte, as SQLite orders text, whatever the database's own order is: pages of lists go by it. */
const key = customType<{ data: string }>({ dataType: () => 'text COLLATE "C"' });
const number = (name: string) => bigint(name, { mode: 'number' });

/** The words of schema.ts in PostgreSQL, for its migrations: statements use the names alone, which both engines share. */
const postgres = {
  table: pgTable,
  index,
  uniqueIndex,
  primaryKey,
  text,
  key,
  integer,
  number,
  instant: (name: string) => timestamp(name, { withTimezone: true, mode: 'string' }),
  json: jsonb,
  bytes: customType<{ data: Buffer }>({ dataType: () => 'bytea' }),
  serial: (name: string) => number(name).primaryKey().generatedAlwaysAsIdentity(),
  flag: boolean,
  no: false,
};

export const tables = tablesOf(postgres as unknown as Vocabulary);
