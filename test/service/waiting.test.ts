import { connect } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { WAITING_MAX_OF_ONE } from '../../src/ops/api/feed.ts';
import { startedService } from './started.ts';

it('whoever waits for changes and closes the connection gives the place back', async () => {
  const { service, token } = await startedService();
  const { hostname, port } = new URL(service.opsUrl);
  const headers = { authorization: `Bearer ${token}` };
  const statusOf = async (wait: number) =>
    (await fetch(`${service.opsUrl}/api/changes?wait=${wait}`, { headers })).status;
  const waiting = Array.from({ length: WAITING_MAX_OF_ONE }, () => {
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write(
      `GET /api/changes?wait=30 HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    );
    return socket;
  });
  await expect.poll(() => statusOf(0.01)).toBe(503);
  for (const socket of waiting) socket.end();
  await expect.poll(() => statusOf(0.01)).toBe(200);
});
