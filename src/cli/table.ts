import { styleText } from 'node:util';
import { printable } from './text.ts';

export type Cell = string | number | boolean | null | undefined;

interface TableOptions {
  /** Columns of the terminal to fit into; absent: nothing is cut. */
  width?: number | undefined;
  /** Heads in bold and states in their colour, by ANSI sequences. */
  colours?: boolean | undefined;
}

const GAP = '  ';
const NOTHING = '-';
/** A column of text or JSON is not cut below this width. Characters. */
const NARROWEST = 12;
/** A text without blanks up to this length is an id, an instant or a code, which people copy: it is never cut. Characters. */
const WORD_MAX = 40;

const HEADS_OF_STATES: ReadonlySet<string> = new Set(['VERDICT', 'STATE', 'OUTCOME']);
const COLOURS: Readonly<Record<string, 'green' | 'yellow' | 'red'>> = {
  in_sync: 'green',
  processed: 'green',
  complete: 'green',
  ok: 'green',
  catching_up: 'yellow',
  pending: 'yellow',
  stale: 'yellow',
  unverified: 'yellow',
  incomplete: 'yellow',
  interrupted: 'yellow',
  action_required: 'red',
  unreachable: 'red',
  failed: 'red',
  rejected: 'red',
  quarantined: 'red',
};

const styled = (style: Parameters<typeof styleText>[0], text: string) =>
  styleText(style, text, { validateStream: false });

/**
 * Rows under aligned heads, one line each; numbers to the right. If the table is too wide for the terminal, empty columns are left
 * out and instants lose their year; then texts are cut, but no ids; at last columns are left out from the right, and the last line
 * names them. Control characters in cells are escaped. Ends with a newline.
 */
export function renderTable(
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
  { width, colours = false }: TableOptions = {},
): string {
  const columns = heads.map((head, nth): Column => {
    const cells = rows.map((row) => row[nth] ?? null);
    const texts = cells.map(cellText);
    const shown = width === undefined ? texts : texts.map((text) => text.replace(INSTANT, '$1Z'));
    const kinds = new Set(cells.map((cell) => (cell === null ? null : typeof cell)));
    return measured({ head, texts: shown, isRightward: kinds.has('number') && [...kinds].every(isNumeric) });
  });
  const shown = width === undefined ? columns : fitted(columns, width);
  const line = (textOf: (column: Column) => string | undefined) =>
    shown
      .map((column) => {
        const text = cut(textOf(column) ?? '', column.width);
        const padding = ' '.repeat(column.width - lengthOf(text));
        const colour = colours && HEADS_OF_STATES.has(column.head) ? COLOURS[text] : undefined;
        const painted = colour === undefined ? text : styled(colour, text);
        return column.isRightward ? padding + painted : painted + padding;
      })
      .join(GAP)
      .trimEnd();

  const head = line((column) => column.head);
  const lines = rows.map((_, nth) => line(({ texts }) => texts[nth]));
  const missing = columns.filter(
    (column) => !isEmpty(column) && !shown.some((one) => one.head === column.head),
  );
  const names = missing.map((column) => column.head).join(', ');
  const note = names === '' ? [] : [`(a wider terminal shows ${names}, too)`];
  return `${[colours ? styled('bold', head) : head, ...lines, ...note].join('\n')}\n`;
}

interface Column {
  head: string;
  texts: readonly string[];
  isRightward: boolean;
  width: number;
}

const isNumeric = (kind: string | null) => kind === 'number' || kind === null;
const isEmpty = ({ texts }: Column) => texts.every((text) => text === NOTHING);

const measured = (column: Omit<Column, 'width'>): Column => ({
  ...column,
  width: Math.max(...[column.head, ...column.texts].map(lengthOf)),
});

function fitted(columns: readonly Column[], width: number): readonly Column[] {
  const excessOf = (shown: readonly Column[]) =>
    shown.reduce((sum, each) => sum + GAP.length + each.width, -GAP.length) - width;
  if (excessOf(columns) <= 0) return columns;
  let shown = columns.filter((column) => !isEmpty(column)).map(withoutYear);
  for (; shown.length > 1; shown = shown.slice(0, -1)) {
    const narrow = narrowed(shown, excessOf(shown), width);
    if (narrow !== null) return narrow;
  }
  return shown.map((column) => ({ ...column, width: Math.min(column.width, width) }));
}

/** Makes the widest columns narrower first, as far as their ids allow; null: that is not enough. */
function narrowed(columns: readonly Column[], excess: number, available: number): Column[] | null {
  const narrow = columns.map((column) => {
    const kept = [column.head, ...column.texts.filter((text) => !canGiveWay(text, available))];
    return { ...column, narrowest: Math.max(NARROWEST, ...kept.map(lengthOf)) };
  });
  for (let left = excess; left > 0; left -= 1) {
    const [widest] = narrow
      .filter(({ narrowest, width }) => width > narrowest)
      .sort((a, b) => b.width - a.width);
    if (widest === undefined) return null;
    widest.width -= 1;
  }
  return narrow;
}

/** Leaves out the year if all instants of the column are of one year. */
function withoutYear(column: Column): Column {
  const years = new Set(
    column.texts.filter((text) => text !== NOTHING).map((text) => TO_THE_SECOND.exec(text)?.[1]),
  );
  if (years.size !== 1 || years.has(undefined)) return column;
  return measured({ ...column, texts: column.texts.map((text) => text.replace(TO_THE_SECOND, '$2 $3')) });
}

/** `name: value` lines with the values aligned. */
export function renderPairs(pairs: readonly (readonly [name: string, value: Cell])[]): string {
  // A name may be a record's field, which may hold any text.
  const shown = pairs.map(([name, value]) => [printable(name), cellText(value)] as const);
  const width = Math.max(0, ...shown.map(([name]) => lengthOf(name)));
  return shown
    .map(([name, value]) => `${name}${' '.repeat(width - lengthOf(name))}  ${value}`.trimEnd())
    .join('\n')
    .concat('\n');
}

function cellText(cell: Cell): string {
  return cell == null || cell === '' ? NOTHING : printable(String(cell));
}

/** A terminal shows whole seconds. JSON shows the fractions too. */
const TO_THE_SECOND = /^(\d{4})-(\d\d-\d\d)T(\d\d:\d\d:\d\d)Z$/;
const SHORT_INSTANT = /^\d\d-\d\d \d\d:\d\d:\d\d$/;
const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.\d+Z$/;

function canGiveWay(cell: string, width: number): boolean {
  if (TO_THE_SECOND.test(cell) || SHORT_INSTANT.test(cell)) return false;
  return /\s/.test(cell) || lengthOf(cell) > Math.min(WORD_MAX, width / 2);
}

let segmenter: Intl.Segmenter | null = null;

/** Characters as a reader counts them. Nearly all text here is ASCII, which needs no segmenter. */
function charactersOf(text: string): string[] {
  if (/^[\u0020-\u007e]*$/.test(text)) return [...text];
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), (part) => part.segment);
}

/** What a terminal shows in two columns: emoji, and the scripts of East Asia. */
const WIDE =
  /^(?:\p{Emoji_Presentation}|.\ufe0f|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}])/u;

/** Columns of a terminal. */
const widthOf = (character: string): number => (WIDE.test(character) ? 2 : 1);
const lengthOf = (text: string): number =>
  charactersOf(text).reduce((sum, character) => sum + widthOf(character), 0);

function cut(text: string, width: number): string {
  if (lengthOf(text) <= width) return text;
  let kept = '';
  let left = width - 1;
  for (const character of charactersOf(text)) {
    left -= widthOf(character);
    if (left < 0) break;
    kept += character;
  }
  return `${kept}…`;
}
