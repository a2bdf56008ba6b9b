import type { Kind } from '../../compliance/kinds.ts';
import { recordColumns, TABLES } from '../record-rows.ts';
import { PAGE_LIMIT_MAX, type Paging, type RecordReport, type ReportStore } from '../reports.ts';
import type { Sql } from './connection.ts';

type Filter = Parameters<ReportStore['listRecords']>[1];

/** Above every character: what begins with a text lies between it and it with this behind. */
const LAST = '\u{10ffff}';

/** As the index has it: letters in either case, ASCII only, which is what SQLite's NOCASE does. */
const NAME = 'left(lower(name COLLATE "C"), 200)';
const folded = (parameter: string) => `left(lower(${parameter}::text COLLATE "C"), 200)`;

/** Lists of records in the order of an index, so that a page costs the same however many are stored. */
export async function searchRecords(
  sql: Sql,
  kind: Kind,
  filter: Filter,
  paging: Paging,
): Promise<RecordReport[]> {
  const limit = Math.min(Math.max(1, paging.limit), PAGE_LIMIT_MAX);
  const { search, ...states } = filter;
  const queries = recordQueries(kind, states);
  if (search === undefined || search === '') {
    return await sql.query(queries.byId, [paging.after ?? '', limit]);
  }
  const { after } = paging;
  const end = `${search}${LAST}`;
  // The page before ended among the names.
  if (after !== undefined && !after.startsWith(search)) {
    return await sql.query(queries.byNameAfter, [search, end, limit, await nameOf(sql, kind, after), after]);
  }
  const byId =
    after === undefined
      ? await sql.query<RecordReport>(queries.byIdPrefix, [search, end, limit])
      : await sql.query<RecordReport>(queries.byIdPrefixAfter, [after, end, limit]);
  if (byId.length === limit) return byId;
  const byName = await sql.query<RecordReport>(queries.byName, [search, end, limit - byId.length]);
  return [...byId, ...byName];
}

async function nameOf(sql: Sql, kind: Kind, id: string): Promise<string> {
  const [row] = await sql.query<{ name: string | null }>(`SELECT name FROM ${TABLES[kind]} WHERE id = $1`, [
    id,
  ]);
  return row?.name ?? '';
}

/** Pure. Filters stand in the text, because an index of unverified or deleted rows is used only where they do. */
function recordQueries(kind: Kind, { unverified, deleted }: Omit<Filter, 'search'>) {
  const and = [
    unverified === undefined ? '' : ` AND unverified_since IS ${unverified ? 'NOT NULL' : 'NULL'}`,
    deleted === undefined ? '' : ` AND deleted_at IS ${deleted ? 'NOT NULL' : 'NULL'}`,
  ].join('');
  const rows = `SELECT ${recordColumns(kind)} FROM ${TABLES[kind]} WHERE`;
  // The range is the index's, which holds the beginnings of names only. What the ids showed already is not shown again.
  const isNew = `${NAME} >= ${folded('$1')} AND ${NAME} < ${folded('$1')} || '${LAST}'
    AND starts_with(lower(name COLLATE "C"), lower($1::text COLLATE "C")) AND NOT (id >= $1 AND id < $2)${and}`;
  const inOrder = `ORDER BY ${NAME}, id LIMIT $3`;
  return {
    byId: `${rows} id > $1${and} ORDER BY id LIMIT $2`,
    byIdPrefix: `${rows} id >= $1 AND id < $2${and} ORDER BY id LIMIT $3`,
    byIdPrefixAfter: `${rows} id > $1 AND id < $2${and} ORDER BY id LIMIT $3`,
    byName: `${rows} ${isNew} ${inOrder}`,
    byNameAfter: `${rows} (${NAME}, id) > (${folded('$4')}, $5) AND ${isNew} ${inOrder}`,
  };
}
