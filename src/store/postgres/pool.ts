import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { ConnectionLost, endsConnection, reasonOf } from './failures.ts';

const IDLE_CONNECTION_MS = 60_000;
/** How long to wait until the server closes its side of a connection. One that stands still, or is out of reach, never does. */
const END_WAIT_MS = 1_000;

/** The wait after a failed attempt to connect, doubled each time, so that a server that starts is not flooded. */
const BACKOFF_FIRST_MS = 50;
const BACKOFF_LONGEST_MS = 2_000;
/** When the server refuses another connection, the pool makes do with those it has for this long. */
const MAKE_DO_MS = 5_000;

/** At most `size` connections. `prepare` sets up each of them; `onLost` is called when one has broken. */
export function createPool(
  config: pg.ClientConfig,
  size: number,
  prepare: (client: pg.ClientBase) => Promise<void>,
  onLost: () => void,
) {
  const options: pg.PoolConfig & { onConnect: (client: pg.ClientBase) => Promise<void> } = {
    ...config,
    max: size,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    onConnect: prepare,
    // Statements are sent without waiting for earlier answers. Code that awaits each answer works as without it.
    pipeline: true,
  };
  const pool = new pg.Pool(options);
  // A connection broke while it was idle.
  pool.on('error', onLost);
  let connections = 0;
  pool.on('connect', (client) => {
    connections += 1;
    client.on('error', () => undefined);
  });
  pool.on('remove', () => {
    connections -= 1;
  });
  let makesDoUntil = 0;
  const gate = backoffGate();

  async function acquire(isAgain = false): Promise<pg.PoolClient> {
    if (performance.now() >= makesDoUntil) pool.options.max = size;
    // An idle connection can be used, even if no new one can be made.
    if (pool.idleCount === 0) gate.check();
    try {
      const client = await pool.connect();
      gate.opened();
      return client;
    } catch (error) {
      if (error instanceof pg.DatabaseError && connections > 0 && !isAgain) {
        pool.options.max = connections;
        makesDoUntil = performance.now() + MAKE_DO_MS;
        return await acquire(true);
      }
      // A timeout because all connections are in use says nothing about the server.
      const reason = error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
      if (!reasonOf(error).startsWith('timeout exceeded')) gate.failed(reason);
      throw reason;
    }
  }

  function release(client: pg.PoolClient, failure: unknown): void {
    const isLost = failure !== undefined && endsConnection(failure);
    if (isLost) onLost();
    client.release(isLost);
  }

  return {
    acquire: () => acquire(),
    /** `failure`: of the last statement, if it failed. */
    release,
    async onConnection<T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> {
      const client = await acquire();
      let failure: unknown;
      try {
        return await work(client);
      } catch (error) {
        failure = error;
        throw error;
      } finally {
        release(client, failure);
      }
    },
    close: () => endConnections(pool),
  };
}

/** Fails fast while the last attempt to connect has just failed. */
function backoffGate() {
  let failures = 0;
  let closedUntil = 0;
  let reason: unknown;
  return {
    check(): void {
      if (performance.now() < closedUntil) throw reason;
    },
    failed(error: unknown): void {
      const waitMs = Math.min(BACKOFF_LONGEST_MS, BACKOFF_FIRST_MS * 2 ** failures);
      failures += 1;
      reason = error;
      closedUntil = performance.now() + waitMs * (0.5 + Math.random() / 2);
    },
    opened(): void {
      failures = 0;
      closedUntil = 0;
    },
  };
}

/** Runs at most `places` calls at the same time, in order. Rejects a call that has waited for `waitMs`. */
export function limiter(places: number, waitMs: number): <T>(work: () => Promise<T>) => Promise<T> {
  let free = places;
  const waiting = new Set<() => void>();
  const enter = () =>
    new Promise<void>((resolve, reject) => {
      const go = () => {
        clearTimeout(timer);
        waiting.delete(go);
        resolve();
      };
      const timer = setTimeout(() => {
        waiting.delete(go);
        reject(new ConnectionLost('all connections are in use'));
      }, waitMs);
      waiting.add(go);
    });
  return async (work) => {
    if (free > 0) free -= 1;
    else await enter();
    try {
      return await work();
    } finally {
      const [next] = waiting;
      if (next === undefined) free += 1;
      else next();
    }
  };
}

/** Never rejects. */
export async function endConnections(connections: { end(): Promise<void> }): Promise<void> {
  await Promise.race([
    connections.end().catch(() => undefined),
    sleep(END_WAIT_MS, undefined, { ref: false }),
  ]);
}
