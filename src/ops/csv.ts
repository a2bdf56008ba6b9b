/** By RFC 4180, on every system. */
const LINE_END = '\r\n';

/**
 * A field with one of these is quoted: what RFC 4180 names, and the separators of spreadsheets in other countries. Otherwise a
 * name such as `x;=1+1` would start a new field there, and that would run. Quotes do not change the value.
 */
const QUOTED_FOR = /[",;\t\r\n]/;

/** One line. A null is an empty field and an empty text is `""`, so that both come back as they were. */
export const csvLine = (cells: readonly unknown[]): string => `${cells.map(csvField).join(',')}${LINE_END}`;

function csvField(cell: unknown): string {
  if (cell === null || cell === undefined) return '';
  if (['number', 'bigint', 'boolean'].includes(typeof cell)) return String(cell);
  const text = typeof cell === 'string' ? cell : JSON.stringify(cell);
  return text === '' || QUOTED_FOR.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
