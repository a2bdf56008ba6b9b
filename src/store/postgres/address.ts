import pg from 'pg';
import { UsageError } from '../../platform/errors.ts';
import { TYPES } from './dialect.ts';
import { reasonOf } from './failures.ts';

/** What pg makes of DATABASE_URL, and who can reach the connection. */

export interface PostgresSettings {
  /** Where all tables live, so that several mirrors share a database. */
  schema?: string;
  /** Connections of this process, at most. */
  poolSize?: number;
  statementTimeoutMs?: number;
  lockTimeoutMs?: number;
  /** PEM file of the authority that signed the server's certificate; asks for TLS. */
  tlsCaFile?: string;
  applicationName?: string;
}

/** Far above what any statement takes. Without a limit one with a bad plan would block every other writer. */
export const STATEMENT_TIMEOUT_MS = 30_000;
export const CONNECT_TIMEOUT_MS = 5_000;
/** Beyond the server's own limit: reached only where the network loses the answer. */
const ANSWER_MARGIN_MS = 5_000;
/** Half-open connections are noticed before a firewall forgets them. */
const KEEP_ALIVE_DELAY_MS = 10_000;

/** Rejects an address that pg cannot understand: it would itself only do so at the first connection. */
export function clientConfig(
  url: string,
  settings: PostgresSettings,
): pg.ClientConfig & { types: pg.CustomTypesConfig } {
  // In the address, where it means the same as for every other program that takes one.
  const ca = settings.tlsCaFile === undefined ? '' : `sslrootcert=${encodeURIComponent(settings.tlsCaFile)}`;
  const config = {
    connectionString: ca === '' ? url : `${url}${url.includes('?') ? '&' : '?'}${ca}`,
    application_name: settings.applicationName ?? 'compliance-mirror',
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

/** What others can do to the connection to the server, and the remedy. */
export interface Exposure {
  says: string;
  remedy: string;
}

/** Null: TLS proves who the server is, or the connection stays on this machine. Decided by what pg makes of the address. */
export function exposureOf(url: string, settings: PostgresSettings = {}): Exposure | null {
  // Also an object, whatever its type says.
  const { host, ssl } = clientOf(clientConfig(url, settings)) as {
    host: string;
    ssl: boolean | { rejectUnauthorized?: boolean };
  };
  if (isThisMachine(host)) return null;
  const remedy =
    'set sslmode=verify-full in DATABASE_URL, and DATABASE_TLS_CA_FILE to the authority of the server’s certificate';
  if (ssl === false) {
    return {
      says: `the connection to ${host} is not encrypted: whoever is on the way reads and changes what passes`,
      remedy: `${remedy}; the server needs ssl = on`,
    };
  }
  return typeof ssl === 'object' && ssl.rejectUnauthorized === false
    ? {
        says: `the connection to ${host} trusts any certificate: whoever is on the way can pose as the server`,
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
