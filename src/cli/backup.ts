import { Command } from 'commander';
import { loadConfig } from '../platform/config.ts';
import type { BackupProgress } from '../store/sqlite/backup.ts';
import { type Cli, type Screen, writeJson } from './cli.ts';
import { backUpDatabase, refuseFromAfar } from './database.ts';
import { jsonOption } from './options.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface BackupFlags {
  force?: true;
  json?: true;
}

/** A terminal's line is drawn anew this often; elsewhere, where each is kept, a line comes more rarely. Milliseconds. */
const REDRAW_EVERY_MS = 100;
const LINE_EVERY_MS = 5_000;
const MEBIBYTE = 1024 * 1024;

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database into one file, also while the service runs, and check the copy')
    .argument('<file>', 'file to write; readable for its owner alone')
    .option('--force', 'replace a file that is there already')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nTo restore: stop the service, remove the database and the -wal and -shm files beside it, put the copy in its' +
        '\nplace and start again. What was accepted since the copy was made is not in it: lists are read again from the API, and' +
        '\nrisk assessments are not in sync until you have seen to the gap "restored" ("gaps list --open").',
    )
    .action(async (file: string, flags: BackupFlags) => {
      const config = loadConfig(cli.env);
      refuseFromAfar(config, 'backup');
      const stop = stopSignals({ attached: false });
      const progress = progressOn(cli.err);
      try {
        const result = await backUpDatabase(config.databaseUrl, {
          to: file,
          force: flags.force === true,
          signal: stop.signal,
          onProgress: progress.show,
        });
        progress.end();
        if (flags.json) writeJson(cli.out, { file, ...result });
        else {
          const { rows, tables, bytes } = result;
          const what = `${rows} rows in ${tables} tables, ${mebibytes(bytes)}`;
          cli.out.write(`Backed up and checked: ${what}, in ${printable(file)}\n`);
        }
      } finally {
        progress.end();
        stop.release();
      }
    });
}

/** One line that is drawn over on a terminal, a line now and then elsewhere. */
function progressOn(screen: Screen): { show: (progress: BackupProgress) => void; end: () => void } {
  let shownAt = performance.now();
  let isOpen = false;
  return {
    show({ doneBytes, totalBytes }) {
      const now = performance.now();
      if (now - shownAt < (screen.isTerminal ? REDRAW_EVERY_MS : LINE_EVERY_MS)) return;
      shownAt = now;
      const percent = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes);
      const text = `Backing up: ${percent} % of ${mebibytes(totalBytes)}`;
      screen.write(screen.isTerminal ? `\r${text}` : `${text}\n`);
      isOpen = screen.isTerminal;
    },
    end() {
      if (isOpen) screen.write('\r\u001b[K');
      isOpen = false;
    },
  };
}

function mebibytes(bytes: number): string {
  return `${(bytes / MEBIBYTE).toFixed(1)} MiB`;
}
