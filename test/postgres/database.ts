import pg from 'pg';
import { TYPES } from '../../src/store/postgres/dialect.ts';
import { openPostgres } from '../../src/store/postgres/postgres.ts';
import type { PostgresServer } from './server.ts';

/** A database with the schema of this version, which is emptied between stories: one for each would take minutes. */
export interface TestDatabase {
  url: string;
  /** Rows as the store reads them. */
  query(sql: string): Promise<Record<string, unknown>[]>;
  /** As the migrations left it. */
  empty(): Promise<void>;
  close(): Promise<void>;
}

const VIEWS: Readonly<Record<string, readonly string[]>> = {
  policy: ['policies_flat', 'policies_history'],
  risk_assessment: ['risk_assessments_flat', 'risk_assessments_history'],
  vendor: ['vendors_flat', 'vendors_history'],
};

export async function createTestDatabase(
  server: Pick<PostgresServer, 'createDatabase'>,
): Promise<TestDatabase> {
  const url = await server.createDatabase();
  await (await openPostgres(url)).close();
  const client = new pg.Client({ connectionString: url, types: TYPES });
  await client.connect();
  await client.query("SET timezone = 'UTC'");
  const names = async (sql: string) =>
    (await client.query<{ name: string }>(sql)).rows.map((row) => row.name);

  const tables = await names(
    "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' AND tablename <> '__drizzle_migrations'",
  );
  const sequences = await names("SELECT sequencename AS name FROM pg_sequences WHERE schemaname = 'public'");
  const views = new Map<string, string>();
  for (const view of Object.values(VIEWS).flat())
    views.set(view, (await names(`SELECT pg_get_viewdef('${view}') AS name`))[0]!);
  await client.query('CREATE SCHEMA fresh');
  const restore = sequences.map((sequence) => `PERFORM setval('public.${sequence}', 1, false);`);
  for (const table of tables) {
    const { rowCount } = await client.query(`CREATE TABLE fresh.${table} AS SELECT * FROM ${table}`);
    restore.push(`DELETE FROM ${table};`);
    if (rowCount === 0) continue;
    restore.push(`INSERT INTO ${table} OVERRIDING SYSTEM VALUE SELECT * FROM fresh.${table};`);
  }
  // A function, whose statements are planned once.
  await client.query(
    `CREATE FUNCTION fresh.restore() RETURNS void LANGUAGE plpgsql AS $$ BEGIN ${restore.join('\n')} END $$`,
  );

  return {
    url,
    query: async (sql) => (await client.query(sql)).rows as Record<string, unknown>[],
    async empty() {
      const learned = await names('SELECT DISTINCT kind AS name FROM fields');
      await client.query('SELECT fresh.restore()');
      // Columns of a view do not go one by one.
      for (const view of learned.flatMap((kind) => VIEWS[kind]!)) {
        await client.query(`DROP VIEW ${view} CASCADE`);
        await client.query(`CREATE VIEW ${view} AS ${views.get(view)}`);
      }
    },
    close: () => client.end(),
  };
}
