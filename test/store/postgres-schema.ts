import { CLAIMS, drizzleModule, tablesOf, type Vocabulary } from '../../src/store/schema.ts';

const { sql } = drizzleModule('drizzle-orm');
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
  // An entry of an index holds at most 2,700 bytes, and a name may be any text: its first 200 letters are what is sorted.
  nameOrder: sql`left(lower(name COLLATE "C"), 200)`,
  statusOrder: () => sql`left(status, 200)`,
  bySeq: <Column>(seq: Column, ...record: Column[]) => [...record, seq],
};

/** Beside the tables of both engines: who works on which events. */
export const tables = {
  ...tablesOf(postgres as unknown as Vocabulary),
  /** UNLOGGED by its migration, so that a claim is no write to disk: a crash of the server ends the claims anyway. */
  claims: pgTable(
    CLAIMS,
    {
      seq: number('seq').primaryKey(),
      kind: key('kind'),
      recordId: key('record_id'),
      owner: text('owner').notNull(),
      /** The opened store whose owner it is: what that one held ends with it. */
      opening: text('opening').notNull(),
      until: number('until').notNull(),
    },
    (t) => [index('claims_record').on(t.recordId, t.kind)],
  ),
};
