import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, extname } from 'node:path';
import { Argument, Command, Option } from 'commander';
import type { ApiClient } from '../ops/api/client.ts';
import { csvLine } from '../ops/csv.ts';
import { UsageError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { changesAsTheyCome, EXPORTED_TABLES, type ExportedTable, rowsOf } from './export/tables.ts';
import { withApi } from './ops-api.ts';
import { helpNote, sinceOption } from './options.ts';
import { progressOn, progressText } from './progress.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

const STANDARD_OUTPUT = '-';

interface ExportFlags {
  format?: 'csv' | 'ndjson';
  force?: true;
  bodies?: true;
  spreadsheet?: true;
  since?: string;
  follow?: true;
}

export function exportCommand(cli: Cli): Command {
  return new Command('export')
    .description('write a table out, whole, as CSV or as JSON lines')
    .addArgument(new Argument('<table>', 'which one').choices(Object.keys(EXPORTED_TABLES)))
    .argument(
      '[file]',
      'file to write, readable for its owner alone; "-" is standard output',
      STANDARD_OUTPUT,
    )
    .addOption(
      new Option('--format <format>', 'default: by the name of the file, else csv').choices([
        'csv',
        'ndjson',
      ]),
    )
    .option('--force', 'replace a file that is there already')
    .option(
      '--bodies',
      'with the raw bodies of events and of quarantined and rejected deliveries, which takes longer',
    )
    .option('--spreadsheet', 'CSV: an apostrophe before what a spreadsheet would run as a formula')
    .addOption(sinceOption())
    .option('--follow', 'changes: go on with each as it is made, to standard output, until Ctrl-C')
    .addHelpText(
      'after',
      helpNote(
        '--since is for tables in the order of time: all but the records.',
        'CSV is as stored (RFC 4180, UTF-8): names come from others, and a spreadsheet takes one that begins with = for a formula. Use --spreadsheet for a file that people will open in one.',
      ),
    )
    .action((name: string, file: string, flags: ExportFlags) =>
      withApi(cli, 'read', (api) => exportTable(cli, api, name, file, flags)),
    );
}

async function exportTable(
  cli: Cli,
  api: ApiClient,
  name: string,
  file: string,
  flags: ExportFlags,
): Promise<void> {
  const table = EXPORTED_TABLES[name]!;
  checkFlags(table, name, file, flags);
  const format = flags.format ?? formatOf(file);
  const total = (await table.total?.(api)) ?? null;
  const target =
    file === STANDARD_OUTPUT
      ? streamTarget(process.stdout)
      : await fileTarget(file, { force: flags.force === true });
  const progress = progressOn(cli.err);
  const stop = flags.follow ? stopSignals({ attached: false }) : null;
  const { since } = flags;
  const source =
    stop === null
      ? rowsOf(table, api, { bodies: flags.bodies === true, since })
      : changesAsTheyCome(api, { since, signal: stop.signal });
  let rows = 0;
  try {
    const { header, line } = writerOf(await table.columns(), format, flags.spreadsheet === true);
    await target.write(header);
    for await (const row of source) {
      await target.write(line(row));
      rows += 1;
      progress.show(() => progressText(`Exporting ${name}`, 'rows', rows, total, cli.err.isTerminal));
    }
    await target.finish();
  } catch (error) {
    await (target as Target).abandon();
    throw error;
  } finally {
    progress.end();
    stop?.release();
  }
  const where = file === STANDARD_OUTPUT ? '' : ` to ${printable(file)}`;
  cli.err.write(`Exported ${rows} ${rows === 1 ? 'row' : 'rows'} of ${name}${where}\n`);
}

function checkFlags(table: ExportedTable, name: string, file: string, flags: ExportFlags): void {
  if (flags.since !== undefined && !table.byTime) {
    throw new UsageError(
      `--since is for tables in the order of time, and ${name} is not one`,
      'export "changes" since then instead',
    );
  }
  if (flags.follow && (name !== 'changes' || file !== STANDARD_OUTPUT)) {
    throw new UsageError('--follow is for "changes", to standard output', 'redirect it to a file');
  }
}

function formatOf(file: string): 'csv' | 'ndjson' {
  const ending = extname(file).toLowerCase();
  if (['.ndjson', '.jsonl', '.json'].includes(ending)) return 'ndjson';
  if (['', '.csv', '.txt'].includes(ending)) return 'csv';
  throw new UsageError(
    `no format is known by the name ${ending}: there are csv and ndjson`,
    'choose one with --format',
  );
}

function writerOf(
  columns: readonly string[],
  format: 'csv' | 'ndjson',
  spreadsheet: boolean,
): { header: string; line: (row: Record<string, unknown>) => string } {
  if (format === 'ndjson') {
    return {
      header: '',
      line: (row) =>
        `${JSON.stringify(Object.fromEntries(columns.map((column) => [column, row[column] ?? null])))}\n`,
    };
  }
  return {
    header: csvLine(columns, { spreadsheet: false }),
    line: (row) =>
      csvLine(
        columns.map((column) => row[column]),
        { spreadsheet },
      ),
  };
}

/** Text gathered before it is written. Characters. */
const GATHERED = 64 * 1024;

export interface Target {
  write(text: string): Promise<void>;
  /** Until here, nobody finds a file of that name. */
  finish(): Promise<void>;
  /** Leaves nothing behind. */
  abandon(): Promise<void>;
}

/** A file that is there whole or not at all, readable for its owner alone: it holds what the database does. */
export async function fileTarget(path: string, options: { force: boolean }): Promise<Target> {
  if (!options.force && existsSync(path)) {
    throw new UsageError(`${path} is there already`, 'choose another name, or add --force');
  }
  if (!existsSync(dirname(path))) throw new UsageError(`there is no folder ${dirname(path)}`);
  const partial = `${path}.${randomBytes(4).toString('hex')}.partial`;
  const file = await open(partial, 'wx', 0o600);
  let gathered = '';
  const flush = async () => {
    await file.writeFile(gathered);
    gathered = '';
  };
  return {
    async write(text) {
      gathered += text;
      if (gathered.length >= GATHERED) await flush();
    },
    async finish() {
      await flush();
      await file.sync();
      await file.close();
      await rename(partial, path);
    },
    async abandon() {
      await file.close().catch(() => undefined);
      await rm(partial, { force: true });
    },
  };
}

/** A stream that others read, at their pace. */
export function streamTarget(stream: NodeJS.WriteStream): Target {
  return {
    async write(text) {
      if (!stream.write(text)) await once(stream, 'drain');
    },
    finish: async () => undefined,
    abandon: async () => undefined,
  };
}
