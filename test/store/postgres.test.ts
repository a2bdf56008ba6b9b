import pg from 'pg';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { createDatabase, type PostgresDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { describeStoreContract } from './contract.ts';
import { createScene, type EngineHarness, SETTLE_MS } from './scene.ts';

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

it('applies a page of records that events have only named with as many statements as two of them', async () => {
  const scene = await createScene(open);
  const statementsFor = async (size: number) => {
    const ids = Array.from({ length: size }, (_, nth) => `${size} ${nth}`);
    const kind = 'vendor';
    await scene.accept(...ids.map((recordId) => scene.event({ kind, recordId, shows: {} })));
    await scene.work();
    scene.pass(2 * SETTLE_MS);
    const query = vi.spyOn(pg.Client.prototype, 'query');
    await scene.apply(
      kind,
      ids.map((id) => ({ id, data: { id, name: id } })),
    );
    const { length } = query.mock.calls;
    query.mockRestore();
    expect(await scene.row(kind, `${size} 1`)).toMatchObject({
      last_event_id: expect.stringMatching(/^evt_/),
    });
    return length;
  };
  expect(await statementsFor(20)).toBe(await statementsFor(2));
  await scene.close();
});
