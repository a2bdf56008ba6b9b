import { randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Clock } from '../../platform/clock.ts';
import { MirrorError, UsageError } from '../../platform/errors.ts';
import type { Cli } from '../cli.ts';
import { printable } from '../text.ts';
import type { Asker, Question } from './asker.ts';
import type { Draft } from './draft.ts';

export interface SetupOptions {
  baseUrl?: string;
  auth?: string;
  apiKeyFile?: string;
  authUrl?: string;
  clientId?: string;
  clientSecretFile?: string;
  redirectUri?: string;
  riskId?: string;
  url?: string;
  secretAt?: string;
  webhookSecretsFile?: string;
  register: boolean;
  paste?: true;
  wait: number;
  yes?: true;
}

export interface SetupRun {
  cli: Cli;
  /** The process's own, without what `.env` says. */
  environment: NodeJS.ProcessEnv;
  asker: Asker;
  options: SetupOptions;
  signal: AbortSignal;
  /** For tests: another file than the working folder's. */
  path?: string;
  /** For tests: time of the service that runs meanwhile. */
  clock?: Clock;
}

/** What the steps hand on. */
export interface Talk extends SetupRun {
  draft: Draft;
  path: string;
  say(line: string): void;
  /** Requests that have gone to the API so far. */
  sent: number;
  /** Options that had their turn: what did not work is asked for the next time. */
  used: Set<string>;
}

/** The same command line with the settings as they will be. */
export const commandOf = ({ cli, draft }: Talk): Cli => ({ ...cli, env: draft.env() });

/** Found out by looking. What the environment says otherwise cannot be changed from here. */
export function setFound({ draft, say }: Talk, name: string, value: string): void {
  if (draft.isFixed(name)) {
    say(`  ! ${name} should be ${printable(value)}, and the environment says otherwise: change it there`);
    return;
  }
  draft.set(name, value, DEFAULTS[name]);
  say(`  → ${name}=${printable(value)}`);
}

/** Of the settings that are found out and not asked for; all the others have no default. */
export const DEFAULTS: Readonly<Record<string, string>> = {
  COMPLIANCE_AUTH: 'api_key',
  COMPLIANCE_PAGE_PARAM: 'page',
  COMPLIANCE_PER_PAGE_PARAM: 'perPage',
  COMPLIANCE_FIRST_PAGE: '1',
  WEBHOOK_SIGNED_CONTENT: '{t}.{body}',
  WEBHOOK_SIGNATURE_ALGORITHM: 'sha256',
  WEBHOOK_SECRET_ENCODING: 'utf8',
  WEBHOOK_SIGNATURE_HEADER: 'X-Webhook-Signature',
};

interface SettingQuestion extends Question {
  given?: string | undefined;
  /** A path to read it from. */
  givenFile?: string | undefined;
}

/** Has one setting answered: by the environment, by an option, by what is set already, or by the person. */
export async function settle(talk: Talk, name: string, question: SettingQuestion): Promise<void> {
  const { draft, asker, say } = talk;
  const { given, givenFile, ...rest } = question;
  const option = talk.used.has(question.flag) ? undefined : (given ?? givenFile);
  if (asker.isPerson) talk.used.add(question.flag);
  if (draft.isFixed(name)) {
    if (option !== undefined) {
      throw new UsageError(
        `${question.flag} is given, and the environment sets ${name}, which wins`,
        'leave one of them away',
      );
    }
    if (!talk.used.has(name)) say(`${name}: the environment sets it, so that it is not written.`);
    talk.used.add(name);
    return;
  }
  if (option !== undefined) {
    // Where the service is started from another folder, a relative path would lead elsewhere.
    if (given === undefined) draft.set(`${name}_FILE`, resolve(option));
    else draft.set(name, option, DEFAULTS[name]);
    const problem = draft.problemOf(name);
    if (problem !== null) throw new UsageError(`${question.flag}: ${problem}`);
    return;
  }
  for (;;) {
    const held = draft.get(name) ?? draft.get(`${name}_FILE`) ?? DEFAULTS[name];
    const shown = held !== undefined && question.isHidden ? 'the one that is set' : held;
    const answer = await asker.ask({ ...rest, ...(shown === undefined ? {} : { otherwise: shown }) });
    if (answer === '' && held === undefined) continue;
    const takeBack = answer === '' ? null : draft.set(name, answer, DEFAULTS[name]);
    const problem = draft.problemOf(name);
    if (problem === null) return;
    if (!asker.isPerson) throw new UsageError(problem, `give it with ${question.flag}`);
    takeBack?.();
    // What was typed may be a secret, at the wrong question.
    const [, takes] = problem.split('; takes ');
    say(printable(takes === undefined ? problem : `${name}: takes ${takes}`));
  }
}

/** 128 bits, in hex. */
const OPS_TOKEN_BYTES = 16;
const CREDENTIALS_KEY_BYTES = 32;

export function makeKeys({ draft, say }: Talk): void {
  const isSet = (name: string) => draft.isFixed(name) || draft.get(name) || draft.get(`${name}_FILE`);
  if (!isSet('CREDENTIALS_KEY')) {
    draft.set('CREDENTIALS_KEY', randomBytes(CREDENTIALS_KEY_BYTES).toString('base64'));
    say(
      'Made: CREDENTIALS_KEY, which encrypts what is stored of secrets. Keep a copy of it apart from the database.',
    );
  }
  if (!isSet('OPS_TOKENS')) {
    draft.set('OPS_TOKENS', `operator:operate:${randomBytes(OPS_TOKEN_BYTES).toString('hex')}`);
    say('Made: OPS_TOKENS, with one token for an operator.');
  }
}

export async function save({ draft, asker, say, path }: Talk): Promise<void> {
  const isChanged = draft.isChanged();
  if (isChanged) {
    say(`\n${path} is to say:`);
    for (const [name, value] of draft.shown()) say(`  ${name}=${printable(value)}`);
    const answer = asker.isPerson
      ? await asker.ask({ text: 'Write it? y or n', otherwise: 'y', flag: '--yes' })
      : '';
    if (!/^(y|yes)?$/i.test(answer)) throw new MirrorError('not_written', `${path} was not written`);
  }
  draft.write();
  say(isChanged ? `Written: ${path}, for its owner alone to read.` : `${path} says all of it already.`);
}
