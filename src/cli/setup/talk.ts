import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import type { Cli } from '../cli.ts';
import { databasePath } from '../database.ts';
import { printable } from '../text.ts';
import type { Asker } from './asker.ts';
import { DEFAULTS, type Draft } from './draft.ts';

/** The answers that options may give. For a secret the option names a file. */
interface GivenAnswers {
  baseUrl?: string;
  auth?: string;
  apiKeyFile?: string;
  authUrl?: string;
  clientId?: string;
  clientSecretFile?: string;
  redirectUri?: string;
  webhookSecretsFile?: string;
}

export interface SetupOptions extends GivenAnswers {
  riskId?: string;
  url?: string;
  secretAt?: string;
  register: boolean;
  paste?: true;
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
  say(line: string): void;
  /** How many requests were sent to the API so far. */
  sent: number;
  /** Options that were already tried: if one did not work, the person is asked. */
  used: Set<string>;
}

/** The surroundings of a command that runs with the settings of the draft. */
export const commandOf = ({ cli, draft }: Talk): Cli => ({ ...cli, env: draft.env() });

/** Sets a value that was found out, or tells the person if only the environment can be changed. */
export function setFound({ draft, say }: Talk, name: string, value: string): void {
  if (draft.isFixed(name)) {
    say(`  ! ${name} should be ${printable(value)}, and the environment says otherwise: change it there`);
    return;
  }
  draft.set(name, value);
  say(`  → ${name}=${printable(value)}`);
}

/** Settles one setting: from the environment, from `option`, from its present value, or by asking the person with `text`. */
export async function settle(
  talk: Talk,
  name: string,
  text: string,
  option: keyof GivenAnswers,
): Promise<void> {
  const { draft, asker, say, used } = talk;
  const flag = `--${option.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  const isSecret = option.endsWith('File');
  const given = used.has(flag) ? undefined : talk.options[option];
  if (asker.isPerson) used.add(flag);
  if (draft.isFixed(name)) {
    if (given !== undefined) {
      const what = `${flag} is given, and the environment sets ${name}, which wins`;
      throw new UsageError(what, 'leave one of them away');
    }
    if (!used.has(name)) say(`${name}: the environment sets it, so that it is not written.`);
    used.add(name);
    return;
  }
  if (given !== undefined) {
    // The service may be started in another folder, where a relative path would be wrong.
    if (isSecret) draft.set(`${name}_FILE`, resolve(given));
    else draft.set(name, given);
    const problem = draft.problemOf(name);
    if (problem !== null) throw new UsageError(`${flag}: ${problem}`);
    return;
  }
  for (;;) {
    const held = draft.held(name) ?? DEFAULTS[name];
    const otherwise = held !== undefined && isSecret ? 'the one that is set' : held;
    const answer = await asker.ask({ text, flag, isHidden: isSecret, otherwise });
    if (answer === '' && held === undefined) continue;
    const takeBack = answer === '' ? null : draft.set(name, answer);
    const problem = draft.problemOf(name);
    if (problem === null) return;
    if (!asker.isPerson) throw new UsageError(problem, `give it with ${flag}`);
    takeBack?.();
    // The person may have typed a secret at the wrong question, so it is not repeated.
    const [, takes] = problem.split('; takes ');
    say(printable(takes === undefined ? problem : `${name}: takes ${takes}`));
  }
}

/** 128 bits, in hex. */
const OPS_TOKEN_BYTES = 16;
const CREDENTIALS_KEY_BYTES = 32;

export async function makeKeys({ draft, say }: Talk): Promise<void> {
  const make = (name: string, value: string, what: string) => {
    if (draft.isFixed(name) || draft.held(name) !== undefined) return;
    draft.set(name, value);
    say(`Made: ${name}, ${what}`);
  };
  const key = randomBytes(CREDENTIALS_KEY_BYTES).toString('base64');
  const purpose = 'which encrypts what is stored of secrets. Keep a copy of it apart from the database.';
  make('CREDENTIALS_KEY', key, purpose);
  // With a SQLite file the service makes a token itself and prints a link with it.
  if ((await databasePath(draft.config().databaseUrl)) !== null) return;
  const token = randomBytes(OPS_TOKEN_BYTES).toString('hex');
  make('OPS_TOKENS', `operator:operate:${token}`, 'with one token for an operator.');
}

export async function save({ draft, asker, say, path }: Talk): Promise<void> {
  const isChanged = draft.isChanged();
  if (isChanged) {
    say(`\n${path} is to say:`);
    for (const { name, value } of draft.shown()) say(`  ${name}=${printable(value)}`);
    const answer = asker.isPerson
      ? await asker.ask({ text: 'Write it? y or n', otherwise: 'y', flag: '--yes' })
      : '';
    if (!/^(y|yes)?$/i.test(answer)) throw new MirrorError('not_written', `${path} was not written`);
  }
  draft.write();
  say(isChanged ? `Written: ${path}, for its owner alone to read.` : `${path} says all of it already.`);
}
