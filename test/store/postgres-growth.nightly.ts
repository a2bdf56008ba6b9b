import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import { sql } from '../../src/store/statement.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { fillStoredDatabase } from '../postgres/stored.ts';
import {
  acceptAbout,
  acceptSome,
  describeGrowth,
  listPage,
  process,
  readShown,
  type Stored,
} from './growth.ts';

let server: PostgresServer;

beforeAll(async () => {
  // What cleans up by itself would read pages of its own.
  server = await startPostgres(['-c', 'autovacuum=off', '-c', 'shared_buffers=256MB']);
});
afterAll(() => server.stop());

async function open(size: number): Promise<Stored> {
  const database = await createTestDatabase(server);
  await fillStoredDatabase(database, size);
  await database.query('VACUUM ANALYZE');
  await database.close();
  // One connection, which can be told to say what it has read.
  const pool = createDatabase(database.url, { poolSize: 1 });
  const name = new URL(database.url).pathname.slice(1);
  const pagesRead = async () => {
    await pool.sql.query(sql`SELECT pg_stat_force_next_flush()`);
    const [row] = await server.query(
      `SELECT blks_hit + blks_read AS pages FROM pg_stat_database WHERE datname = '${name}'`,
    );
    return Number(row!['pages']);
  };
  return {
    size,
    store: storeOver(pool),
    async sql(text) {
      await pool.sql.query(sql.raw(text));
      const [, table] = /^(?:UPDATE|INSERT INTO) (\w+)/.exec(text) ?? [];
      if (table !== undefined) await pool.sql.query(sql.raw(`VACUUM ANALYZE ${table}`));
    },
    async costOf(work) {
      const before = await pagesRead();
      const { query } = pg.Client.prototype;
      let statements = 0;
      pg.Client.prototype.query = function (this: pg.Client, ...args: never[]) {
        statements += 1;
        return (query as (...given: never[]) => unknown).apply(this, args);
      } as typeof query;
      await work();
      pg.Client.prototype.query = query;
      return { statements, pages: (await pagesRead()) - before };
    },
    close: () => pool.close(),
  };
}

// The planner reads more of the smaller one than it has to.
describeGrowth('PostgreSQL', open, { sizes: [5_000, 50_000], most: 2 });

describe('a new mirror, before statistics tell of its tables', () => {
  async function openNew() {
    const database = await createTestDatabase(server);
    const pool = createDatabase(database.url, { poolSize: 1 });
    const told = async (figure: string) => {
      await pool.sql.query(sql`SELECT pg_stat_force_next_flush()`);
      const name = new URL(database.url).pathname.slice(1);
      const [row] = await server.query(
        `SELECT ${figure} AS told FROM pg_stat_database WHERE datname = '${name}'`,
      );
      return Number(row!['told']);
    };
    const rowsRead = () => told('tup_returned + tup_fetched');
    const pagesRead = () => told('blks_hit + blks_read');
    return { database, pool, store: storeOver(pool), rowsRead, pagesRead };
  }

  /** Rows that `work` reads, each time: one connection keeps the plan that it made while the tables were small. */
  async function rowsOfEach(work: (store: Store, time: number) => Promise<() => Promise<unknown>>) {
    const { database, pool, store, rowsRead: rows } = await openNew();
    const costs: number[] = [];
    for (let time = 0; time < 20; time += 1) {
      const measured = await work(store, time);
      const before = await rows();
      await measured();
      costs.push((await rows()) - before);
    }
    await pool.close();
    await database.close();
    return costs;
  }

  // The first ones are planned anew.
  const expectFlat = (costs: readonly number[]) =>
    expect(costs.at(-1), `${costs}`).toBeLessThanOrEqual(1.5 * costs[9]!);

  it('reads as many rows for a page of a list however many pages came before', async () => {
    const costs = await rowsOfEach(async (store, page) => {
      await listPage(store, page);
      return () => listPage(store, page);
    });
    expectFlat(costs);
  });

  it('reads as many rows for a batch of events however many wait', async () => {
    const costs = await rowsOfEach(async (store, time) => {
      await acceptSome(store, time);
      return () => process(store);
    });
    expectFlat(costs);
  });

  it('reads as many rows to verify what events have shown however many records there are', async () => {
    const costs = await rowsOfEach(async (store, time) => {
      await listPage(store, time);
      await acceptSome(store, time);
      while ((await process(store)) > 0);
      return () => readShown(store, time);
    });
    expectFlat(costs);
  });

  it('changes most records in their own pages, without their indexes, also where neighbours change together', async () => {
    const { database, pool } = await openNew();
    await pool.sql.query(
      sql`INSERT INTO vendors (id, data, first_seen_at, synced_at, cause)
        SELECT 'ven_' || i, jsonb_build_object('text', repeat('x', 500)), now(), now(), 'sync:1' FROM generate_series(1, 500) i`,
    );
    for (let time = 0; time < 10; time += 1)
      await pool.sql.query(sql`UPDATE vendors SET change_seq = change_seq + 1`);
    await pool.sql.query(sql`SELECT pg_stat_force_next_flush()`);
    const [row] = await database.query(
      "SELECT n_tup_hot_upd::float8 / n_tup_upd AS share FROM pg_stat_user_tables WHERE relid = 'vendors'::regclass",
    );
    expect(row!['share']).toBeGreaterThan(0.7);
    await pool.close();
    await database.close();
  });

  it('reads as many pages for an event however many commits there were since the snapshot that somebody has open', async () => {
    const { database, pool, store, pagesRead } = await openNew();
    const costOf = async (work: () => Promise<unknown>) => {
      const before = await pagesRead();
      await work();
      return (await pagesRead()) - before;
    };
    const accept = (time: number) => costOf(() => acceptAbout(store, [`ven_${time}`]));
    const analyst = new pg.Client({ connectionString: database.url });
    await analyst.connect();
    await analyst.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM events');
    for (let time = 0; time < 10; time += 1) await accept(time);
    const first = await accept(10);
    await database.query('SET synchronous_commit = off');
    await database.query(
      'DO $$ BEGIN FOR i IN 1..3000 LOOP UPDATE counter SET value = value + 1; COMMIT; END LOOP; END $$',
    );
    expect(await accept(11)).toBeLessThanOrEqual(first + 10);
    await analyst.end();
    await pool.close();
    await database.close();
  });

  it('finds a live record as a witness although more are deleted than the server may keep in memory', async () => {
    const { database, pool, store, rowsRead } = await openNew();
    // So small, it holds 3,000 of them. By default, it holds 131,072 ids of 36 letters.
    await pool.sql.query(sql`SET work_mem = '64kB'`);
    const { query } = database;
    await query(
      `INSERT INTO vendors (id, data, first_seen_at, synced_at, cause, deleted_at)
        SELECT 'ven_' || i, '{}', '2026-12-31', '2026-12-31', 'sync:1', CASE WHEN i > 1 THEN timestamptz '2026-12-31' END
        FROM generate_series(1, 20000) i`,
    );
    await query(
      "INSERT INTO record_state (kind, id, returned, read_number) SELECT 'vendor', 'ven_' || i, true, i FROM generate_series(1, 20000) i",
    );
    await query('ANALYZE');
    const before = await rowsRead();
    expect(await store.someLiveRecord('vendor', [])).toMatchObject({ id: 'ven_1' });
    // All of them for each record would be 400 million.
    expect((await rowsRead()) - before).toBeLessThan(100_000);
    await pool.close();
    await database.close();
  });
});
