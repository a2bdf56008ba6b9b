import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { Sql } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import { recordColumns, TABLES } from '../record-rows.ts';
import type { Paging, RecordReport, ReportStore } from '../reports.ts';
import { TABLE_OF } from './records.ts';
import { LAST, limitOf, sql } from './sql.ts';

/** So many rows are sorted at once rather than looked for among all names; of more, a page is soon full. */
const FEW_ROWS = 1_000;

/** Lists of records in the order of an index, so that a page costs the same however many are stored. */
export async function searchRecords(
  { query, dialect }: Sql,
  kind: Kind,
  { search, unverified, deleted }: Parameters<ReportStore['listRecords']>[1],
  paging: Paging,
): Promise<RecordReport[]> {
  const rows = TABLE_OF[kind];
  const { id, name } = rows;
  const limit = limitOf(paging);
  // In the text, because an index of unverified or deleted rows is used only where they stand there.
  const and = [
    unverified === undefined ? '' : ` AND unverified_since IS ${unverified ? 'NOT NULL' : 'NULL'}`,
    deleted === undefined ? '' : ` AND deleted_at IS ${deleted ? 'NOT NULL' : 'NULL'}`,
  ].join('');
  const narrow = unverified === true ? 'outstanding' : deleted === true ? 'deleted' : null;
  const inNarrow = narrow === null ? sql`` : dialect.indexedBy(`${TABLES[kind]}_${narrow}`);

  async function read(index: SQL, condition: SQL, order: SQL, atMost: number): Promise<RecordReport[]> {
    const found = await query<RecordReport>(
      sql`SELECT ${sql.raw(recordColumns(kind))} FROM ${rows}${index} WHERE ${condition}${sql.raw(and)}
        ORDER BY ${order} LIMIT ${atMost}`,
    );
    return found.map((row) => ({ ...row, data: dialect.fromJson(row.data) as JsonObject }));
  }
  const readIds = (condition: SQL) => read(inNarrow, condition, sql`${id}`, limit);

  const { after } = paging;
  if (search === undefined || search === '') return await readIds(sql`${id} > ${after ?? ''}`);
  const isId = sql`${id} >= ${search} AND ${id} < ${`${search}${LAST}`}`;
  const isAmongNames = after !== undefined && !after.startsWith(search);
  const byId = isAmongNames
    ? []
    : await readIds(after === undefined ? isId : sql`${isId} AND ${id} > ${after}`);
  if (byId.length === limit) return byId;

  const folded = dialect.folded(name);
  const from = isAmongNames
    ? dialect.isBehind([folded, id], [dialect.folded(await placeOf(after, search)), after])
    : sql`${folded} >= ${dialect.folded(search)}`;
  // What the ids showed already is not shown again.
  const isNew = sql`${from} AND ${dialect.beginsWith(name, search)} AND NOT (${isId})`;
  const index = (await areFew()) ? inNarrow : dialect.indexedBy(`${TABLES[kind]}_name`);
  return [...byId, ...(await read(index, isNew, sql`${folded}, ${id}`, limit - byId.length))];

  /** Whether the filter itself leaves few. False: there is no index to tell it by, or the planner knows. */
  async function areFew(): Promise<boolean> {
    if (narrow === null || dialect.knowsSizes) return false;
    const [row] = await query<{ n: number }>(
      sql`SELECT count(*) AS n FROM (SELECT 1 FROM ${rows}${inNarrow} WHERE true${sql.raw(and)} LIMIT ${FEW_ROWS + 1}) AS some`,
    );
    return row!.n <= FEW_ROWS;
  }

  /** The name that the page before ended at; where it was changed meanwhile to an earlier one, the first that fits. */
  async function placeOf(last: string, first: string): Promise<string> {
    const [row] = await query<{ name: string | null }>(
      sql`SELECT ${name} FROM ${rows} WHERE ${id} = ${last}`,
    );
    const found = row?.name ?? '';
    return inEitherCase(found) < inEitherCase(first) ? first : found;
  }
}

/** ASCII only, as `Dialect.folded` has it. */
const inEitherCase = (text: string) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
