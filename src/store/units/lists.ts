import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { MAX_ID_LENGTH } from '../../compliance/pointers.ts';
import type { Dialect, Sql } from '../database.ts';
import {
  type Filters,
  type Page,
  type PageOf,
  type Paging,
  type Query,
  recordColumns,
  type Shown,
  type ShownRecord,
  type Thing,
} from '../reports.ts';
import { type Column, changes, problems, recordState, syncRuns } from '../schema.ts';
import { fromJson, type SQL, sql } from '../statement.ts';
import { listDeliveries, showDelivery } from './deliveries.ts';
import { TABLE_OF } from './records.ts';
import { allOf, type Condition, conditionOf, firstRow, isOneOf, LAST, limitOf, within } from './sql.ts';
import { withTypedColumns } from './typed-columns.ts';

/** How a thing is listed. Deliveries, which are in two tables, are listed in `deliveries.ts`. */
interface Listing<Filter> {
  from(filter: Filter, dialect: Dialect): SQL;
  columns(filter: Filter): string;
  /** The column that orders the rows, and by which a page goes on; null: by `order`, and how many rows came before. */
  key: string | null;
  order: 'ASC' | 'DESC' | string;
  /** Columns of JSON. A page ends by their size, too. */
  json?: readonly Column[];
  /** The condition that each filter makes; of others there is none. */
  where?(filter: Filter, dialect: Dialect): { [Name in keyof Filter]?: Condition<Filter[Name]> };
}

export const PROBLEM_COLUMNS =
  'id, kind, record_id, reason, verdict, needs, opened_at, resolved_at, times, error, digest';

/** Rows have a number, and the newest comes first. It grows with time, unless a clock was set back. */
const numbered = { key: 'id', order: 'DESC' } as const;

const LISTINGS: { [Name in Exclude<Thing, 'deliveries'>]: Listing<Filters[Name]> } = {
  records: {
    from: ({ kind, at }, dialect) =>
      at === undefined ? sql`${TABLE_OF[kind]}` : asOf(kind, dialect.instant(at), dialect.instant(null)),
    columns: ({ kind }) => recordColumns(kind).join(', '),
    key: 'id',
    order: 'ASC',
    json: [changes.data],
    where: ({ deleted }, dialect) => ({
      search: (text) =>
        sql`(id >= ${text} AND id < ${`${text}${LAST}`} OR ${dialect.holds(sql`name`, text)})`,
      status: (status) => sql`status = ${status}`,
      field: (field) => hasField(dialect, field),
      unverified: isSet('unverified_since'),
      deleted: isSet('deleted_at'),
      deletion_pending: isSet('deletion_pending_since'),
      at: () => (deleted === undefined ? sql`deleted_at IS NULL` : null),
    }),
  },
  statuses: {
    from: ({ kind }) =>
      sql`(SELECT DISTINCT status FROM ${TABLE_OF[kind]} WHERE octet_length(status) <= ${MAX_ID_LENGTH}) AS s`,
    columns: () => 'status',
    key: 'status',
    order: 'ASC',
  },
  changes: {
    from: () => sql`changes`,
    columns: () => 'seq, kind, record_id, operation, before, after, data, cause, cause_id, at',
    key: 'seq',
    order: 'DESC',
    json: [changes.before, changes.after, changes.data],
    where: () => ({
      kind: (kind) => sql`kind = ${kind}`,
      record_id: (id) => sql`record_id = ${id}`,
    }),
  },
  problems: {
    ...numbered,
    from: () => sql`problems`,
    columns: () => PROBLEM_COLUMNS,
    where: (_, dialect) => ({
      ...within(dialect, 'opened_at'),
      open: (is) => sql.raw(`resolved_at IS ${is ? 'NULL' : 'NOT NULL'}`),
      reasons: (reasons) => isOneOf(problems.reason, reasons),
    }),
  },
  sync_runs: {
    ...numbered,
    from: () => sql`sync_runs`,
    columns:
      () => `id, kind, reason, started_at, finished_at, pages, seen, inserted, updated, deleted, unchanged, outcome, error,
      differences`,
    json: [syncRuns.differences],
    where: (_, dialect) => within(dialect, 'started_at'),
  },
  audit: {
    ...numbered,
    from: () => sql`audit`,
    columns: () => 'id, at, actor, action, outcome, target',
    where: (_, dialect) => within(dialect, 'at'),
  },
  fields: view('fields', 'kind, "column", path, type, first_seen_at', 'kind, position'),
  sync_status: view('sync_status', '*', 'kind'),
  sync_history: view('sync_history', 'kind, verdict, complete, since, until', 'id'),
};

/** A small table or view. */
function view(name: string, columns: string, order: string): Listing<object> {
  return { from: () => sql.raw(name), columns: () => columns, key: null, order };
}

const isSet =
  (column: string) =>
  (is: boolean): SQL =>
    sql.raw(`${column} IS ${is ? 'NOT NULL' : 'NULL'}`);

/** Lists, and rows alone. */
export const createLists = (to: Sql) => ({
  /** One page: records by their id, all else with the newest first, unless its filter says otherwise. */
  async list<Name extends Thing>(name: Name, query: Query<Name>): Promise<PageOf<Name>> {
    if (name === 'deliveries') return (await listDeliveries(to, query as never)) as never;
    const page = await pageOf(to, LISTINGS[name as never] as Listing<object>, query);
    if (name !== 'records') return page as never;
    const { kind, typed = false, at } = query as Query<'records'>;
    return (typed ? await withTypedColumns(to, kind, page as never, at) : { ...page, columns: [] }) as never;
  },

  /** By the id that lists show. */
  async show<Name extends keyof Shown>(name: Name, key: Shown[Name][0]): Promise<Shown[Name][1] | null> {
    if (name === 'deliveries') return (await showDelivery(to, key as string)) as never;
    const shown = name === 'records' ? showRecord(to, key as never) : showNumbered(to, name, key as number);
    return (await shown) as never;
  },
});

async function pageOf<Filter extends object>(
  to: Sql,
  { from: rowsOf, columns, key, order, json = [], where }: Listing<Filter>,
  query: Filter & Paging & { oldestFirst?: boolean },
): Promise<Page<object>> {
  const limit = limitOf(query);
  const { after, oldestFirst: isUp = order === 'ASC' } = query;
  // A text, or a number.
  const first = isUp ? (order === 'ASC' ? '' : 0) : Number.MAX_SAFE_INTEGER;
  const from = order === 'ASC' ? (after ?? first) : Number(after ?? first);
  const conditions = [
    key === null ? null : sql`${sql.raw(`${key} ${isUp ? '>' : '<'}`)} ${from}`,
    conditionOf<Filter>(query, where?.(query, to.dialect) ?? {}),
  ];
  const ordered = key === null ? order : `${key} ${isUp ? 'ASC' : 'DESC'}`;
  const statement = sql`SELECT ${sql.raw(columns(query))} FROM ${rowsOf(query, to.dialect)} WHERE ${allOf(conditions)}
    ORDER BY ${sql.raw(ordered)}`;
  const skipped = key === null ? Number(after ?? 0) : 0;
  const { rows, isFull } =
    json.length > 0
      ? await to.page<Record<string, unknown>>(statement, json, limit)
      : allRead(
          await to.query<Record<string, unknown>>(sql`${statement} LIMIT ${limit} OFFSET ${skipped}`),
          limit,
        );
  const items = rows.map((row) => read(row, json));
  return { items, next: isFull ? String(key === null ? skipped + limit : items.at(-1)![key]) : null };
}

const allRead = <Row>(rows: Row[], limit: number) => ({ rows, isFull: rows.length === limit });

const read = <Row extends Record<string, unknown>>(row: Row, json: readonly Column[]): Row => ({
  ...row,
  ...Object.fromEntries(json.map(({ name }) => [name, fromJson(row[name])])),
});

async function showNumbered(to: Sql, name: 'problems' | 'sync_runs', id: number) {
  const { columns, json = [] } = LISTINGS[name];
  const row = await firstRow<Record<string, unknown>>(
    to,
    sql`SELECT ${sql.raw(columns({}))} FROM ${sql.raw(name)} WHERE id = ${id}`,
  );
  return row && read(row, json);
}

async function showRecord(to: Sql, { kind, id }: { kind: Kind; id: string }): Promise<ShownRecord | null> {
  const row = await firstRow<ShownRecord & Record<string, unknown>>(
    to,
    sql`SELECT ${sql.raw(recordColumns(kind).join(', '))},
        (SELECT error FROM ${recordState} AS s WHERE s.kind = ${kind} AND s.id = r.id) AS read_error
      FROM ${TABLE_OF[kind]} AS r WHERE id = ${id}`,
  );
  return row && read(row, [changes.data]);
}

/**
 * The records as they were at an instant, in the form of their table. What is only known of the present is null. Not by the view: of
 * a page, only the versions of its own records are looked for.
 */
const asOf = (kind: Kind, then: SQL, never: SQL): SQL =>
  sql`(SELECT r.id, c.name, ${kind === 'policy' ? sql`c.version, ` : sql``}c.status, c.data, r.first_seen_at, c.at AS synced_at,
      ${never} AS verified_at, ${never} AS unverified_since, CASE c.operation WHEN 'delete' THEN c.at END AS deleted_at,
      ${never} AS deletion_pending_since, CAST(NULL AS text) AS last_event_id, ${never} AS last_event_at, c.cause, c.cause_id
    FROM ${TABLE_OF[kind]} r JOIN changes c ON c.seq =
      (SELECT max(seq) FROM changes WHERE kind = ${kind} AND record_id = r.id AND at <= ${then})) AS r`;

/** The field is this text, or the value that this text is as JSON. */
function hasField(dialect: Dialect, { path, value }: NonNullable<Filters['records']['field']>): SQL {
  const found = sql.join([sql`data`, ...path.map((name) => sql`CAST(${name} AS text)`)], ' -> ');
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
