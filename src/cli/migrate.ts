import { Command } from 'commander';
import { loadConfig } from '../platform/config.ts';
import type { Cli } from './cli.ts';
import { refuseFromAfar, withStore } from './database.ts';

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description('make the database, or bring its tables up to this version; "serve" does it by itself')
    .action(async () => {
      refuseFromAfar(loadConfig(cli.env), 'migrate');
      await withStore(cli, 'alone', async () => {
        cli.out.write('The database is up to date.\n');
      });
    });
}
