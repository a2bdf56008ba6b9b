import { existsSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { RECEIVER_PATH } from '../compliance/registration.ts';
import { count } from '../ops/words.ts';
import { MirrorError } from '../platform/errors.ts';
import type { Service } from '../service/service.ts';
import type { KindStatus } from '../store/reports.ts';
import { askerFor, stopped } from './asker.ts';
import type { Cli } from './cli.ts';
import { databasePath, holderOfDatabase, withStore } from './database.ts';
import { runDoctor } from './doctor.ts';
import { ENV_FILE } from './env-file.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, parseDuration } from './options.ts';
import { askForRecord } from './problems.ts';
import { withService } from './service.ts';
import { reachApi } from './setup/api.ts';
import { createDraft } from './setup/draft.ts';
import {
  commandOf,
  makeKeys,
  type SetupOptions,
  type SetupRun,
  save,
  settle,
  type Talk,
} from './setup/talk.ts';
import { arrivals, askForHook, explainRejection, registerHook, usableRegistration } from './setup/webhook.ts';
import { stopSignals } from './stop-signals.ts';

/** Verdicts that a mirror in order has. */
const VERIFIED: ReadonlySet<string> = new Set(['in_sync', 'known_only']);

/** Long enough to change something in the compliance service and to receive its event. */
const DEFAULT_WAIT_MS = 120_000;

export function setupCommand(cli: Cli, environment: NodeJS.ProcessEnv): Command {
  return new Command('setup')
    .description('from nothing to a verified mirror; it asks, tries and writes .env')
    .option(
      '--url <url>',
      'register it: where the compliance service sends deliveries: https, or loopback, ending in /webhooks',
    )
    .addOption(
      new Option('--wait <time>', 'how long to wait for a first delivery, and for the first full syncs')
        .default(DEFAULT_WAIT_MS, '2m')
        .argParser(parseDuration),
    )
    .option('--yes', 'ask nothing: each setting keeps its value or gets its default')
    .addHelpText(
      'after',
      helpNote(
        'On a terminal it begins with the settings that .env has, and asks for each. What the environment sets is not asked for, and not written. Without a terminal it takes both as they are.',
        'Exit codes: those of "doctor", which it ends with.',
      ),
    )
    .action(async (options: SetupOptions) => {
      using stop = stopSignals();
      const asker = await askerFor(cli, options, stop.signal);
      await setup({ cli, environment, asker, options, signal: stop.signal });
    });
}

/** The whole conversation. Rejects with what ended it, or with DifferenceFound if `doctor` finds something wrong at the end. */
export async function setup(run: SetupRun): Promise<void> {
  const path = run.path ?? ENV_FILE;
  const draft = createDraft(run.environment, path);
  const talk: Talk = { ...run, path, draft, done: [], settled: new Set() };
  const { signal, done } = talk;
  try {
    await reachApi(talk);
    await settle(talk, 'NOTIFY_URL', { isOptional: true });
    const url = await askForHook(talk);
    await makeKeys(talk);
    await save(talk);
    await tryIt(talk, url);
  } catch (error) {
    const isStopped = signal.aborted || (error instanceof MirrorError && error.code === 'stopped');
    if (isStopped || done.length > 0) sayDone(talk);
    throw isStopped ? stopped() : error;
  }
}

function sayDone({ asker, done }: Talk): void {
  const isNothing = done.length === 0;
  asker.say(
    isNothing
      ? 'Nothing was written, and nothing was registered.'
      : 'Done so far, and "setup" goes on from there:',
  );
  for (const each of done) asker.say(`  ${each}`);
}

/** Runs the mirror with the settings, until `doctor` has judged it. */
async function tryIt(talk: Talk, url: string | null): Promise<void> {
  const { asker, draft, done } = talk;
  const began = new Date().toISOString();
  const service = await startService(talk);
  try {
    if (url !== null) await registerHook(talk, url);
    const isAwaited =
      draft.held('WEBHOOK_SECRETS') !== undefined || (await usableRegistration(talk)) !== undefined;
    const isMisfit = isAwaited && (await firstDelivery(talk, service)) === 'rejected';
    await fullSyncs(talk, service, service === null ? '' : began);
    asker.say('What doctor says:');
    try {
      await runDoctor(commandOf(talk));
    } finally {
      done.length = 0;
      asker.say(
        service === null
          ? 'Start the running service again, so that it takes these settings.'
          : `Start it: npm start (or: compliance-mirror serve). ${waysIn(service)}`,
      );
    }
    if (isMisfit) throw new DifferenceFound('no delivery was taken, and one was rejected: see above why');
  } finally {
    await service?.stop();
  }
}

/** Null: a service runs on the database already, and takes new settings when it is started again. */
async function startService({ draft, asker, signal, clock, done }: Talk): Promise<Service | null> {
  const config = draft.config();
  if ((await holderOfDatabase(config.databaseUrl)) !== null) {
    asker.say('A service runs on this database already, and is made use of.');
    return null;
  }
  const path = await databasePath(config.databaseUrl);
  const isNew = path !== null && !existsSync(path);
  // Imported only here: short commands must not load a web server.
  const { createLogger } = await import('../platform/logger.ts');
  const { startService: start } = await import('../service/service.ts');
  // Setup itself prints what matters.
  const logger = createLogger({ level: 'silent', destination: { write: () => undefined } });
  const service = await start({ config, logger, signal, clock });
  if (isNew) done.push(`made: ${path}, the database, and the token of its operators`);
  asker.say(
    `The mirror runs while setup does; it takes deliveries at ${service.receiverUrl}${RECEIVER_PATH}.`,
  );
  return service;
}

const waysIn = ({ opsUrl, signIn }: Service) =>
  signIn === null
    ? `Operators: ${opsUrl}/, with a token of OPS_TOKENS.`
    : `It prints a link to the status page. Later, ${opsUrl}/ asks for the token in ${signIn.tokenFile}`;

/** Waits for an accepted delivery, and says why one was rejected: the next one may fit. */
async function firstDelivery(talk: Talk, service: Service | null): Promise<'taken' | 'rejected' | 'none'> {
  const { asker, options } = talk;
  const before = await arrivals(talk);
  if (before.accepted !== null) {
    asker.say(`Deliveries are taken: the last one at ${before.accepted}.`, 'good');
    return 'taken';
  }
  let explained = before.rejected?.number ?? 0;
  let outcome: 'rejected' | 'none' = 'none';
  const until = performance.now() + options.wait;
  for (;;) {
    const text = 'Waiting for a first delivery: change something in the compliance service';
    const seen = await waitFor(talk, service, text, until, async () => {
      const { accepted, rejected } = await arrivals(talk);
      if (accepted !== null) return 'taken';
      if (rejected === null || rejected.number <= explained) return null;
      explained = rejected.number;
      return rejected.reason === 'no_signing_secret' ? null : 'rejected';
    });
    if (seen === 'taken') {
      asker.say('A delivery was taken: its signature fits.', 'good');
      return seen;
    }
    if (seen === null) break;
    outcome = seen;
    await explainRejection(talk, explained);
  }
  const log = 'Look at the delivery log of the compliance service, and at the way from there.';
  if (outcome === 'none') asker.say(`No delivery has come. ${log}`, 'bad');
  return outcome;
}

/** Waits for the first full syncs. `since` (ISO 8601): one that ended before proves nothing about these settings. */
async function fullSyncs(talk: Talk, service: Service | null, since: string): Promise<void> {
  const { asker, options } = talk;
  const read = () => withStore(commandOf(talk), 'read', (store) => store.summary());
  const isVerified = ({ verdict, last_full_sync_at: at }: KindStatus) =>
    VERIFIED.has(verdict) && (at ?? '') >= since;
  const text = 'Reading everything, and comparing';
  const until = performance.now() + options.wait;
  const asked = new Set<number>();
  for (;;) {
    const unknown = await waitFor(talk, service, text, until, async () => {
      const { kinds, problems } = await read();
      if (kinds.every(isVerified)) return 'verified';
      return problems.find(({ reason, id }) => reason === 'unknown_record' && !asked.has(id))?.id ?? null;
    });
    if (typeof unknown !== 'number') break;
    asked.add(unknown);
    await findRecord(talk, unknown);
  }
  const { kinds } = await read();
  for (const { kind, verdict, records } of kinds) {
    asker.say(`${kind}: ${verdict}, ${count(records, 'record')}`, VERIFIED.has(verdict) ? 'good' : 'bad');
  }
}

/** Has the API asked which value in an event is the id of its record. The place that is proven is kept in the database. */
async function findRecord(talk: Talk, problem: number): Promise<void> {
  const { asker } = talk;
  asker.say('The record of an event cannot be found: the API is asked for what looks like an id in it.');
  try {
    const { pointer, says } = await withService(commandOf(talk), (running) => askForRecord(running, problem));
    asker.say(says, pointer === null ? 'bad' : 'good');
  } catch (error) {
    // It may be resolved by now.
    if (!(error instanceof MirrorError)) throw error;
    asker.say(error.message, 'bad');
  }
}

/** Between two looks. Milliseconds. */
const LOOK_EVERY_MS = 250;

/** Looks until there is something, or until the person presses Enter or time is up; then null. `until`: by performance.now(). */
async function waitFor<T>(
  { asker, signal }: Talk,
  service: Service | null,
  text: string,
  until: number,
  look: () => Promise<T | null>,
): Promise<T | null> {
  const failed = service?.failed ?? new Promise<never>(() => undefined);
  const ended = new AbortController();
  let isSkipped = false;
  const skip = asker.enter(text, ended.signal).then(() => {
    isSkipped = true;
  });
  // Nobody may be waiting for it any more.
  skip.catch(() => {});
  try {
    for (;;) {
      signal.throwIfAborted();
      const seen = await look();
      if (seen !== null || isSkipped || performance.now() >= until) return seen;
      await Promise.race([sleep(LOOK_EVERY_MS), skip, failed]);
    }
  } finally {
    ended.abort();
  }
}
