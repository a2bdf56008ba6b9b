import { type Cell, renderTable } from './table.ts';
import { printableJson } from './text.ts';

/** What a command has of the world outside: its settings, and where it writes. */
export interface Cli {
  env: NodeJS.ProcessEnv;
  out: Screen;
  err: Screen;
}

export interface Screen {
  write(text: string): void;
  /** A terminal, where lines are fitted; plain elsewhere. */
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
    // 0 is a terminal that does not know how wide it is.
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

export function writeJson(screen: Screen, value: unknown): void {
  screen.write(`${printableJson(value)}\n`);
}
