import type { Kind } from '../compliance/kinds.ts';
import { type RecordFilter, type RecordOrder, recordColumns } from '../store/reports.ts';
import type { OpsContext } from './context.ts';

/** By RFC 4180, on every system. */
const LINE_END = '\r\n';

/** What a spreadsheet may take for a formula, and run; East Asian ones take the wide signs too. */
const FORMULA_START = /^[=+\-@\t\r\n＝＋－＠]/;

/**
 * A field with one of these is quoted: what RFC 4180 names, and the separators of spreadsheets in other countries. Otherwise a
 * name such as `x;=1+1` would start a new field there, and that would run. Quotes do not change the value.
 */
const QUOTED_FOR = /[",;\t\r\n]/;

/**
 * One line. A null is an empty field and an empty text is `""`, so that both come back as they were. With
 * `spreadsheet`, a text that a spreadsheet would run as a formula gets an apostrophe in front: safe to open, and no
 * longer what is stored.
 */
export function csvLine(cells: readonly unknown[], options: { spreadsheet: boolean }): string {
  return `${cells.map((cell) => csvField(cell, options.spreadsheet)).join(',')}${LINE_END}`;
}

function csvField(cell: unknown, spreadsheet: boolean): string {
  if (cell === null || cell === undefined) return '';
  if (['number', 'bigint', 'boolean'].includes(typeof cell)) return String(cell);
  const text = typeof cell === 'string' ? cell : JSON.stringify(cell);
  const safe = spreadsheet && FORMULA_START.test(text) ? `'${text}` : text;
  return safe === '' || QUOTED_FOR.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Each download keeps one page in memory, however slowly it is read. With longer pages, many downloads took gigabytes. */
const ROWS_AT_ONCE = 50;

/**
 * All matching records, for a person's spreadsheet: no name is run there as a formula. The command `export` writes them as
 * they are stored. Throws when the service stops before the last record.
 */
export async function* recordsCsv(
  { store, signal }: OpsContext,
  kind: Kind,
  filter: RecordFilter,
  order: RecordOrder | undefined,
): AsyncGenerator<string> {
  const columns = recordColumns(kind);
  yield csvLine(columns, { spreadsheet: false });
  let after: string | undefined;
  do {
    signal.throwIfAborted();
    const page = await store.listRecords(kind, filter, { limit: ROWS_AT_ONCE, after, order });
    const lines = page.items.map((record) =>
      csvLine(
        columns.map((column) => record[column]),
        { spreadsheet: true },
      ),
    );
    yield lines.join('');
    after = page.next ?? undefined;
  } while (after !== undefined);
}
