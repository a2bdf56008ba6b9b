import type { AddressInfo } from 'node:net';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';

/** What every figure is held against: the same framework reads the same body, and does nothing with it. */
const app = new Hono();
app.post('/webhooks', async (c) => {
  await c.req.arrayBuffer();
  return c.body(null, 202);
});

const server = serve({ fetch: app.fetch, hostname: '127.0.0.1', port: 0 }, ({ port }: AddressInfo) => {
  process.stdout.write(`Baseline: http://127.0.0.1:${port}\n`);
});
process.once('SIGTERM', () => {
  server.close();
  if ('closeAllConnections' in server) server.closeAllConnections();
});
