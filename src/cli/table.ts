import { printable } from './text.ts';

export type Cell = string | number | boolean | null | undefined;

export interface TableOptions {
  /** Columns of the terminal to fit into; absent: nothing is cut. */
  width?: number | undefined;
  /** Head in bold, by ANSI sequences. */
  bold?: boolean | undefined;
}

const GAP = '  ';
/** A column that must give way is not cut below this, so that ids stay recognisable. Characters. */
const NARROWEST = 12;

/**
 * Rows under aligned heads, one line each; numbers to the right. Cells may hold anything: what a terminal
 * would obey is escaped. Ends with a newline.
 */
export function renderTable(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  options: TableOptions = {},
): string {
  const texts = rows.map((row) => heads.map((_, column) => cellText(row[column])));
  const widths = heads.map((head, column) =>
    Math.max(lengthOf(head), ...texts.map((row) => lengthOf(row[column] ?? ''))),
  );
  if (options.width !== undefined) shrink(widths, options.width - GAP.length * (heads.length - 1));

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
  return `${[options.bold ? `\u001b[1m${head}\u001b[22m` : head, ...texts.map(line)].join('\n')}\n`;
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

/** Takes from the widest columns first, until the whole fits or nothing more can be taken. */
function shrink(widths: number[], available: number): void {
  let excess = widths.reduce((sum, width) => sum + width, 0) - available;
  while (excess > 0) {
    const widest = widths.indexOf(Math.max(...widths));
    if ((widths[widest] ?? 0) <= NARROWEST) return;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
}

const characters = new Intl.Segmenter('en', { granularity: 'grapheme' });

function lengthOf(text: string): number {
  // The segmenter costs, and nearly all text here is ASCII.
  return /^[\u0020-\u007e]*$/.test(text) ? text.length : [...characters.segment(text)].length;
}

function cut(text: string, width: number): string {
  if (lengthOf(text) <= width) return text;
  const kept = [...characters.segment(text)].slice(0, width - 1).map((part) => part.segment);
  return `${kept.join('')}…`;
}
