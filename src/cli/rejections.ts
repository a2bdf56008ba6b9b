import { Argument, Command } from 'commander';
import { MirrorError } from '../platform/errors.ts';
import type { RejectionReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseRowId } from './options.ts';
import { withReports } from './reports.ts';
import { renderPairs } from './table.ts';

const REJECTIONS: ListView<RejectionReport> = {
  keyOf: (rejection) => String(rejection.id),
  columns: [
    ['ID', (rejection) => rejection.id],
    ['AT', (rejection) => rejection.at],
    ['REASON', (rejection) => rejection.reason],
    ['ADDRESS', (rejection) => rejection.address],
    ['COUNT', (rejection) => rejection.times],
    ['BYTES', (rejection) => rejection.bytes],
    ['T', (rejection) => rejection.t],
  ],
};

export function rejectionsCommand(cli: Cli): Command {
  const rejections = new Command('rejections').description(
    'deliveries that were rejected, by reason and sender: list, show',
  );

  rejections
    .command('list')
    .description('rejected deliveries, newest first; COUNT: how many of its minute each stands for')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listRejections(pagingOf(options)), options, REJECTIONS);
      }),
    );

  rejections
    .command('show')
    .description('one rejected delivery with its body, as far as it was kept; "doctor" explains it')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const rejection = await store.showRejection(id);
        if (rejection === null) {
          throw new MirrorError('not_found', `no rejected delivery with the id ${id} is kept`, {
            remedy: 'see "rejections list"',
          });
        }
        if (options.json) writeJson(cli.out, rejection);
        else {
          const { body_base64: _, ...shown } = rejection;
          cli.out.write(renderPairs(Object.entries(shown)));
        }
      }),
    );

  return rejections;
}
