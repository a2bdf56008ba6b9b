import { Argument, Command, InvalidArgumentError } from 'commander';
import { parseJson } from '../compliance/json.ts';
import { EVENT_TYPES, type EventType } from '../compliance/kinds.ts';
import { sourceOf } from '../platform/config-sources.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import type { Cli } from './cli.ts';
import { helpNote, parsePort } from './options.ts';
import { attachedOption } from './serve.ts';
import { aborted, stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

interface SandboxFlags {
  seed?: string;
  host?: string;
  port?: number;
  webhookSecret?: string;
  redirectUri?: string;
  attached?: true;
}

const MIN_TOKEN_LENGTH = 16;

export function sandboxCommand(cli: Cli): Command {
  return new Command('sandbox')
    .description('run a stand-in for the compliance service, to try things out')
    .option(
      '--seed <file>',
      'JSON of records to start with: {"policies": […], "riskAssessments": […], "vendors": […]}',
    )
    .option('--host <address>', 'to listen on; one that others reach needs SANDBOX_TOKEN')
    .option('--port <port>', 'to listen on (default: 9090); 0: any free one', parsePort)
    .option('--webhook-secret <text>', 'for registrations that name none (default: one is made for each)')
    .option('--redirect-uri <url>', 'of the OAuth client (default: http://127.0.0.1:8765/callback)')
    .addOption(attachedOption())
    .addHelpText(
      'after',
      helpNote(
        'SANDBOX_TOKEN guards its page and controls. SANDBOX_API_KEY lets into its API: one or more, with commas between; without it one is made and printed.',
      ),
    )
    .addCommand(triggerCommand(cli))
    .action((flags: SandboxFlags) => runSandbox(cli, flags));
}

async function runSandbox(cli: Cli, flags: SandboxFlags): Promise<void> {
  // Imported only here: short commands must not load a web server.
  const { introduction, startSandbox } = await import('../../sandbox/sandbox.ts');
  const { loadSeed } = await import('../../sandbox/seed.ts');
  const { attached, seed, ...options } = flags;
  const keys = secretIn(cli.env, 'SANDBOX_API_KEY');
  const given = {
    ...options,
    token: tokenIn(cli.env),
    ...(keys === null ? {} : { apiKeys: keys.split(',').map((key) => key.trim()) }),
    ...(seed === undefined ? {} : { seed: loadSeed(seed) }),
  };
  using stop = stopSignals({ attached: attached === true });
  const sandbox = await startSandbox(given);
  try {
    cli.out.write(`${introduction(sandbox, given).join('\n')}\n`);
    await aborted(stop.signal);
  } finally {
    await sandbox.close();
  }
}

function tokenIn(env: Cli['env']): string | null {
  const token = secretIn(env, 'SANDBOX_TOKEN');
  if (token === null || token.length >= MIN_TOKEN_LENGTH) return token;
  throw new UsageError(`SANDBOX_TOKEN is too short: it takes at least ${MIN_TOKEN_LENGTH} characters`);
}

/** Null: unset. */
function secretIn(env: Cli['env'], name: string): string | null {
  try {
    return sourceOf(env, name)?.text ?? null;
  } catch (error) {
    throw new UsageError(describeError(error));
  }
}

const TIMEOUT_MS = 10_000;
const REFUSAL_MAX_LENGTH = 300;

interface TriggerFlags {
  record?: string;
  field?: Record<string, unknown>;
  sandbox?: string;
}

interface Triggered {
  events: { id: string; type: string; kind: string; record_id: string }[];
  registrations: number;
}

function triggerCommand(cli: Cli): Command {
  return new Command('trigger')
    .description('make a running sandbox change something, so that it sends an event of this type')
    .addArgument(new Argument('<type>', 'of the event').choices(EVENT_TYPES))
    .option('--record <id>', 'about this record; default: a random one')
    .option(
      '--field <name=value>',
      'set a field of the record; can be given several times; the value may be JSON',
      parseField,
    )
    .option('--sandbox <url>', 'its address (default: http://127.0.0.1:9090)')
    .action(async (type: EventType, flags: TriggerFlags) => {
      const triggered = await ask(cli, flags, { type, id: flags.record, fields: flags.field });
      cli.out.write(triggered.events.map(lineOf).join(''));
      if (triggered.registrations === 0) {
        cli.err.write(
          'Nobody is registered with this sandbox, so nothing is sent: see "webhook register".\n',
        );
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
  const { DEFAULT_ADDRESS } = await import('../../sandbox/options.ts');
  const address = URL.parse('/_sandbox/mutate', flags.sandbox ?? DEFAULT_ADDRESS);
  if (address === null)
    throw new UsageError('--sandbox is no address', 'it looks like http://127.0.0.1:9090');
  // Browsers take a password in an address. fetch refuses it, and an error must not repeat it.
  const password = address.password === '' ? tokenIn(env) : decodeURIComponent(address.password);
  address.username = '';
  address.password = '';
  const headers = new Headers({ 'content-type': 'application/json' });
  if (password !== null) {
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
