import { Command } from 'commander';
import { answered } from '../ops/api/client.ts';
import type { AuditReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListView, listByTime } from './lists.ts';

const AUDIT: ListView<AuditReport> = [
  ['ID', (entry) => entry.id],
  ['AT', (entry) => entry.at],
  ['ACTOR', (entry) => entry.actor],
  ['ACTION', (entry) => entry.action],
  ['OUTCOME', (entry) => entry.outcome],
  ['TARGET', (entry) => entry.target],
];

export function auditCommand(cli: Cli): Command {
  const audit = new Command('audit').description('who changed what, signed in, or was turned down: list');

  listByTime(cli, audit.command('list').description('entries, newest first'), AUDIT, (api, query) =>
    answered(api.audit.$get({ query })),
  );

  return audit;
}
