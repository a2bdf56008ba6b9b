import { Argument, Command, InvalidArgumentError } from 'commander';
import { EVENT_TYPES, type EventType } from '../compliance/kinds.ts';
import { describeError, MirrorError, UsageError } from '../platform/errors.ts';
import { type Cli, writeJson } from './cli.ts';
import { jsonOption } from './options.ts';
import { printable } from './text.ts';

/** As the sandbox listens by default. */
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
    .description('have a running sandbox make a change, and so send an event of this type')
    .addArgument(new Argument('<type>', 'of the event').choices(EVENT_TYPES))
    .option('--record <id>', 'about this record; default: one by chance')
    .option(
      '--field <name=value>',
      'set a field of the record, also several times; the value is read as JSON where it is some',
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
    return JSON.parse(text);
  } catch {
    return text;
  }
}

async function ask({ env }: Cli, flags: TriggerFlags, body: object): Promise<Triggered> {
  const { sandboxOptionsFromEnv } = await import('../../sandbox/options.ts');
  const { host = DEFAULT_HOST, port = DEFAULT_PORT, token } = sandboxOptionsFromEnv(env);
  const address = URL.parse('/_sandbox/trigger', flags.sandbox ?? `http://${host}:${port}`);
  if (address === null)
    throw new UsageError('--sandbox is no address', 'it looks like http://127.0.0.1:9090');
  // As a browser takes it, too: fetch refuses it there, and an error must not repeat it.
  const password = address.password === '' ? token : decodeURIComponent(address.password);
  address.username = '';
  address.password = '';
  try {
    const response = await fetch(address, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        // As a password, which may have any character in it.
        ...(password !== undefined
          ? { authorization: `Basic ${Buffer.from(`trigger:${password}`).toString('base64')}` }
          : {}),
      },
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
