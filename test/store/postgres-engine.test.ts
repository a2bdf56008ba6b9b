import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, type Scene } from './scene.ts';

let server: PostgresServer;
let database: TestDatabase;
let scene: Scene;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
});
afterAll(async () => {
  await database.close();
  await server.stop();
});

beforeEach(async () => {
  await database.empty();
  scene = await createScene(async () => {
    const store = await openPostgres(database.url);
    return { store, query: database.query, close: () => store.close() };
  });
  onTestFinished(() => scene.close());
});

const learn = async () => await scene.store.learnFields(await scene.store.seeFields(null, 100));
/** Until somebody waits for a lock. */
const waiting = async () => {
  while ((await server.query('SELECT 1 FROM pg_locks WHERE NOT granted', database.url)).length === 0);
};
/** Of a reader who comes meanwhile, and waits behind whoever waits for the view. */
const IMPATIENT = "SET lock_timeout = '3s'; SELECT id FROM vendors_flat; SET lock_timeout = 0";

const columns = async () => (await database.query('SELECT "column" FROM fields')).map(({ column }) => column);

describe('a new field', () => {
  it('waits for a query that holds the view, deliveries do not, and then it comes', async () => {
    await scene.show('vendor', 'v1', { id: 'v1', tier: 1 });
    const reader = new pg.Client({ connectionString: database.url });
    await reader.connect();
    onTestFinished(() => reader.end());
    await reader.query('BEGIN; SELECT count(*) FROM vendors_flat');

    const learning = learn().catch((error: unknown) => error);
    const [failure] = await Promise.all([
      learning,
      Promise.race([learning, waiting()]).then(() => database.query(IMPATIENT)),
      scene.accept(scene.event({ kind: 'vendor', recordId: 'v2' })),
    ]);
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect(await columns()).toEqual([]);
    expect((await reader.query('SELECT * FROM vendors_flat')).rowCount).toBe(1);

    await reader.query('COMMIT');
    expect((await learn()).map(({ column }) => column)).toEqual(['tier']);
    expect(await database.query('SELECT tier FROM vendors_flat')).toEqual([{ tier: 1 }]);
  });

  it('takes nobody’s grants, nor does one whose type changes', async () => {
    await server.query('CREATE ROLE analyst NOLOGIN; GRANT SELECT ON vendors_flat TO analyst', database.url);
    onTestFinished(
      async () => void (await server.query('DROP OWNED BY analyst; DROP ROLE analyst', database.url)),
    );
    await scene.show('vendor', 'v1', { id: 'v1', tier: 1 });
    await learn();
    await scene.show('vendor', 'v2', { id: 'v2', tier: 'one' });
    await learn();
    expect(
      await database.query(`SELECT has_table_privilege('analyst', 'vendors_flat', 'SELECT') AS may`),
    ).toEqual([{ may: true }]);
    expect(await columns()).toEqual(['tier_number', 'tier']);
  });

  it('is found where a backup was put back beneath the service, and numbers are given out again', async () => {
    await scene.show('vendor', 'v1', { id: 'v1', tier: 1 });
    const look = { ...(await scene.store.seeFields(null, 100)), seen: [], through: 1_000_000 };
    expect((await scene.store.seeFields(look, 100)).seen).toMatchObject([{ keys: ['tier'] }]);
  });
});

it('every column of a record says in the database what it means, in the words of docs/tables.md', async () => {
  const tables = readFileSync(new URL('../../docs/tables.md', import.meta.url), 'utf8').replaceAll('`', '');
  const told = await database.query(
    `SELECT c.table_name, c.column_name, col_description(format('%I', c.table_name)::regclass, c.ordinal_position) AS meaning
     FROM information_schema.columns c WHERE c.table_schema = current_schema()
       AND c.table_name IN ('policies', 'current_vendors', 'risk_assessments_flat', 'sync_status')`,
  );
  const ofRecords = told.filter(({ table_name }) => table_name !== 'sync_status');
  expect(ofRecords.length).toBeGreaterThan(40);
  expect(ofRecords.filter(({ meaning }) => meaning === null)).toEqual([]);
  const ofTrust = told.filter(({ table_name, meaning }) => table_name === 'sync_status' && meaning !== null);
  expect(ofTrust.map(({ column_name }) => column_name)).toEqual(
    expect.arrayContaining(['verdict', 'complete', 'complete_through']),
  );
  for (const name of ['verified_at', 'unverified_since', 'deleted_at', 'cause', 'complete_through'])
    expect(tables).toContain(told.find(({ column_name }) => column_name === name)!['meaning']);
});
