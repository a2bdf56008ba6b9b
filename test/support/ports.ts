import { randomInt } from 'node:crypto';
import { createServer, type Server } from 'node:net';

/**
 * Below those that the system hands out to whoever asks for any port. One of those, once it is let go, may become the
 * near end of somebody's connection before it is listened on again.
 */
const [FIRST, LAST] = [10_240, 32_767];

/** Held all at once, so that they differ; free when this resolves, and as good as certain to stay so. */
export async function freePorts(count: number): Promise<number[]> {
  const held = new Map<number, Server>();
  while (held.size < count) {
    const port = randomInt(FIRST, LAST + 1);
    const server = await listening(port);
    if (server !== null) held.set(port, server);
  }
  for (const server of held.values()) await new Promise((resolve) => server.close(resolve));
  return [...held.keys()];
}

function listening(port: number): Promise<Server | null> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(null));
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}
