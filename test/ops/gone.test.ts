import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { WAITING_MAX_OF_ONE } from '../../src/ops/api/feed.ts';
import { listen } from '../../src/receive/server.ts';
import { bearer, OPERATE, opsHarness } from './harness.ts';

test.each([
  ['has closed its connection', 'destroy'],
  ['has closed its side of it', 'end'],
] as const)('a request that waits for a change leaves its place once its client %s', async (_, leave) => {
  const h = await opsHarness();
  const hostname = '127.0.0.1';
  const { port, close } = await listen({ fetch: h.app.fetch, host: hostname, port: 0 });
  const open = Array.from({ length: WAITING_MAX_OF_ONE }, () => {
    const socket = connect(port, hostname);
    socket.write(
      `GET /api/changes?wait=30 HTTP/1.1\r\nHost: ${hostname}\r\nAuthorization: Bearer ${OPERATE}\r\n\r\n`,
    );
    return socket;
  });
  const status = async () =>
    (await fetch(`http://${hostname}:${port}/api/changes?wait=0.01`, { headers: bearer(OPERATE) })).status;
  await expect.poll(status).toBe(503);
  for (const socket of open) socket[leave]();
  await expect.poll(status, { timeout: 10_000 }).toBe(200);
  for (const socket of open) socket.destroy();
  await close(0);
  await h.close();
});
