import { UsageError } from '../../platform/errors.ts';
import { COUNTER_INTACT, TABLE_NAMES } from '../schema.ts';
import { quoted, sql } from '../statement.ts';
import type { PostgresDatabase } from './connection.ts';
import type { Exposure } from './pool.ts';

/** Who may do what with our tables: whether we may do enough, and whether others may do too much. */

/** The table of migrations, which only a migration writes. */
export const NOTES = '__drizzle_migrations';
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
