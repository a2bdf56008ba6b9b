import pg from 'pg';
import { StoreUnavailable } from '../../platform/errors.ts';

/** Translates pg's errors into ours. */

/** Deadlocks and serialisation failures: another try may succeed. */
export const isRetryable = (error: unknown): boolean =>
  error instanceof pg.DatabaseError && (error.code === '40P01' || error.code === '40001');

/** The connection is lost, or the server does not serve it any more, so it must not be used again. */
export function endsConnection(error: unknown): boolean {
  if (!(error instanceof pg.DatabaseError)) return error instanceof ConnectionLost;
  const { code = '' } = error;
  return code.startsWith('08') || code.startsWith('57P') || code === '25006' || code.startsWith('25P');
}

/** Broken sockets, time-outs and unknown hosts. They are wrapped where they occur: later they would look like errors in our code. */
export class ConnectionLost extends Error {
  constructor(cause: unknown) {
    super(`the connection to PostgreSQL failed: ${reasonOf(cause)}`, { cause });
    this.name = 'ConnectionLost';
  }
}

/** Wraps pg's errors that do not come from the server. */
export async function wrapErrors<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof pg.DatabaseError ? error : new ConnectionLost(error);
  }
}

/** Node's error codes for certificates. */
const CERTIFICATE =
  /^(ERR_TLS_CERT_ALTNAME_INVALID|CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_)/;

/** pg's message; the error has no code. */
const NO_TLS = 'The server does not support SSL connections';

/** Why TLS failed; null: another error. At a start a setting is wrong; later the certificate may have been renewed. */
export function tlsTrouble(cause: unknown): { says: string; remedy: string } | null {
  if (CERTIFICATE.test(String((cause as { code?: unknown } | null)?.code))) {
    return {
      says: `the server's certificate is not trusted: ${reasonOf(cause)}`,
      remedy:
        'let DATABASE_TLS_CA_FILE name the authority that signed it, and DATABASE_URL the host as the certificate does',
    };
  }
  return reasonOf(cause) === NO_TLS
    ? {
        says: `${NO_TLS}, and DATABASE_URL or DATABASE_TLS_CA_FILE asks for them`,
        remedy:
          'set ssl = on there; or, where nobody can listen, sslmode=disable and no DATABASE_TLS_CA_FILE',
      }
    : null;
}

interface Meaning {
  says: string;
  remedy: string;
  fatal?: boolean;
}

const NOT_WHOLE: Meaning = {
  says: 'the schema is not whole',
  remedy: 'rename it back if it was renamed, or let DATABASE_SCHEMA name it; otherwise restore a backup',
};

const BY_CODE: Readonly<Record<string, Meaning>> = {
  '25006': {
    says: 'the server takes no writes: it is a standby, or read-only',
    remedy: 'let DATABASE_URL name the primary',
  },
  '28000': { says: 'the server refuses the user', remedy: 'check the user in DATABASE_URL, and pg_hba.conf' },
  '28P01': { says: 'the server refuses the password', remedy: 'check user and password in DATABASE_URL' },
  '3D000': { says: 'there is no such database', remedy: 'create it, or check DATABASE_URL' },
  '42501': {
    says: 'the user lacks a privilege',
    remedy:
      'grant it CONNECT on the database, USAGE on the schema and its sequences, and SELECT, INSERT, UPDATE and DELETE on all its tables',
  },
  '42883': NOT_WHOLE,
  '42P01': NOT_WHOLE,
  '53100': { says: "the server's disk is full", remedy: 'free space; nothing acknowledged is lost' },
  '53200': { says: 'the server is out of memory', remedy: 'give it more, or lower work_mem' },
  '53300': {
    says: 'the server has no connection left',
    remedy: 'raise max_connections, or lower the size of the pool of each replica',
  },
  '55000': {
    says: 'the server or the database takes no work now',
    remedy:
      'it is tried again by itself; if connections were forbidden, ALTER DATABASE … ALLOW_CONNECTIONS true',
  },
  '55P03': {
    says: 'another transaction holds the lock for too long',
    remedy: 'look in pg_stat_activity for a transaction that stays open',
  },
  '57014': { says: 'a statement took too long', remedy: 'look at the load of the server' },
  '57P01': { says: 'the server is shutting down', remedy: 'it is tried again by itself' },
  '57P02': { says: 'the server ended after a crash', remedy: 'it is tried again by itself' },
  '57P03': { says: 'the server is starting up', remedy: 'it is tried again by itself' },
  '58030': { says: "the server's disk fails", remedy: "read the server's log, and check its disk" },
  XX001: {
    says: 'the database cannot be trusted any more: its data are damaged',
    remedy: 'check the disk; restore a backup: problems then say from when events are missing',
    fatal: true,
  },
  XX002: {
    says: 'the database cannot be trusted any more: an index is damaged',
    remedy: 'check the disk, and REINDEX the database',
    fatal: true,
  },
};

const BY_CLASS: Readonly<Record<string, Meaning>> = {
  '08': { says: 'the connection failed', remedy: 'it is tried again by itself' },
  '25': {
    says: 'the transaction was ended by the server',
    remedy: 'it stayed idle for too long: look at the load of this machine',
  },
  '40': { says: 'the transaction conflicted with others too often', remedy: 'it is tried again by itself' },
  '53': { says: 'the server lacks resources', remedy: "read the server's log" },
  '57': { says: 'the server ended the statement', remedy: 'it is tried again by itself' },
};

/** StoreUnavailable if the database is at fault; otherwise the error itself, which is an error in our code. */
export function translate(error: unknown): unknown {
  if (error instanceof ConnectionLost) {
    const tls = tlsTrouble(error.cause);
    if (tls !== null) return new StoreUnavailable(tls.says, { cause: error.cause, remedy: tls.remedy });
    return new StoreUnavailable(error.message, {
      cause: error.cause,
      remedy:
        'is the server up, and reachable under the address in DATABASE_URL? It is tried again by itself',
    });
  }
  if (!(error instanceof pg.DatabaseError)) return error;
  const code = error.code ?? '';
  const meaning = BY_CODE[code] ?? BY_CLASS[code.slice(0, 2)];
  if (meaning === undefined) return error;
  return new StoreUnavailable(`${meaning.says} (${code}: ${error.message})`, {
    fatal: meaning.fatal ?? false,
    remedy: meaning.remedy,
    cause: error,
  });
}

export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ');
  return error instanceof Error ? error.message || error.name : String(error);
}
