import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, statSync } from 'node:fs';
import { open, rename, rm } from 'node:fs/promises';
import { dirname, extname } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { Argument, Command, Option } from 'commander';
import type { Kind } from '../compliance/kinds.ts';
import { type ApiClient, answered, at, found } from '../ops/api/client.ts';
import { csvLine } from '../ops/csv.ts';
import { loadConfig } from '../platform/config.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX, type Paging, type Period, recordColumns } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { engines } from './database.ts';
import type { ListPage } from './lists.ts';
import { withApi } from './ops-api.ts';
import { helpNote, sinceOption } from './options.ts';
import { progressOn, progressText } from './progress.ts';
import { stopSignals } from './stop-signals.ts';
import { linesForTerminal, printable } from './text.ts';

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
      'include the bodies of events and of quarantined and rejected deliveries, which takes longer',
    )
    .option('--spreadsheet', 'CSV: an apostrophe before what a spreadsheet would run as a formula')
    .addOption(sinceOption())
    .option('--follow', 'changes: then print each new one to standard output, until Ctrl-C')
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
  if (file !== STANDARD_OUTPUT) await checkTarget(cli, file, flags.force === true);
  const { header, line } = writerOf(await table.columns(), flags.format ?? formatOf(file), flags);
  const total = (await table.total?.(api)) ?? null;
  using progress = progressOn(cli.err);
  // A signal may end an export to standard output at any row.
  using stop = flags.follow || file !== STANDARD_OUTPUT ? stopSignals() : null;
  const { since } = flags;
  const source =
    flags.follow && stop !== null
      ? changesAsTheyCome(api, { since, signal: stop.signal })
      : rowsOf(table, api, { bodies: flags.bodies === true, since });
  let rows = 0;
  async function* lines() {
    yield header;
    for await (const row of source) {
      yield line(row);
      rows += 1;
      progress.show(() => progressText(`Exporting ${name}`, rows, total, cli.err.isTerminal));
    }
  }
  if (file === STANDARD_OUTPUT || stop === null) await print(lines(), cli.out);
  else await writeFile(file, lines(), stop.signal);
  progress.end();
  const where = file === STANDARD_OUTPUT ? '' : ` to ${printable(file)}`;
  cli.err.write(`Exported ${rows} ${rows === 1 ? 'row' : 'rows'} of ${name}${where}\n`);
}

/** Writes lines as fast as they are read, escaped on a terminal. A pipeline would close standard output at the first error. */
async function print(lines: AsyncIterable<string>, { isTerminal }: Cli['out']): Promise<void> {
  for await (const line of lines) {
    if (!process.stdout.write(isTerminal ? linesForTerminal(line) : line))
      await once(process.stdout, 'drain');
  }
}

/** Text gathered before it is written. Bytes. */
const GATHERED = 64 * 1024;

/** Writes the whole file or none. Only its owner may read it, because it holds what the database holds. */
async function writeFile(path: string, lines: AsyncIterable<string>, signal: AbortSignal): Promise<void> {
  const partial = `${path}.${randomBytes(4).toString('hex')}.partial`;
  const file = await open(partial, 'wx', 0o600).catch((error: unknown) => {
    throw new UsageError(`cannot write ${path}: ${describeError(error)}`, 'name a file in a writable folder');
  });
  try {
    await pipeline(lines, file.createWriteStream({ flush: true, highWaterMark: GATHERED }), { signal });
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw signal.aborted ? new MirrorError('stopped', 'stopped; nothing is left of the attempt') : error;
  }
}

/** @throws UsageError for a path that must not be replaced: the database, a device, and without `force` any other file. */
async function checkTarget({ env }: Cli, path: string, force: boolean): Promise<void> {
  if (!existsSync(dirname(path))) throw new UsageError(`there is no folder ${dirname(path)}`);
  const { databaseUrl } = loadConfig(env);
  if ((await engines()).isPartOfDatabase(databaseUrl, path)) {
    throw new UsageError(`${path} is the database itself`, 'name another file');
  }
  if (!existsSync(path)) return;
  if (!statSync(path).isFile()) throw new UsageError(`${path} is not a file`, '"-" is standard output');
  if (!force) throw new UsageError(`${path} is there already`, 'choose another name, or add --force');
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
  flags: ExportFlags,
): { header: string; line: (row: Record<string, unknown>) => string } {
  const valuesOf = (row: Record<string, unknown>) => columns.map((column) => row[column] ?? null);
  if (format === 'csv') {
    return {
      header: csvLine(columns, { spreadsheet: false }),
      line: (row) => csvLine(valuesOf(row), { spreadsheet: flags.spreadsheet === true }),
    };
  }
  const named = (row: Record<string, unknown>) =>
    Object.fromEntries(valuesOf(row).map((value, nth) => [columns[nth], value]));
  return { header: '', line: (row) => `${JSON.stringify(named(row))}\n` };
}

/** How long one request for changes waits until there are some. Seconds. */
const WAIT_SECONDS = 10;
/** A request for changes is given up after this long. Milliseconds. */
const WAIT_TIMEOUT_MS = 2 * WAIT_SECONDS * 1000;
/** Pause before a service that does not answer is asked again. It may be restarting. Milliseconds. */
const AGAIN_MS = 1_000;

interface ExportedTable {
  /** Names and order as in the database. */
  columns(): Promise<readonly string[]>;
  read(api: ApiClient, query: Paging & Pick<Period, 'since'>): Promise<ListPage<object>>;
  /** In the order of time, so that `--since` can be used. */
  byTime?: true;
  /** The key before the first page, if older rows have been trimmed. */
  start?(api: ApiClient): Promise<string | undefined>;
  /** About how many rows there are, if that is known without counting them. */
  total?(api: ApiClient): Promise<number>;
  /** The row with its body, which the list leaves out. */
  whole?(api: ApiClient, row: object): Promise<object | null>;
}

function recordsOf(kind: Kind): ExportedTable {
  return {
    columns: async () => recordColumns(kind),
    read: (api, query) => answered(api.records[':kind'].$get({ param: { kind }, query })),
    async total(api) {
      const counts = (await answered(api.status.$get())).kinds?.find((one) => one.kind === kind);
      return (counts?.records ?? 0) + (counts?.deleted ?? 0);
    },
  };
}

/** `row` names the declaration of the table's rows, which is loaded only when it is needed. */
function byTime(
  row: 'change' | 'event' | 'gap' | 'syncRun' | 'quarantined' | 'rejection' | 'auditEntry',
  read: ExportedTable['read'],
  more: Pick<ExportedTable, 'start' | 'total' | 'whole'> = {},
): ExportedTable {
  const columns = async () => Object.keys((await import('../store/report-rows.ts'))[row].shape);
  return { columns, read, byTime: true, ...more };
}

const idOf = (row: object) => at((row as { id: string | number }).id);

/** The tables that users read, by their names. */
export const EXPORTED_TABLES: Readonly<Record<string, ExportedTable>> = {
  policies: recordsOf('policy'),
  risk_assessments: recordsOf('risk_assessment'),
  vendors: recordsOf('vendor'),
  changes: byTime(
    'change',
    async (api, query) => {
      const { items, next } = await answered(api.changes.$get({ query }));
      return { items, next: items.length === 0 ? null : next };
    },
    {
      start: async (api) => {
        const { trimmed } = await answered(api.snapshot.$get({ query: { limit: 1 } }));
        return trimmed === null ? undefined : String(trimmed.through);
      },
    },
  ),
  events: byTime('event', (api, query) => answered(api.events.$get({ query })), {
    async total(api) {
      const { events } = await answered(api.status.$get());
      return Object.values(events ?? {}).reduce((sum, count) => sum + count, 0);
    },
    whole: (api, row) => found(api.events[':id'].$get(idOf(row))),
  }),
  gaps: byTime('gap', (api, query) => answered(api.gaps.$get({ query }))),
  sync_runs: byTime('syncRun', (api, query) => answered(api['sync-runs'].$get({ query }))),
  quarantine: byTime('quarantined', (api, query) => answered(api.quarantine.$get({ query })), {
    whole: (api, row) => found(api.quarantine[':id'].$get(idOf(row))),
  }),
  rejections: byTime('rejection', (api, query) => answered(api.rejections.$get({ query })), {
    whole: (api, row) => found(api.rejections[':id'].$get(idOf(row))),
  }),
  audit: byTime('auditEntry', (api, query) => answered(api.audit.$get({ query }))),
};

/** Every row, with one page in memory at a time. Rows that are written meanwhile may or may not be included. */
async function* rowsOf(
  table: ExportedTable,
  api: ApiClient,
  options: { bodies: boolean; since?: string | undefined },
): AsyncGenerator<Record<string, unknown>> {
  const { since } = options;
  for (let after = since === undefined ? await table.start?.(api) : undefined; ; ) {
    const { items, next } = await table.read(api, { limit: PAGE_LIMIT_MAX, after, since });
    for (const row of items) {
      const whole = options.bodies && table.whole ? await table.whole(api, row) : null;
      yield (whole ?? row) as Record<string, unknown>;
    }
    if (next === null) return;
    after = next;
  }
}

/** Every change, oldest first, and new ones as they are made, until `signal` aborts. */
async function* changesAsTheyCome(
  api: ApiClient,
  { since, signal }: { since: string | undefined; signal: AbortSignal },
): AsyncGenerator<Record<string, unknown>> {
  const { start } = EXPORTED_TABLES['changes']!;
  for (let after = since === undefined ? await start?.(api) : undefined; !signal.aborted; ) {
    const query = { limit: PAGE_LIMIT_MAX, after, since: after === undefined ? since : undefined };
    const init = { signal: AbortSignal.any([signal, AbortSignal.timeout(WAIT_TIMEOUT_MS)]) };
    try {
      const page = await answered(api.changes.$get({ query: { ...query, wait: WAIT_SECONDS } }, { init }));
      yield* page.items as unknown as Record<string, unknown>[];
      after = page.next;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MirrorError) || !error.retryable) throw error;
      await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
