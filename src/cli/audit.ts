import { Command } from 'commander';
import { answered } from '../ops/api/client.ts';
import type { AuditEntry } from '../ops/api/schemas.ts';
import type { Cli } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { withApi } from './ops-api.ts';
import {
  afterOption,
  jsonOption,
  limitOption,
  pagingOf,
  periodOf,
  type TimedListOptions,
  timed,
} from './options.ts';

const AUDIT: ListView<AuditEntry> = [
  ['ID', (entry) => entry.id],
  ['AT', (entry) => entry.at],
  ['ACTOR', (entry) => entry.actor],
  ['ACTION', (entry) => entry.action],
  ['OUTCOME', (entry) => entry.outcome],
  ['TARGET', (entry) => entry.target],
];

export function auditCommand(cli: Cli): Command {
  const audit = new Command('audit').description('who changed what, signed in, or was turned down: list');

  timed(audit.command('list'))
    .description('entries, newest first')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: TimedListOptions) =>
      withApi(cli, 'read', async (api) => {
        writeList(
          cli,
          await answered(api.audit.$get({ query: { ...periodOf(options), ...pagingOf(options) } })),
          options,
          AUDIT,
        );
      }),
    );

  return audit;
}
