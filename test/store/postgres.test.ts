import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { TYPES } from '../../src/store/postgres/types.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { describeStoreContract } from './contract.ts';
import type { EngineHarness } from './scene.ts';

let server: PostgresServer;
let url: string;
/** Looks at the tables, and empties them between stories: a database of its own for each would take minutes. */
let reader: pg.Client;

beforeAll(async () => {
  server = await startPostgres();
  url = await server.createDatabase();
  await (await openPostgres(url)).close();
  reader = new pg.Client({ connectionString: url, types: TYPES });
  await reader.connect();
  await reader.query("SET timezone = 'UTC'");
  await rememberFresh();
});

afterAll(async () => {
  await reader.end();
  await server.stop();
});

/** What each table holds just after the migrations. */
let fresh: string;

async function rememberFresh(): Promise<void> {
  const tables = await reader.query<{ name: string }>(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> '__drizzle_migrations' ORDER BY 1",
  );
  const steps: string[] = [];
  for (const { name } of tables.rows) {
    await reader.query(`CREATE TABLE public.__fresh_${name} AS SELECT * FROM ${name}`);
    steps.push(`DELETE FROM ${name};`);
  }
  for (const { name } of tables.rows) {
    steps.push(
      `DELETE FROM ${name}; INSERT INTO ${name} OVERRIDING SYSTEM VALUE SELECT * FROM __fresh_${name};`,
    );
  }
  const sequences = await reader.query<{ name: string }>(
    "SELECT sequencename AS name FROM pg_sequences WHERE schemaname = 'public' AND sequencename NOT LIKE '\\_\\_%'",
  );
  for (const { name } of sequences.rows) steps.push(`PERFORM setval('${name}', 1, false);`);
  fresh = `DO $$ BEGIN ${steps.join('\n')} END $$`;
}

async function open(): Promise<EngineHarness> {
  await reader.query(fresh);
  let store = await openPostgres(url);
  return {
    store,
    query: async (sql) => (await reader.query(sql)).rows,
    async reopen() {
      await store.close();
      store = await openPostgres(url);
      return store;
    },
    close: () => store.close(),
  };
}

describeStoreContract('PostgreSQL', open);
