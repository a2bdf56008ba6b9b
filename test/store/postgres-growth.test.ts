import pg from 'pg';
import { afterAll, beforeAll } from 'vitest';
import { createDatabase } from '../../src/store/postgres/connection.ts';
import { storeOver } from '../../src/store/postgres/postgres.ts';
import { sql } from '../../src/store/units/sql.ts';
import { createTestDatabase } from '../postgres/database.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { fillStoredDatabase } from '../postgres/stored.ts';
import { describeGrowth, type Stored } from './growth.ts';

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
