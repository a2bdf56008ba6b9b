import { type Cell, renderTable } from './table.ts';
import { printableJson } from './text.ts';

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
  /** A terminal with colours, and nobody has set NO_COLOR. */
  hasColours: boolean;
  columns: number | undefined;
}

export function screenOf(stream: NodeJS.WriteStream): Screen {
  return {
    write: (text) => void stream.write(text),
    isTerminal: stream.isTTY === true,
    hasColours: stream.isTTY === true && stream.hasColors(),
    // A terminal that does not know its width has 0 columns.
    columns: stream.columns || undefined,
  };
}

export function writeTable(
  screen: Screen,
  heads: readonly string[],
  rows: readonly (readonly Cell[])[],
): void {
  if (rows.length === 0) {
    screen.write('(none)\n');
    return;
  }
  const width = screen.isTerminal ? screen.columns : undefined;
  screen.write(renderTable(heads, rows, { width, colours: screen.hasColours }));
}

/** Each column is a field under its own name, or a head with a field or with a function of the row. */
export type Columns<Row> = readonly (
  | FieldOf<Row>
  | readonly [head: string, FieldOf<Row> | ((row: Row) => Cell)]
)[];
type FieldOf<Row> = keyof Row & string;

export function writeRows<Row>(screen: Screen, rows: readonly Row[], columns: Columns<Row>): void {
  const named = columns.map((column) =>
    typeof column === 'string' ? ([headOf(column), column] as const) : column,
  );
  writeTable(
    screen,
    named.map(([head]) => head),
    rows.map((row) => named.map(([, cell]) => (typeof cell === 'function' ? cell(row) : cellOf(row[cell])))),
  );
}

const headOf = (field: string) =>
  field
    .replace(/_(at|id)$/, '')
    .replaceAll('_', ' ')
    .toUpperCase();
const cellOf = (value: unknown) => (isObject(value) ? JSON.stringify(value) : value) as Cell;
export const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

export function writeJson(screen: Screen, value: unknown): void {
  screen.write(`${printableJson(value)}\n`);
}
