import { styleText } from 'node:util';
import { Command, Help } from 'commander';
import { describeError, MirrorError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { type Cli, proseScreen, screenOf } from './cli.ts';
import { ENV_FILE, readEnvText, withEnvText } from './env-file.ts';
import { EXIT, exitCodeOf, explain } from './exit.ts';
import { helpNote } from './options.ts';

type Load = (cli: Cli) => Promise<Command>;

const HIDDEN = 'hidden';
/** In the order of --help. A command is loaded when it is called: loading all takes four times as long as loading one. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, Load>>>> = {
  'Start:': {
    serve: async (cli) => (await import('./serve.ts')).serveCommand(cli, process.env),
    setup: async (cli) => (await import('./setup.ts')).setupCommand(cli, process.env),
    demo: async (cli) => (await import('./demo.ts')).demoCommand(cli),
    sandbox: async (cli) => (await import('./sandbox.ts')).sandboxCommand(cli),
  },
  'Look:': {
    status: async (cli) => (await import('./status.ts')).statusCommand(cli),
    doctor: async (cli) => (await import('./doctor.ts')).doctorCommand(cli),
    problems: async (cli) => (await import('./problems.ts')).problemsCommand(cli),
    audit: async (cli) => (await import('./records.ts')).auditCommand(cli),
  },
  'Work:': {
    deliveries: async (cli) => (await import('./deliveries.ts')).deliveriesCommand(cli),
    records: async (cli) => (await import('./records.ts')).recordsCommand(cli),
    export: async (cli) => (await import('./export.ts')).exportCommand(cli),
    sync: async (cli) => (await import('./sync.ts')).syncCommand(cli),
    pause: async (cli) => (await import('./sync.ts')).pauseCommand(cli),
    resume: async (cli) => (await import('./sync.ts')).resumeCommand(cli),
  },
  'Connect and keep:': {
    webhook: async (cli) => (await import('./webhook.ts')).webhookCommand(cli),
    login: async (cli) => (await import('./login.ts')).loginCommand(cli),
    'rotate-key': async (cli) => (await import('./database-commands.ts')).rotateKeyCommand(cli),
    api: async (cli) => (await import('./api.ts')).apiCommand(cli),
    backup: async (cli) => (await import('./database-commands.ts')).backupCommand(cli),
    restore: async (cli) => (await import('./database-commands.ts')).restoreCommand(cli),
  },
  [HIDDEN]: {
    migrate: async (cli) => (await import('./database-commands.ts')).migrateCommand(cli),
  },
};

/** Runs one command. `words`: what follows the executable's name. Resolves to the exit code; never rejects. */
export async function run(words: readonly string[]): Promise<number> {
  const args = words[0] === 'help' ? [...words.slice(1), '--help'] : words;
  const err = proseScreen(screenOf(process.stderr));
  const cli: Cli = { env: process.env, out: screenOf(process.stdout), err };
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
  const root = new Command('compliance-mirror')
    .description('A local SQL copy of your policies, risk assessments and vendors.')
    .version(version(), '--version', 'its version')
    .addHelpText(
      'after',
      helpNote(
        'COMMAND --help shows what it takes. Settings: the environment, else .env in this folder.',
        'Exit codes: 0 done, 1 failed, 2 bad usage or configuration, 3 done but a difference was found or somebody must act.',
      ),
    );
  const all = Object.entries(GROUPS).flatMap(([group, commands]) =>
    Object.entries(commands).map(([name, load]) => ({ group, name, load })),
  );
  const one = all.filter(({ name }) => name === wanted);
  for (const { group, load } of one.length === 0 ? all : one)
    root.addCommand((await load(cli)).helpGroup(group), { hidden: group === HIDDEN });
  for (const command of withSubcommands(root)) {
    command.exitOverride();
    // “deliveries” has a list's options, and so has “deliveries list”: each takes what follows its own name.
    command.enablePositionalOptions();
    command.helpCommand(false);
    command.configureOutput({ writeErr: (text) => cli.err.write(text) });
    command.configureHelp({
      styleTitle: (title) => styleText('bold', title, { validateStream: false }),
      // The list of all commands fits a screen only without what each takes, and without --help and --version.
      subcommandTerm: (each) =>
        command === root ? each.name() : new Help().subcommandTerm(each).replace(' [options]', ''),
      ...(command === root ? { visibleOptions: () => [] } : {}),
    });
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
