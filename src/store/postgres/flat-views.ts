import pg from 'pg';
import type { Kind } from '../../compliance/kinds.ts';
import { DATE, INSTANT, TIMESTAMP } from '../../mirror/flat-columns.ts';
import type { Sql } from '../database.ts';
import { sql } from '../statement.ts';
import { flatViews } from '../units/flat-views.ts';
import type { Field } from '../values.ts';

const { escapeIdentifier: quoted, escapeLiteral: literal } = pg;

/** How long a query that holds the view is waited for. Short, since readers wait behind us. */
const VIEW_WAIT_MS = 250;

/**
 * Gives the views `…_flat` and `…_history` of the kind these typed columns. False: they belong to another role, so this one may not;
 * `migrate` as that role does it. Refused: a function with the owner's rights, which every caller could try to turn against him.
 *
 * Nothing is dropped, so that grants and other views on them stay: columns get other names, and more come behind them. Only where a
 * column has gone is the view made anew; false too if another view stands on it.
 */
export async function showFields(to: Sql, kind: Kind, fields: readonly Field[]): Promise<boolean> {
  const typed = fields.map((field) => ({ name: field.column!, is: expressionOf(field) }));
  for (const { view, columns, from } of flatViews(kind)) {
    const shown = [...columns, ...typed];
    if (!(await showView(to, view, shown, from))) return false;
  }
  return true;
}

async function showView(
  to: Sql,
  view: string,
  shown: readonly { name: string; is: string }[],
  from: string,
): Promise<boolean> {
  const present = await to.query<{ name: string; isOurs: boolean }>(
    sql`SELECT attname AS name, pg_has_role(relowner, 'USAGE') AS "isOurs" FROM pg_class c JOIN pg_attribute ON attrelid = c.oid AND attnum > 0
      WHERE c.oid = to_regclass(${view}) ORDER BY attnum`,
  );
  if (present.length === shown.length && present.every(({ name }, nth) => name === shown[nth]!.name))
    return true;
  if (!present.every(({ isOurs }) => isOurs)) return false;
  const run = (text: string) => to.change(sql.raw(text));
  await run(`SET LOCAL lock_timeout = ${VIEW_WAIT_MS}`);
  const isShorter = present.length > shown.length;
  const grants = isShorter ? await grantsOn(to, view) : [];
  if (isShorter) {
    if (await isUsed(to, view)) return false;
    await run(`DROP VIEW ${view}`);
  }
  for (const [nth, { name }] of present.entries()) {
    const wanted = shown[nth]?.name;
    if (!isShorter && wanted !== name)
      await run(`ALTER VIEW ${view} RENAME COLUMN ${quoted(name)} TO ${quoted(wanted!)}`);
  }
  const columns = shown.map(({ name, is }) => `${is} AS ${quoted(name)}`).join(',\n  ');
  await run(`CREATE OR REPLACE VIEW ${view} AS SELECT ${columns}\nFROM ${from}`);
  for (const grant of grants) await run(grant);
  return true;
}

/** What makes the rights on a view again, once it was dropped. */
const grantsOn = async (to: Sql, view: string): Promise<string[]> =>
  (
    await to.query<{ granting: string }>(
      sql`SELECT format('GRANT %s ON ${sql.raw(view)} TO %s', privilege_type, CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END) AS granting
        FROM pg_class c, aclexplode(c.relacl) AS a WHERE c.oid = to_regclass(${view}) AND grantee <> relowner`,
    )
  ).map(({ granting }) => granting);

/** Whether another view stands on it. */
const isUsed = async (to: Sql, view: string): Promise<boolean> =>
  (
    await to.query(
      sql`SELECT 1 FROM pg_depend d JOIN pg_rewrite r ON r.oid = d.objid AND d.classid = 'pg_rewrite'::regclass
        WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass(${view}) AND r.ev_class <> d.refobjid LIMIT 1`,
    )
  ).length > 0;

/** A value that does not fit the column's type becomes null, or stays JSON in a text column; it is never an error. */
function expressionOf({ keys, type }: Field): string {
  const path = keys.map(literal);
  const value = ['data', ...path].join('->');
  const written = `(${['data', ...path.slice(0, -1)].join('->')}->>${path.at(-1)})`;
  // PostgreSQL would round what is behind the microseconds, and so make another day of the end of one.
  const cut = `regexp_replace(${written}, '([.][0-9]{6})[0-9]+', '\\1')`;
  const matching = (pattern: string) => `WHEN ${written} ~ ${literal(pattern)} THEN`;
  switch (type) {
    case 'number':
      return `CASE jsonb_typeof(${value}) WHEN 'number' THEN (${value})::numeric END`;
    case 'boolean':
      return `CASE jsonb_typeof(${value}) WHEN 'boolean' THEN (${value})::boolean END`;
    case 'date':
      return `CASE ${matching(DATE)} ${written}::date END`;
    case 'timestamp':
      return `CASE ${matching(DATE)} ${written}::timestamp ${matching(TIMESTAMP)} ${cut}::timestamp END`;
    case 'instant':
      return `CASE ${matching(DATE)} (${written} || 'T00:00:00Z')::timestamptz ${matching(INSTANT)} ${cut}::timestamptz END`;
    case 'json':
      return `nullif(${value}, 'null')`;
    case 'text':
      return written;
  }
}
