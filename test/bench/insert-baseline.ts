import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import pg from 'pg';

/**
 * What the figures on PostgreSQL are held against: what one would write first. It reads the same body and stores it
 * under its id, a statement for each, and answers once that is committed. It checks no signature.
 */
const pool = new pg.Pool({
  connectionString: process.env['DATABASE_URL'],
  max: Number(process.env['POOL_SIZE']),
});
await pool.query('CREATE TABLE IF NOT EXISTS plain_events (id text PRIMARY KEY, body text NOT NULL)');

const app = new Hono();
app.post('/webhooks', async (c) => {
  const body = await c.req.text();
  const { id } = JSON.parse(body) as { id: string };
  await pool.query({
    name: 'insert',
    text: 'INSERT INTO plain_events (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    values: [id, body],
  });
  return c.body(null, 202);
});

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => {
  process.stdout.write(`Baseline: http://127.0.0.1:${port}\n`);
});
process.once('SIGTERM', () => {
  server.close();
  if ('closeAllConnections' in server) server.closeAllConnections();
  void pool.end();
});
