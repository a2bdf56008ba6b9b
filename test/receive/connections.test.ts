import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { expect, it } from 'vitest';
import { createConnections } from '../../src/receive/connections.ts';
import { SERVER_LIMITS } from '../../src/receive/server.ts';

it('remembers the connections that are open, and of those that have closed no more than twice as many', async () => {
  const connections = createConnections(SERVER_LIMITS, () => false);
  const server = createServer(connections.add).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const opened = async (): Promise<Socket> => {
    const [client] = await Promise.all([connect(port, '127.0.0.1'), once(server, 'connection')]);
    return client;
  };
  const staying = [await opened(), await opened(), await opened()];
  let most = 0;
  for (let n = 0; n < 200; n += 1) {
    const client = await opened();
    const theirs = connections.open().at(-1)!;
    client.destroy();
    if (!theirs.closed) await once(theirs, 'close');
    most = Math.max(most, connections.remembered());
  }
  expect(connections.open()).toHaveLength(3);
  expect(most).toBeLessThanOrEqual(64);
  for (const client of staying) client.destroy();
  server.close();
});
