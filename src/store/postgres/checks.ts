import { StoreUnavailable, UsageError } from '../../platform/errors.ts';
import { drizzleModule } from '../drizzle.ts';
import * as declared from '../schema.postgres.ts';
import { sql } from '../units/sql.ts';
import { type PostgresDatabase, quoted } from './connection.ts';
import { ConnectionLost, reasonOf, translate } from './failures.ts';

const { getTableName, is } = drizzleModule('drizzle-orm');
const { PgTable } = drizzleModule('drizzle-orm/pg-core');

/** The oldest version that was maintained when this was written. */
const OLDEST_VERSION = 15;

interface Server {
  version: number;
  named: string;
  encoding: string;
  synchronousCommit: string;
  fsync: string;
  readOnly: string;
  isStandby: boolean;
  user: string;
}

/** Refuses a server that could lose data. Each refusal has a remedy. */
export async function checkServer(database: PostgresDatabase, readOnly: boolean): Promise<void> {
  const [server] = await database.sql.query<Server>(
    sql`SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_version') AS named,
       current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS "synchronousCommit",
       current_setting('fsync') AS fsync, current_setting('transaction_read_only') AS "readOnly",
       pg_is_in_recovery() AS "isStandby", current_user AS "user"`,
  );
  if (server === undefined) throw new StoreUnavailable('the server does not say what it is');
  if (server.version < OLDEST_VERSION) {
    throw new UsageError(
      `PostgreSQL ${server.named} is too old`,
      `use PostgreSQL ${OLDEST_VERSION} or later`,
    );
  }
  if (server.encoding !== 'UTF8') {
    throw new UsageError(
      `the database is encoded in ${server.encoding}, which cannot hold every text`,
      "create one with ENCODING 'UTF8', and let DATABASE_URL name it",
    );
  }
  if (readOnly) return;
  if (server.isStandby || server.readOnly === 'on') {
    throw new UsageError(
      server.isStandby
        ? 'the server of DATABASE_URL is a standby, which takes no writes'
        : 'the server of DATABASE_URL takes no writes: default_transaction_read_only is on',
      server.isStandby
        ? 'let DATABASE_URL name the primary'
        : `run ALTER ROLE ${quoted(server.user)} SET default_transaction_read_only = off, or name another server`,
    );
  }
  if (server.synchronousCommit === 'off') {
    throw new UsageError(
      'synchronous_commit is off: a crash of the server would lose what was acknowledged',
      `run ALTER ROLE ${quoted(server.user)} SET synchronous_commit = on`,
    );
  }
  if (server.fsync === 'off') {
    throw new UsageError(
      'fsync is off: a crash of the server would damage the database',
      'run ALTER SYSTEM SET fsync = on, and SELECT pg_reload_conf()',
    );
  }
}

/**
 * A pooler that hands each transaction another of the server's connections hands on what was set on it, the schema above
 * all: of two mirrors in one database each would write the other's tables.
 */
export async function checkPooler(database: PostgresDatabase): Promise<void> {
  const pools = await poolsWhat(database);
  if (pools !== null) throw leadsToPooler(pools);
}

const leadsToPooler = (pools: 'transactions' | 'statements') =>
  new UsageError(
    `DATABASE_URL leads to a pooler of ${pools}, which would mix up connections`,
    'let it pool sessions (pool_mode = session), or let DATABASE_URL name the server itself',
  );

/** SQLSTATEs: the prepared statement is there already, or is not. Their names are each connection's own. */
const MIXED_UP = new Set(['42P05', '26000']);

/** For an error at opening: a pooler gave us a connection with another process's prepared statements. Null: another error. */
export function poolerMet(error: unknown): UsageError | null {
  return MIXED_UP.has(String((error as { code?: unknown } | null)?.code))
    ? leadsToPooler('transactions')
    : null;
}

/** PgBouncer's words at the first BEGIN, by which it ends the connection. */
const STATEMENTS_ALONE = /not allowed in statement pooling/;

/** Null: sessions, or there is no pooler. */
async function poolsWhat(database: PostgresDatabase): Promise<'transactions' | 'statements' | null> {
  const watched = await database.dedicated();
  try {
    const leads = async () => {
      const answer = watched.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const { rows } = await answer.catch((error: unknown) => {
        throw translate(new ConnectionLost(error));
      });
      return rows[0]?.pid;
    };
    const before = await leads();
    // A pooler of transactions gives this transaction the connection that the other has just released.
    const during = await database.atOneMoment(async (tx) => {
      await tx.query(sql`SELECT 1`);
      return await leads();
    });
    return before === during ? null : 'transactions';
  } catch (error) {
    if (error instanceof StoreUnavailable && STATEMENTS_ALONE.test(reasonOf(error.cause)))
      return 'statements';
    throw error;
  } finally {
    await watched.end().catch(() => undefined);
  }
}

/** A table besides those of the schema, which is written at a migration only. */
const NOTES = '__drizzle_migrations';
const STATUS_VIEW = 'sync_status';

const TABLES: readonly string[] = Object.values(declared)
  .filter((each) => is(each, PgTable))
  .map((table) => getTableName(table));

/**
 * Whether the user may do with the tables, as far as there are any yet, what the service does. Ours alone are looked at,
 * and named: the schema may be one that others keep tables in, which nobody should open to us.
 */
export async function checkPrivileges(database: PostgresDatabase, readOnly: boolean): Promise<void> {
  const schema = quoted(database.schema);
  const tables = [...TABLES, NOTES, ...(readOnly ? [STATUS_VIEW] : [])];
  const wanted = readOnly ? 'SELECT' : 'SELECT, INSERT, UPDATE, DELETE';
  const rows = await database.sql.query<{ table: string; user: string; isOpen: boolean }>(
    sql`SELECT c.relname AS "table", current_user AS "user", has_schema_privilege(n.oid, 'USAGE') AS "isOpen"
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = ${database.schema} AND c.relname = ANY (${sql.param(tables)}::text[]) AND NOT (has_schema_privilege(n.oid, 'USAGE') AND
       (SELECT bool_and(has_table_privilege(c.oid, each))
        FROM unnest(CASE c.relname WHEN ${NOTES} THEN '{SELECT}' ELSE ${sql.param(wanted.split(', '))}::text[] END) AS each))
     ORDER BY c.relname = ${NOTES}, c.relname`,
  );
  const [first] = rows;
  if (first === undefined) return readOnly ? undefined : await checkFunctions(database);
  const user = quoted(first.user);
  const grant = (what: string, tables: readonly { table: string }[]) =>
    tables.length === 0
      ? []
      : [`GRANT ${what} ON ${tables.map(({ table }) => `${schema}.${quoted(table)}`).join(', ')} TO ${user}`];
  const grants = [
    ...(first.isOpen ? [] : [`GRANT USAGE ON SCHEMA ${schema} TO ${user}`]),
    ...grant(
      wanted,
      rows.filter(({ table }) => table !== NOTES),
    ),
    ...grant(
      'SELECT',
      rows.filter(({ table }) => table === NOTES),
    ),
  ];
  throw new UsageError(
    `the user ${first.user} lacks privileges on ${rows.length} tables of the schema ${database.schema}, among them ${first.table}`,
    `run ${grants.join('; ')}`,
  );
}

/** What the service calls by name. Everybody may, unless somebody has taken that away; triggers ask for nothing. */
const FUNCTIONS = ['accept_events', 'mark_dirty', 'show_fields'];

async function checkFunctions(database: PostgresDatabase): Promise<void> {
  const closed = await database.sql.query<{ name: string; user: string }>(
    sql`SELECT p.proname AS name, current_user AS "user" FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = ${database.schema} AND p.proname = ANY (${sql.param(FUNCTIONS)}::text[])
       AND NOT has_function_privilege(p.oid, 'EXECUTE') ORDER BY 1`,
  );
  const [first] = closed;
  if (first === undefined) return;
  const names = closed.map(({ name }) => `${quoted(database.schema)}.${quoted(name)}`).join(', ');
  throw new UsageError(
    `the user ${first.user} may not call ${first.name} of the schema ${database.schema}`,
    `run GRANT EXECUTE ON FUNCTION ${names} TO ${quoted(first.user)}`,
  );
}
