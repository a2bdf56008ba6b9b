import { printable } from './text.ts';

export type Cell = string | number | boolean | null | undefined;

export interface TableOptions {
  /** Columns of the terminal to fit into; absent: nothing is cut. */
  width?: number | undefined;
  /** Head in bold, by ANSI sequences. */
  bold?: boolean | undefined;
}

const GAP = '  ';
/** A column of prose or JSON that must give way is not cut below this. Characters. */
const NARROWEST = 12;
/** Up to this, what has no blanks in it is an id, an instant or a code, and is never cut: people copy it. Characters. */
const WORD_MAX = 40;

/**
 * Rows under aligned heads, one line each; numbers to the right. Where they do not fit into the terminal without
 * cutting an id, each row becomes lines of `head  value` instead. Cells may hold anything: what a terminal would obey is
 * escaped. Ends with a newline.
 */
export function renderTable(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  options: TableOptions = {},
): string {
  const { width } = options;
  const strong = (text: string) => (options.bold ? `\u001b[1m${text}\u001b[22m` : text);
  const texts = rows.map((row) =>
    heads.map((_, column) => {
      const text = cellText(row[column]);
      return width === undefined ? text : text.replace(INSTANT, '$1Z');
    }),
  );
  const widths = heads.map((head, column) =>
    Math.max(lengthOf(head), ...texts.map((row) => lengthOf(row[column] ?? ''))),
  );
  if (width !== undefined) {
    const least = heads.map((head, column) => {
      const cells = texts.map((row) => row[column] ?? '');
      return cells.some((cell) => canGiveWay(cell, width)) ? Math.max(NARROWEST, lengthOf(head)) : Infinity;
    });
    if (!shrink(widths, least, width - GAP.length * (heads.length - 1))) {
      return texts.map((row) => renderLines(heads, row, width, strong)).join('\n');
    }
  }

  const isNumber = (row: readonly Cell[], column: number) => typeof row[column] === 'number';
  const rightward = heads.map(
    (_, column) =>
      rows.some((row) => isNumber(row, column)) &&
      rows.every((row) => row[column] == null || isNumber(row, column)),
  );
  const line = (cells: readonly string[]) =>
    cells
      .map((cell, column) => {
        const fitted = cut(cell, widths[column] ?? 0);
        const padding = ' '.repeat((widths[column] ?? 0) - lengthOf(fitted));
        return rightward[column] ? padding + fitted : fitted + padding;
      })
      .join(GAP)
      .trimEnd();

  const head = line(heads);
  return `${[strong(head), ...texts.map(line)].join('\n')}\n`;
}

function renderLines(
  heads: readonly string[],
  row: readonly string[],
  width: number,
  strong: (text: string) => string,
): string {
  const indent = Math.max(...heads.map(lengthOf));
  return heads
    .map((head, column) => {
      const value = cut(row[column] ?? '', Math.max(WORD_MAX, width - indent - GAP.length));
      return `${strong(head)}${' '.repeat(indent - lengthOf(head))}${GAP}${value}\n`;
    })
    .join('');
}

/** `name: value` lines with the values aligned. */
export function renderPairs(pairs: readonly (readonly [name: string, value: Cell])[]): string {
  const width = Math.max(0, ...pairs.map(([name]) => name.length));
  return pairs
    .map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}`.trimEnd())
    .join('\n')
    .concat('\n');
}

function cellText(cell: Cell): string {
  return cell == null || cell === '' ? '-' : printable(String(cell));
}

/** To the second on a terminal: what is finer is in the JSON. */
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/;

function canGiveWay(cell: string, width: number): boolean {
  return /\s/.test(cell) || lengthOf(cell) > Math.min(WORD_MAX, width / 2);
}

/** Takes from the widest columns first, until the whole fits; false: it cannot be made to. */
function shrink(widths: number[], least: readonly number[], available: number): boolean {
  let excess = widths.reduce((sum, width) => sum + width, 0) - available;
  while (excess > 0) {
    const spare = widths.map((width, column) => (width > (least[column] ?? Infinity) ? width : 0));
    const widest = spare.indexOf(Math.max(...spare));
    if ((spare[widest] ?? 0) === 0) return false;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  return true;
}

let segmenter: Intl.Segmenter | null = null;

/** As a reader counts them. Nearly all text here is ASCII, and the segmenter costs, to make it and to use it. */
function charactersOf(text: string): string[] {
  if (/^[\u0020-\u007e]*$/.test(text)) return [...text];
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), (part) => part.segment);
}

const lengthOf = (text: string): number => charactersOf(text).length;

function cut(text: string, width: number): string {
  if (lengthOf(text) <= width) return text;
  return `${charactersOf(text)
    .slice(0, width - 1)
    .join('')}…`;
}
