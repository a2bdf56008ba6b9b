import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import { type JsonObject, MAX_ID_LENGTH } from '../../compliance/pointers.ts';
import type { Sql } from '../database.ts';
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
  type ShownRecord,
  STATUS_COUNT_MAX,
  type StatusCount,
} from '../reports.ts';
import { type Column, changes, type SQL, recordState as states } from '../schema.ts';
import { type IndexScan, scanPage } from './lists.ts';
import { isRecord, TABLE_OF, tableName } from './records.ts';
import { allOf, columnsAs, firstRow, LAST, limitOf, singleValue, sql } from './sql.ts';

/** At most this many statuses of a kind are listed: nobody chooses from a longer list. */
const STATUSES_LISTED = 50;

/** A scan of one index. A page looks at a bounded number of its rows. */
interface Lane extends Omit<IndexScan, 'rows'> {
  /** The rows after this place; null: all. */
  rowsAfter(place: string | null): Promise<SQL>;
  recordId: Column;
  fits: SQL;
  /** `fits` needs only the index. */
  inIndex?: boolean;
  /** A row's place as the cursor has it. Default: `place`. */
  placeOf?(place: string, reach: string): string;
}

/** Records, and the statuses that they have. */
export function createRecordSearch(to: Sql) {
  return {
    /**
     * A page looks at a bounded number of rows of an index, and says how far it came. A search has three lanes, one after another: ids that
     * begin with the text, names that begin with it, and names that contain it. The cursor is the lane's number and a place in the lane.
     */
    async listRecords(kind: Kind, filter: RecordFilter, paging: RecordPaging): Promise<RecordPage> {
      const limit = limitOf(paging);
      const lanes = lanesOf(to, kind, filter, paging.order ?? 'id');
      const [, first = '0', from = null] = /^(\d)\.(.*)$/s.exec(paging.after ?? '') ?? [];
      const ids: string[] = [];
      /** For each id the cursor of a page that would end with it. */
      const nexts: string[] = [];
      let place = from;
      for (let at = Number(first); at < lanes.length; at += 1) {
        const lane = lanes[at]!;
        const lookAt = paging.lookAt ?? (lane.inIndex ? NAMES_LOOKED_AT : RECORDS_LOOKED_AT);
        const scan = { ...lane, rows: await lane.rowsAfter(place) };
        const what = { selected: columnsAs({ id: lane.recordId }), fits: lane.fits };
        const bounds = { limit: limit - ids.length, lookAt };
        const { items, places, isFull, end } = await scanPage<{ id: string }>(to, scan, what, bounds);
        ids.push(...items.map(({ id }) => id));
        const cursorOf = (row: { place: string; reach: string }) =>
          `${at}.${lane.placeOf?.(row.place, row.reach) ?? row.place}`;
        nexts.push(...places.map(cursorOf));
        if (end !== null) return await pageWith(cursorOf(end), isFull ? null : end.reach);
        place = null;
      }
      return await pageWith(null, null);

      async function pageWith(next: string | null, searched_to: string | null): Promise<RecordPage> {
        const statement = sql`SELECT ${columns(kind)} FROM ${to.dialect.listed(ids)} JOIN ${TABLE_OF[kind]} USING (id) ORDER BY nth`;
        const { items } = await pageOf(to, kind, statement, ids.length);
        const ended = nexts[items.length - 1];
        return items.length < ids.length && ended !== undefined
          ? { items, next: ended, searched_to: null }
          : { items, next, searched_to };
      }
    },

    async showRecord(kind: Kind, id: string): Promise<ShownRecord | null> {
      const row = await firstRow<ShownRecord>(
        to,
        sql`SELECT ${columns(kind)}, (SELECT error FROM ${states} WHERE ${isRecord(kind, id)}) AS read_error
          FROM ${TABLE_OF[kind]} WHERE id = ${id}`,
      );
      return row === null ? null : reportOf(to, row);
    },

    /**
     * The statuses that records of a kind have, in order, deleted ones included, and how many records have each. Without those of more
     * bytes than a filter takes characters: they may have megabytes.
     */
    listStatuses(kind: Kind): Promise<StatusCount[]> {
      const rows = TABLE_OF[kind];
      const status = to.dialect.indexed(rows.status);
      const counted = sql`SELECT 1 FROM ${rows} WHERE ${status} = listed.status LIMIT ${STATUS_COUNT_MAX}`;
      return to.query<StatusCount>(
        sql`WITH RECURSIVE listed (status) AS (
            SELECT min(${status}) FROM ${rows} UNION ALL
            SELECT (SELECT min(${status}) FROM ${rows} WHERE ${status} > listed.status) FROM listed
              WHERE listed.status IS NOT NULL
          )
          SELECT status, (SELECT count(*) FROM (${counted}) AS counted) AS records
          FROM (SELECT status FROM listed LIMIT ${STATUSES_LISTED}) AS listed
          WHERE octet_length(status) <= ${MAX_ID_LENGTH}`,
      );
    },
  };
}

/** All records of a kind, in the order of their ids. */
export function recordsById(to: Sql, kind: Kind, paging: Paging) {
  const rows = TABLE_OF[kind];
  const behind = sql`${rows.id} > ${paging.after ?? ''}`;
  const statement = sql`SELECT ${columns(kind)} FROM ${rows} WHERE ${behind} ORDER BY ${rows.id}`;
  return pageOf(to, kind, statement, limitOf(paging));
}

function lanesOf(to: Sql, kind: Kind, filter: RecordFilter, order: RecordOrder): Lane[] {
  const { dialect } = to;
  const rows = TABLE_OF[kind];
  const { id, name, status } = rows;
  const { search, unverified, deleted, field } = filter;
  const folded = dialect.folded(name);

  const isId = sql`(${id} >= ${search ?? ''} AND ${id} < ${`${search ?? ''}${LAST}`})`;
  const holds = dialect.holds(name, search ?? '');
  const hasStatus = sql`${dialect.indexed(status)} = ${dialect.indexed(filter.status ?? '')}`;
  const filters = [
    filter.status === undefined ? null : hasStatus,
    unverified === undefined
      ? null
      : sql`${rows.unverifiedSince} IS ${sql.raw(unverified ? 'NOT NULL' : 'NULL')}`,
    deleted === undefined ? null : sql`${rows.deletedAt} IS ${sql.raw(deleted ? 'NOT NULL' : 'NULL')}`,
    field === undefined ? null : hasField(to, rows.data, field),
  ].filter((each) => each !== null);
  const found = search === undefined ? filters : [sql`(${isId} OR ${holds})`, ...filters];

  /** `index` null: the primary key's. */
  const byId = (index: string | null, range: SQL, conditions: readonly SQL[]): Lane => ({
    keys: [id],
    order: 'ASC',
    recordId: id,
    reach: id,
    fits: allOf(conditions),
    async rowsAfter(place) {
      const hint = index === null ? sql`` : dialect.indexedBy(`${tableName(kind)}_${index}`);
      return sql`FROM ${rows}${hint} WHERE ${range} AND ${id} > ${place ?? ''}`;
    },
  });
  const byName = (from: string, range: SQL, conditions: readonly SQL[]): Lane => ({
    keys: [folded, id],
    order: 'ASC',
    recordId: id,
    reach: name,
    fits: allOf(conditions),
    inIndex: filters.length === 0,
    placeOf: placeByName,
    async rowsAfter(cursor) {
      const { place, name: then } = cursor === null ? { place: null } : placeInCursor(cursor);
      const begin =
        place === null
          ? sql`${folded} >= ${dialect.folded(from)}`
          : dialect.isBehind([folded, id], [dialect.folded(then ?? (await nameOf(place, from))), place]);
      return sql`FROM ${rows}${dialect.indexedBy(`${tableName(kind)}_name`)} WHERE ${begin} AND ${range}`;
    },
  });

  /** The name of the record at which the last page ended. If it is now one before the first name that fits, that first name. */
  async function nameOf(last: string, from: string): Promise<string> {
    const found =
      (await singleValue<string>(to, sql`SELECT ${name} FROM ${rows} WHERE ${id} = ${last}`)) ?? '';
    return inEitherCase(found) < inEitherCase(from) ? from : found;
  }

  if (order === 'changed') return [byChange(kind, found)];
  // Usually few records are unverified or deleted, and these indexes have only those.
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
  return [byId('status', hasStatus, filters)];
}

/** The latest change first. Each record is found once, by the number of the change that wrote its content. */
function byChange(kind: Kind, filters: readonly SQL[]): Lane {
  const rows = TABLE_OF[kind];
  const isLast = sql`${rows.id} = ${changes.recordId} AND ${rows.changeSeq} = ${changes.seq}`;
  return {
    keys: [changes.seq],
    order: 'DESC',
    recordId: changes.recordId,
    reach: changes.at,
    fits: sql`(${changes.kind} = ${kind} AND EXISTS (SELECT 1 FROM ${rows} WHERE ${sql.join([isLast, ...filters], sql` AND `)}))`,
    rowsAfter: async (place) =>
      sql`FROM ${changes} WHERE ${changes.seq} < ${place === null ? Number.MAX_SAFE_INTEGER : Number(place)}`,
  };
}

/** The field is this text, or the value that this text is as JSON. */
function hasField({ dialect }: Sql, data: Column, { path, value }: RecordFilter['field'] & object): SQL {
  const found = sql.join([sql`${data}`, ...path.map((name) => sql`CAST(${name} AS text)`)], sql` -> `);
  const meant = [value, ...jsonIn(value)].map((one) => dialect.isJson(found, one));
  return sql`(${sql.join(meant, sql` OR `)})`;
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

const reportOf = <Row extends RecordReport>({ dialect }: Sql, row: Row): Row => ({
  ...row,
  data: dialect.fromJson(row.data) as JsonObject,
});

/** A longer name is looked up again, and so is one with characters that not every program passes on unchanged. */
const NAME_IN_CURSOR = 100;

/** LENGTH:NAMEID. The cursor has the name, because the record may have another one when the next page is asked for. */
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
