import pg from 'pg';
import { UsageError } from '../../platform/errors.ts';
import { TYPES } from './dialect.ts';
import { reasonOf } from './failures.ts';

/** How DATABASE_URL is given to pg, and whether others could read or change what passes over the connection. */

export interface PostgresSettings {
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
export const CONNECT_TIMEOUT_MS = 5_000;
/** Added to the server's own limit, so that it is reached only if the network loses the answer. */
const ANSWER_MARGIN_MS = 5_000;
/** Soon enough to notice a half-open connection before a firewall forgets it. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/** Throws UsageError for an address that pg cannot understand; pg would reject it only at the first connection. */
export function clientConfig(
  url: string,
  settings: PostgresSettings,
): pg.ClientConfig & { types: pg.CustomTypesConfig } {
  // In the address, where `sslrootcert` means the same as for other programs.
  const ca = settings.tlsCaFile ? `sslrootcert=${encodeURIComponent(settings.tlsCaFile)}` : '';
  const config = {
    connectionString: ca === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${ca}`,
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

function clientOf(config: pg.ClientConfig): pg.Client {
  try {
    return new pg.Client(config);
  } catch (error) {
    throw new UsageError(
      `DATABASE_URL cannot be used: ${reasonOf(error)}`,
      'write postgres://USER:PASSWORD@HOST:PORT/DATABASE, each part percent-encoded',
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
