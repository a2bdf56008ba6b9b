import { Command } from 'commander';
import type { Cli } from './cli.ts';
import { withOperator } from './operator.ts';

export function pauseCommand(cli: Cli): Command {
  return new Command('pause')
    .description('stop processing and repairs, across restarts too; deliveries are still received and kept')
    .action(() =>
      withOperator(cli, async (operator) => {
        await operator.setPaused(true);
        cli.out.write('Paused. Deliveries are still received and kept.\n');
      }),
    );
}

export function resumeCommand(cli: Cli): Command {
  return new Command('resume').description('go on after a pause').action(() =>
    withOperator(cli, async (operator) => {
      await operator.setPaused(false);
      cli.out.write(
        operator.isServed ? 'Resumed.\n' : 'Resumed: the service will work when it next starts.\n',
      );
    }),
  );
}
