import { Command } from 'commander';
import { version } from '../version.ts';
import { apiCommand } from './api.ts';
import { backupCommand } from './backup.ts';
import { type Cli, screenOf } from './cli.ts';
import { credentialsCommand } from './credentials.ts';
import { demoCommand } from './demo.ts';
import { doctorCommand } from './doctor.ts';
import { withEnvFile } from './env-file.ts';
import { eventsCommand } from './events.ts';
import { EXIT, exitCodeOf, explain } from './exit.ts';
import { exportCommand } from './export.ts';
import { gapsCommand } from './gaps.ts';
import { loginCommand } from './login.ts';
import { migrateCommand } from './migrate.ts';
import { pauseCommand, resumeCommand } from './pause.ts';
import { quarantineCommand } from './quarantine.ts';
import { recordsCommand } from './records.ts';
import { refetchCommand } from './refetch.ts';
import { registerCommand } from './register.ts';
import { registrationsCommand } from './registrations.ts';
import { rejectionsCommand } from './rejections.ts';
import { sandboxCommand } from './sandbox.ts';
import { serveCommand } from './serve.ts';
import { setupCommand } from './setup.ts';
import { statusCommand } from './status.ts';
import { sweepCommand } from './sweep.ts';
import { sweepsCommand } from './sweeps.ts';

/** Runs one command. `args` as after the executable's name. Resolves to the exit code; never rejects. */
export async function run(args: readonly string[]): Promise<number> {
  const cli: Cli = { env: process.env, out: screenOf(process.stdout), err: screenOf(process.stderr) };
  if (args[0] === 'serve') goOnWithoutReader();
  else endQuietlyWithReader();
  try {
    cli.env = withEnvFile(process.env);
    await program(cli).parseAsync([...args], { from: 'user' });
    return EXIT.done;
  } catch (error) {
    const debug = cli.env['LOG_LEVEL'] === 'debug' || cli.env['LOG_LEVEL'] === 'trace';
    cli.err.write(explain(error, { debug }));
    return exitCodeOf(error);
  }
}

function program(cli: Cli): Command {
  const commands = [
    setupCommand(cli, process.env),
    serveCommand(cli),
    demoCommand(cli),
    sandboxCommand(cli),
    registerCommand(cli),
    registrationsCommand(cli),
    credentialsCommand(cli),
    loginCommand(cli),
    apiCommand(cli),
    doctorCommand(cli),
    statusCommand(cli),
    eventsCommand(cli),
    recordsCommand(cli),
    gapsCommand(cli),
    sweepsCommand(cli),
    sweepCommand(cli),
    refetchCommand(cli),
    quarantineCommand(cli),
    rejectionsCommand(cli),
    pauseCommand(cli),
    resumeCommand(cli),
    exportCommand(cli),
    backupCommand(cli),
    migrateCommand(cli),
  ];
  const root = new Command('compliance-mirror')
    .description("Keeps a local SQL copy of a compliance service's policies, risk assessments and vendors.")
    .version(version(), '--version', 'its version')
    .addHelpText(
      'after',
      '\nSettings come from the environment, and from .env in the working folder where the environment has none.\nExit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done but a difference was found.',
    );
  for (const command of commands) root.addCommand(command);
  for (const command of withSubcommands(root)) {
    command.exitOverride();
    command.showHelpAfterError('(--help shows what it takes)');
  }
  return root;
}

function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)];
}

/** The service does its work for others than who reads its lines: a log that takes none is no reason to end. */
function goOnWithoutReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** Whoever reads our output may stop early, as `head` does: no failure, and nothing to say about it. */
function endQuietlyWithReader(): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(process.exitCode ?? EXIT.done);
      throw error;
    });
  }
}
