import { Command } from 'commander';
import { answered } from '../ops/api/client.ts';
import type { Cli } from './cli.ts';
import { withApi } from './ops-api.ts';

export function pauseCommand(cli: Cli): Command {
  return new Command('pause')
    .description('stop processing and repairs, across restarts too; deliveries are still received and kept')
    .action(() =>
      withApi(cli, 'change', async (api) => {
        await answered(api.pause.$post());
        cli.out.write('Paused. Deliveries are still received and kept.\n');
      }),
    );
}

export function resumeCommand(cli: Cli): Command {
  return new Command('resume').description('go on after a pause').action(() =>
    withApi(cli, 'change', async (api) => {
      await answered(api.resume.$post());
      const { service } = await answered(api.status.$get());
      cli.out.write(
        service.state === 'stopped' ? 'Resumed: the service will work when it next starts.\n' : 'Resumed.\n',
      );
    }),
  );
}
