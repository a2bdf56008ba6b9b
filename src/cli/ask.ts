import { createInterface } from 'node:readline/promises';
import type { Cli } from './cli.ts';

/** What a person types in answer. Null: nobody sits at a terminal. */
export async function ask(cli: Cli, question: string): Promise<string | null> {
  if (!cli.err.isTerminal || process.stdin.isTTY !== true) return null;
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await lines.question(question)).trim();
  } finally {
    lines.close();
  }
}
