import { Command, Option } from 'commander';
import { type Config, configWarnings, loadConfig, secretTexts } from '../platform/config.ts';
import type { Logger } from '../platform/logger.ts';
import type { Service } from '../service/service.ts';
import type { Cli } from './cli.ts';
import { engines } from './database.ts';
import { aborted, stopSignals } from './stop-signals.ts';

/** For a process that starts this one: when it ends, this one ends too. */
export function attachedOption(): Option {
  return new Option('--attached', 'stop when standard input ends');
}

export function serveCommand(cli: Cli): Command {
  return new Command('serve')
    .description('run the service, as the environment configures it, until SIGTERM or Ctrl-C')
    .addOption(attachedOption())
    .action(async (options: { attached?: true }) => {
      let logger: Logger | undefined;
      const config = loadConfig(cli.env, {
        onSecretProblem: (error) => logger?.warn({ stage: 'service', outcome: 'failed', error }, 'secret'),
      });
      for (const warning of [...configWarnings(cli.env), ...lackOfSecrets(config), ...lackOfFiles()])
        cli.err.write(`compliance-mirror: ${warning}\n`);
      // Imported only here: short commands must not load a web server.
      const { createLogger } = await import('../platform/logger.ts');
      const { LAST_LINES_MS, standardOutput } = await import('../platform/log-output.ts');
      const { startService } = await import('../service/service.ts');
      const output = standardOutput();
      const secrets = () => secretTexts(config);
      logger = createLogger({ level: config.logLevel, secrets, destination: output });
      output.reportLost(logger);
      // Both to the person who starts the service and to its log.
      const exposure = await (await engines()).databaseExposure(config.databaseUrl, config.database);
      if (exposure !== null) {
        cli.err.write(`compliance-mirror: WARNING: ${exposure.says}\n  ${exposure.remedy}\n`);
        logger.warn({ stage: 'store', outcome: 'exposed', reason: exposure.says }, 'database');
      }
      using stop = stopSignals({ attached: options.attached === true });
      try {
        const service = await startService({
          config,
          logger,
          signal: stop.signal,
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
        await output.flush(LAST_LINES_MS);
      }
    });
}

/** Whoever has the link is an operator, so it is shown only on a terminal: other people can read a log. */
export function signInLine({ link, tokenFile }: NonNullable<Service['signIn']>, isTerminal: boolean): string {
  return `Sign in: ${isTerminal ? link : `with the token in ${tokenFile}`}\n`;
}

/** Only a warning: what is stored can be read, and the sender tries its deliveries again. */
function lackOfSecrets({ webhook, credentialsKey }: Config): string[] {
  if (webhook.secrets().length > 0 || credentialsKey !== null) return [];
  return [
    'WEBHOOK_SECRETS: not set, and without CREDENTIALS_KEY no registration can bring one: every delivery is answered 503. “setup” asks for what is needed, and writes .env',
  ];
}

/** The receiver takes up to 900 connections, which are files to the system. Everything else needs up to 100 files. */
const FILES = 1_000;

/** Only a warning: a few senders can still be served. */
function lackOfFiles(): string[] {
  // Otherwise the report looks up the name of every peer.
  Object.assign(process.report, { excludeNetwork: true });
  const { userLimits } = process.report.getReport() as { userLimits?: { open_files?: { soft: unknown } } };
  const soft = userLimits?.open_files?.soft;
  if (typeof soft !== 'number' || soft >= FILES) return [];
  return [
    `this process may open ${soft} files, connections included: raise the limit to 1024 or more (ulimit -n, or LimitNOFILE= of systemd)`,
  ];
}
