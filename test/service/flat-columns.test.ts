import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest';
import { loadConfig } from '../../src/platform/config.ts';
import { createLogger } from '../../src/platform/logger.ts';
import { startService } from '../../src/service/service.ts';
import { type PostgresServer, startPostgres } from '../postgres/server.ts';
import { testSandbox } from '../sandbox/support.ts';

const TIMEOUT_MS = 60_000;

let server: PostgresServer;
beforeAll(async () => {
  server = await startPostgres();
}, TIMEOUT_MS);
afterAll(() => server.stop());

type Query = (sql: string) => Promise<Record<string, unknown>[]>;
interface Engine {
  url: string;
  query: Query;
}

async function sqlite(): Promise<Engine> {
  const folder = mkdtempSync(join(tmpdir(), 'mirror-fields-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, 'mirror.db');
  const query: Query = async (sql) => {
    const db = new Database(path);
    try {
      const statement = db.prepare(sql);
      if (statement.reader) return statement.all() as Record<string, unknown>[];
      statement.run();
      return [];
    } finally {
      db.close();
    }
  };
  return { url: `file:${path}`, query };
}

async function postgres(): Promise<Engine> {
  const url = await server.createDatabase();
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  onTestFinished(() => client.end());
  return { url, query: async (sql) => (await client.query(sql)).rows as Record<string, unknown>[] };
}

describe.each<[string, () => Promise<Engine>]>([
  ['SQLite, in threads of its own', sqlite],
  ['PostgreSQL', postgres],
])('the service on %s', (_name, open) => {
  it(
    'gives what appears upstream a column, and keeps the views that stand on its own',
    async () => {
      const sandbox = await testSandbox({ apiKeys: ['key-of-the-tests'] });
      const { url, query } = await open();
      const start = () =>
        startService({
          config: loadConfig({
            PORT: '0',
            OPS_PORT: '0',
            OPS_TOKENS: 'olga:operate:operate-token-of-the-tests',
            DATABASE_URL: url,
            WEBHOOK_SECRETS: 'a-secret-that-nobody-uses',
            COMPLIANCE_BASE_URL: `${sandbox.url}/v1`,
            COMPLIANCE_API_KEY: 'key-of-the-tests',
            COMPLIANCE_REQUESTS_PER_MINUTE: '100000',
            SYNC_SETTLE_SECONDS: '0.1',
            SYNC_FULL_MINUTES: '0.02',
          }),
          logger: createLogger({ level: 'fatal' }),
        });
      const shows = (sql: string, rows: unknown) =>
        vi.waitFor(async () => expect(await query(sql)).toEqual(rows), {
          timeout: TIMEOUT_MS,
          interval: 100,
        });
      const update = (fields: object) =>
        sandbox.control('POST', '/mutate', {
          kind: 'vendor',
          op: 'update',
          id: 'vendor-0001',
          fields,
          silent: true,
        });

      let service = await start();
      onTestFinished(() => service.stop());
      await shows(
        `SELECT country, CAST(tier AS integer) AS tier FROM vendors_flat WHERE id = 'vendor-0001'`,
        [{ country: 'IE', tier: 1 }],
      );
      await query('CREATE VIEW mine AS SELECT id, country FROM vendors_flat');
      await update({ certificate: { name: 'ISO 27001' }, tier: 'first' });
      await shows(`SELECT certificate_name, tier FROM vendors_flat WHERE id = 'vendor-0001'`, [
        { certificate_name: 'ISO 27001', tier: 'first' },
      ]);
      expect(await query(`SELECT country FROM mine WHERE id = 'vendor-0001'`)).toEqual([{ country: 'IE' }]);

      await service.stop();
      service = await start();
      await update({ seats: 20 });
      await shows(
        `SELECT certificate_name, CAST(seats AS integer) AS seats FROM vendors_flat WHERE id = 'vendor-0001'`,
        [{ certificate_name: 'ISO 27001', seats: 20 }],
      );
    },
    TIMEOUT_MS * 2,
  );
});
