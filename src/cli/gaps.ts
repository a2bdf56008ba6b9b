import { Argument, Command } from 'commander';
import { MirrorError } from '../errors.ts';
import type { GapReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
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
    ['HEALED', (gap) => gap.healed_at],
    ['TIMES', (gap) => gap.attempts],
    ['ERROR', (gap) => gap.error],
  ],
};

export function gapsCommand(cli: Cli): Command {
  const gaps = new Command('gaps').description(
    'what may have been missed, and whether it is mended: list, show',
  );

  gaps
    .command('list')
    .description('gaps, newest first')
    .option('--open', 'only those not healed')
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
        if (gap === null) {
          throw new MirrorError('not_found', `no gap with the id ${id}`, { hint: 'see "gaps list"' });
        }
        if (options.json) writeJson(cli.out, gap);
        else cli.out.write(renderPairs(Object.entries(gap)));
      }),
    );

  return gaps;
}

/** The list runs from the newest id down, so the row, if there is one, is the first after its successor's key. */
async function findGap(store: Pick<Reports, 'listGaps'>, id: number): Promise<GapReport | null> {
  const [gap] = await store.listGaps({}, { limit: 1, after: String(id + 1) });
  return gap?.id === id ? gap : null;
}
