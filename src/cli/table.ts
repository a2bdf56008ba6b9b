import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';
import { printable } from './text.ts';

export type Cell = string | number | boolean | bigint | null | undefined;

const NOTHING = '-';
/** Between columns; the second if columns would go otherwise. */
const GAPS = ['  ', ' '] as const;
/** An id, an instant or a code up to this length is never broken: people copy it. Columns of a terminal. */
const WORD_MAX = 40;

/** Of a cell on a terminal: characters at most, and columns at least. */
const TEXT_MAX = 600;
const TEXT_MIN = 12;

/**
 * Rows under their heads (null: none). With a `width`, words wrap into the lines of their column; if that is not enough, columns go
 * from the right, but never one in `kept`, and the last line names them. Control characters in cells are escaped. Ends with a newline.
 */
export function renderTable(
  heads: readonly string[] | null,
  rows: readonly (readonly Cell[])[],
  options: { width?: number | undefined; kept?: readonly string[] } = {},
): string {
  const { width = Number.POSITIVE_INFINITY, kept = [] } = options;
  const texts = rows.map((row) => row.map((cell) => textOf(cell, width)));
  const columns = (heads ?? texts[0] ?? []).map((head, nth) => {
    const cells = texts.map((row) => row[nth] ?? NOTHING);
    const all = heads === null ? cells : [head, ...cells];
    const words = all.flatMap((text) => text.split(' ')).map(narrowestOf);
    return {
      nth,
      head,
      isEmpty: heads !== null && cells.every((text) => text === NOTHING),
      isRightward: rows.every((row) => row[nth] == null || typeof row[nth] === 'number'),
      narrowest: Math.max(...words),
      width: Math.max(...all.map((text) => stringWidth(text))),
    } as const;
  });
  const { shown, gone, gap } = fitted(columns, width, kept);
  const line = (cellOf: (column: (typeof columns)[number]) => string) => {
    // Wrapping changes what is not in Unicode's composed form: only a terminal gets that.
    const cells = shown.map((column) =>
      width === Number.POSITIVE_INFINITY
        ? [cellOf(column)]
        : wrapAnsi(cellOf(column), column.width, { hard: true }).split('\n'),
    );
    const height = Math.max(...cells.map(({ length }) => length));
    return Array.from({ length: height }, (_, nth) =>
      shown
        .map(({ width, isRightward }, column) => padded(cells[column]![nth] ?? '', width, isRightward))
        .join(gap)
        .trimEnd(),
    );
  };
  const lines = [
    ...(heads === null ? [] : line(({ head }) => head)),
    ...texts.flatMap((row) => line(({ nth }) => row[nth]!)),
  ];
  const note = gone.length === 0 ? '' : `(a wider terminal shows ${gone.join(', ')}, too)\n`;
  return `${lines.join('\n')}\n${note}`;
}

/** Scripts without blanks between words may break anywhere. */
const narrowestOf = (word: string) =>
  Math.min(stringWidth(word), /^[!-~]*$/.test(word) ? WORD_MAX : TEXT_MIN);

interface Column {
  head: string;
  isEmpty: boolean;
  narrowest: number;
  width: number;
}

/** Makes the widest columns narrower, then the gaps, then leaves columns out. Pure. */
function fitted<C extends Column>(columns: readonly C[], width: number, kept: readonly string[]) {
  let gap: string = GAPS[0];
  const excess = (of: 'narrowest' | 'width', some: readonly C[]) =>
    some.reduce((sum, column) => sum + column[of] + gap.length, -gap.length) - width;
  let shown = excess('width', columns) <= 0 ? [...columns] : columns.filter(({ isEmpty }) => !isEmpty);
  if (excess('narrowest', shown) > 0) gap = GAPS[1];
  const gone: string[] = [];
  while (excess('narrowest', shown) > 0) {
    const last = shown.findLast(({ head }, nth) => nth > 0 && !kept.includes(head));
    if (last === undefined) break;
    gone.unshift(last.head);
    shown = shown.filter((column) => column !== last);
  }
  for (let left = excess('width', shown); left > 0; left -= 1) {
    const widths = shown.filter((column) => column.width > column.narrowest);
    const widest = (widths.length > 0 ? widths : shown).toSorted((a, b) => b.width - a.width)[0]!;
    widest.width -= 1;
  }
  return { shown, gone, gap };
}

function padded(text: string, width: number, isRightward: boolean): string {
  const blanks = ' '.repeat(Math.max(0, width - stringWidth(text)));
  return isRightward ? blanks + text : text + blanks;
}

const INSTANT = /^(\d{4}-)(\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z$/;

/** A terminal shows whole seconds, no year where it is this one, and only the beginning of a long text: nobody reads more in a table. */
function textOf(cell: Cell, width: number): string {
  const all = cell == null || cell === '' ? NOTHING : printable(String(cell));
  if (width === Number.POSITIVE_INFINITY) return all;
  const text = all.length > TEXT_MAX ? `${all.slice(0, TEXT_MAX)}…` : all;
  const thisYear = `${new Date().getUTCFullYear()}-`;
  return text.replace(INSTANT, (_, year, day, time) => `${year === thisYear ? '' : year}${day} ${time}Z`);
}
