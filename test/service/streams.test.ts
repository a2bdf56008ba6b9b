import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, it, onTestFinished, vi } from 'vitest';
import { MAX_STREAMS_OF_ONE } from '../../src/ops/pages/stream.ts';
import { startedService } from './started.ts';

it('whoever closes a page gives its place among the streams back', async () => {
  const { service, token } = await startedService();
  const { hostname, port } = new URL(service.opsUrl);
  const open = async (): Promise<{ socket: Socket; status: string }> => {
    const socket = connect(Number(port), hostname);
    onTestFinished(() => void socket.destroy());
    socket.write(
      `GET /stream HTTP/1.1\r\nHost: ${hostname}:${port}\r\nAuthorization: Bearer ${token}\r\n\r\n`,
    );
    const [head] = (await once(socket, 'data')) as [Buffer];
    return { socket, status: head.toString('latin1').slice(9, 12) };
  };
  const opened = await Promise.all(Array.from({ length: MAX_STREAMS_OF_ONE }, open));
  expect((await open()).status).toBe('503');
  for (const { socket } of opened) socket.end();
  await vi.waitFor(async () => expect((await open()).status).toBe('200'), { timeout: 5_000 });
});
