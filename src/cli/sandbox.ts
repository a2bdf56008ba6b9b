import { Argument, Command, InvalidArgumentError } from 'commander';
import { parseJson } from '../compliance/json.ts';
import { EVENT_TYPES, type EventType } from '../compliance/kinds.ts';
import { unknownNames } from '../platform/config-sources.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { type Cli, writeJson } from './cli.ts';
import { helpNote, integerBetween, jsonOption, parsePort } from './options.ts';
import { attachedOption } from './serve.ts';
import { aborted, stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface SandboxFlags {
  seed?: string;
  port?: number;
  seedNumber?: number;
  attached?: true;
}

/** A variable with such a name that is no setting is a mistake. */
const SANDBOX_NAMES = /^SANDBOX_/;

export function sandboxCommand(cli: Cli): Command {
  return new Command('sandbox')
    .description('run a stand-in for the compliance service, in memory, for trying things out')
    .option('--seed <file>', 'records to start with: {"policies":[…],"riskAssessments":[…],"vendors":[…]}')
    .option('--port <port>', 'port to listen on; 0: any free one', parsePort)
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
      // Imported only here: short commands must not load a web server.
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
        seed: flags.seed === undefined ? options.seed : loadSeed(flags.seed),
        port: flags.port ?? options.port,
        seedNumber: flags.seedNumber ?? options.seedNumber,
      });
      try {
        cli.out.write(`${introduction(sandbox, options).join('\n')}\n`);
        await aborted(stop.signal);
      } finally {
        await sandbox.close();
      }
    });
}

/** Where the sandbox listens by default. */
const DEFAULT_HOST = '127.0.0.1';
const DEFAULT_PORT = 9090;
const TIMEOUT_MS = 10_000;
const REFUSAL_MAX_LENGTH = 300;

interface TriggerFlags {
  record?: string;
  field?: Record<string, unknown>;
  sandbox?: string;
  json?: true;
}

interface Triggered {
  events: { id: string; type: string; kind: string; record_id: string }[];
  registrations: number;
}

export function triggerCommand(cli: Cli): Command {
  return new Command('trigger')
    .description('make a running sandbox change something, so that it sends an event of this type')
    .addArgument(new Argument('<type>', 'of the event').choices(EVENT_TYPES))
    .option('--record <id>', 'about this record; default: a random one')
    .option(
      '--field <name=value>',
      'set a field of the record; can be given several times; the value may be JSON',
      parseField,
    )
    .option(
      '--sandbox <url>',
      `default: http://SANDBOX_HOST:SANDBOX_PORT, or ${DEFAULT_HOST}:${DEFAULT_PORT}`,
    )
    .addOption(jsonOption())
    .action(async (type: EventType, flags: TriggerFlags) => {
      const triggered = await ask(cli, flags, { type, id: flags.record, fields: flags.field });
      if (flags.json) writeJson(cli.out, triggered);
      else cli.out.write(triggered.events.map(lineOf).join(''));
      if (triggered.registrations === 0) {
        cli.err.write('Nobody is registered with this sandbox, so nothing is sent: see "register".\n');
      }
    });
}

const lineOf = ({ id, type, kind, record_id }: Triggered['events'][number]) =>
  `${type}  ${id}  ${kind} ${printable(record_id)}\n`;

function parseField(text: string, before: Record<string, unknown> = {}): Record<string, unknown> {
  const [, name, value] = /^([^=]+)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) throw new InvalidArgumentError('It takes NAME=VALUE.');
  if (Object.hasOwn(before, name)) throw new InvalidArgumentError(`"${name}" is set twice.`);
  return { ...before, [name]: jsonOrText(value) };
}

function jsonOrText(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return text;
  }
}

async function ask({ env }: Cli, flags: TriggerFlags, body: object): Promise<Triggered> {
  const { sandboxOptionsFromEnv } = await import('../../sandbox/options.ts');
  const { urlOf } = await import('../../sandbox/access.ts');
  const { host = DEFAULT_HOST, port = DEFAULT_PORT, token } = sandboxOptionsFromEnv(env);
  const address = URL.parse('/_sandbox/trigger', flags.sandbox ?? urlOf(host, port));
  if (address === null)
    throw new UsageError('--sandbox is no address', 'it looks like http://127.0.0.1:9090');
  // Browsers take a password in an address. fetch refuses it, and an error must not repeat it.
  const password = address.password === '' ? token : decodeURIComponent(address.password);
  address.username = '';
  address.password = '';
  const headers = new Headers({ 'content-type': 'application/json' });
  if (password !== undefined) {
    // Basic, because a bearer token cannot hold every character.
    headers.set('authorization', `Basic ${Buffer.from(`trigger:${password}`).toString('base64')}`);
  }
  try {
    const response = await fetch(address, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
      redirect: 'error',
      signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    const text = await response.text();
    if (!response.ok) throw refusal(response.status, text);
    return JSON.parse(text) as Triggered;
  } catch (error) {
    if (error instanceof MirrorError) throw error;
    const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
    throw new MirrorError('sandbox', `no sandbox answers at ${address.origin}: ${describeError(cause)}`, {
      remedy: 'start one with "sandbox", or name its address: --sandbox',
    });
  }
}

function refusal(status: number, text: string): MirrorError {
  const { detail } = Object(jsonOrText(text)) as { detail?: string };
  const shown = detail ?? text.slice(0, REFUSAL_MAX_LENGTH);
  return new MirrorError('sandbox', `the sandbox answered ${status}: ${shown}`);
}
