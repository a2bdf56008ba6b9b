import { freePort } from '../../sandbox/demo/mirror.ts';

/** Each worker has its own, so that none takes a port which another was given and does not listen on yet. */
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
    const port = await freePort(FIRST, FIRST + PER_WORKER - 1);
    if (given.has(port)) continue;
    given.add(port);
    ports.push(port);
  }
  return ports;
}
