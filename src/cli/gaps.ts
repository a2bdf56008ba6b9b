import { Argument, Command } from 'commander';
import { MirrorError } from '../platform/errors.ts';
import type { GapReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { withOperator } from './operator.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseRowId } from './options.ts';
import { type Reports, withReports } from './reports.ts';
import { renderPairs } from './table.ts';

const GAPS: ListView<GapReport> = {
  keyOf: (gap) => String(gap.id),
  columns: [
    ['ID', (gap) => gap.id],
    ['REASON', (gap) => gap.reason],
    ['KIND', (gap) => gap.kind],
    ['RECORD', (gap) => gap.record_id],
    ['OPENED', (gap) => gap.opened_at],
    ['RESOLVED', (gap) => gap.resolved_at],
    ['TIMES', (gap) => gap.attempts],
    ['ERROR', (gap) => gap.error],
  ],
};

export function gapsCommand(cli: Cli): Command {
  const gaps = new Command('gaps').description(
    'what may have been missed, and whether it is mended: list, show, resolve',
  );

  gaps
    .command('list')
    .description('gaps, newest first')
    .option('--open', 'only those not resolved')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions & { open?: true }) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listGaps({ open: options.open }, pagingOf(options)), options, GAPS);
      }),
    );

  gaps
    .command('show')
    .description('one gap')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const gap = await findGap(store, id);
        if (gap === null) throw noSuchGap(id);
        if (options.json) writeJson(cli.out, gap);
        else cli.out.write(renderPairs(Object.entries(gap)));
      }),
    );

  gaps
    .command('resolve')
    .description('say that nothing is missing any more, of a gap that only a person can end (restored)')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .action((id: number) =>
      withOperator(cli, async (operator) => {
        const resolved = await operator.resolveGap(id);
        if (resolved === null) throw noSuchGap(id);
        if (resolved !== 'done') {
          throw new MirrorError('not_resolved', `gap ${id}: ${resolved.whyNot}`, {
            remedy: 'see "gaps show"',
          });
        }
        cli.out.write('The gap is resolved.\n');
      }),
    );

  return gaps;
}

function noSuchGap(id: number): MirrorError {
  return new MirrorError('not_found', `no gap with the id ${id}`, { remedy: 'see "gaps list"' });
}

/** The list runs from the newest id down, so the row, if there is one, is the first after its successor's key. */
async function findGap(store: Pick<Reports, 'listGaps'>, id: number): Promise<GapReport | null> {
  const [gap] = await store.listGaps({}, { limit: 1, after: String(id + 1) });
  return gap?.id === id ? gap : null;
}
