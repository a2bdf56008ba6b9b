import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Each worker has its own, below those that the system assigns, so that none takes a port which another was given and does not listen on yet.
 */
const PER_WORKER = 2_000;
const WORKERS_MAX = 11;
const FIRST = 10_240 + (Number(process.env['VITEST_POOL_ID'] ?? 0) % WORKERS_MAX) * PER_WORKER;

/** In this worker, so far: a test listens on what it was given when it comes to that. */
const given = new Set<number>();

/** Of 127.0.0.1, each another; free a moment ago, and given to nobody else. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    if (given.size > PER_WORKER / 2) given.clear();
    const port = randomInt(FIRST, FIRST + PER_WORKER);
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  await using server = createServer();
  return await once(server.listen(port, '127.0.0.1'), 'listening').then(
    () => true,
    () => false,
  );
}
