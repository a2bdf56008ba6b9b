import { Command } from 'commander';
import { unknownNames } from '../platform/config-sources.ts';
import type { Cli } from './cli.ts';
import { helpNote, integerBetween } from './options.ts';
import { attachedOption } from './serve.ts';
import { aborted, stopSignals } from './stop-signals.ts';

interface SandboxFlags {
  seed?: string;
  port?: number;
  seedNumber?: number;
  attached?: true;
}

/** As the service's own prefixes: a name that begins so and is no setting is a mistake. */
const SANDBOX_NAMES = /^SANDBOX_/;
const LARGEST_PORT = 65_535;

export function sandboxCommand(cli: Cli): Command {
  return new Command('sandbox')
    .description('run a stand-in for the compliance service, in memory, for trying things out')
    .option('--seed <file>', 'records to start with: {"policies":[…],"riskAssessments":[…],"vendors":[…]}')
    .option('--port <port>', 'port to listen on; 0: any free one', integerBetween(0, LARGEST_PORT))
    .option(
      '--seed-number <number>',
      'start of the random sequence: the same number, the same story',
      integerBetween(0, 2 ** 32 - 1),
    )
    .addOption(attachedOption())
    .addHelpText(
      'after',
      helpNote('Everything else is set by SANDBOX_*; docs/settings.md has their formats.'),
    )
    .action(async (flags: SandboxFlags) => {
      // Here and not above: the short commands should not load a web server each time.
      const { sandboxOptionsFromEnv, sandboxSettingNames } = await import('../../sandbox/options.ts');
      const { introduction, startSandbox } = await import('../../sandbox/sandbox.ts');
      const { loadSeed } = await import('../../sandbox/seed.ts');
      const options = sandboxOptionsFromEnv(cli.env);
      for (const warning of unknownNames(cli.env, sandboxSettingNames(), SANDBOX_NAMES)) {
        cli.err.write(`compliance-mirror: ${warning}\n`);
      }
      using stop = stopSignals({ attached: flags.attached === true });
      const sandbox = await startSandbox({
        ...options,
        ...(flags.seed === undefined ? {} : { seed: loadSeed(flags.seed) }),
        ...(flags.port === undefined ? {} : { port: flags.port }),
        ...(flags.seedNumber === undefined ? {} : { seedNumber: flags.seedNumber }),
      });
      try {
        cli.out.write(`${introduction(sandbox, options).join('\n')}\n`);
        await aborted(stop.signal);
      } finally {
        await sandbox.close();
      }
    });
}
