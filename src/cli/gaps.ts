import { Argument, Command } from 'commander';
import { answered, at, changed } from '../ops/api/client.ts';
import type { Gap } from '../ops/api/schemas.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { type ListView, writeList, writeOne } from './lists.ts';
import { withApi } from './ops-api.ts';
import {
  afterOption,
  jsonOption,
  limitOption,
  pagingOf,
  parseRowId,
  periodOf,
  type TimedListOptions,
  timed,
} from './options.ts';

const GAPS: ListView<Gap> = [
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

  timed(gaps.command('list'))
    .description('gaps, newest first')
    .option('--open', 'only those not resolved')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: TimedListOptions & { open?: true }) =>
      withApi(cli, 'read', async (api) => {
        const query = {
          ...periodOf(options),
          ...pagingOf(options),
          ...(options.open ? { open: 'true' as const } : {}),
        };
        writeList(cli, await answered(api.gaps.$get({ query })), options, GAPS);
      }),
    );

  gaps
    .command('show')
    .description('one gap')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withApi(cli, 'read', async (api) => {
        // The list runs from the newest id down, so the row, if there is one, is the first after its successor's key.
        const query = { limit: 1, after: String(id + 1) };
        const gap = (await answered(api.gaps.$get({ query }))).items[0];
        if (gap?.id !== id) throw noSuchGap(id);
        writeOne(cli, gap, options);
      }),
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
  return new MirrorError('not_found', `no gap with the id ${id}`, { remedy: 'see "gaps list"' });
}
