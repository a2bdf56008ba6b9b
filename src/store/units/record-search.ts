import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { Sql } from '../database.ts';
import type { Column, SQL } from '../drizzle.ts';
import {
  NAMES_LOOKED_AT,
  type Paging,
  RECORDS_LOOKED_AT,
  type RecordFilter,
  type RecordOrder,
  type RecordPage,
  type RecordPaging,
  type RecordReport,
  recordColumns,
  STATUS_COUNT_MAX,
  type StatusCount,
} from '../reports.ts';
import { changes } from '../schema.ts';
import { lookAlong, type Way } from './lists.ts';
import { TABLE_OF, tableName } from './records.ts';
import { allOf, as, LAST, limitOf, one, single, sql } from './sql.ts';

/** Of one kind. A longer list is of no use to choose from. */
const STATUSES_LISTED = 50;

/** A way along an index, of which a page looks at a bounded number of rows. */
interface Lane extends Omit<Way, 'walked'> {
  /** From a place of it on, or from its beginning. */
  walked(place: string | null): Promise<SQL>;
  recordId: Column;
  fits: SQL;
  /** The index alone shows what fits. */
  inIndex?: boolean;
  /** The place in a cursor, of a row's own place and what a person reads of it. Default: the former. */
  placeOf?(place: string, reach: string): string;
}

/**
 * A page looks at a bounded number of rows of an index, and says how far it came. A search has three lanes: ids that begin with the
 * text, then names that do, then names that contain it. The cursor is the lane's number and a place in it.
 */
export async function searchRecords(
  to: Sql,
  kind: Kind,
  filter: RecordFilter,
  paging: RecordPaging,
): Promise<RecordPage> {
  const limit = limitOf(paging);
  const lanes = lanesOf(to, kind, filter, paging.order ?? 'id');
  const [, first = '0', from = null] = /^(\d)\.(.*)$/s.exec(paging.after ?? '') ?? [];
  const ids: string[] = [];
  /** Where a page goes on that ends with this one. */
  const nexts: string[] = [];
  let place = from;
  for (let at = Number(first); at < lanes.length; at += 1) {
    const lane = lanes[at]!;
    const lookAt = paging.lookAt ?? (lane.inIndex ? NAMES_LOOKED_AT : RECORDS_LOOKED_AT);
    const way = { ...lane, walked: await lane.walked(place) };
    const what = { selected: as({ id: lane.recordId }), fits: lane.fits };
    const bounds = { limit: limit - ids.length, lookAt };
    const { items: found, ends, isFull, end } = await lookAlong<{ id: string }>(to, way, what, bounds);
    ids.push(...found.map(({ id }) => id));
    const behind = (row: { place: string; reach: string }) =>
      `${at}.${lane.placeOf?.(row.place, row.reach) ?? row.place}`;
    nexts.push(...ends.map(behind));
    if (end !== null) return await shown(behind(end), isFull ? null : end.reach);
    place = null;
  }
  return await shown(null, null);

  async function shown(next: string | null, searched_to: string | null): Promise<RecordPage> {
    const statement = sql`SELECT ${columns(kind)} FROM ${to.dialect.listed(ids)} JOIN ${TABLE_OF[kind]} USING (id) ORDER BY nth`;
    const { items } = await pageOf(to, kind, statement, ids.length);
    const ended = nexts[items.length - 1];
    return items.length < ids.length && ended !== undefined
      ? { items, next: ended, searched_to: null }
      : { items, next, searched_to };
  }
}

/** By id alone, which is the key. */
export function recordsById(to: Sql, kind: Kind, paging: Paging) {
  const rows = TABLE_OF[kind];
  const behind = sql`${rows.id} > ${paging.after ?? ''}`;
  const statement = sql`SELECT ${columns(kind)} FROM ${rows} WHERE ${behind} ORDER BY ${rows.id}`;
  return pageOf(to, kind, statement, limitOf(paging));
}

export async function recordOf(to: Sql, kind: Kind, id: string): Promise<RecordReport | null> {
  const row = await one<RecordReport>(
    to,
    sql`SELECT ${columns(kind)} FROM ${TABLE_OF[kind]} WHERE id = ${id}`,
  );
  return row === null ? null : reportOf(to, row);
}

/** The statuses that records of a kind have, the deleted included, each with how many have it. */
export function statusesOf(to: Sql, kind: Kind): Promise<StatusCount[]> {
  const rows = TABLE_OF[kind];
  const status = to.dialect.indexed(rows.status);
  const counted = sql`SELECT 1 FROM ${rows} WHERE ${status} = listed.status LIMIT ${STATUS_COUNT_MAX}`;
  return to.query<StatusCount>(
    sql`WITH RECURSIVE listed (status) AS (
        SELECT min(${status}) FROM ${rows} UNION ALL
        SELECT (SELECT min(${status}) FROM ${rows} WHERE ${status} > listed.status) FROM listed
          WHERE listed.status IS NOT NULL
      )
      SELECT status, (SELECT count(*) FROM (${counted}) AS counted) AS records FROM listed
      WHERE status IS NOT NULL LIMIT ${STATUSES_LISTED}`,
  );
}

function lanesOf(to: Sql, kind: Kind, filter: RecordFilter, order: RecordOrder): Lane[] {
  const { dialect } = to;
  const rows = TABLE_OF[kind];
  const { id, name, status } = rows;
  const { search, unverified, deleted, field } = filter;
  const folded = dialect.folded(name);

  const isId = sql`(${id} >= ${search ?? ''} AND ${id} < ${`${search ?? ''}${LAST}`})`;
  const holds = sql`coalesce(${dialect.holds(name, search ?? '')}, false)`;
  const filters = [
    ...(filter.status === undefined
      ? []
      : [sql`coalesce(${dialect.indexed(status)} = ${dialect.indexed(filter.status)}, false)`]),
    ...(unverified === undefined
      ? []
      : [sql`${rows.unverifiedSince} IS ${sql.raw(unverified ? 'NOT NULL' : 'NULL')}`]),
    ...(deleted === undefined ? [] : [sql`${rows.deletedAt} IS ${sql.raw(deleted ? 'NOT NULL' : 'NULL')}`]),
    ...(field === undefined ? [] : [hasField(to, rows.data, field)]),
  ];
  const found = search === undefined ? filters : [sql`(${isId} OR ${holds})`, ...filters];

  /** `index` null: that of the primary key. */
  const byId = (index: string | null, range: SQL, conditions: readonly SQL[]): Lane => ({
    keys: [id],
    order: 'ASC',
    recordId: id,
    reach: id,
    fits: allOf(conditions),
    async walked(place) {
      const hint = index === null ? sql`` : dialect.indexedBy(`${tableName(kind)}_${index}`);
      return sql`FROM ${rows}${hint} WHERE ${range} AND ${id} > ${place ?? ''}`;
    },
  });
  const byName = (from: string, range: SQL, conditions: readonly SQL[]): Lane => ({
    keys: [folded, id],
    order: 'ASC',
    recordId: id,
    reach: sql`coalesce(${name}, '')`,
    fits: allOf(conditions),
    inIndex: filters.length === 0,
    placeOf: placeByName,
    async walked(cursor) {
      const { place, name: then } = cursor === null ? { place: null } : placeInCursor(cursor);
      const begin =
        place === null
          ? sql`${folded} >= ${dialect.folded(from)}`
          : dialect.isBehind([folded, id], [dialect.folded(then ?? (await nameOf(place, from))), place]);
      return sql`FROM ${rows}${dialect.indexedBy(`${tableName(kind)}_name`)} WHERE ${begin} AND ${range}`;
    },
  });

  /** The name at which the last page ended, where the cursor does not have it. If it has changed to an earlier name since, the first name that fits. */
  async function nameOf(last: string, from: string): Promise<string> {
    const found = (await single<string>(to, sql`SELECT ${name} FROM ${rows} WHERE ${id} = ${last}`)) ?? '';
    return inEitherCase(found) < inEitherCase(from) ? from : found;
  }

  if (order === 'changed') return [byChange(kind, found)];
  // Usually few are unverified or deleted: with their index nothing else is looked at.
  if (unverified === true) return [byId('outstanding', sql`unverified_since IS NOT NULL`, found)];
  if (deleted === true) return [byId('deleted', sql`deleted_at IS NOT NULL`, found)];
  if (search !== undefined) {
    const begins = sql`(${folded} >= ${dialect.folded(search)} AND ${dialect.beginsWith(name, search)})`;
    return [
      byId(null, isId, filters),
      byName(search, dialect.beginsWith(name, search), [sql`NOT ${isId}`, ...filters]),
      byName('', sql`true`, [holds, sql`NOT ${begins}`, sql`NOT ${isId}`, ...filters]),
    ];
  }
  if (order === 'name') {
    return [byName('', sql`true`, filters), byId('name', sql`${folded} IS NULL`, filters)];
  }
  if (filter.status === undefined) return [byId(null, sql`true`, filters)];
  return [byId('status', sql`${dialect.indexed(status)} = ${dialect.indexed(filter.status)}`, filters)];
}

/** The last change first. A row has the number of the change that wrote its content, so each record is found once. */
function byChange(kind: Kind, filters: readonly SQL[]): Lane {
  const rows = TABLE_OF[kind];
  const isLast = sql`${rows.id} = ${changes.recordId} AND ${rows.changeSeq} = ${changes.seq}`;
  return {
    keys: [changes.seq],
    order: 'DESC',
    recordId: changes.recordId,
    reach: changes.at,
    fits: sql`(${changes.kind} = ${kind} AND EXISTS (SELECT 1 FROM ${rows} WHERE ${sql.join([isLast, ...filters], sql` AND `)}))`,
    walked: async (place) =>
      sql`FROM ${changes} WHERE ${changes.seq} < ${place === null ? Number.MAX_SAFE_INTEGER : Number(place)}`,
  };
}

/** The value is a text, or what it says as JSON. */
function hasField({ dialect }: Sql, data: Column, { path, value }: RecordFilter['field'] & object): SQL {
  const found = sql.join([sql`${data}`, ...path.map((name) => sql`CAST(${name} AS text)`)], sql` -> `);
  const meant = [value, ...jsonIn(value)].map((one) => dialect.isJson(found, one));
  return sql`coalesce(${sql.join(meant, sql` OR `)}, false)`;
}

function jsonIn(text: string): unknown[] {
  try {
    return [parseJson(text)];
  } catch {
    return [];
  }
}

const columns = (kind: Kind) => sql.raw(recordColumns(kind).join(', '));

async function pageOf(to: Sql, kind: Kind, statement: SQL, limit: number) {
  const { rows, isFull } = await to.page<RecordReport>(statement, [TABLE_OF[kind].data], limit);
  return { items: rows.map((row) => reportOf(to, row)), isFull };
}

const reportOf = ({ dialect }: Sql, row: RecordReport): RecordReport => ({
  ...row,
  data: dialect.fromJson(row.data) as JsonObject,
});

/** A longer name is looked up again, and so is one that not every program passes on as it is. */
const NAME_IN_CURSOR = 100;

/** The name goes along: the record may have another one when the next page is asked for. Before it is its length. */
const placeByName = (id: string, name: string): string =>
  name.length > NAME_IN_CURSOR || /[\p{C}\p{Zl}\p{Zp}]/u.test(name)
    ? `:${id}`
    : `${name.length}:${name}${id}`;

function placeInCursor(cursor: string): { place: string; name?: string } {
  const [, length = '', rest = ''] = /^(\d*):(.*)$/s.exec(cursor) ?? [];
  if (length === '') return { place: rest };
  return { name: rest.slice(0, Number(length)), place: rest.slice(Number(length)) };
}

/** ASCII only, like `Dialect.folded`. */
const inEitherCase = (text: string) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
