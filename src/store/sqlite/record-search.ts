import type Database from 'better-sqlite3';
import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { recordColumns, TABLES } from '../record-rows.ts';
import { PAGE_LIMIT_MAX, type Paging, type RecordReport, type ReportStore } from '../reports.ts';
import type { Connection } from './connection.ts';

/** So many rows are sorted at once rather than looked for among all names; of more, a page is soon full. */
const FEW_ROWS = 1_000;

type Filter = Parameters<ReportStore['listRecords']>[1];
type Statement = Database.Statement<unknown[]>;
type Row = Omit<RecordReport, 'data'> & { data: string };

/** Above every character: what begins with a text lies between it and it with this behind. */
const LAST = '\u{10ffff}';

/** Lists of records in the order of an index, so that a page costs the same however many are stored. */
export function createRecordSearch(
  db: Connection,
): (kind: Kind, filter: Filter, paging: Paging) => RecordReport[] {
  const statements = new Map<string, Statement>();
  const prepared = (sql: string) => {
    const held = statements.get(sql) ?? db.prepare(sql);
    statements.set(sql, held);
    return held;
  };
  const read = (sql: string, ...values: (string | number)[]) =>
    (prepared(sql).all(...values) as Row[]).map(
      (row): RecordReport => ({ ...row, data: JSON.parse(row.data) as JsonObject }),
    );

  return (kind, filter, paging) => {
    const limit = Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
    const { search, ...states } = filter;
    const queries = recordQueries(kind, states);
    if (search === undefined || search === '') return read(queries.byId, paging.after ?? '', limit);

    const { after } = paging;
    const end = `${search}${LAST}`;
    const { byName, byNameAfter } = areFew(queries.countNarrow) ? queries.few : queries.many;
    // The page before ended among the names.
    if (after !== undefined && !after.startsWith(search)) {
      const name = nameOf(kind, after);
      return read(byNameAfter, name, name, after, end, search, end, limit);
    }
    const byId =
      after === undefined
        ? read(queries.byIdPrefix, search, end, limit)
        : read(queries.byIdPrefixAfter, after, end, limit);
    if (byId.length === limit) return byId;
    return [...byId, ...read(byName, search, end, search, end, limit - byId.length)];
  };

  /** Whether the filter itself leaves few. False: there is no index to tell it by. */
  function areFew(countNarrow: string | null): boolean {
    if (countNarrow === null) return false;
    const count = prepared(countNarrow)
      .pluck()
      .get(FEW_ROWS + 1) as number;
    return count <= FEW_ROWS;
  }

  function nameOf(kind: Kind, id: string): string {
    const name = prepared(`SELECT name FROM ${TABLES[kind]} WHERE id = ?`).pluck().get(id);
    return (name as string | null | undefined) ?? '';
  }
}

/** Pure. Filters stand in the text, because an index of unverified or deleted rows is used only where they do. */
function recordQueries(kind: Kind, { unverified, deleted }: Omit<Filter, 'search'>) {
  const table = TABLES[kind];
  const conditions = [
    unverified === undefined ? [] : [`unverified_since IS ${unverified ? 'NOT NULL' : 'NULL'}`],
    deleted === undefined ? [] : [`deleted_at IS ${deleted ? 'NOT NULL' : 'NULL'}`],
  ].flat();
  const and = conditions.map((condition) => ` AND ${condition}`).join('');
  const narrow = unverified === true ? 'outstanding' : deleted === true ? 'deleted' : null;
  const narrowIndex = narrow === null ? `sqlite_autoindex_${table}_1` : `${table}_${narrow}`;
  const columns = recordColumns(kind);
  const byId = `SELECT ${columns} FROM ${table} INDEXED BY ${narrowIndex}`;
  const name = 'name COLLATE NOCASE';
  // What the ids showed already is not shown again.
  const isNew = `${name} < ? AND NOT (id >= ? AND id < ?)${and}`;
  const inNames = (index: string) => {
    const rows = `SELECT ${columns} FROM ${table} INDEXED BY ${index} WHERE ${name} >= ?`;
    return {
      byName: `${rows} AND ${isNew} ORDER BY ${name}, id LIMIT ?`,
      byNameAfter: `${rows} AND (${name} > ? OR id > ?) AND ${isNew} ORDER BY ${name}, id LIMIT ?`,
    };
  };
  return {
    byId: `${byId} WHERE id > ?${and} ORDER BY id LIMIT ?`,
    byIdPrefix: `${byId} WHERE id >= ? AND id < ?${and} ORDER BY id LIMIT ?`,
    byIdPrefixAfter: `${byId} WHERE id > ? AND id < ?${and} ORDER BY id LIMIT ?`,
    countNarrow:
      narrow === null
        ? null
        : `SELECT count(*) FROM (SELECT 1 FROM ${table} INDEXED BY ${narrowIndex} WHERE true${and} LIMIT ?)`,
    many: inNames(`${table}_name`),
    few: inNames(narrowIndex),
  };
}
