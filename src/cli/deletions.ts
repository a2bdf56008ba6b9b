import { Command } from 'commander';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { type PendingDeletionReport, pendingDeletionKey } from '../store/reports.ts';
import { ask } from './ask.ts';
import type { Cli } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { type DeletionsToApprove, deletionsChanged, withOperator } from './operator.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf } from './options.ts';
import { withReports } from './reports.ts';
import { fullSyncArgument } from './sync-runs.ts';
import { printable } from './text.ts';

const DELETIONS: ListView<PendingDeletionReport> = {
  keyOf: pendingDeletionKey,
  columns: [
    ['SYNC RUN', (deletion) => deletion.sync_run_id],
    ['KIND', (deletion) => deletion.kind],
    ['ID', (deletion) => deletion.id],
    ['NAME', (deletion) => deletion.name],
    ['STATUS', (deletion) => deletion.status],
    ['PENDING SINCE', (deletion) => deletion.pending_since],
    ['APPROVED UNTIL', (deletion) => deletion.approved_until],
  ],
};

export function deletionsCommand(cli: Cli): Command {
  const deletions = new Command('deletions').description('deletions that wait for a person: list, approve');

  deletions
    .command('list')
    .description('which wait, or are approved and wait for their proof, by kind and id')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listPendingDeletions({}, pagingOf(options)), options, DELETIONS);
      }),
    );

  deletions
    .command('approve')
    .description('approve exactly the deletions that one full sync found, for one hour')
    .addArgument(fullSyncArgument())
    .option('--yes <digest>', 'without being asked: exactly the ids that were shown with this digest')
    .action((id: number, options: { yes?: string }) =>
      withOperator(cli, async (operator) => {
        const pending = await operator.pendingDeletions(id);
        if (pending === null) {
          throw new MirrorError('not_found', `no deletions of full sync ${id} wait for approval`, {
            remedy: 'see "deletions list"',
          });
        }
        if (options.yes === undefined) await askFor(cli, pending);
        else if (options.yes !== pending.digest) throw deletionsChanged(id);
        const approved = await operator.approveDeletions(pending);
        cli.out.write(`Approved for one hour, the next proof deletes these:\n${indented(approved)}`);
      }),
    );

  return deletions;
}

/** Shows what waits, and asks. Where nobody can be asked, nothing is approved. */
async function askFor(cli: Cli, { syncRunId, ids, digest }: DeletionsToApprove): Promise<void> {
  cli.out.write(`Found by full sync ${syncRunId}, gone upstream as far as can be seen:\n${indented(ids)}`);
  const answer = await ask(cli, `Delete these ${ids.length} here as well? Type yes to approve: `);
  if (answer === 'yes') return;
  const command = `deletions approve ${syncRunId} --yes ${digest}`;
  throw answer === null
    ? new UsageError('nothing is approved yet', `to approve exactly these ids: ${command}`)
    : new MirrorError('not_approved', 'nothing is approved');
}

const indented = (ids: readonly string[]) => ids.map((id) => `  ${printable(id)}\n`).join('');
