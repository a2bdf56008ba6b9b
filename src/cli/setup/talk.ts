import { randomBytes } from 'node:crypto';
import type { Clock } from '../../platform/clock.ts';
import { MirrorError } from '../../platform/errors.ts';
import { type Asker, yes } from '../asker.ts';
import type { Cli } from '../cli.ts';
import { databasePath } from '../database.ts';
import { DEFAULTS, type Draft } from './draft.ts';

/** The settings that setup asks for. */
const ASKED = {
  COMPLIANCE_BASE_URL: 'Address of the API, which ends in /v1',
  COMPLIANCE_AUTH: 'What do you have to sign in with?',
  COMPLIANCE_API_KEY: 'API key',
  COMPLIANCE_AUTH_URL: 'Address of its authorization server, without /oauth/token',
  COMPLIANCE_CLIENT_ID: 'Client id',
  COMPLIANCE_CLIENT_SECRET: 'Client secret',
  COMPLIANCE_REDIRECT_URI: 'Redirect address of that client',
  NOTIFY_URL:
    'Where are you told of problems? An address that takes a POST, such as an incoming webhook of Slack',
  WEBHOOK_SECRETS: 'Signing secret that the compliance service shows',
} as const;
type AskedName = keyof typeof ASKED;
/** Those that get a file of their own. */
const SECRETS: ReadonlySet<AskedName> = new Set([
  'COMPLIANCE_API_KEY',
  'COMPLIANCE_CLIENT_SECRET',
  'NOTIFY_URL',
  'WEBHOOK_SECRETS',
]);

export interface SetupOptions {
  url?: string;
  wait: number;
  yes?: true;
}

export interface SetupRun {
  cli: Cli;
  /** The environment of this process, without `.env`. */
  environment: NodeJS.ProcessEnv;
  asker: Asker;
  options: SetupOptions;
  signal: AbortSignal;
  /** For tests: another file than `.env` in the working folder. */
  path?: string;
  /** For tests: the time of the service that runs meanwhile. */
  clock?: Clock;
}

/** What the steps of setup share. */
export interface Talk extends SetupRun {
  draft: Draft;
  path: string;
  /** What was really written or registered so far, for Ctrl-C. */
  done: string[];
  /** Settings that were settled before: if that did not work, the person is asked. */
  settled: Set<string>;
}

/** The surroundings of a command that runs with the settings of the draft. */
export const commandOf = ({ cli, draft }: Talk): Cli => ({ ...cli, env: draft.env() });

/** Sets a value that was found out, or tells the person if only the environment can be changed. */
export function setFound({ draft, asker }: Talk, name: string, value: string): void {
  if (draft.isFixed(name)) {
    asker.say(`${name} should be ${value}, and the environment says otherwise: change it there.`, 'bad');
  } else {
    draft.set(name, value);
    asker.say(`${name}=${value}`);
  }
}

/** Settles one setting: from the environment, from its present value, or by asking the person. */
export async function settle(
  { draft, asker, settled }: Talk,
  name: AskedName,
  more: { choices?: readonly (readonly [value: string, label: string])[]; isOptional?: true } = {},
): Promise<void> {
  const isAgain = settled.has(name);
  settled.add(name);
  if (draft.isFixed(name)) return asker.say(`${name} is set by the environment, so it is not asked for.`);
  const isSecret = SECRETS.has(name);
  // A secret that was refused just now is not offered again.
  const held = isSecret && isAgain ? undefined : (draft.held(name) ?? DEFAULTS[name]);
  const ofEnter =
    held === undefined ? more.isOptional && ' (Enter: none)' : isSecret && ' (Enter: the one that is set)';
  const answer = await asker.ask({
    text: `${ASKED[name]}${ofEnter || ''}`,
    flag: name,
    otherwise: held === undefined ? more.isOptional && '' : isSecret ? '' : held,
    isHidden: isSecret && !more.isOptional,
    choices: more.choices,
    problem: (typed) => draft.problemOf(name, typed),
  });
  if (answer !== '' && answer !== held) isSecret ? draft.setSecret(name, answer) : draft.set(name, answer);
}

/** 128 bits, in hex. */
const OPS_TOKEN_BYTES = 16;
const CREDENTIALS_KEY_BYTES = 32;

export async function makeKeys({ draft }: Talk): Promise<void> {
  const make = (name: string, value: string) => {
    if (draft.held(name) === undefined) draft.setSecret(name, value);
  };
  make('CREDENTIALS_KEY', randomBytes(CREDENTIALS_KEY_BYTES).toString('base64'));
  // With a SQLite file the service makes a token itself and prints a link with it.
  if ((await databasePath(draft.config().databaseUrl)) !== null) return;
  make('OPS_TOKENS', `operator:operate:${randomBytes(OPS_TOKEN_BYTES).toString('hex')}`);
}

export async function save({ draft, asker, path, done }: Talk): Promise<void> {
  if (!draft.isChanged()) return asker.say(`${path} says all of it already.`);
  asker.say(`To be written into ${path}, each secret into a file of its own:`);
  for (const line of draft.changes()) asker.say(`  ${line}`);
  if (!(await yes(asker, 'Write it?'))) throw new MirrorError('not_written', `${path} was not written`);
  const files = draft.write();
  done.push(...files.map((file) => `written: ${file}`));
  asker.say(`Written, for their owner alone to read: ${files.join(', ')}`, 'good');
}
