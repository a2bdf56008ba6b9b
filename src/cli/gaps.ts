import { Argument, Command } from 'commander';
import { answered, at, changed } from '../ops/api/client.ts';
import { MirrorError } from '../platform/errors.ts';
import type { GapReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListView, listing, notFound, showing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { pagingOf, parseRowId, periodOf, type TimedListOptions, timed } from './options.ts';

const GAPS: ListView<GapReport> = [
  ['ID', (gap) => gap.id],
  ['REASON', (gap) => gap.reason],
  ['KIND', (gap) => gap.kind],
  ['RECORD', (gap) => gap.record_id],
  ['OPENED', (gap) => gap.opened_at],
  ['RESOLVED', (gap) => gap.resolved_at],
  ['TIMES', (gap) => gap.attempts],
  ['ERROR', (gap) => gap.error],
];

export function gapsCommand(cli: Cli): Command {
  const gaps = new Command('gaps').description(
    'what may have been missed, and whether it is mended: list, show, resolve',
  );

  listing(
    cli,
    timed(gaps.command('list')).description('gaps, newest first').option('--open', 'only those not resolved'),
    GAPS,
    (api, options: TimedListOptions & { open?: true }) => {
      const open = options.open ? { open: 'true' as const } : {};
      return answered(api.gaps.$get({ query: { ...periodOf(options), ...pagingOf(options), ...open } }));
    },
  );

  showing(
    cli,
    gaps.command('show').description('one gap').addArgument(new Argument('<id>').argParser(parseRowId)),
    async (api, id: number) => {
      // The list runs from the newest id down, so the row, if there is one, is the first after its successor's key.
      const query = { limit: 1, after: String(id + 1) };
      const gap = (await answered(api.gaps.$get({ query }))).items[0];
      return gap?.id === id ? gap : null;
    },
    noSuchGap,
  );

  gaps
    .command('resolve')
    .description('say that nothing is missing any more, of a gap that only a person can end (restored)')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .action((id: number) =>
      withApi(cli, 'change', async (api) => {
        const resolved = await changed(api.gaps[':id'].resolve.$post(at(id)));
        if (resolved === null) throw noSuchGap(id);
        if ('whyNot' in resolved) {
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
  return notFound(`no gap with the id ${id}`, 'gaps list');
}
