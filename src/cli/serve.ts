import { parseEnv } from 'node:util';
import { Command, Option } from 'commander';
import {
  type Config,
  configWarnings,
  loadConfig,
  notifyExposure,
  operatorsExposure,
  secretTexts,
} from '../platform/config.ts';
import { listedSettings } from '../platform/config-sources.ts';
import { UsageError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import { openToOthers } from '../platform/private-files.ts';
import { settingsHelp } from '../platform/settings.ts';
import type { Service } from '../service/service.ts';
import type { Cli } from './cli.ts';
import { databasePath, engines } from './database.ts';
import { ENV_FILE, readEnvText } from './env-file.ts';
import { aborted, stopSignals } from './stop-signals.ts';

/** For a process that starts this one: when it ends, this one ends too. */
export function attachedOption(): Option {
  return new Option('--attached', 'stop when standard input ends');
}

/** `environment`: without what only `.env` has. */
export function serveCommand(cli: Cli, environment: NodeJS.ProcessEnv): Command {
  return new Command('serve')
    .description('run the service until SIGTERM or Ctrl-C')
    .addOption(attachedOption())
    .addHelpText('after', () => `\n${settingsHelp()}`)
    .action(async (options: { attached?: true }) => {
      let logger: Logger | undefined;
      const config = loadConfig(cli.env, {
        onSecretProblem: (error) => logger?.warn({ stage: 'service', outcome: 'failed', error }, 'secret'),
      });
      const warnings = [
        ...configWarnings(cli.env),
        ...operatorsExposure(config),
        ...notifyExposure(config),
        ...(await openFiles(config)),
      ];
      for (const warning of [...warnings, ...lackOfSecrets(config)])
        cli.err.write(`compliance-mirror: ${warning}\n`);
      // Imported only here: short commands must not load a web server.
      const { createLogger, standardOutput } = await import('../platform/logger.ts');
      const { startService } = await import('../service/service.ts');
      const output = standardOutput();
      const secrets = () => secretTexts(config);
      logger = createLogger({ level: config.logLevel, secrets, destination: output.destination });
      // Both to the person who starts the service and to its log.
      const exposure = await (await engines()).databaseExposure(config.databaseUrl, config.database);
      if (exposure !== null) {
        warnings.push(`${exposure.says}; ${exposure.remedy}`);
        cli.err.write(`compliance-mirror: WARNING: ${exposure.says}\n  ${exposure.remedy}\n`);
        logger.warn({ stage: 'store', outcome: 'exposed', reason: exposure.says }, 'database');
      }
      using stop = stopSignals({ attached: options.attached === true });
      try {
        const service = await startService({
          config,
          logger,
          signal: stop.signal,
          described: { settings: () => listedSettings(cli.env, environment), warnings },
          logLinesLost: output.lost,
        });
        try {
          cli.err.write(`Deliveries: ${service.receiverUrl}/webhooks\nOperators: ${service.opsUrl}\n`);
          if (service.signIn !== null) cli.err.write(signInLine(service.signIn, cli.err.isTerminal));
          await Promise.race([aborted(stop.signal), service.failed]);
        } finally {
          await service.stop();
        }
      } catch (error) {
        // It was asked to end while it waited for its database, so there is nothing to stop.
        if (!stop.signal.aborted || error !== stop.signal.reason) throw error;
      } finally {
        await output.finish();
      }
    });
}

/** Whoever has the link is an operator, so it is shown only on a terminal: other people can read a log. */
export function signInLine({ link, tokenFile }: NonNullable<Service['signIn']>, isTerminal: boolean): string {
  // On a line of its own it fits 80 columns, and can be opened.
  return `Sign in: ${isTerminal ? `\n${link}` : `with the token in ${tokenFile}`}\n`;
}

/** Files with secrets that others can get at. @throws UsageError if one of them says who is an operator. */
async function openFiles({ databaseUrl }: Config): Promise<string[]> {
  const open = openToOthers(ENV_FILE);
  if (open !== null && 'OPS_TOKENS' in parseEnv(readEnvText(ENV_FILE)))
    throw new UsageError(`${ENV_FILE} in the working folder, with OPS_TOKENS, ${open}`);
  const database = await databasePath(databaseUrl);
  const found = [[ENV_FILE, open], ...(database === null ? [] : [[database, openToOthers(database)]])];
  return found.flatMap(([path, how]) => (how === null ? [] : [`${path} ${how}`]));
}

/** Only a warning: what is stored can be read, and the sender tries its deliveries again. */
function lackOfSecrets({ webhook, credentialsKey }: Config): string[] {
  if (webhook.secrets().length > 0 || credentialsKey !== null) return [];
  return [
    'WEBHOOK_SECRETS: not set, and without CREDENTIALS_KEY no registration can bring one: every delivery is answered 503. “setup” asks for what is needed, and writes .env',
  ];
}
