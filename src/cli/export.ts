import { Argument, Command, Option } from 'commander';
import type { ApiClient } from '../ops/api/client.ts';
import type { Cli } from './cli.ts';
import { csvLine } from './export/csv.ts';
import { progressOn } from './export/progress.ts';
import { EXPORTED_TABLES, type ExportedTable, rowsOf } from './export/tables.ts';
import { fileTarget, streamTarget, type Target } from './export/target.ts';
import { withApi } from './ops-api.ts';
import { printable } from './text.ts';

const STANDARD_OUTPUT = '-';

interface ExportFlags {
  format?: 'csv' | 'ndjson';
  force?: true;
  bodies?: true;
  spreadsheet?: true;
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
    .addHelpText(
      'after',
      '\nCSV is as stored (RFC 4180, UTF-8): names come from others, and a spreadsheet takes one that begins with = for a' +
        '\nformula. Use --spreadsheet for a file that people will open in one.',
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
  const total = (await table.total?.(api)) ?? null;
  const target =
    file === STANDARD_OUTPUT
      ? streamTarget(process.stdout)
      : await fileTarget(file, { force: flags.force === true });
  const progress = progressOn(cli.err, `Exporting ${name}`, 'rows');
  let rows = 0;
  try {
    const { header, line } = writerOf(table, flags.format ?? formatOf(file), flags.spreadsheet === true);
    await target.write(header);
    for await (const row of rowsOf(table, api, { bodies: flags.bodies === true })) {
      await target.write(line(row));
      rows += 1;
      progress.show(rows, total);
    }
    await target.finish();
  } catch (error) {
    await (target as Target).abandon();
    throw error;
  } finally {
    progress.end();
  }
  const where = file === STANDARD_OUTPUT ? '' : ` to ${printable(file)}`;
  cli.err.write(`Exported ${rows} ${rows === 1 ? 'row' : 'rows'} of ${name}${where}\n`);
}

function formatOf(file: string): 'csv' | 'ndjson' {
  return /\.(ndjson|jsonl|json)$/i.test(file) ? 'ndjson' : 'csv';
}

function writerOf(
  { columns }: ExportedTable,
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
