import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { Argument, Command } from 'commander';
import { loadConfig } from '../platform/config.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { engines } from './database.ts';
import { csvOf, rowsOf, wantedOf } from './lists.ts';
import { helpNote } from './options.ts';
import { type Service, withService } from './service.ts';
import { stopSignals } from './stop-signals.ts';
import { linesForTerminal, printable } from './text.ts';
import { EXPORTS } from './things.ts';

interface ExportFlags {
  ndjson?: true;
  force?: true;
}

export function exportCommand(cli: Cli): Command {
  return new Command('export')
    .description('write a whole table out, as CSV or lines of JSON')
    .addArgument(new Argument('<thing>', 'which one').choices(Object.keys(EXPORTS)))
    .argument('[file]', 'file to write, readable for its owner alone; none: standard output')
    .option('--ndjson', 'a line of JSON for each row')
    .option('--force', 'replace a file that is there already')
    .addHelpText(
      'after',
      helpNote(
        'CSV is as stored (RFC 4180, UTF-8), with a typed column for each field of records. Names come from others: a spreadsheet may take one that begins with = for a formula.',
      ),
    )
    .action((name: string, file: string | undefined, flags: ExportFlags) =>
      withService(cli, (service) => exportThing(cli, service, name, file, flags)),
    );
}

async function exportThing(
  cli: Cli,
  service: Service,
  name: string,
  file: string | undefined,
  { ndjson, force }: ExportFlags,
): Promise<void> {
  const thing = EXPORTS[name]!;
  const wanted = wantedOf(thing, []);
  if (file !== undefined) await checkTarget(cli, file, force === true);
  const source = ndjson
    ? jsonLines(rowsOf(service, thing, { ...wanted, typed: true }))
    : csvOf(service, thing, wanted);
  if (file === undefined) {
    for await (const text of source) {
      // A pipeline would close standard output at the first error.
      if (!process.stdout.write(cli.out.isTerminal ? linesForTerminal(text) : text))
        await once(process.stdout, 'drain');
    }
    return;
  }
  using stop = stopSignals();
  await writeFile(file, source, stop.signal);
  cli.err.write(`Exported ${name} to ${printable(file)}\n`);
}

/** A whole number that most readers would round is a text. */
function exact(this: Record<string, unknown>, name: string, value: unknown): unknown {
  return typeof this[name] === 'bigint' ? String(this[name]) : value;
}

async function* jsonLines(rows: AsyncIterable<object>) {
  for await (const row of rows) yield `${JSON.stringify(row, exact)}\n`;
}

/** Writes the whole file or none. Only its owner may read it, because it holds what the database holds. */
async function writeFile(path: string, lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
  const partial = `${path}.${randomBytes(4).toString('hex')}.partial`;
  const file = await open(partial, 'wx', 0o600).catch((error: unknown) => {
    throw new UsageError(`cannot write ${path}: ${describeError(error)}`, 'name a file in a writable folder');
  });
  try {
    await pipeline(lines, file.createWriteStream({ flush: true }), { signal });
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw signal.aborted ? new MirrorError('stopped', 'stopped; nothing is left of the attempt') : error;
  }
}

/** @throws UsageError for a path that must not be replaced: the database, a device, and without `force` any other file. */
async function checkTarget({ env }: Cli, path: string, force: boolean): Promise<void> {
  if ((await engines()).isPartOfDatabase(loadConfig(env).databaseUrl, path)) {
    throw new UsageError(`${path} is the database itself`, 'name another file');
  }
  if (!existsSync(path)) return;
  if (!statSync(path).isFile())
    throw new UsageError(`${path} is not a file`, 'without a file, standard output is used');
  if (!force) throw new UsageError(`${path} is there already`, 'choose another name, or add --force');
}
