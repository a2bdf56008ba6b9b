import { createHmac, timingSafeEqual } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import Database from 'better-sqlite3';
import { Hono } from 'hono';
import pg from 'pg';
import { SECRET } from '../receive/sign.ts';

/**
 * What one would write in an afternoon, and what the figures are held against: it checks the signature, stores the event under
 * its id, and writes what it says into the record's row, in one transaction for each request.
 */

interface Delivered {
  id: string;
  data: { policyId: string; name: string; version: string };
}

const TABLES = `CREATE TABLE IF NOT EXISTS events (id text PRIMARY KEY, body text NOT NULL);
  CREATE TABLE IF NOT EXISTS policies (id text PRIMARY KEY, name text, version text, data text NOT NULL)`;
const ROW = `ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version, data = excluded.data`;

const valuesOf = ({ data }: Delivered) => [data.policyId, data.name, data.version, JSON.stringify(data)];

function storeInSqlite(path: string): (event: Delivered, body: string) => void {
  const db = new Database(path);
  db.pragma('journal_mode = WAL');
  db.pragma('synchronous = FULL');
  db.exec(TABLES);
  const insert = db.prepare('INSERT INTO events (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING');
  const upsert = db.prepare(`INSERT INTO policies (id, name, version, data) VALUES (?, ?, ?, ?) ${ROW}`);
  return db.transaction((event: Delivered, body: string) => {
    if (insert.run(event.id, body).changes > 0) upsert.run(...valuesOf(event));
  });
}

async function storeInPostgres(url: string): Promise<(event: Delivered, body: string) => Promise<void>> {
  const pool = new pg.Pool({ connectionString: url, max: Number(process.env['POOL_SIZE']) });
  await pool.query(TABLES);
  return async (event, body) => {
    const client = await pool.connect();
    try {
      await client.query('BEGIN');
      const text = 'INSERT INTO events (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING';
      const { rowCount } = await client.query({ name: 'event', text, values: [event.id, body] });
      const row = `INSERT INTO policies (id, name, version, data) VALUES ($1, $2, $3, $4) ${ROW}`;
      if (rowCount! > 0) await client.query({ name: 'policy', text: row, values: valuesOf(event) });
      await client.query('COMMIT');
    } finally {
      client.release();
    }
  };
}

const url = process.env['DATABASE_URL']!;
const store = url.startsWith('file:') ? storeInSqlite(url.slice('file:'.length)) : await storeInPostgres(url);

const app = new Hono();
app.post('/webhooks', async (c) => {
  const body = Buffer.from(await c.req.arrayBuffer());
  const [, t = '', v1 = ''] =
    /^t=(\d+), v1=([0-9a-f]{64})$/.exec(c.req.header('x-webhook-signature') ?? '') ?? [];
  const mac = createHmac('sha256', SECRET).update(`${t}.`).update(body).digest();
  if (v1 === '' || !timingSafeEqual(mac, Buffer.from(v1, 'hex'))) return c.body(null, 401);
  const text = body.toString();
  await store(JSON.parse(text) as Delivered, text);
  return c.body(null, 202);
});

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => {
  process.stdout.write(`Baseline: http://127.0.0.1:${port}\n`);
});
process.once('SIGTERM', () => {
  server.close();
  if ('closeAllConnections' in server) server.closeAllConnections();
  setTimeout(() => process.exit(0), 500).unref();
});
