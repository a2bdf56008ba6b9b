import { Command } from 'commander';
import type { BackupProgress } from '../store/sqlite/backup.ts';
import { type Cli, writeJson } from './cli.ts';
import { configHere, engines, withStore } from './database.ts';
import { helpNote, jsonOption } from './options.ts';
import { progressOn } from './progress.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface BackupFlags {
  force?: true;
  json?: true;
}

const MEBIBYTE = 1024 * 1024;

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database into one file, also while the service runs, and check the copy')
    .argument('<file>', 'file to write; readable for its owner alone')
    .option('--force', 'replace a file that is there already')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'To restore: stop the service, remove the database and the -wal and -shm files beside it, put the copy in its place and start again. What was accepted since the copy was made is not in it: lists are read again from the API, and risk assessments are not in sync until you have seen to the gap "restored" ("gaps list --open").',
      ),
    )
    .action(async (file: string, flags: BackupFlags) => {
      const config = configHere(cli, 'backup');
      using stop = stopSignals();
      using progress = progressOn(cli.err);
      const result = await (await engines()).backUpStore(config.databaseUrl, {
        to: file,
        force: flags.force === true,
        signal: stop.signal,
        onProgress: (done) => progress.show(() => textOf(done), isCopied(done)),
      });
      progress.end();
      if (flags.json) writeJson(cli.out, { file, ...result });
      else {
        const { rows, tables, bytes } = result;
        const what = `${rows} rows in ${tables} tables, ${mebibytes(bytes)}`;
        cli.out.write(`Backed up and checked: ${what}, in ${printable(file)}\n`);
      }
    });
}

const isCopied = ({ doneBytes, totalBytes }: BackupProgress) => doneBytes === totalBytes;

function textOf(progress: BackupProgress): string {
  const { doneBytes, totalBytes } = progress;
  if (isCopied(progress)) return `Checking the copy of ${mebibytes(totalBytes)}`;
  const percent = Math.floor((100 * doneBytes) / totalBytes);
  return `Backing up: ${percent} % of ${mebibytes(totalBytes)}`;
}

function mebibytes(bytes: number): string {
  return `${(bytes / MEBIBYTE).toFixed(1)} MiB`;
}

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('make the database, or bring its tables up to this version; "serve" does it by itself')
    .action(async () => {
      configHere(cli, 'migrate');
      await withStore(cli, 'alone', async () => {
        cli.out.write('The database is up to date.\n');
      });
    });
}
