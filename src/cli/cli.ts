import stringWidth from 'string-width';
import wrapAnsi from 'wrap-ansi';
import { type Cell, renderTable } from './table.ts';
import { printable, printableJson } from './text.ts';

/** A command's surroundings: its settings, and where it writes. */
export interface Cli {
  env: NodeJS.ProcessEnv;
  out: Screen;
  err: Screen;
}

export interface Screen {
  write(text: string): void;
  /** Tables are fitted to a terminal's width, and plain elsewhere. */
  isTerminal: boolean;
  columns: number | undefined;
}

export function screenOf(stream: NodeJS.WriteStream): Screen {
  return {
    write: (text) => void stream.write(text),
    isTerminal: stream.isTTY === true,
    // A terminal that does not know its width has 0 columns.
    columns: stream.columns || undefined,
  };
}

/** The same screen, for prose alone: on a terminal all of it is wrapped at words. */
export function proseScreen(screen: Screen): Screen {
  const { columns, isTerminal } = screen;
  if (!isTerminal || columns === undefined) return screen;
  return { ...screen, write: (text) => screen.write(wrapped(text, columns)) };
}

/** Lines that are too long are broken at words, below their text, which may stand behind a sign such as “ok”. Words never break: people copy them. */
function wrapped(text: string, columns: number): string {
  const linesOf = (line: string) => {
    if (stringWidth(line) <= columns) return line;
    const sign = /^(?:[A-Za-z-]{1,5} {2,}| *)/.exec(line)![0];
    const parts = wrapAnsi(line.slice(sign.length).trim(), columns - sign.length).split('\n');
    return sign + parts.join(`\n${' '.repeat(sign.length)}`);
  };
  return text.split('\n').map(linesOf).join('\n');
}

/** A paragraph. */
export function writeText(screen: Screen, text: string): void {
  proseScreen(screen).write(`${printable(text)}\n`);
}

/** `heads` null: lines of names and values. `kept`: the heads of columns that never go, however narrow the terminal is. */
export function writeTable(
  screen: Screen,
  heads: readonly string[] | null,
  rows: readonly (readonly Cell[])[],
  kept: readonly string[] = [],
): void {
  const width = screen.isTerminal ? screen.columns : undefined;
  if (rows.length > 0) screen.write(renderTable(heads, rows, { width, kept }));
}

/** Each column is a field under its own name, or a head with a field or with a function of the row. */
export type Columns<R> = readonly (FieldOf<R> | readonly [head: string, FieldOf<R> | ((row: R) => Cell)])[];
type FieldOf<R> = keyof R & string;

export function writeRows<R>(
  screen: Screen,
  rows: readonly R[],
  columns: Columns<R>,
  kept: readonly string[] = [],
): void {
  const named = columns.map((each) => (typeof each === 'string' ? ([headOf(each), each] as const) : each));
  const cells = (row: R) =>
    named.map(([, of]) => (typeof of === 'function' ? of(row) : (cellOf(row[of]) as Cell)));
  writeTable(
    screen,
    named.map(([head]) => head),
    rows.map(cells),
    kept,
  );
}

const headOf = (field: string) =>
  field
    .replace(/_(at|id)$/, '')
    .replaceAll('_', ' ')
    .toUpperCase();
const cellOf = (value: unknown) => (isObject(value) ? JSON.stringify(value) : value);
export const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

export function writeJson(screen: Screen, value: unknown): void {
  screen.write(`${printableJson(value)}\n`);
}
