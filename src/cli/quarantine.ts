import { Argument, Command } from 'commander';
import { MirrorError } from '../platform/errors.ts';
import type { QuarantineReport } from '../store/reports.ts';
import { type Cli, writeJson } from './cli.ts';
import { type ListView, writeList } from './lists.ts';
import { withOperator } from './operator.ts';
import { afterOption, jsonOption, type ListOptions, limitOption, pagingOf, parseRowId } from './options.ts';
import { withReports } from './reports.ts';
import { renderPairs } from './table.ts';

const QUARANTINE: ListView<QuarantineReport> = {
  keyOf: (delivery) => String(delivery.id),
  columns: [
    ['ID', (delivery) => delivery.id],
    ['RECEIVED', (delivery) => delivery.received_at],
    ['REASON', (delivery) => delivery.reason],
    ['T', (delivery) => delivery.t],
    ['SHA-256', (delivery) => delivery.body_sha256],
    ['RELEASED', (delivery) => delivery.released_at],
  ],
};

export function quarantineCommand(cli: Cli): Command {
  const quarantine = new Command('quarantine').description(
    'deliveries that were rightly signed and could not be used: list, show, release',
  );

  quarantine
    .command('list')
    .description('quarantined deliveries, newest first')
    .addOption(limitOption())
    .addOption(afterOption())
    .addOption(jsonOption())
    .action((options: ListOptions) =>
      withReports(cli, async (store) => {
        writeList(cli, await store.listQuarantine(pagingOf(options)), options, QUARANTINE);
      }),
    );

  quarantine
    .command('show')
    .description('one quarantined delivery with its body')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .addOption(jsonOption())
    .action((id: number, options: { json?: true }) =>
      withReports(cli, async (store) => {
        const delivery = await store.showQuarantined(id);
        if (delivery === null) throw noSuchDelivery(id);
        if (options.json) writeJson(cli.out, delivery);
        else {
          const { body_base64: _, ...shown } = delivery;
          cli.out.write(renderPairs(Object.entries(shown)));
        }
      }),
    );

  quarantine
    .command('release')
    .description('mark a quarantined delivery as seen to, and have what it was about read from the API')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .action((id: number) =>
      withOperator(cli, async (operator) => {
        if (!(await operator.releaseQuarantined(id))) throw noSuchDelivery(id);
        cli.out.write('The delivery is released.\n');
      }),
    );

  return quarantine;
}

function noSuchDelivery(id: number): MirrorError {
  return new MirrorError('not_found', `no delivery with the id ${id} is in quarantine`, {
    remedy: 'see "quarantine list"',
  });
}
