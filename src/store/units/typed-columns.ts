import type { Kind } from '../../compliance/kinds.ts';
import type { Sql } from '../database.ts';
import type { Page, RecordReport } from '../reports.ts';
import { type SQL, sql } from '../statement.ts';
import type { FieldType } from '../values.ts';
import { tableName } from './records.ts';

/** A number that JavaScript would round, as text; otherwise null. */
const tooLarge = (name: SQL) =>
  sql`CASE WHEN ${name} > ${Number.MAX_SAFE_INTEGER} OR ${name} < ${Number.MIN_SAFE_INTEGER} THEN CAST(${name} AS text) END`;
/** A column is never called so: names have no capitals. */
const largeName = (nth: number) => `LARGE_${nth}`;

const isTime = (type: FieldType) => type === 'date' || type === 'timestamp' || type === 'instant';

/**
 * A page of records with the columns of the view `…_flat` that only this kind has; not of deleted records. With `at`, ISO 8601 UTC: with
 * those of the versions of then, of deleted ones too.
 */
export async function withTypedColumns(to: Sql, kind: Kind, page: Page<RecordReport>, at?: string) {
  const fields = await to.query<{ column: string; type: FieldType }>(
    sql`SELECT "column", type FROM fields WHERE kind = ${kind} AND "column" IS NOT NULL ORDER BY position`,
  );
  const selected = fields.flatMap(({ column, type }, nth) => {
    const name = sql`${sql.identifier(column)}`;
    if (type === 'number') return [name, sql`${tooLarge(name)} AS ${sql.identifier(largeName(nth))}`];
    return [isTime(type) ? sql`${to.dialect.timeText(name, type)} AS ${name}` : name];
  });
  const then = at === undefined ? null : to.dialect.instant(at);
  const rows = await to.query<{ [column: string]: unknown; id: string }>(
    sql`SELECT ${sql.join([sql`id`, ...selected])}
      FROM ${sql.raw(`${tableName(kind)}_${then === null ? 'flat' : 'history'}`)}
        JOIN ${to.dialect.listed(page.items.map(({ id }) => id))} USING (id)
      WHERE ${then === null ? sql`true` : sql`valid_from <= ${then} AND (valid_to > ${then} OR valid_to IS NULL)`}`,
  );
  const typed = new Map(rows.map((row) => [row.id, Object.fromEntries(fields.map(valueIn(row)))]));
  const items = page.items.map((record) => ({ ...typed.get(record.id), ...record }));
  return { ...page, items, columns: fields.map(({ column }) => column) };
}

const valueIn =
  (row: { [column: string]: unknown }) =>
  ({ column, type }: { column: string; type: FieldType }, nth: number): [string, unknown] => {
    const value = row[column] ?? null;
    // SQLite has no booleans.
    if (type === 'boolean' && value !== null) return [column, Boolean(value)];
    return [column, row[largeName(nth)] ?? value];
  };
