import { performance } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { UsageError } from '../../platform/errors.ts';
import { TYPES } from './dialect.ts';
import { ConnectionLost, endsConnection, reasonOf } from './failures.ts';

/** How DATABASE_URL is given to pg, and whether others could read or change what passes over the connection. */

export interface PostgresSettings {
  /** The address as its file has it now: the password may be another one. `again`: the server has refused the one before. */
  currentUrl?: (again?: 'again') => string;
  /** The schema of all tables, so that several mirrors can share a database. */
  schema?: string;
  /** The most connections of this process. */
  poolSize?: number;
  statementTimeoutMs?: number;
  lockTimeoutMs?: number;
  /** A PEM file of the authority that signed the server's certificate. If set, TLS is required. */
  tlsCaFile?: string | null;
}

/** Far longer than any statement takes. Without a limit a statement with a bad plan would block all other writers. */
export const STATEMENT_TIMEOUT_MS = 30_000;
const CONNECT_TIMEOUT_MS = 5_000;
/** Added to the server's own limit, so that it is reached only if the network loses the answer. */
const ANSWER_MARGIN_MS = 5_000;
/** Soon enough to notice a half-open connection before a firewall forgets it. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/** Throws UsageError for an address that pg cannot understand; pg would reject it only at the first connection. */
export function clientConfig(
  url: string,
  settings: PostgresSettings,
): pg.ClientConfig & { types: pg.CustomTypesConfig } {
  const config = {
    connectionString: connectionString(url, settings),
    application_name: 'compliance-mirror',
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    query_timeout: (settings.statementTimeoutMs ?? STATEMENT_TIMEOUT_MS) + ANSWER_MARGIN_MS,
    keepAlive: true,
    keepAliveInitialDelayMillis: KEEP_ALIVE_DELAY_MS,
    types: TYPES,
  };
  clientOf(config);
  return config;
}

/**
 * The address with the user and the password of now. If its file differs in more, it names another database: that waits for a
 * restart, which checks it.
 */
export function connectionString(url: string, settings: PostgresSettings, again?: 'again'): string {
  const current = settings.currentUrl?.(again) ?? url;
  const now = withoutUser(current) === withoutUser(url) ? current : url;
  // In the address, where `sslrootcert` means the same as for other programs.
  const ca = settings.tlsCaFile ? `sslrootcert=${encodeURIComponent(settings.tlsCaFile)}` : '';
  return ca === '' ? now : `${now}${now.includes('?') ? '&' : '?'}${ca}`;
}

function withoutUser(url: string): string {
  const parsed = URL.parse(url);
  if (parsed === null) return url;
  parsed.username = '';
  parsed.password = '';
  return parsed.href;
}

function clientOf(config: pg.ClientConfig): pg.Client {
  try {
    const client = new pg.Client(config);
    if (client.host.includes(',')) throw new Error('it names several hosts');
    return client;
  } catch (error) {
    throw new UsageError(
      `DATABASE_URL cannot be used: ${reasonOf(error)}`,
      'write postgres://USER:PASSWORD@HOST:PORT/DATABASE, each part percent-encoded, with one host: a name that moves with the primary, or a proxy',
    );
  }
}

/** What others could do to the connection to the server, and the remedy. */
export interface Exposure {
  says: string;
  remedy: string;
}

/** Null: TLS proves who the server is, or the connection stays on this machine. Decided from pg's reading of the address. */
export function exposureOf(url: string, settings: PostgresSettings = {}): Exposure | null {
  // `ssl` may be an object, although its type does not say so.
  const { host, ssl } = clientOf(clientConfig(url, settings)) as {
    host: string;
    ssl: boolean | { rejectUnauthorized?: boolean };
  };
  if (isThisMachine(host)) return null;
  const remedy =
    'set sslmode=verify-full in DATABASE_URL, and DATABASE_TLS_CA_FILE to the authority of the server’s certificate';
  if (ssl === false) {
    return {
      says: `the connection to ${host} is not encrypted: others on the network can read and change what passes`,
      remedy: `${remedy}; the server needs ssl = on`,
    };
  }
  return typeof ssl === 'object' && ssl.rejectUnauthorized === false
    ? {
        says: `the connection to ${host} trusts any certificate: others on the network can pose as the server`,
        remedy,
      }
    : null;
}

function isThisMachine(host: string): boolean {
  // The folder of a Unix socket.
  if (host.startsWith('/')) return true;
  const bare = host.toLowerCase();
  return bare === 'localhost' || bare === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

// ─── connections ─────────────────────────────────────────────────────────────────────────────────────────

const IDLE_CONNECTION_MS = 60_000;
/** How long to wait until the server closes its side of a connection. One that stands still, or is out of reach, never does. */
const END_WAIT_MS = 1_000;

/** The wait after a failed attempt to connect, doubled each time, so that a server that starts is not flooded. */
const BACKOFF_FIRST_MS = 50;
const BACKOFF_LONGEST_MS = 2_000;
/** When the server refuses another connection, the pool makes do with those it has for this long. */
const MAKE_DO_MS = 5_000;

/** SQLSTATE of a wrong password. */
const PASSWORD_REFUSED = '28P01';

/**
 * At most `size` connections. `address` gives that of the next one; `prepare` sets up each of them; `onLost` is called when one has
 * broken.
 */
export function createPool(
  config: pg.ClientConfig,
  address: (again?: 'again') => string,
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
    if (!isAgain) pool.options.connectionString = address();
    try {
      const client = await pool.connect();
      gate.opened();
      return client;
    } catch (error) {
      if (error instanceof pg.DatabaseError && error.code === PASSWORD_REFUSED && !isAgain) {
        const refused = pool.options.connectionString;
        pool.options.connectionString = address('again');
        if (pool.options.connectionString !== refused) return await acquire(true);
      }
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

/** Never rejects. */
export async function endConnections(connections: { end(): Promise<void> }): Promise<void> {
  await Promise.race([
    connections.end().catch(() => undefined),
    sleep(END_WAIT_MS, undefined, { ref: false }),
  ]);
}
