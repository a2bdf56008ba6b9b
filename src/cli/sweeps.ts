import { Argument, Command } from 'commander';
import { MirrorError, UsageError } from '../errors.ts';
import type { Drift } from '../ops/context.ts';
import type { SweepReport } from '../store/reports.ts';
import { ask } from './ask.ts';
import { type Cli, writeJson } from './cli.ts';
import { describeDrift } from './drift.ts';
import { type ListView, writeList } from './lists.ts';
import { type HeldForConsent, withOperator } from './operator.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseRowId } from './options.ts';
import { withReports } from './reports.ts';
import { renderPairs } from './table.ts';
import { printable } from './text.ts';

const SWEEPS: ListView<SweepReport> = {
  keyOf: (sweep) => String(sweep.id),
  columns: [
    ['ID', (sweep) => sweep.id],
    ['KIND', (sweep) => sweep.kind],
    ['REASON', (sweep) => sweep.reason],
    ['STARTED', (sweep) => sweep.started_at],
    ['OUTCOME', (sweep) => sweep.outcome ?? 'running'],
    ['PAGES', (sweep) => sweep.pages],
    ['SEEN', (sweep) => sweep.seen],
    ['INSERTED', (sweep) => sweep.inserted],
    ['UPDATED', (sweep) => sweep.updated],
    ['DELETED', (sweep) => sweep.deleted],
    ['ERROR', (sweep) => sweep.error],
  ],
};

export function sweepsCommand(cli: Cli): Command {
  const sweeps = new Command('sweeps').description(
    'walks through the whole of a kind: list, show, confirm-deletions',
  );

  sweeps
    .command('list')
    .description('sweeps, newest first')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listSweeps(pagingOf(options)), options, SWEEPS);
      }),
    );

  sweeps
    .command('show')
    .description('one sweep')
    .addArgument(sweepArgument())
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const sweep = await store.showSweep(id);
        if (sweep === null) {
          throw new MirrorError('not_found', `no sweep with the id ${id}`, { hint: 'see "sweeps list"' });
        }
        if (options.json) writeJson(cli.out, sweep);
        else {
          const { drift, ...figures } = sweep;
          cli.out.write(renderPairs(Object.entries(figures)));
          if (drift !== null) cli.out.write(describeDrift('drift', drift as unknown as Drift));
        }
      }),
    );

  sweeps
    .command('confirm-deletions')
    .description('agree to exactly the deletions that are held under a sweep, for one hour')
    .addArgument(sweepArgument())
    .option('--yes <digest>', 'without being asked: to exactly the ids that were shown with this digest')
    .action((id: number, options: { yes?: string }) =>
      withOperator(cli, async (operator) => {
        const held = await operator.heldDeletions(id);
        if (held === null || held.ids.length === 0) {
          throw new MirrorError('not_found', `no deletions are held under sweep ${id}`, {
            hint: 'see "gaps list --open"',
          });
        }
        if (options.yes === undefined) await agreeTo(cli, id, held);
        const agreed = await operator.confirmDeletions(id, options.yes ?? held.digest);
        cli.out.write(`Agreed for one hour, the next proof deletes these:\n${indented(agreed)}`);
      }),
    );

  return sweeps;
}

function sweepArgument(): Argument {
  return new Argument('<id>', 'number of the sweep').argParser(parseRowId);
}

/** Shows what is held, and asks. Where nobody can be asked, nothing is agreed to. */
async function agreeTo(cli: Cli, id: number, held: HeldForConsent): Promise<void> {
  cli.out.write(`Held under sweep ${id}, gone upstream as far as can be seen:\n${indented(held.ids)}`);
  const answer = await ask(cli, `Delete these ${held.ids.length} here as well? Type yes to agree: `);
  if (answer === 'yes') return;
  const command = `sweeps confirm-deletions ${id} --yes ${held.digest}`;
  throw answer === null
    ? new UsageError('nothing is agreed to yet', `to agree to exactly these ids: ${command}`)
    : new MirrorError('not_agreed', 'nothing is agreed to');
}

const indented = (ids: readonly string[]) => ids.map((id) => `  ${printable(id)}\n`).join('');
