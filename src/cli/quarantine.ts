import { Argument, Command } from 'commander';
import { answered, at, changed, found } from '../ops/api/client.ts';
import { MirrorError } from '../platform/errors.ts';
import type { QuarantineReport } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { type ListView, listByTime, notFound, showing } from './lists.ts';
import { withApi } from './ops-api.ts';
import { parseRowId } from './options.ts';

const QUARANTINE: ListView<QuarantineReport> = [
  ['ID', (delivery) => delivery.id],
  ['RECEIVED', (delivery) => delivery.received_at],
  ['REASON', (delivery) => delivery.reason],
  ['RELEASED', (delivery) => delivery.released_at],
  ['T', (delivery) => delivery.t],
  ['SHA-256', (delivery) => delivery.body_sha256],
];

export function quarantineCommand(cli: Cli): Command {
  const quarantine = new Command('quarantine').description(
    'deliveries that were rightly signed and could not be used: list, show, release',
  );

  listByTime(
    cli,
    quarantine.command('list').description('quarantined deliveries, newest first'),
    QUARANTINE,
    (api, query) => answered(api.quarantine.$get({ query })),
  );

  showing(
    cli,
    quarantine
      .command('show')
      .description('one quarantined delivery with its body')
      .addArgument(new Argument('<id>').argParser(parseRowId)),
    (api, id: number) => found(api.quarantine[':id'].$get(at(id))),
    noSuchDelivery,
  );

  quarantine
    .command('release')
    .description('mark a quarantined delivery as seen to, and have what it was about read from the API')
    .addArgument(new Argument('<id>').argParser(parseRowId))
    .action((id: number) =>
      withApi(cli, 'change', async (api) => {
        const released = await changed(api.quarantine[':id'].release.$post(at(id)));
        if (released === null) throw noSuchDelivery(id);
        if ('whyNot' in released) {
          throw new MirrorError('not_released', `delivery ${id}: ${released.whyNot}`, {
            remedy: 'see "quarantine show"',
          });
        }
        cli.out.write('The delivery is released.\n');
      }),
    );

  return quarantine;
}

function noSuchDelivery(id: number): MirrorError {
  return notFound(`no delivery with the id ${id} is in quarantine`, 'quarantine list');
}
