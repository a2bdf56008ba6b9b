import { connect, createServer, type Socket } from 'node:net';
import pg from 'pg';
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createDatabase } from '../../src/store/postgres/connection.ts';
import type { PostgresSettings } from '../../src/store/postgres/pool.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import { sql } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestDatabase, type TestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { IS_FULL } from '../support/full.ts';
import { createScene, type Scene } from './scene.ts';

/** So long the server waits for each connection to be gone before it says that it has ended it. */
const GONE_WITHIN_MS = 30_000;

/** As on a disk that takes some time: each flush, and none but those that are asked for. */
const SLOW_FLUSH_US = 20_000;
/** The longest that the server takes. */
const SLOWEST_FLUSH_US = 100_000;

let server: PostgresServer;
let database: TestDatabase;
let open: Store[];
let scene: Scene;

beforeAll(async () => {
  server = await startPostgres();
  database = await createTestDatabase(server);
  // It breaks with the server, which is ended here.
  await database.close();
});
afterAll(() => server.stop());

beforeEach(async () => {
  open = [];
  await server.query('DELETE FROM events; DELETE FROM record_state', database.url);
  scene = await createScene(async () => ({
    store: await opened(),
    query: (sql) => server.query(sql, database.url),
    close: async () => undefined,
  }));
  return async () => {
    for (const store of open) await store.close().catch(() => undefined);
  };
});

async function opened(settings: PostgresSettings = {}): Promise<Store> {
  const store = await openPostgres(database.url, settings);
  open.push(store);
  return store;
}

const isUp = async (store: Store) =>
  store.checkWritable().then(
    () => true,
    () => false,
  );

async function rawClient(): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url });
  client.on('error', () => undefined);
  await client.connect();
  return client;
}

describe('trouble with the database', () => {
  it.each(['orderly', 'crash'] as const)(
    'in the middle of deliveries (%s) loses none that was acknowledged, and the store comes back by itself',
    async (how) => {
      const acknowledged: string[] = [];
      const failures: unknown[] = [];
      let serial = 0;
      let sending = true;
      const sender = async () => {
        while (sending) {
          serial += 1;
          const event = scene.event({ id: `e${serial}`, recordId: `p${serial % 9}` });
          await scene.accept(event).then(
            () => void acknowledged.push(event.id),
            async (error: unknown) => {
              failures.push(error);
              await new Promise((resolve) => setTimeout(resolve, 10));
            },
          );
        }
      };
      const senders = [sender(), sender(), sender()];
      await expect.poll(() => acknowledged.length).toBeGreaterThan(20);
      await server.halt(how);
      await expect.poll(() => failures.length).toBeGreaterThan(3);
      expect(await isUp(scene.store)).toBe(false);
      await server.start();
      const before = acknowledged.length;
      await expect.poll(() => acknowledged.length, { timeout: 40_000 }).toBeGreaterThan(before + 20);
      sending = false;
      await Promise.all(senders);

      for (const failure of failures) {
        expect(failure).toBeInstanceOf(StoreUnavailable);
        expect(failure).toMatchObject({ fatal: false, retryable: true });
      }
      const kept = await scene.query('SELECT id FROM events');
      const ids = new Set(kept.map((row) => row['id']));
      expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
    },
  );

  it.runIf(IS_FULL)(
    'that crashes while it flushes gives no number again that was shown, and keeps all that was acknowledged',
    async () => {
      await server.query(`ALTER SYSTEM SET commit_delay = ${SLOW_FLUSH_US}`);
      await server.query('ALTER SYSTEM SET commit_siblings = 0');
      await server.query("ALTER SYSTEM SET wal_writer_delay = '10s'");
      await server.reload();
      const acknowledged: string[] = [];
      for (const round of ['one', 'two', 'three']) {
        await expect.poll(() => isUp(scene.store), { timeout: 40_000 }).toBe(true);
        let shown = 0;
        let failed = false;
        const until = async (work: (n: number) => Promise<unknown>) => {
          for (let n = 0; !failed; n += 1)
            await work(n).catch(() => {
              failed = true;
            });
        };
        const send = async (n: number) => {
          const event = scene.event({ id: `${round}-${n}`, recordId: `p${n}` });
          await scene.accept(event);
          acknowledged.push(event.id);
        };
        const look = async () => {
          shown = await scene.store.currentNumber();
        };
        const all = [until(send), until(look), until(look), until(look)];
        const enough = acknowledged.length + 5;
        await expect.poll(() => acknowledged.length).toBeGreaterThan(enough);
        await server.halt('crash');
        await Promise.all(all);
        await server.start();
        const [counter] = await server.query('SELECT value FROM counter', database.url);
        expect(Number(counter?.['value'])).toBeGreaterThanOrEqual(shown);
        const kept = await server.query('SELECT id FROM events', database.url);
        const ids = new Set(kept.map((row) => row['id']));
        expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
      }
      await server.query('ALTER SYSTEM RESET ALL');
      await server.reload();
    },
  );

  it('that crashes has on its disk what is said to be processed', async () => {
    await server.query(`ALTER SYSTEM SET commit_delay = ${SLOWEST_FLUSH_US}`);
    await server.query('ALTER SYSTEM SET commit_siblings = 0');
    await server.query("ALTER SYSTEM SET wal_writer_delay = '10s'");
    await server.reload();
    await scene.accept(scene.event({ id: 'a' }));
    expect(await scene.work()).toHaveLength(1);
    await server.halt('crash');
    await server.start();
    await server.query('ALTER SYSTEM RESET ALL');
    await server.reload();
    expect(await server.query('SELECT state FROM events', database.url)).toEqual([{ state: 'processed' }]);
  });

  it.runIf(IS_FULL)(
    'that was told while we run to commit without waiting for the disk, and crashes, has all that was acknowledged',
    async () => {
      await server.query('ALTER SYSTEM SET synchronous_commit = off');
      await server.query("ALTER SYSTEM SET wal_writer_delay = '10s'");
      await server.reload();
      // With the first a function stores a group, without it a unit.
      await scene.accept(scene.event({ id: 'a' }));
      await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b' }));
      await server.halt('crash');
      await server.start();
      await server.query('ALTER SYSTEM RESET ALL');
      await server.reload();
      expect(await server.query('SELECT id, deliveries FROM events ORDER BY id', database.url)).toEqual([
        { id: 'a', deliveries: 2 },
        { id: 'b', deliveries: 1 },
      ]);
    },
  );

  it('that crashes gives no number again that somebody may have read before it was on the disk', async () => {
    await server.query("ALTER SYSTEM SET wal_writer_delay = '10s'");
    await server.reload();
    const [first] = await scene.accept(scene.event({ id: 'first' }));
    const client = await rawClient();
    await client.query('SET synchronous_commit = off; UPDATE counter SET value = value + 5');
    await server.halt('crash');
    await server.start();
    await server.query('ALTER SYSTEM RESET ALL');
    await server.reload();
    const [row] = await server.query('SELECT value FROM counter', database.url);
    expect(first).toMatchObject({ seq: Number(row!['value']) });
    await expect.poll(() => isUp(scene.store), { timeout: 40_000 }).toBe(true);
    const [after] = await scene.accept(scene.event({ id: 'after' }));
    expect(after).toMatchObject({ seq: expect.toSatisfy((seq) => seq > Number(row!['value']) + 5) });
  });

  it('whose connections are all cut leaves the next verb to a new one', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    await server.query(
      `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
      database.url,
    );
    await expect.poll(() => isUp(scene.store)).toBe(true);
    expect(await scene.accept(scene.event({ id: 'b' }))).toMatchObject([{ status: 'accepted' }]);
  });

  it('that stands still, connections and all, does not hold whoever closes the store or stops listening', async () => {
    const sockets: Socket[] = [];
    const way = createServer((socket) => {
      const on = connect(server.port, '127.0.0.1');
      for (const each of [socket, on]) each.on('error', () => undefined);
      sockets.push(socket, on);
      socket.pipe(on).pipe(socket);
    });
    await new Promise<void>((resolve) => way.listen(0, '127.0.0.1', resolve));
    const { port } = way.address() as { port: number };
    const store = await openPostgres(database.url.replace(`:${server.port}/`, `:${port}/`));
    const heard = vi.fn();
    const ears = await store.listen(heard);
    await expect.poll(() => heard.mock.calls.length).toBeGreaterThan(0);
    const idle = createDatabase(database.url.replace(`:${server.port}/`, `:${port}/`));
    await idle.sql.query(sql`SELECT 1`);

    for (const each of sockets) each.unpipe().pause();
    await Promise.all([ears.stop(), idle.close()]);

    for (const each of sockets) each.destroy();
    await store.close();
    await new Promise((resolve) => way.close(resolve));
  });

  it('is not asked for connections again and again while it is down', async () => {
    let attempts = 0;
    const ruin = createServer((socket) => {
      attempts += 1;
      socket.destroy();
    });
    await new Promise<void>((resolve) => ruin.listen(0, '127.0.0.1', resolve));
    const { port } = ruin.address() as { port: number };
    const store = createDatabase(`postgres://u:p@127.0.0.1:${port}/x`);
    const ask = () => expect(store.sql.query(sql`SELECT 1`)).rejects.toThrow(StoreUnavailable);
    let now = performance.now();
    const time = vi.spyOn(performance, 'now').mockImplementation(() => now);
    try {
      for (const round of [1, 2, 3]) {
        for (let n = 0; n < 20; n += 1) await ask();
        expect(attempts).toBe(round);
        now += 60_000;
      }
    } finally {
      time.mockRestore();
    }
    await store.close();
    await new Promise((resolve) => ruin.close(resolve));
  });

  it('that refuses a connection is said to, also before it is asked for another one', async () => {
    const store = createDatabase(server.url({ password: 'wrong' }));
    const ask = () => expect(store.sql.query(sql`SELECT 1`)).rejects.toThrow(/refuses the password \(28P01/);
    for (let n = 0; n < 5; n += 1) await ask();
    await store.close();
  });

  it('that refuses the password is asked again with the one that its file has by now, and never another server', async () => {
    const right = server.url();
    const asked: unknown[] = [];
    const currentUrl = (again?: 'again') => {
      asked.push(again);
      return again === undefined ? server.url({ password: 'wrong' }) : right;
    };
    const store = createDatabase(server.url({ password: 'wrong' }), { currentUrl });
    await expect(store.sql.query(sql`SELECT 1 AS one`)).resolves.toEqual([{ one: 1 }]);
    expect(asked).toContain('again');
    await store.close();
    const elsewhere = { currentUrl: () => 'postgres://u:p@127.0.0.1:1/other' };
    const same = createDatabase(right, elsewhere);
    await expect(same.sql.query(sql`SELECT 1 AS one`)).resolves.toEqual([{ one: 1 }]);
    await same.close();
  });

  it('whose counter is held for too long is unavailable, not stuck', async () => {
    const store = await opened({ lockTimeoutMs: 50 });
    const rival = await rawClient();
    await rival.query('BEGIN; SELECT value FROM counter FOR UPDATE');
    const error: unknown = await store
      .accept({ events: [scene.event()], unusable: [] }, scene.now(), { settleMs: 1 })
      .catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(StoreUnavailable);
    expect((error as StoreUnavailable).message).toMatch(/holds the lock for too long \(55P03/);
    await rival.query('ROLLBACK');
    await rival.end();
    expect(await isUp(store)).toBe(true);
  });

  /** The address of a role that may have so many connections. */
  async function limited(user: string, connections: number): Promise<string> {
    await server.query(
      `CREATE ROLE ${user} LOGIN PASSWORD 'p' CONNECTION LIMIT ${connections};
       GRANT ALL ON ALL TABLES IN SCHEMA public TO ${user}`,
      database.url,
    );
    return server.url({ database: new URL(database.url).pathname.slice(1), user, password: 'p' });
  }

  it('with no connection left says which setting to raise, and serves by those that there are', async () => {
    const user = 'crowded';
    const url = await limited(user, 2);
    const store = await openPostgres(url, { poolSize: 8 });
    open.push(store);
    const [first, second] = [new pg.Client(url), new pg.Client(url)];
    await first.connect();
    const ask = () => Promise.all(Array.from({ length: 30 }, () => store.summary()));
    expect(await ask()).toHaveLength(30);
    const accepted = await Promise.all(
      Array.from({ length: 30 }, () =>
        store.accept({ events: [scene.event()], unusable: [] }, scene.now(), { settleMs: 1 }),
      ),
    );
    expect(accepted.flat().every(({ status }) => status === 'accepted')).toBe(true);
    const cut = `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity
      WHERE usename = '${user}' AND application_name = 'compliance-mirror'`;
    await server.query(cut, database.url);
    await second.connect();
    await expect
      .poll(() => ask().catch((error: unknown) => error))
      .toMatchObject({
        message: expect.stringContaining('no connection left'),
      });
    await Promise.all([first.end(), second.end()]);
  });

  it('whose table somebody has locked keeps reports of it waiting, and neither a delivery nor a lease', async () => {
    const store = await opened();
    const rival = await rawClient();
    await rival.query('BEGIN; LOCK TABLE audit');
    const reports = Array.from({ length: 12 }, () => store.list('audit', { limit: 1 }));
    const waiting =
      "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    await expect
      .poll(async () => (await server.query(waiting, database.url)).length)
      .toBeGreaterThanOrEqual(2);
    const accepted = store.accept({ events: [scene.event()], unusable: [] }, scene.now(), { settleMs: 1 });
    await expect(accepted).resolves.toMatchObject([{ status: 'accepted' }]);
    await expect(store.takeLease('a', 'me', 10_000, scene.now().steady)).resolves.toMatchObject({ fence: 1 });
    await expect(store.takeLease('a', 'me', 10_000, scene.now().steady)).resolves.toMatchObject({ fence: 1 });
    await rival.query('ROLLBACK');
    await rival.end();
    await Promise.all(reports);
  });

  it('that turns read-only, as in a failover, refuses writes until it takes them again', async () => {
    await scene.accept(scene.event({ id: 'a' }));
    const name = new URL(database.url).pathname.slice(1);
    await server.query(`ALTER DATABASE ${name} SET default_transaction_read_only = on`);
    const store = scene.store;
    const cut = `SELECT pg_terminate_backend(pid, ${GONE_WITHIN_MS}) FROM pg_stat_activity WHERE application_name = 'compliance-mirror'`;
    await server.query(cut);
    await expect
      .poll(async () => store.checkWritable().catch((error: unknown) => (error as Error).message))
      .toMatch(/takes no writes/);
    await server.query(`ALTER DATABASE ${name} RESET default_transaction_read_only`);
    // Without being told: a connection that led to a read-only server is not used again.
    await expect.poll(() => isUp(store)).toBe(true);
    expect(await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b' }))).toMatchObject([
      { status: 'duplicate' },
      { status: 'accepted' },
    ]);
  });

  it('in one verb is nobody else’s: a mistake of ours stays one, and the connection is fit for others', async () => {
    const store = await opened({ poolSize: 1 });
    await expect(store.show('problems', Number.NaN)).rejects.toThrow('invalid input syntax for type bigint');
    const bad = { ...scene.event(), createdMs: Number.NaN };
    await expect(store.accept({ events: [bad], unusable: [] }, scene.now(), { settleMs: 1 })).rejects.toThrow(
      /invalid input syntax for type timestamp/,
    );
    expect(
      await store.accept({ events: [scene.event()], unusable: [] }, scene.now(), { settleMs: 1 }),
    ).toMatchObject([{ status: 'accepted' }]);
  });
});
