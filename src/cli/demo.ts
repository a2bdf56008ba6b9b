import { randomInt } from 'node:crypto';
import { Command, InvalidArgumentError } from 'commander';
import type { Printer } from '../../sandbox/demo/report.ts';
import { keepRunning, runOnce } from '../../sandbox/demo/run.ts';
import { withServices } from '../../sandbox/demo/services.ts';
import { MirrorError } from '../platform/errors.ts';
import { type Cli, writeTable } from './cli.ts';
import { DifferenceFound } from './exit.ts';
import { integerBetween, parseDuration, parsePort } from './options.ts';
import { aborted, stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface DemoOptions {
  for?: number;
  tamper?: true;
  postgres?: true;
  sandboxPort: number;
  shapes?: number;
}

/** In a shorter run the staged scenarios would overlap. */
const SHORTEST_RUN_MS = 4_000;
/** Short, but long enough to see a difference last for a while. Minutes. */
const ENDLESS_FULL_SYNC_MINUTES = 0.5;
/** The largest number that is drawn for SANDBOX_SHAPES=draw:NUMBER. It is short enough to type. */
const LARGEST_DRAW = 999_999;

export function demoCommand(cli: Cli): Command {
  return new Command('demo')
    .description('the whole job with nothing configured: the sandbox and the mirror, on loopback')
    .option(
      '--for <time>',
      'run this long, then compare record by record: exits 0 only if all are equal; default: until Ctrl-C',
      parseRunLength,
    )
    .option('--tamper', "edit a row behind the mirror's back before the last comparison, which must find it")
    .option('--postgres', 'two replicas over a real PostgreSQL from a package, deliveries spread over both')
    .option('--sandbox-port <port>', "the sandbox's port; 0: any free one", parsePort, 0)
    .option(
      '--shapes <number>',
      'the form of the sandbox’s answers and events, as SANDBOX_SHAPES=draw:NUMBER draws it (default: a new one each time)',
      integerBetween(0, LARGEST_DRAW),
    )
    .action((options: DemoOptions, command: Command) => {
      if (options.tamper && options.for === undefined) {
        command.error("error: option '--tamper' needs '--for', since nothing is compared otherwise");
      }
      return demo(cli, options);
    });
}

async function demo(cli: Cli, options: DemoOptions): Promise<void> {
  using stop = stopSignals({ read: true });
  const screen: Printer = {
    write: (...lines) => cli.out.write(lines.map((line) => `${printable(line)}\n`).join('')),
    table: (heads, rows) => writeTable(cli.out, heads, rows),
  };
  const settings = {
    env: cli.env,
    sandboxPort: options.sandboxPort,
    postgres: options.postgres === true,
    shapes: options.shapes ?? randomInt(LARGEST_DRAW + 1),
    fullSyncMinutes: options.for === undefined ? ENDLESS_FULL_SYNC_MINUTES : 0,
  };
  const keep = (error: unknown, directory: string): boolean => {
    const isExpected = stop.signal.aborted || (options.tamper === true && error instanceof DifferenceFound);
    if (!isExpected)
      cli.err.write(`Logs and database of this run (--shapes ${settings.shapes}) are kept in ${directory}\n`);
    return !isExpected;
  };
  const stopped = new MirrorError('interrupted', 'stopped before anything was compared');
  const interrupted = aborted(stop.signal).then(() => {
    throw stopped;
  });
  // It is awaited below. Until then its rejection must not count as unhandled.
  interrupted.catch(() => {});
  // Printed first, because PostgreSQL takes half a minute to start on a small machine.
  const database = settings.postgres ? 'a PostgreSQL, ' : '';
  screen.write(`Starting ${database}the sandbox and the mirror, and setting the mirror up …`);
  await withServices(settings, keep, async (services) => {
    if (options.for === undefined) {
      await Promise.race([keepRunning(screen, services, stop.signal), services.failed]);
      return;
    }
    const run = { runMs: options.for, tamper: options.tamper === true, signal: stop.signal };
    const differing = await Promise.race([runOnce(screen, services, run), services.failed, interrupted]);
    if (differing.length === 0) return;
    throw new DifferenceFound(['mirror and upstream differ', ...differing.map(printable)].join('\n'));
  }).catch((error: unknown) => {
    // Ctrl-C ends the command "setup", too, which then fails without a word.
    if (!stop.signal.aborted || error instanceof DifferenceFound) throw error;
    if (options.for !== undefined) throw stopped;
  });
}

function parseRunLength(text: string): number {
  const milliseconds = parseDuration(text);
  if (milliseconds >= SHORTEST_RUN_MS) return milliseconds;
  throw new InvalidArgumentError(`It takes at least ${SHORTEST_RUN_MS / 1000}s.`);
}
