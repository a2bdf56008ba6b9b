import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { type JsonObject, MAX_ID_LENGTH } from '../../compliance/pointers.ts';
import type { Dialect, Sql } from '../database.ts';
import {
  type Paging,
  type RecordFilter,
  type RecordPage,
  type RecordReport,
  recordColumns,
  type ShownRecord,
} from '../reports.ts';
import { recordState as states } from '../schema.ts';
import { fromJson, type SQL, sql } from '../statement.ts';
import type { FieldType } from '../values.ts';
import { isRecord, TABLE_OF, tableName } from './records.ts';
import { allOf, firstRow, LAST, limitOf } from './sql.ts';

/** At most this many statuses of a kind are listed: nobody chooses from a longer list. */
const STATUSES_LISTED = 50;

/** A number that JavaScript would round, as text; otherwise null. */
const tooLarge = (name: SQL) =>
  sql`CASE WHEN ${name} > ${Number.MAX_SAFE_INTEGER} OR ${name} < ${Number.MIN_SAFE_INTEGER} THEN CAST(${name} AS text) END`;
/** A column is never called so: names have no capitals. */
const largeName = (nth: number) => `LARGE_${nth}`;

const isTime = (type: FieldType) => type === 'date' || type === 'timestamp' || type === 'instant';

/** Records, and the statuses that they have. */
export function createRecordSearch(to: Sql) {
  return {
    /** By id: the cursor is the last record's. */
    async listRecords(kind: Kind, filter: RecordFilter, paging: Paging): Promise<RecordPage> {
      const from = filter.at === undefined ? sql`${TABLE_OF[kind]}` : asOf(to.dialect, kind, filter.at);
      const statement = sql`SELECT ${ofRow(kind)} FROM ${from} AS r
        WHERE r.id > ${paging.after ?? ''} AND ${allOf(conditionsOf(to.dialect, filter))} ORDER BY r.id`;
      const { rows, isFull } = await to.page<RecordReport>(statement, [TABLE_OF[kind].data], limitOf(paging));
      const items = rows.map(reportOf);
      return { items, next: isFull ? items.at(-1)!.id : null };
    },

    async showRecord(kind: Kind, id: string): Promise<ShownRecord | null> {
      const row = await firstRow<ShownRecord>(
        to,
        sql`SELECT ${ofRow(kind)}, (SELECT error FROM ${states} WHERE ${isRecord(kind, id)}) AS read_error
          FROM ${TABLE_OF[kind]} AS r WHERE id = ${id}`,
      );
      return row === null ? null : reportOf(row);
    },

    /**
     * The columns of the view `…_flat` that only this kind has, and their values for these ids; not of deleted records. With `at`, ISO 8601
     * UTC: those of the versions of then, deleted ones too.
     */
    async typedColumns(
      kind: Kind,
      ids: readonly string[],
      at?: string,
    ): Promise<{ columns: string[]; values: { [column: string]: unknown; id: string }[] }> {
      const fields = await to.query<{ column: string; type: FieldType }>(
        sql`SELECT "column", type FROM fields WHERE kind = ${kind} AND "column" IS NOT NULL ORDER BY position`,
      );
      const selected = fields.flatMap(({ column, type }, nth) => {
        const name = sql`${sql.identifier(column)}`;
        if (type === 'number') return [name, sql`${tooLarge(name)} AS ${sql.identifier(largeName(nth))}`];
        return [isTime(type) ? sql`${to.dialect.timeText(name, type)} AS ${name}` : name];
      });
      const values = await to.query<{ [column: string]: unknown; id: string }>(
        sql`SELECT ${sql.join([sql`id`, ...selected])}
          FROM ${sql.raw(`${tableName(kind)}_${at === undefined ? 'flat' : 'history'}`)} JOIN ${to.dialect.listed(ids)} USING (id)
          WHERE ${at === undefined ? sql`true` : validAt(to.dialect.instant(at))}`,
      );
      for (const row of values) {
        for (const [nth, { column, type }] of fields.entries()) {
          if (type !== 'number') continue;
          row[column] = row[largeName(nth)] ?? row[column];
          delete row[largeName(nth)];
        }
      }
      const flags = fields.flatMap(({ column, type }) => (type === 'boolean' ? column : []));
      // SQLite has no booleans.
      for (const row of values) for (const name of flags) row[name] = row[name] === null ? null : !!row[name];
      return { columns: fields.map(({ column }) => column), values };
    },

    /** The statuses that records of a kind have, deleted ones included. Without those that are longer than a filter may be. */
    async listStatuses(kind: Kind): Promise<string[]> {
      const listed = await to.query<{ status: string }>(
        sql`SELECT DISTINCT status FROM ${TABLE_OF[kind]} WHERE octet_length(status) <= ${MAX_ID_LENGTH}
          ORDER BY status LIMIT ${STATUSES_LISTED}`,
      );
      return listed.map(({ status }) => status);
    },
  };
}

const validAt = (then: SQL) => sql`valid_from <= ${then} AND (valid_to > ${then} OR valid_to IS NULL)`;

/**
 * The records as they were at an instant, in the form of their table. What is only known of the present is null. Not by the view: of
 * a page, only the versions of its own records are looked for.
 */
const asOf = (dialect: Dialect, kind: Kind, at: string): SQL =>
  sql`(SELECT r.id, c.name, ${kind === 'policy' ? sql`c.version, ` : sql``}c.status, c.data, r.first_seen_at, c.at AS synced_at,
      ${dialect.instant(null)} AS verified_at, ${dialect.instant(null)} AS unverified_since,
      CASE c.operation WHEN 'delete' THEN c.at END AS deleted_at, ${dialect.instant(null)} AS deletion_pending_since,
      CAST(NULL AS text) AS last_event_id, ${dialect.instant(null)} AS last_event_at, c.cause, c.cause_id
    FROM ${TABLE_OF[kind]} r JOIN changes c ON c.seq =
      (SELECT max(seq) FROM changes WHERE kind = ${kind} AND record_id = r.id AND at <= ${dialect.instant(at)}))`;

function conditionsOf(
  dialect: Dialect,
  { search, status, unverified, deleted, deletion_pending, field, at }: RecordFilter,
): (SQL | null)[] {
  const isNull = (column: string, isSet: boolean | undefined) =>
    isSet === undefined ? null : sql.raw(`r.${column} IS ${isSet ? 'NOT NULL' : 'NULL'}`);
  return [
    search === undefined
      ? null
      : sql`(r.id >= ${search} AND r.id < ${`${search}${LAST}`} OR ${dialect.holds(sql`r.name`, search)})`,
    status === undefined ? null : sql`r.status = ${status}`,
    isNull('unverified_since', unverified),
    isNull('deleted_at', deleted ?? (at === undefined ? undefined : false)),
    isNull('deletion_pending_since', deletion_pending),
    field === undefined ? null : hasField(dialect, field),
  ];
}

/** The field is this text, or the value that this text is as JSON. */
function hasField(dialect: Dialect, { path, value }: RecordFilter['field'] & object): SQL {
  const found = sql.join([sql`r.data`, ...path.map((name) => sql`CAST(${name} AS text)`)], ' -> ');
  const meant = [value, ...jsonIn(value)].map((one) => dialect.isJson(found, one));
  return sql`(${sql.join(meant, ' OR ')})`;
}

function jsonIn(text: string): unknown[] {
  try {
    return [parseJson(text)];
  } catch {
    return [];
  }
}

const ofRow = (kind: Kind) =>
  sql.raw(
    recordColumns(kind)
      .map((column) => `r.${column}`)
      .join(', '),
  );

const reportOf = <Row extends RecordReport>(row: Row): Row => ({
  ...row,
  data: fromJson(row.data) as JsonObject,
});
