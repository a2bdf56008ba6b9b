import { styleText } from 'node:util';
import { Command } from 'commander';
import { describeError, MirrorError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { type Cli, screenOf } from './cli.ts';
import { ENV_FILE, readEnvText, withEnvText } from './env-file.ts';
import { EXIT, exitCodeOf, explain } from './exit.ts';
import { helpNote } from './options.ts';

type Load = (cli: Cli) => Promise<Command>;

const LAST_GROUP = 'The database, and the rest:';
/** In the order of --help. A command is loaded when it is called: loading all takes four times as long as loading one. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, Load>>>> = {
  'Try and run:': {
    setup: async (cli) => (await import('./setup.ts')).setupCommand(cli, process.env),
    serve: async (cli) => (await import('./serve.ts')).serveCommand(cli),
    demo: async (cli) => (await import('./demo.ts')).demoCommand(cli),
    sandbox: async (cli) => (await import('./sandbox.ts')).sandboxCommand(cli),
    trigger: async (cli) => (await import('./sandbox.ts')).triggerCommand(cli),
  },
  'Is it right?': {
    status: async (cli) => (await import('./status.ts')).statusCommand(cli),
    doctor: async (cli) => (await import('./doctor.ts')).doctorCommand(cli),
    gaps: async (cli) => (await import('./row-commands.ts')).gapsCommand(cli),
    'sync-runs': async (cli) => (await import('./row-commands.ts')).syncRunsCommand(cli),
  },
  'What came in:': {
    deliveries: async (cli) => (await import('./deliveries.ts')).deliveriesCommand(cli),
    events: async (cli) => (await import('./row-commands.ts')).eventsCommand(cli),
    quarantine: async (cli) => (await import('./row-commands.ts')).quarantineCommand(cli),
    rejections: async (cli) => (await import('./row-commands.ts')).rejectionsCommand(cli),
  },
  'The records:': {
    records: async (cli) => (await import('./records.ts')).recordsCommand(cli),
    export: async (cli) => (await import('./export.ts')).exportCommand(cli),
  },
  'Repair:': {
    sync: async (cli) => (await import('./full-sync.ts')).fullSyncCommand(cli),
    refetch: async (cli) => (await import('./repair-commands.ts')).refetchCommand(cli),
    deletions: async (cli) => (await import('./repair-commands.ts')).deletionsCommand(cli),
    pause: async (cli) => (await import('./repair-commands.ts')).pauseCommand(cli),
    resume: async (cli) => (await import('./repair-commands.ts')).resumeCommand(cli),
  },
  'The compliance service:': {
    register: async (cli) => (await import('./register.ts')).registerCommand(cli),
    registrations: async (cli) => (await import('./registrations.ts')).registrationsCommand(cli),
    login: async (cli) => (await import('./login.ts')).loginCommand(cli),
    credentials: async (cli) => (await import('./credentials.ts')).credentialsCommand(cli),
    api: async (cli) => (await import('./api.ts')).apiCommand(cli),
  },
  [LAST_GROUP]: {
    backup: async (cli) => (await import('./database-commands.ts')).backupCommand(cli),
    migrate: async (cli) => (await import('./database-commands.ts')).migrateCommand(cli),
    audit: async (cli) => (await import('./row-commands.ts')).auditCommand(cli),
    completion: async (cli) =>
      (await import('./completion.ts')).completionCommand(cli, () => program(cli, undefined)),
  },
};

/** Runs one command. `words`: what follows the executable's name. Resolves to the exit code; never rejects. */
export async function run(words: readonly string[]): Promise<number> {
  // The parser's own "help" takes one word, so "help gaps show" would show that of "gaps".
  const args = words[0] === 'help' && words.length > 2 ? [...words.slice(1), '--help'] : words;
  const cli: Cli = { env: process.env, out: screenOf(process.stdout), err: screenOf(process.stderr) };
  if (args[0] === 'serve' || args[0] === 'demo') goOnWithoutReader();
  // `sync` goes on without a reader, because its exit code says what the full syncs found.
  else endQuietlyWithReader({ atOnce: args[0] !== 'sync' });
  try {
    cli.env = withEnvText(process.env, readEnvText(ENV_FILE));
    const root = await program(cli, args[0]);
    await root.parseAsync([...args], { from: 'user' });
    return EXIT.done;
  } catch (error) {
    const debug = cli.env['LOG_LEVEL'] === 'debug' || cli.env['LOG_LEVEL'] === 'trace';
    cli.err.write(explain(error, { debug }));
    return exitCodeOf(error);
  }
}

async function program(cli: Cli, wanted: string | undefined): Promise<Command> {
  const entries = Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, load]) => ({ group, name, load })),
  );
  const one = entries.filter(({ name }) => name === wanted);
  const commands = await Promise.all(
    (one.length === 0 ? entries : one).map(async ({ group, load }) => (await load(cli)).helpGroup(group)),
  );
  const root = new Command('compliance-mirror')
    .description("Keeps a local SQL copy of a compliance service's policies, risk assessments and vendors.")
    // For `help`, which commander makes.
    .commandsGroup(LAST_GROUP)
    .helpCommand(true)
    .version(version(), '--version', 'its version')
    .addHelpText(
      'after',
      helpNote(
        'Settings come from the environment, and from .env in the working folder where the environment has none.',
        'Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done but a difference was found.',
      ),
    );
  for (const command of commands) root.addCommand(command);
  for (const command of withSubcommands(root)) {
    command.exitOverride();
    command.configureHelp({ styleTitle: (title) => styleText('bold', title, { validateStream: false }) });
    command.showHelpAfterError('(--help shows what it takes)');
  }
  return root;
}

function withSubcommands(command: Command): Command[] {
  return [command, ...command.commands.flatMap(withSubcommands)];
}

/** The service goes on if nobody reads its log any more. The demo stops by itself, in order. */
function goOnWithoutReader(): void {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => undefined);
}

/** A reader may stop early, as `head` does. That is no failure, so nothing is reported. */
function endQuietlyWithReader({ atOnce }: { atOnce: boolean }): void {
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE' && !atOnce) return;
      if (error.code === 'EPIPE') process.exit(process.exitCode ?? EXIT.done);
      // Standard error is lost, but the exit code still tells the outcome.
      if (stream === process.stderr) return;
      const remedy = 'free space, or write to another place';
      const lost = new MirrorError('output', `standard output takes nothing: ${describeError(error)}`, {
        remedy,
      });
      process.stderr.write(explain(lost));
      process.exit(EXIT.failed);
    });
  }
}
