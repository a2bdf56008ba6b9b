import { Command } from 'commander';
import { bytes } from '../ops/words.ts';
import type { Cli } from './cli.ts';
import { auditHere } from './client.ts';
import { configHere, engines, withStore } from './database.ts';
import { helpNote } from './options.ts';
import { printable } from './text.ts';

interface BackupFlags {
  force?: true;
}

export function backupCommand(cli: Cli): Command {
  return new Command('backup')
    .description('copy the database into one file, also while the service runs')
    .argument('<file>', 'file to write; readable for its owner alone')
    .option('--force', 'replace a file that is there already')
    .action(async (file: string, { force }: BackupFlags) => {
      const config = configHere(cli, 'backup');
      const size = await (await engines()).backUpStore(config.databaseUrl, {
        to: file,
        force: force === true,
      });
      cli.out.write(`Backed up and checked: ${bytes(size)}, in ${printable(file)}\n`);
      await auditHere(cli, { actor: 'cli', action: 'backup', outcome: 'ok', target: file });
    });
}

export function restoreCommand(cli: Cli): Command {
  return new Command('restore')
    .description("put a backup in the place of a stopped service's database")
    .argument('<file>', 'file that "backup" has made')
    .addHelpText(
      'after',
      helpNote(
        'The database that was there before is gone. What was accepted since the backup was made is not in it: lists are read again from the API, and risk assessments are not in sync until you have seen to the problem "restored" ("problems").',
      ),
    )
    .action(async (file: string) => {
      const config = configHere(cli, 'restore');
      const size = await (await engines()).restoreStore(config.databaseUrl, file);
      cli.out.write(
        `Restored and checked: ${bytes(size)}. Start the service, then see to “restored” (“problems”).\n`,
      );
    });
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
