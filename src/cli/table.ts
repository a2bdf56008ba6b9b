import { styleText } from 'node:util';
import { printable } from './text.ts';

export type Cell = string | number | boolean | null | undefined;

export interface TableOptions {
  /** Columns of the terminal to fit into; absent: nothing is cut. */
  width?: number | undefined;
  /** Heads in bold and states in their colour, by ANSI sequences. */
  colours?: boolean | undefined;
}

const GAP = '  ';
const NOTHING = '-';
/** A column of prose or JSON that must give way is not cut below this. Characters. */
const NARROWEST = 12;
/** Up to this, what has no blanks in it is an id, an instant or a code, and is never cut: people copy it. Characters. */
const WORD_MAX = 40;

const HEADS_OF_STATES: ReadonlySet<string> = new Set(['VERDICT', 'STATE', 'OUTCOME']);
const COLOURS: Readonly<Record<string, 'green' | 'yellow' | 'red'>> = {
  ...{ in_sync: 'green', processed: 'green', complete: 'green', ok: 'green' },
  ...{ catching_up: 'yellow', pending: 'yellow', stale: 'yellow', unverified: 'yellow' },
  ...{ incomplete: 'yellow', interrupted: 'yellow' },
  ...{ action_required: 'red', unreachable: 'red', failed: 'red', rejected: 'red', quarantined: 'red' },
};

const styled = (style: Parameters<typeof styleText>[0], text: string) =>
  styleText(style, text, { validateStream: false });

function inItsColour(state: string): string {
  const colour = COLOURS[state];
  return colour === undefined ? state : styled(colour, state);
}

/**
 * Rows under aligned heads, one line each; numbers to the right. Where they do not fit into the terminal, empty columns go, then
 * instants lose their year, prose is cut, and last the columns from the right go, which the last line names: an id is never
 * cut. Cells may hold anything: what a terminal would obey is escaped. Ends with a newline.
 */
export function renderTable(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  { width, colours = false }: TableOptions = {},
): string {
  const isNumber = (row: readonly Cell[], column: number) => typeof row[column] === 'number';
  const columns = heads.map((head, column): Column => {
    const texts = rows.map((row) => cellText(row[column]));
    return {
      head,
      texts: width === undefined ? texts : texts.map((text) => text.replace(INSTANT, '$1Z')),
      isRightward:
        rows.some((row) => isNumber(row, column)) &&
        rows.every((row) => row[column] == null || isNumber(row, column)),
    };
  });
  const { shown, widths } = width === undefined ? asWideAsItIs(columns) : fitted(columns, width);
  const strong = (text: string) => (colours ? styled('bold', text) : text);
  const line = (cells: readonly string[]) =>
    shown
      .map(({ head, isRightward }, nth) => {
        const text = cut(cells[nth] ?? '', widths[nth] ?? 0);
        const padding = ' '.repeat((widths[nth] ?? 0) - lengthOf(text));
        const painted = colours && HEADS_OF_STATES.has(head) ? inItsColour(text) : text;
        return isRightward ? padding + painted : painted + padding;
      })
      .join(GAP)
      .trimEnd();

  const head = strong(line(shown.map((column) => column.head)));
  const lines = rows.map((_, row) => line(shown.map(({ texts }) => texts[row] ?? '')));
  const missing = columns.filter(
    (column) => !isEmpty(column) && !shown.some((one) => one.head === column.head),
  );
  const names = missing.map((column) => column.head).join(', ');
  const note = names === '' ? [] : [`(a wider terminal shows ${names}, too)`];
  return `${[head, ...lines, ...note].join('\n')}\n`;
}

interface Column {
  head: string;
  texts: readonly string[];
  isRightward: boolean;
}

interface Layout {
  shown: readonly Column[];
  widths: readonly number[];
}

const isEmpty = ({ texts }: Column) => texts.every((text) => text === NOTHING);

const asWideAsItIs = (shown: readonly Column[]): Layout => ({
  shown,
  widths: shown.map(({ head, texts }) => Math.max(...[head, ...texts].map(lengthOf))),
});

function fitted(columns: readonly Column[], width: number): Layout {
  const isFitting = ({ widths }: Layout) =>
    widths.reduce((sum, each) => sum + each, GAP.length * (widths.length - 1)) <= width;
  const whole = asWideAsItIs(columns);
  if (isFitting(whole)) return whole;
  for (
    let shown = columns.filter((column) => !isEmpty(column)).map(withoutYear);
    ;
    shown = shown.slice(0, -1)
  ) {
    const layout = asWideAsItIs(shown);
    const { widths } = layout;
    const least = shown.map(({ head, texts }) =>
      texts.some((text) => canGiveWay(text, width)) ? Math.max(NARROWEST, lengthOf(head)) : Infinity,
    );
    if (isFitting(layout)) return layout;
    const narrowed = shrunk(widths, least, width - GAP.length * (shown.length - 1));
    if (narrowed !== null) return { shown, widths: narrowed };
    if (shown.length <= 1) return { shown, widths: [width] };
  }
}

/** Where all of a column are of one year. */
function withoutYear(column: Column): Column {
  const years = new Set(
    column.texts.filter((text) => text !== NOTHING).map((text) => TO_THE_SECOND.exec(text)?.[1]),
  );
  if (years.size !== 1 || years.has(undefined)) return column;
  return { ...column, texts: column.texts.map((text) => text.replace(TO_THE_SECOND, '$2 $3')) };
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
  return cell == null || cell === '' ? NOTHING : printable(String(cell));
}

/** To the second on a terminal: what is finer is in the JSON. */
const TO_THE_SECOND = /^(\d{4})-(\d\d-\d\d)T(\d\d:\d\d:\d\d)Z$/;
const SHORT_INSTANT = /^\d\d-\d\d \d\d:\d\d:\d\d$/;
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/;

function canGiveWay(cell: string, width: number): boolean {
  if (TO_THE_SECOND.test(cell) || SHORT_INSTANT.test(cell)) return false;
  return /\s/.test(cell) || lengthOf(cell) > Math.min(WORD_MAX, width / 2);
}

/** Takes from the widest columns first, until the whole fits; null: it cannot be made to. */
function shrunk(given: readonly number[], least: readonly number[], available: number): number[] | null {
  const widths = [...given];
  let excess = widths.reduce((sum, width) => sum + width, 0) - available;
  while (excess > 0) {
    const spare = widths.map((width, column) => (width > (least[column] ?? Infinity) ? width : 0));
    const widest = spare.indexOf(Math.max(...spare));
    if ((spare[widest] ?? 0) === 0) return null;
    widths[widest] = (widths[widest] ?? 0) - 1;
    excess -= 1;
  }
  return widths;
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
