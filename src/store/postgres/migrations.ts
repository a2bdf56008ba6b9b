import { createHash } from 'node:crypto';
import type pg from 'pg';
import { MirrorError } from '../../platform/errors.ts';
import type { SQL } from '../drizzle.ts';
import { type Steps, stepsOf, type TakenStep } from '../migrations.ts';
import { sql } from '../units/sql.ts';
import { type PostgresDatabase, quoted } from './connection.ts';
import { write } from './dialect.ts';
import { reasonOf, translate } from './failures.ts';

/** For one step, which may rewrite a large table: the limits of other statements are too short. */
const STEP_TIMEOUT_MS = 60 * 60_000;

/** Replicas that start together wait while one of them migrates, which over a large history may take minutes. */
const MIGRATION_WAIT_MS = 10 * 60_000;

type SchemaState = 'missing' | 'older' | 'current';

/** Rejects with UsageError for a schema that this version cannot migrate. */
export async function schemaState(database: PostgresDatabase): Promise<SchemaState> {
  const { taken, missing } = await schemaSteps(database.sql.query, database.schema);
  if (taken === 0) return 'missing';
  return missing.length === 0 ? 'current' : 'older';
}

/**
 * Brings the schema up to this version: all steps or none, since PostgreSQL's DDL is transactional. One replica does it
 * at a time. The lock ends with the transaction, so that it neither outlives a killed process nor needs a session of
 * its own behind a pooler.
 */
export async function migrateSchema(database: PostgresDatabase, onMigrating?: () => void): Promise<void> {
  const client = await database.dedicated();
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
    await client.end().catch(() => undefined);
  }
}

/** Tables, functions and other things of a name that is taken. */
const TAKEN = new Set(['42P07', '42723', '42710']);

async function remedyFor(error: unknown, client: pg.Client, schema: string): Promise<string | null> {
  const code = (error as { code?: string } | null)?.code ?? '';
  if (code === '42501') return await grantRemedy(client, schema);
  return TAKEN.has(code)
    ? 'something else in this schema has the name: let DATABASE_SCHEMA name one that is for the mirror alone'
    : null;
}

async function grantRemedy(client: pg.Client, schema: string): Promise<string> {
  const { rows } = await client.query<{ user: string; exists: boolean }>(
    'SELECT current_user AS "user", EXISTS (SELECT FROM pg_namespace WHERE nspname = $1) AS exists',
    [schema],
  );
  const user = quoted(rows[0]?.user ?? '');
  return rows[0]?.exists === true
    ? `run GRANT CREATE, USAGE ON SCHEMA ${quoted(schema)} TO ${user}, or run \`compliance-mirror migrate\` as the tables' owner`
    : `run CREATE SCHEMA ${quoted(schema)} AUTHORIZATION ${user}`;
}

async function takeSteps(client: pg.Client, schema: string, onMigrating?: () => void): Promise<void> {
  const query: Query = async <Row>(statement: SQL) => {
    const { text, params } = write(statement);
    const asked = { text, values: params, query_timeout: STEP_TIMEOUT_MS };
    return (await client.query(asked as pg.QueryConfig)).rows as Row[];
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
  await applySteps(query, missing);
  await query(sql`COMMIT`);
}

type Query = <Row>(statement: SQL) => Promise<Row[]>;

/** Noted as drizzle's own migrator does, beside the tables. */
async function applySteps(query: Query, steps: Steps['missing']): Promise<void> {
  await query(
    sql`CREATE TABLE IF NOT EXISTS __drizzle_migrations (id serial PRIMARY KEY, hash text NOT NULL, created_at bigint)`,
  );
  for (const step of steps) {
    for (const statement of step.sql) await query(sql.raw(statement));
    await query(
      sql`INSERT INTO __drizzle_migrations (hash, created_at) VALUES (${step.hash}, ${step.folderMillis})`,
    );
  }
}

async function schemaSteps(query: Query, schema: string): Promise<Steps> {
  const tables = await query<{ name: string }>(
    sql`SELECT tablename AS name FROM pg_tables
      WHERE schemaname = ${schema} AND tablename IN ('__drizzle_migrations', 'record_state')`,
  );
  const has = (wanted: string) => tables.some(({ name }) => name === wanted);
  const notes = has('__drizzle_migrations')
    ? await query<TakenStep>(
        sql`SELECT hash, created_at FROM ${sql.identifier(schema)}.__drizzle_migrations ORDER BY created_at`,
      )
    : [];
  return stepsOf('postgres', notes, has('record_state'), {
    anotherPrograms: {
      says: `the schema ${schema} is another program's: it holds that one's migrations, and no mirror`,
      remedy: 'let DATABASE_SCHEMA name one that is for the mirror alone',
    },
    newer: { remedy: 'start that version, or restore the dump made before it migrated' },
    unreleased: {
      remedy:
        'let DATABASE_SCHEMA name a new one: what the API shows is read into it, and the old one keeps its history',
    },
  });
}

/** 64 bits of its own for each schema; advisory locks are of one database. */
function lockKey(schema: string): string {
  return createHash('sha256')
    .update(`compliance-mirror migrates ${schema}`)
    .digest()
    .readBigInt64BE()
    .toString();
}
