import { afterAll, beforeAll } from 'vitest';
import { createDatabase, type PostgresDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { describeStoreContract } from './contract.ts';
import type { EngineHarness } from './scene.ts';

let server: PostgresServer;
let database: TestDatabase;
/** One pool for all stories: connecting, and planning every statement anew, would take most of their time. */
let pool: PostgresDatabase;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
  pool = createDatabase(database.url);
});
afterAll(async () => {
  await pool.close();
  await database.close();
  await server.stop();
});

const openStore = () => storeOver({ ...pool, close: async () => undefined });

async function open(): Promise<EngineHarness> {
  await database.empty();
  let store = openStore();
  return {
    store,
    query: database.query,
    async reopen() {
      await store.close();
      store = openStore();
      return store;
    },
    close: () => store.close(),
  };
}

describeStoreContract('PostgreSQL', open);
