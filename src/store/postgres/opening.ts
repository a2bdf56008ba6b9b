import { createHash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import { MirrorError, StoreUnavailable, UsageError } from '../../platform/errors.ts';
import { type Steps, stepsOf, type TakenStep } from '../migrations.ts';
import { COUNTER_INTACT, TABLE_NAMES } from '../schema.ts';
import { quoted, type SQL, sql } from '../statement.ts';
import type { PostgresDatabase } from './connection.ts';
import { write } from './dialect.ts';
import { reasonOf, translate, wrapErrors } from './failures.ts';
import { type Exposure, endConnections } from './pool.ts';

/** The oldest version of PostgreSQL that was still maintained when this was written. */
const OLDEST_VERSION = 15;

interface Server
  extends Record<'named' | 'encoding' | 'synchronousCommit' | 'fsync' | 'readOnly' | 'user', string> {
  version: number;
  isStandby: boolean;
}

/** Throws UsageError for a server that could lose data. */
export async function checkServer(database: PostgresDatabase, readOnly: boolean): Promise<void> {
  const [server] = await database.sql.query<Server>(
    sql`SELECT current_setting('server_version_num')::int / 10000 AS version, current_setting('server_version') AS named,
       current_setting('server_encoding') AS encoding, current_setting('synchronous_commit') AS "synchronousCommit",
       current_setting('fsync') AS fsync, current_setting('transaction_read_only') AS "readOnly",
       pg_is_in_recovery() AS "isStandby", current_user AS "user"`,
  );
  if (server === undefined) throw new StoreUnavailable('the server does not say what it is');
  const refuseIf = (isWrong: boolean, says: string, remedy: string) => {
    if (isWrong) throw new UsageError(says, remedy);
  };
  refuseIf(
    server.version < OLDEST_VERSION,
    `PostgreSQL ${server.named} is too old`,
    `use PostgreSQL ${OLDEST_VERSION} or later`,
  );
  refuseIf(
    server.encoding !== 'UTF8',
    `the database is encoded in ${server.encoding}, which cannot hold every text`,
    "create one with ENCODING 'UTF8', and let DATABASE_URL name it",
  );
  if (readOnly) return;
  refuseIf(
    server.isStandby,
    'the server of DATABASE_URL is a standby, which takes no writes',
    'let DATABASE_URL name the primary',
  );
  refuseIf(
    server.readOnly === 'on',
    'the server of DATABASE_URL takes no writes: default_transaction_read_only is on',
    `run ALTER ROLE ${quoted(server.user)} SET default_transaction_read_only = off, or name another server`,
  );
  refuseIf(
    server.synchronousCommit === 'off',
    'synchronous_commit is off: a crash of the server would lose what was acknowledged',
    `run ALTER ROLE ${quoted(server.user)} SET synchronous_commit = on`,
  );
  refuseIf(
    server.fsync === 'off',
    'fsync is off: a crash of the server would damage the database',
    'run ALTER SYSTEM SET fsync = on, and SELECT pg_reload_conf()',
  );
}

const poolerError = (pools: 'transactions' | 'statements') =>
  new UsageError(
    `DATABASE_URL leads to a pooler of ${pools}, which would mix up connections`,
    'let it pool sessions (pool_mode = session), or let DATABASE_URL name the server itself',
  );

/** SQLSTATEs: the prepared statement exists already, or does not exist. Each connection has its own. */
const MIXED_UP = new Set(['42P05', '26000']);

/** The error if a pooler gave us a connection with another process's prepared statements. Null: `error` has another reason. */
export function poolerErrorFor(error: unknown): UsageError | null {
  return MIXED_UP.has(String((error as { code?: unknown } | null)?.code))
    ? poolerError('transactions')
    : null;
}

/** What PgBouncer says at the first BEGIN, when it ends the connection. */
const STATEMENTS_ALONE = /not allowed in statement pooling/;

/** Less than an idle transaction may last. */
const POOLER_WAIT_MS = 8_000;

/** Throws UsageError for a pooler of transactions: it shares connections and their settings, so mirrors would write each other's tables. */
export async function checkPooler(database: PostgresDatabase): Promise<void> {
  const client = await database.dedicated();
  try {
    const serverProcess = async () => {
      const answer = client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
      const { rows } = await wrapErrors(answer).catch((error: unknown) => {
        throw translate(error);
      });
      return rows[0]?.pid;
    };
    const before = await serverProcess();
    // A pooler of transactions gives this transaction the server's process that `client` has just used.
    const during = await database.atOneMoment(async (tx) => {
      await tx.query(sql`SELECT 1`);
      // One that has a single connection to the server does not answer before this transaction ends.
      return await Promise.race([serverProcess(), sleep(POOLER_WAIT_MS, null, { ref: false })]);
    });
    if (before !== during) throw poolerError('transactions');
  } catch (error) {
    const isAlone = error instanceof StoreUnavailable && STATEMENTS_ALONE.test(reasonOf(error.cause));
    throw isAlone ? poolerError('statements') : error;
  } finally {
    await endConnections(client);
  }
}

export interface MigrationWatch {
  /** Called before an older schema is migrated, which may take long. */
  onMigrating?: (() => void) | undefined;
  /** Called when a migration waits for somebody else's lock. */
  onWaiting?: ((whom: string) => void) | undefined;
}

/** The limit for one step of a migration, which may rewrite a large table. */
const STEP_TIMEOUT_MS = 60 * 60_000;

/** How long replicas wait while another one migrates, which may take minutes with a large history. */
const MIGRATION_WAIT_MS = 10 * 60_000;

type SchemaState = 'missing' | 'older' | 'current';

/** Rejects with UsageError for a schema that this version cannot migrate. */
export async function schemaState(database: PostgresDatabase): Promise<SchemaState> {
  const { taken, missing } = await schemaSteps(database.sql.query, database.schema);
  if (taken === 0) return 'missing';
  return missing.length === 0 ? 'current' : 'older';
}

/**
 * Takes all steps in one transaction, one replica at a time. The lock ends with the transaction, so that a killed process does not
 * leave it behind.
 */
export async function migrateSchema(
  database: PostgresDatabase,
  { onMigrating, onWaiting }: MigrationWatch,
): Promise<void> {
  const client = await database.dedicated();
  const over = new AbortController();
  const watching = watchWaiting(database, client, onWaiting, over.signal);
  try {
    await takeSteps(client, database.schema, onMigrating);
  } catch (error) {
    await client.query('ROLLBACK').catch(() => undefined);
    const translated = translate(error);
    const remedy = await remedyFor(error, client, database.schema);
    if (translated instanceof MirrorError && remedy === null) throw translated;
    throw new MirrorError('migration_failed', `the schema could not be migrated: ${reasonOf(error)}`, {
      cause: error,
      remedy: `nothing was changed; ${remedy ?? "read the server's log, or restore a dump, then start again"}`,
    });
  } finally {
    over.abort();
    await watching;
    await endConnections(client);
  }
}

/** How often a migration looks whether it waits for somebody. */
const WAITING_LOOK_MS = 2_000;

/** Says whom a migration waits for, each time that it is somebody else. Never rejects. */
async function watchWaiting(
  { sql: { query } }: PostgresDatabase,
  client: pg.Client,
  onWaiting: MigrationWatch['onWaiting'],
  signal: AbortSignal,
): Promise<void> {
  const { processID } = client as unknown as { processID: number };
  let said = '';
  while (!signal.aborted) {
    await sleep(WAITING_LOOK_MS, undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    const rows = await query<{ whom: string }>(
      sql`SELECT format('process %s (user %s, %s, %s for %s s)', pid, usename, coalesce(nullif(application_name, ''), 'unnamed'), state,
         round(extract(epoch FROM clock_timestamp() - xact_start))) AS whom
       FROM pg_stat_activity WHERE pid = ANY (pg_blocking_pids(${processID})) ORDER BY pid`,
    ).catch(() => []);
    const whom = rows.map((row) => row.whom.replace(/ for \d+ s\)$/, '')).join();
    if (whom !== '' && whom !== said)
      onWaiting?.(`a lock that is held by ${rows.map((row) => row.whom).join(', ')}`);
    said = whom;
  }
}

/** SQLSTATEs: a table, function or other object has this name already. */
const TAKEN = new Set(['42P07', '42723', '42710']);

async function remedyFor(error: unknown, client: pg.Client, schema: string): Promise<string | null> {
  const code = (error as { code?: string } | null)?.code ?? '';
  if (code === '42501') return await grantRemedy(client, schema);
  return TAKEN.has(code)
    ? 'something else in this schema has the name: let DATABASE_SCHEMA name one that is for the mirror alone'
    : null;
}

async function grantRemedy(client: pg.Client, schema: string): Promise<string> {
  const { rows } = await client.query<{ user: string; exists: boolean; owner: string | null }>(
    `SELECT current_user AS "user", EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS exists,
       (SELECT tableowner FROM pg_tables WHERE schemaname = $1 AND tablename = $2 AND tableowner <> current_user) AS owner`,
    [schema, NOTES],
  );
  const [{ user = '', exists = false, owner = null } = {}] = rows;
  // Only their owner can change tables, so no grant helps.
  if (owner !== null) return `run \`compliance-mirror migrate\` as ${owner}, who owns the tables`;
  return exists
    ? `run GRANT CREATE, USAGE ON SCHEMA ${quoted(schema)} TO ${quoted(user)}, or run \`compliance-mirror migrate\` as the owner of the schema`
    : `run CREATE SCHEMA ${quoted(schema)} AUTHORIZATION ${quoted(user)}`;
}

async function takeSteps(
  client: pg.Client,
  schema: string,
  onMigrating: MigrationWatch['onMigrating'],
): Promise<void> {
  const query: Query = async <Row>(statement: SQL) => {
    const { text, params } = write(statement);
    const asked = { text, values: params, query_timeout: STEP_TIMEOUT_MS };
    return (await wrapErrors(client.query(asked as pg.QueryConfig))).rows as Row[];
  };
  await query(sql.raw(`SET statement_timeout = ${STEP_TIMEOUT_MS}`));
  await query(sql.raw(`SET lock_timeout = ${MIGRATION_WAIT_MS}`));
  await query(sql`BEGIN`);
  await query(sql`SELECT pg_advisory_xact_lock(${lockKey(schema)}::bigint)`);
  const { taken, missing } = await schemaSteps(query, schema);
  if (missing.length === 0) {
    await query(sql`ROLLBACK`);
    return;
  }
  if (taken > 0) onMigrating?.();
  const exists = await query(sql`SELECT 1 FROM pg_namespace WHERE nspname = ${schema}`);
  if (exists.length === 0) await query(sql.raw(`CREATE SCHEMA ${quoted(schema)}`));
  for (const statement of missing) await query(sql.raw(statement));
  await query(sql`COMMIT`);
}

type Query = <Row>(statement: SQL) => Promise<Row[]>;

async function schemaSteps(query: Query, schema: string): Promise<Steps> {
  const tables = await query<{ name: string }>(
    sql`SELECT tablename AS name FROM pg_tables WHERE schemaname = ${schema} AND tablename IN (${NOTES}, 'record_state')`,
  );
  const has = (wanted: string) => tables.some(({ name }) => name === wanted);
  const notes = has(NOTES)
    ? await query<TakenStep>(
        sql`SELECT hash, created_at FROM ${sql.identifier(schema)}.__drizzle_migrations ORDER BY created_at`,
      )
    : [];
  return stepsOf('postgres', notes, has('record_state'), {
    anothers: `the schema ${schema} is another program's`,
    backup: 'dump',
    useOwn: 'let DATABASE_SCHEMA name one that is for the mirror alone',
    useNew: 'let DATABASE_SCHEMA name a new one',
  });
}

/** The schema's own key for an advisory lock, of 64 bits. */
function lockKey(schema: string): string {
  return createHash('sha256')
    .update(`compliance-mirror migrates ${schema}`)
    .digest()
    .readBigInt64BE()
    .toString();
}

// ─── who may do what with our tables ─────────────────────────────────────────────────────────────────────────

/** The table of migrations, which only a migration writes. */
const NOTES = '__drizzle_migrations';
const STATUS_VIEW = 'sync_status';

const OURS = [...TABLE_NAMES, COUNTER_INTACT, NOTES];

/** Throws UsageError if the user lacks privileges that the service needs on our tables. The schema may have other tables, too. */
export async function checkPrivileges(database: PostgresDatabase, readOnly: boolean): Promise<void> {
  const schema = quoted(database.schema);
  const names = [...OURS, ...(readOnly ? [STATUS_VIEW] : [])];
  const privileges = readOnly ? 'SELECT' : 'SELECT, INSERT, UPDATE, DELETE';
  const rows = await database.sql.query<{ table: string; user: string; isOpen: boolean; wanted: string }>(
    sql`SELECT c.relname AS "table", current_user AS "user", has_schema_privilege(n.oid, 'USAGE') AS "isOpen", wanted
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN LATERAL (SELECT CASE c.relname WHEN ${NOTES} THEN 'SELECT' ELSE ${privileges} END AS wanted) AS w
     WHERE n.nspname = ${database.schema} AND c.relname = ANY (${names}::text[]) AND NOT (has_schema_privilege(n.oid, 'USAGE') AND
       (SELECT bool_and(has_table_privilege(c.oid, each)) FROM unnest(string_to_array(wanted, ', ')) AS each))
     ORDER BY c.relname = ${NOTES}, c.relname`,
  );
  const [first] = rows;
  if (first === undefined) return;
  const user = quoted(first.user);
  const grants = [...Map.groupBy(rows, ({ wanted }) => wanted)].map(([wanted, tables]) => {
    const on = tables.map(({ table }) => `${schema}.${quoted(table)}`).join(', ');
    return `GRANT ${wanted} ON ${on} TO ${user}`;
  });
  if (!first.isOpen) grants.unshift(`GRANT USAGE ON SCHEMA ${schema} TO ${user}`);
  throw new UsageError(
    `the user ${first.user} lacks privileges on ${rows.length} tables of the schema ${database.schema}, among them ${first.table}`,
    `run ${grants.join('; ')}`,
  );
}

/** Throws UsageError if row level security hides our rows from us: reads would find nothing, and nothing could be written. */
export async function checkVisible(database: PostgresDatabase): Promise<void> {
  const [user] = await database.sql.query<{ isHidden: boolean; name: string }>(
    sql`SELECT coalesce(bool_or(row_security_active(c.oid)), false) AS "isHidden", current_user AS name FROM pg_class c
     WHERE c.relnamespace = to_regnamespace(${quoted(database.schema)}) AND c.relname = ANY (${OURS}::text[])`,
  );
  if (user?.isHidden !== true) return;
  const [secured] = await rowSecurity(database);
  throw new UsageError(`${secured!.says}, also from the user ${user.name}`, secured!.remedy);
}

/** Row level security on our tables, and other roles that may write them or read what is not for readers. */
export const exposures = async (database: PostgresDatabase): Promise<Exposure[]> => [
  ...(await rowSecurity(database)),
  ...(await otherRoles(database)),
];

async function rowSecurity({ sql: { query }, schema }: PostgresDatabase): Promise<Exposure[]> {
  const secured = await query<{ name: string }>(
    sql`SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = to_regnamespace(${quoted(schema)}) AND c.relrowsecurity
     AND c.relname = ANY (${OURS}::text[]) ORDER BY 1`,
  );
  if (secured.length === 0) return [];
  const off = secured.map(
    ({ name }) => `ALTER TABLE ${quoted(schema)}.${quoted(name)} DISABLE ROW LEVEL SECURITY`,
  );
  return [
    {
      says: `row level security on ${secured.length} tables of the schema ${schema}, among them ${secured[0]!.name}, hides their rows`,
      remedy: `as their owner, run ${off.join('; ')}`,
    },
  ];
}

/** These and the views are for readers, if somebody grants it. */
const FOR_READERS = [
  'policies',
  'risk_assessments',
  'vendors',
  'changes',
  'fields',
  'events',
  'sync_runs',
  'audit',
];

/** On hosted servers, default privileges give new tables to the roles of a REST interface, which anybody may use. */
async function otherRoles({ sql: { query }, schema }: PostgresDatabase): Promise<Exposure[]> {
  const internal = OURS.filter((name) => !FOR_READERS.includes(name));
  const roles = await query<{ role: string; names: string[]; writes: boolean }>(
    sql`SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(a.grantee::regrole::text) END AS role,
       array_agg(DISTINCT c.relname::text ORDER BY c.relname::text) AS names, bool_or(a.privilege_type <> 'SELECT') AS writes
     FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a
     WHERE c.relnamespace = to_regnamespace(${quoted(schema)}) AND a.grantee NOT IN (c.relowner, quote_ident(current_user)::regrole)
       AND (c.relkind = 'v' OR c.relname = ANY (${OURS}::text[]))
       AND (a.privilege_type IN ('INSERT', 'UPDATE', 'DELETE', 'TRUNCATE')
         OR (a.privilege_type = 'SELECT' AND c.relname = ANY (${internal}::text[])))
     GROUP BY 1 ORDER BY 1`,
  );
  return roles.map(({ role, names, writes }) => {
    const tables = names.map((name) => `${quoted(schema)}.${quoted(name)}`).join(', ');
    return {
      says: `the role ${role} may ${writes ? 'change' : 'read'} tables of the mirror that are not for readers: ${names.length} of the schema ${schema}, among them ${names[0]}`,
      remedy: `run REVOKE ALL ON ${tables} FROM ${role}, and revoke the default privileges (\\ddp in psql) that gave them; or let DATABASE_SCHEMA name a schema that ${role} does not use`,
    };
  });
}
