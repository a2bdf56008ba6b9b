import { Command, Option } from 'commander';
import { pointersToSet } from '../compliance/pointers.ts';
import { count } from '../ops/words.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Service } from '../service/service.ts';
import type { StoreSummary } from '../store/reports.ts';
import type { Cli } from './cli.ts';
import { checkUp } from './doctor.ts';
import { ENV_FILE } from './env-file.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, parseDuration } from './options.ts';
import { reachApi } from './setup/api.ts';
import { nobody, personAt } from './setup/asker.ts';
import { createDraft } from './setup/draft.ts';
import {
  commandOf,
  makeKeys,
  type SetupOptions,
  type SetupRun,
  save,
  setFound,
  type Talk,
} from './setup/talk.ts';
import { type KindsSeen, kindsSeen, startTrial, type Trial, waitUntil } from './setup/trial.ts';
import { askForHook, learnRecipe, registerHook } from './setup/webhook.ts';
import { stopSignals } from './stop-signals.ts';
import { printable } from './text.ts';

/** Long enough to change something in the compliance service and to receive its event. */
const DEFAULT_WAIT_MS = 120_000;

export function setupCommand(cli: Cli, environment: NodeJS.ProcessEnv): Command {
  return new Command('setup')
    .description('from nothing to a verified mirror: asks, tries, registers, and writes .env')
    .option('--base-url <url>', 'COMPLIANCE_BASE_URL: the API, ending in /v1')
    .option('--auth <way>', 'COMPLIANCE_AUTH: api_key, oauth or service_account')
    .option('--api-key-file <file>', 'COMPLIANCE_API_KEY_FILE: where the API key is')
    .option('--auth-url <url>', 'COMPLIANCE_AUTH_URL, of oauth and service_account')
    .option('--client-id <id>', 'COMPLIANCE_CLIENT_ID')
    .option('--client-secret-file <file>', 'COMPLIANCE_CLIENT_SECRET_FILE')
    .option('--redirect-uri <uri>', 'COMPLIANCE_REDIRECT_URI, of oauth')
    .option('--paste', 'of oauth: paste the address that the browser ends at')
    .option('--risk-id <id>', 'a risk assessment to try, since they cannot be listed')
    .option(
      '--url <url>',
      'where the compliance service sends deliveries: https, or loopback, ending in /webhooks',
    )
    .option(
      '--secret-at <place>',
      'place of the signing secret in the answer to the registration, such as data.hook.token, if it has no usual name',
    )
    .option('--no-register', 'the webhook is registered by other means')
    .option('--webhook-secrets-file <file>', 'WEBHOOK_SECRETS_FILE: the signing secret then')
    .addOption(
      new Option('--wait <time>', 'how long to wait for a first delivery, and for the first full syncs')
        .default(DEFAULT_WAIT_MS, '2m')
        .argParser(parseDuration),
    )
    .option('--yes', 'ask nothing: without an option, a setting keeps its value or gets its default')
    .addHelpText(
      'after',
      helpNote(
        'On a terminal it asks for what no option gives. Secrets are read from files, from the environment or as they are typed, never from the command line, which others on this machine can see. If it is run again, it begins with the present settings.',
        'Exit codes: those of "doctor", which it ends with.',
      ),
    )
    .action(async (options: SetupOptions) => {
      using stop = stopSignals();
      const isPerson = !options.yes && process.stdin.isTTY === true && cli.err.isTerminal;
      const asker = isPerson ? personAt(process.stdin, process.stderr, stop.signal) : nobody;
      try {
        await setup({ cli, environment, asker, options, signal: stop.signal });
      } catch (error) {
        if (!stop.signal.aborted) throw error;
        throw new MirrorError('stopped', 'stopped before the end', {
          remedy: 'what was written and registered is kept; "setup" goes on from there',
        });
      } finally {
        asker.release();
      }
    });
}

/** The whole conversation. Rejects with what ended it, or with DifferenceFound if the mirror is not verified at the end. */
export async function setup(run: SetupRun): Promise<void> {
  const path = run.path ?? ENV_FILE;
  const talk: Talk = {
    ...run,
    path,
    draft: createDraft(run.environment, path),
    say: (line) => run.cli.out.write(`${line}\n`),
    sent: 0,
    used: new Set(),
  };
  const { say } = talk;
  await reachApi(talk);
  await makeKeys(talk);
  const hook = await askForHook(talk);
  await save(talk);
  const trial = await startTrial(talk);
  let unverified: string | null;
  try {
    if (hook !== null) await registerHook(talk, trial, hook);
    await learnRecipe(talk, trial);
    unverified = await fullSyncs(talk, trial);
  } finally {
    await trial.stop();
  }
  const service = trial.service();
  say('\nWhat doctor says:');
  try {
    await checkUp(commandOf(talk), {});
  } finally {
    say(
      service === null
        ? '\nA service runs on this database already: start it again, so that it takes these settings.'
        : `\nStart it: npm start (or: compliance-mirror serve). ${waysIn(service)}`,
    );
  }
  if (unverified !== null) throw new DifferenceFound(`not verified yet: ${unverified}`);
}

const waysIn = ({ opsUrl, signIn }: Service) =>
  signIn === null
    ? `Operators: ${opsUrl}/, with a token of OPS_TOKENS.`
    : `It prints a link to the status page. Later, ${opsUrl}/ asks for the token in ${signIn.tokenFile}`;

/** A kind that is not in sync after this many consistency windows belongs to a service in which something always changes. */
const PATIENCE_SETTLES = 3;

/** Waits for the first full syncs. Resolves with what is not verified when time is up, in one sentence; null: nothing. */
async function fullSyncs(talk: Talk, trial: Trial): Promise<string | null> {
  const { say, asker, options } = talk;
  say(`\nReading everything, and comparing${asker.isPerson ? '. Enter skips it' : ''} …`);
  const since = new Date().toISOString();
  const patientUntil = performance.now() + PATIENCE_SETTLES * talk.draft.config().sync.settleMs;
  const shown = new Set<string>();
  const look = async () => {
    const seen = await kindsSeen(talk, trial, performance.now() < patientUntil ? null : since);
    for (const { kind, records, coverage, verdict } of seen.verified) {
      if (shown.has(kind)) continue;
      shown.add(kind);
      const but = verdict === 'in_sync' ? '' : ', but for what changes right now';
      say(`  ${kind}: in sync${but}, ${count(records, 'record')} (${printable(coverage)})`);
    }
    return seen;
  };
  const isAll = ({ summary, verified }: KindsSeen) => verified.length === summary.kinds.length;
  const seen = await waitUntil(talk, trial, options.wait, async () => {
    const now = await look();
    return isAll(now) ? now : null;
  });
  const last = typeof seen === 'string' ? await look() : seen;
  await takeLearned(talk, last.summary);
  if (isAll(last)) return null;
  const missing = last.summary.kinds.filter((each) => !last.verified.includes(each));
  const reasons = last.summary.open_gaps_by.map(
    ({ reason, kind }) => `${reason}${kind === null ? '' : ` (${kind})`}`,
  );
  const why = reasons.length === 0 ? '' : `; open gaps: ${reasons.join(', ')}`;
  return `${missing.map(({ kind, verdict }) => `${kind} is ${verdict}`).join(', ')}${why}`;
}

/** Sets the pointers that events have shown and that later events were read by. Others are left to a person. */
async function takeLearned(talk: Talk, { learned_pointers }: StoreSummary): Promise<void> {
  const learned = learned_pointers.filter(({ used }) => used);
  const toSet = pointersToSet(learned, talk.draft.config().idPointers);
  if (toSet.length === 0) return;
  talk.say('Events have shown where ids stand:');
  for (const setting of new Set(toSet.map((each) => each.setting))) {
    const [name = '', value = ''] = setting.split('=', 2);
    setFound(talk, name, value);
  }
  await save(talk);
}
