import { Command } from 'commander';
import { MirrorError, UsageError } from '../errors.ts';
import { ask } from './ask.ts';
import { type Cli, writeJson } from './cli.ts';
import { type HeldForConsent, withOperator } from './operator.ts';
import { jsonOption } from './options.ts';
import { fullSyncArgument } from './sync-runs.ts';
import { renderTable } from './table.ts';
import { printable } from './text.ts';

export function deletionsCommand(cli: Cli): Command {
  const deletions = new Command('deletions').description('deletions that wait for a person: list, approve');

  deletions
    .command('list')
    .description('how many wait, by the full sync that found them')
    .addOption(jsonOption())
    .action((options: { json?: true }) =>
      withOperator(cli, async (operator) => {
        const waiting = await operator.listPendingDeletions();
        if (options.json) writeJson(cli.out, waiting);
        else if (waiting.length === 0) cli.out.write('No deletions wait for approval.\n');
        else {
          const rows = waiting.map(({ sync_run_id: id, kind, count }) => [id, kind, count]);
          cli.out.write(renderTable(['SYNC RUN', 'KIND', 'DELETIONS'], rows));
        }
      }),
    );

  deletions
    .command('approve')
    .description('approve exactly the deletions that one full sync found, for one hour')
    .addArgument(fullSyncArgument())
    .option('--yes <digest>', 'without being asked: exactly the ids that were shown with this digest')
    .action((id: number, options: { yes?: string }) =>
      withOperator(cli, async (operator) => {
        const held = await operator.pendingDeletions(id);
        if (held === null || held.ids.length === 0) {
          throw new MirrorError('not_found', `no deletions of full sync ${id} wait for approval`, {
            remedy: 'see "deletions list"',
          });
        }
        if (options.yes === undefined) await agreeTo(cli, id, held);
        const agreed = await operator.approveDeletions(id, options.yes ?? held.digest);
        cli.out.write(`Approved for one hour, the next proof deletes these:\n${indented(agreed)}`);
      }),
    );

  return deletions;
}

/** Shows what waits, and asks. Where nobody can be asked, nothing is approved. */
async function agreeTo(cli: Cli, id: number, held: HeldForConsent): Promise<void> {
  cli.out.write(`Found by full sync ${id}, gone upstream as far as can be seen:\n${indented(held.ids)}`);
  const answer = await ask(cli, `Delete these ${held.ids.length} here as well? Type yes to approve: `);
  if (answer === 'yes') return;
  const command = `deletions approve ${id} --yes ${held.digest}`;
  throw answer === null
    ? new UsageError('nothing is approved yet', `to approve exactly these ids: ${command}`)
    : new MirrorError('not_approved', 'nothing is approved');
}

const indented = (ids: readonly string[]) => ids.map((id) => `  ${printable(id)}\n`).join('');
