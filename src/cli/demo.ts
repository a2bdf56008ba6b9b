import { Command, InvalidArgumentError } from 'commander';
import type { Printer } from '../../sandbox/demo/repairs.ts';
import { type Cli, writeTable, writeText } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, parseDuration, parsePort } from './options.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface DemoOptions {
  for?: number;
  tamper?: true;
  sandboxPort: number;
}

/** In a shorter run hardly anything would go wrong. */
const SHORTEST_RUN_MS = 4_000;

export function demoCommand(cli: Cli): Command {
  return new Command('demo')
    .description('the whole job with nothing configured, on loopback')
    .option('--for <time>', 'end by itself after this time; default: at Ctrl-C', parseRunLength)
    .option('--tamper', "edit a row behind the mirror's back before the comparison, which must find it")
    .option('--sandbox-port <port>', "the sandbox's port; 0: any free one", parsePort, 0)
    .addHelpText(
      'after',
      helpNote(
        'Half a minute of trouble and half a minute of quiet, in turns. At the end it prints what differed and what repaired it, compares both sides record by record, and exits with 0 only if they are equal, otherwise with 3.',
      ),
    )
    .action((options: DemoOptions) => demo(cli, options));
}

async function demo(cli: Cli, options: DemoOptions): Promise<void> {
  using stop = stopSignals({ read: true });
  const screen: Printer = {
    write: (...lines) => {
      for (const line of lines) writeText(cli.out, line);
    },
    table: (heads, rows) => writeTable(cli.out, heads, rows),
  };
  screen.write('Starting the sandbox and the mirror …');
  // Imported only here: `--help` needs no web server.
  const { runDemo } = await import('../../sandbox/demo/run.ts');
  const settings = {
    env: cli.env,
    sandboxPort: options.sandboxPort,
    runMs: options.for ?? Number.POSITIVE_INFINITY,
    tamper: options.tamper === true,
    signal: stop.signal,
  };
  const differing = await runDemo(screen, settings, (directory) =>
    cli.err.write(`The log and the database of this run are kept in ${directory}\n`),
  );
  if (differing.length === 0) return;
  throw new DifferenceFound(['mirror and upstream differ', ...differing.map(printable)].join('\n'));
}

function parseRunLength(text: string): number {
  const milliseconds = parseDuration(text);
  if (milliseconds >= SHORTEST_RUN_MS) return milliseconds;
  throw new InvalidArgumentError(`It takes at least ${SHORTEST_RUN_MS / 1000}s.`);
}
