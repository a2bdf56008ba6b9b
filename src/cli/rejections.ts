import { Argument, Command } from 'commander';
import { answered, at, found } from '../ops/api/client.ts';
import type { RejectionReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListView, listByTime, notFound, showing } from './lists.ts';
import { parseRowId } from './options.ts';

const REJECTIONS: ListView<RejectionReport> = [
  ['ID', (rejection) => rejection.id],
  ['AT', (rejection) => rejection.at],
  ['REASON', (rejection) => rejection.reason],
  ['ADDRESS', (rejection) => rejection.address],
  ['COUNT', (rejection) => rejection.times],
  ['BYTES', (rejection) => rejection.bytes],
  ['T', (rejection) => rejection.t],
];

export function rejectionsCommand(cli: Cli): Command {
  const rejections = new Command('rejections').description(
    'deliveries that were rejected, by reason and sender: list, show',
  );

  listByTime(
    cli,
    rejections
      .command('list')
      .description('rejected deliveries, newest first; COUNT: how many of its minute each stands for'),
    REJECTIONS,
    (api, query) => answered(api.rejections.$get({ query })),
  );

  showing(
    cli,
    rejections
      .command('show')
      .description('one rejected delivery with its body, as far as it was kept; "doctor" explains it')
      .addArgument(new Argument('<id>').argParser(parseRowId)),
    (api, id: number) => found(api.rejections[':id'].$get(at(id))),
    (id) => notFound(`no rejected delivery with the id ${id} is kept`, 'rejections list'),
  );

  return rejections;
}
