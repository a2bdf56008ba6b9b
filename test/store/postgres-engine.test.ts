import { readFileSync } from 'node:fs';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createDatabase, type PostgresDatabase } from '../../src/store/postgres/connection.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { sql } from '../../src/store/statement.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { createScene, type Scene } from './scene.ts';

let server: PostgresServer;
let database: TestDatabase;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
  await server.query('CREATE SEQUENCE commits', database.url);
});
afterAll(async () => {
  await database.close();
  await server.stop();
});

let scene: Scene;
async function begin(): Promise<void> {
  await database.empty();
  scene = await createScene(async () => {
    const store = await openPostgres(database.url);
    return { store, query: database.query, close: () => store.close() };
  });
  onTestFinished(() => scene.close());
}

const learn = async () => await scene.store.learnFields(await scene.store.seeFields(null, 100));
/** Until somebody waits for a lock. */
const waiting = async () => {
  while ((await server.query('SELECT 1 FROM pg_locks WHERE NOT granted', database.url)).length === 0);
};
/** Of a reader who comes meanwhile, and waits behind whoever waits for the view. */
const IMPATIENT = "SET lock_timeout = '3s'; SELECT id FROM vendors_flat; SET lock_timeout = 0";

const columns = async () => (await database.query('SELECT "column" FROM fields')).map(({ column }) => column);

describe('a new field', () => {
  beforeEach(begin);

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

/** Commits that touch a problem fail, as the server's own do: after all of their statements. */
async function failCommits(times: number, sqlState: string): Promise<void> {
  await server.query(
    `SELECT setval('commits', 1, false);
     CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
       IF nextval('public.commits') <= ${times} THEN RAISE EXCEPTION 'not now' USING ERRCODE = '${sqlState}'; END IF;
       RETURN NULL;
     END $$;
     CREATE CONSTRAINT TRIGGER refuse AFTER INSERT OR UPDATE ON problems DEFERRABLE INITIALLY DEFERRED
       FOR EACH ROW EXECUTE FUNCTION refuse()`,
    database.url,
  );
  onTestFinished(async () => void (await server.query('DROP FUNCTION refuse CASCADE', database.url)));
}

const tries = async () => Number((await database.query('SELECT last_value AS n FROM commits'))[0]?.['n']);

describe('a problem', () => {
  beforeEach(begin);

  it('is told once, although its commit was tried again', async () => {
    await failCommits(2, '40001');
    await scene.accept(scene.event({ id: 'evt_a', recordId: null, data: { x: 1 } }));
    await scene.work();
    expect(await tries()).toBe(3);
    expect(await scene.openProblems()).toEqual(['unknown_record policy -']);
    expect(scene.toldOfProblems()).toHaveLength(1);
  });

  it('is not told where its commit failed', async () => {
    await failCommits(1, '23514');
    const opened = () =>
      scene.store.openProblem({ reason: 'silence', kind: null, recordId: null }, 'x', scene.now());
    await expect(opened()).rejects.toThrow('not now');
    expect(scene.toldOfProblems()).toEqual([]);
    await opened();
    expect(scene.toldOfProblems()).toEqual(['opened silence - -: x']);
  });
});

describe('a unit that writes', () => {
  let url: string;
  let units: PostgresDatabase;
  beforeAll(async () => {
    url = await server.createDatabase();
    await (await openPostgres(url)).close();
    units = createDatabase(url);
    await query('UPDATE counter SET value = 0; CREATE TABLE noted (n int PRIMARY KEY)');
  });
  afterAll(() => units.close());

  const query = (text: string) => server.query(text, url);
  const noted = async () => (await query('SELECT n FROM noted ORDER BY n')).map((row) => row['n']);
  const note = (n: number) => sql`INSERT INTO noted VALUES (${n})`;

  it('keeps what it sent without waiting, and its numbers', async () => {
    await units.transact(async (unit) => {
      unit.send(note(1));
      unit.numbers.next();
      unit.send(note(2));
    });
    expect(await noted()).toEqual([1, 2]);
    expect(await query('SELECT value::int AS value FROM counter')).toEqual([{ value: 1 }]);
  });

  it('keeps nothing where something it sent fails, and fails with that', async () => {
    const failing = units.transact(async (unit) => {
      unit.send(note(3));
      unit.numbers.next();
      unit.send(note(1));
      unit.send(note(4));
    });
    await expect(failing).rejects.toMatchObject({ message: expect.stringContaining('duplicate key') });
    expect(await noted()).toEqual([1, 2]);
    expect(await query('SELECT value::int AS value FROM counter')).toEqual([{ value: 1 }]);
  });

  it('fails with what it sent, and not with what the server says to everything after that', async () => {
    const failing = units.transact(async (unit) => {
      unit.send(note(1));
      await unit.query(sql`SELECT 1`);
    });
    await expect(failing).rejects.toMatchObject({ message: expect.stringContaining('duplicate key') });
  });

  it('fails where a statement had failed and nobody had minded, for nothing of it is kept', async () => {
    const careless = units.transact(async (unit) => {
      unit.send(note(5));
      await unit.change(note(1)).catch(() => undefined);
    });
    await expect(careless).rejects.toThrow('rolled back');
    expect(await noted()).toEqual([1, 2]);
  });

  it('keeps nothing of what it sent where its own work fails', async () => {
    const failing = units.transact(async (unit) => {
      unit.send(note(6));
      throw new Error('ours');
    });
    await expect(failing).rejects.toThrow('ours');
    expect(await noted()).toEqual([1, 2]);
  });

  it('sees in what it reads first what was committed before it had the counter', async () => {
    const seen: unknown[] = [];
    const { promise: held, resolve: hold } = Promise.withResolvers<void>();
    const { promise: goOn, resolve: letGo } = Promise.withResolvers<void>();
    const one = createDatabase(url);
    const before = one.transact(async (unit) => {
      unit.send(note(7));
      hold();
      await goOn;
    });
    await held;
    const after = units.transact(
      async (_unit, rows: unknown[]) => void seen.push(...rows),
      (from) => from.query(sql`SELECT n FROM noted WHERE n = 7`),
    );
    while ((await query("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'")).length === 0);
    letGo();
    await Promise.all([before, after]);
    await one.close();
    expect(seen).toEqual([{ n: 7 }]);
  });

  it('leaves numbers out after a crash, which may have taken some that somebody has seen', async () => {
    const before = await units.currentNumber();
    await query('DELETE FROM counter_intact');
    const next = () => units.transact(async ({ numbers }) => numbers.next());
    expect(await next()).toBe(before + 1_000_001);
    expect(await next()).toBe(before + 1_000_002);
  });

  it('is refused where the counter cannot be seen, and says why', async () => {
    const value = await units.currentNumber();
    await query('DELETE FROM counter');
    await expect(units.transact(async () => undefined)).rejects.toMatchObject({
      message: expect.stringContaining('no row of the table counter can be seen'),
      remedy: expect.stringContaining('ROW LEVEL SECURITY'),
    });
    await query(`INSERT INTO counter VALUES (${value})`);
    expect(await units.transact(async ({ numbers }) => numbers.next())).toBe(value + 1);
  });
});
