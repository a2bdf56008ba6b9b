import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { isRefusal, messageIn, UpstreamError } from '../compliance/errors.ts';
import { firstPageOf } from '../compliance/paging.ts';
import { isReceiverPath, RECEIVER_PATH } from '../compliance/registration.ts';
import { isWell } from '../ops/verdict.ts';
import { count, kindPlural, sentenceCase } from '../ops/words.ts';
import type { Clock } from '../platform/clock.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import type { SettingName } from '../platform/settings.ts';
import type { Service } from '../service/service.ts';
import { secretSettings, stateOfSecret } from '../service/signing-secrets.ts';
import type { KindStatus } from '../store/reports.ts';
import type { StoredRegistration } from '../store/store.ts';
import { type Asker, askerFor, type Question, stopped, yes } from './asker.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { configHere, databasePath, holderOfDatabase, openForWriting, withStore } from './database.ts';
import { runDoctor } from './doctor.ts';
import { createDraft, type Draft } from './draft.ts';
import { ENV_FILE } from './env-file.ts';
import { DifferenceFound, explain } from './exit.ts';
import { DEFAULT_WAIT_MS as CONSENT_WAIT_MS, login } from './login.ts';
import { helpNote, parseDuration } from './options.ts';
import { askForRecord } from './problems.ts';
import { DEFAULT_EVENTS, register } from './register.ts';
import { withService } from './service.ts';
import { aborted, stopSignals } from './stop-signals.ts';

/** Long enough to change something in the compliance service and to receive its event. */
const DEFAULT_WAIT_MS = 120_000;

/** The settings that setup asks for. */
const ASKED = {
  COMPLIANCE_BASE_URL: 'Address of the API, which ends in /v1',
  COMPLIANCE_AUTH: 'What do you have to sign in with?',
  COMPLIANCE_API_KEY: 'API key',
  COMPLIANCE_AUTH_URL: 'Address of its authorization server, without /oauth/token',
  COMPLIANCE_CLIENT_ID: 'Client id',
  COMPLIANCE_CLIENT_SECRET: 'Client secret',
  COMPLIANCE_REDIRECT_URI: 'Redirect address of that client',
  WEBHOOK_SECRETS: 'Signing secret, if the webhook is registered in the compliance service already',
} as const;
type AskedName = keyof typeof ASKED;
/** Those that get a file of their own. */
const SECRETS: ReadonlySet<AskedName> = new Set([
  'COMPLIANCE_API_KEY',
  'COMPLIANCE_CLIENT_SECRET',
  'WEBHOOK_SECRETS',
]);

interface SetupOptions {
  url?: string;
  wait: number;
  yes?: true;
}

interface SetupRun {
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
interface Talk extends SetupRun {
  draft: Draft;
  path: string;
  /** Settings that were settled before: if that did not work, the person is asked. */
  settled: Set<string>;
}

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
  const talk: Talk = { ...run, path, draft: createDraft(run.environment, path), settled: new Set() };
  try {
    await reachApi(talk);
    const url = await askForHook(talk);
    await save(talk);
    await tryIt(talk, url);
  } catch (error) {
    throw talk.signal.aborted ? stopped() : error;
  }
}

/** The surroundings of a command that runs with the settings of the draft. */
const commandOf = ({ cli, draft }: Talk): Cli => ({ ...cli, env: draft.env() });

/** Settles one setting: from the environment, from its present value, or by asking. `none`: what Enter means where it has no value. */
async function settle(
  { draft, asker, settled }: Talk,
  name: AskedName,
  { choices, none }: Pick<Question, 'choices'> & { none?: string } = {},
): Promise<void> {
  const isAgain = settled.has(name);
  settled.add(name);
  if (draft.isFixed(name)) return asker.say(`${name} is set by the environment, so it is not asked for.`);
  const isHidden = SECRETS.has(name);
  // A secret that was refused just now is not offered again.
  const held = isHidden && isAgain ? undefined : draft.held(name);
  const ofEnter = held === undefined ? none : isHidden ? 'the one that is set' : undefined;
  const answer = await asker.ask({
    text: ofEnter === undefined ? ASKED[name] : `${ASKED[name]} (Enter: ${ofEnter})`,
    flag: name,
    otherwise: ofEnter === undefined ? held : '',
    isHidden,
    choices,
    problem: (typed) => draft.problemOf(name, typed),
  });
  if (answer !== '' && answer !== held) isHidden ? draft.setSecret(name, answer) : draft.set(name, answer);
}

/** 128 bits, in hex. */
const OPS_TOKEN_BYTES = 16;
const CREDENTIALS_KEY_BYTES = 32;

async function makeKeys({ draft }: Talk): Promise<void> {
  const make = (name: SettingName, value: string) => {
    if (draft.held(name) === undefined) draft.setSecret(name, value);
  };
  make('CREDENTIALS_KEY', randomBytes(CREDENTIALS_KEY_BYTES).toString('base64'));
  // With a SQLite file the service makes a token itself and prints a link with it.
  if ((await databasePath(draft.config().databaseUrl)) !== null) return;
  make('OPS_TOKENS', `operator:operate:${randomBytes(OPS_TOKEN_BYTES).toString('hex')}`);
}

async function save({ draft, asker, path }: Talk): Promise<void> {
  if (!draft.isChanged()) return asker.say(`${path} says all of it already.`);
  asker.say(`To be written into ${path}, each secret into a file of its own:`);
  for (const line of draft.changes()) asker.say(`  ${line}`);
  if (!(await yes(asker, 'Write it?'))) throw new MirrorError('not_written', `${path} was not written`);
  asker.say(`Written, for their owner alone to read: ${draft.write().join(', ')}`, 'good');
}

// ─── the API ────────────────────────────────────────────────────────────────────────────────────────────

/** Asks for the address and the credentials, and tries them. How its lists are paged and where ids are, a full sync finds out. */
async function reachApi(talk: Talk): Promise<void> {
  const { draft } = talk;
  let isSignedIn = false;
  for (let ask: 'address' | 'credentials' | null = 'address'; ; ) {
    if (ask === 'address') await settle(talk, 'COMPLIANCE_BASE_URL');
    if (ask !== null) await settleCredentials(talk);
    try {
      // The tokens of a sign-in are stored encrypted, which needs a key.
      await makeKeys(talk);
      return await readFirstPages(talk);
    } catch (error) {
      const isAnswered = error instanceof UpstreamError;
      const isRefused = isAnswered && isRefusal(error);
      const auth = draft.held('COMPLIANCE_AUTH');
      if (isRefused && auth === 'oauth' && !isSignedIn) {
        // First the key is saved: what is encrypted with it outlives this process.
        await save(talk);
        await signIn(talk);
        isSignedIn = true;
        ask = null;
        continue;
      }
      ask = isAnswered && !isRefused ? 'address' : 'credentials';
      const secret = auth === 'api_key' ? 'COMPLIANCE_API_KEY' : 'COMPLIANCE_CLIENT_SECRET';
      sayUnlessFinal(talk, error, ask === 'address' ? 'COMPLIANCE_BASE_URL' : secret);
    }
  }
}

/** Says what is wrong with an answer of the person. Throws it if nobody can give another one. */
function sayUnlessFinal({ asker, draft, signal }: Talk, error: unknown, setting: string): void {
  // A UsageError is about a setting that nobody is asked for, because the answers were checked one by one.
  const isAnswer = error instanceof MirrorError && !(error instanceof UsageError) && error.code !== 'stopped';
  if (!isAnswer || !asker.isPerson || draft.isFixed(setting) || signal.aborted) throw error;
  asker.say(error.message, 'bad');
  const said = error instanceof UpstreamError && messageIn(error.excerpt ?? '');
  if (said) asker.say(`The service says: ${said}`);
  if (error.remedy !== undefined) asker.say(error.remedy);
}

const WAYS_IN = [
  ['api_key', 'an API key'],
  ['oauth', 'OAuth: a person consents in a browser'],
  ['service_account', 'a service account'],
] as const;

async function settleCredentials(talk: Talk): Promise<void> {
  await settle(talk, 'COMPLIANCE_AUTH', { choices: WAYS_IN });
  const auth = talk.draft.held('COMPLIANCE_AUTH');
  if (auth === 'api_key') return await settle(talk, 'COMPLIANCE_API_KEY');
  await settle(talk, 'COMPLIANCE_AUTH_URL');
  await settle(talk, 'COMPLIANCE_CLIENT_ID');
  await settle(talk, 'COMPLIANCE_CLIENT_SECRET');
  if (auth === 'oauth') await settle(talk, 'COMPLIANCE_REDIRECT_URI');
}

async function signIn(talk: Talk): Promise<void> {
  const { asker, options, signal } = talk;
  // To register, setup needs the scope "write".
  const write = asker.isPerson || options.url !== undefined;
  // `login` itself does not end at a signal.
  const signedIn = login(commandOf(talk), { write, wait: CONSENT_WAIT_MS });
  await Promise.race([signedIn, aborted(signal).then(() => signal.throwIfAborted())]);
}

async function readFirstPages(talk: Talk): Promise<void> {
  const { asker, signal } = talk;
  const cli = commandOf(talk);
  const config = configHere(cli, 'setup', 'it makes the settings and the database of a service here');
  const { auth, paging } = complianceSettings(config);
  // Only a person's sign-in is stored in the database. Nothing else needs a database yet.
  const store = auth === 'oauth' ? await openForWriting(cli, config) : null;
  const client = commandClient(config, store, { actor: 'setup', needs: 'read' });
  try {
    for (const kind of ['policy', 'vendor'] as const) {
      const { objects, meta } = await client.listPage(kind, firstPageOf(paging), { lane: 'person', signal });
      const inAll = meta.total === undefined ? '' : ` of ${meta.total}`;
      const name = sentenceCase(kindPlural(kind));
      asker.say(`${name}: the first page has ${count(objects.length, 'record')}${inAll}.`, 'good');
    }
    asker.say('Risk assessments cannot be listed: each one comes in with its first event.');
  } catch (error) {
    // Neither the address nor the credentials are wrong. What else is, the full sync says.
    if (!(error instanceof UpstreamError && error.kind === 'not_taken')) throw error;
    asker.say(error.message, 'bad');
  } finally {
    await store?.close();
  }
}

// ─── the webhook ────────────────────────────────────────────────────────────────────────────────────────

/** The address to register, or null: nothing is registered from here. */
async function askForHook(talk: Talk): Promise<string | null> {
  const { draft, asker, options } = talk;
  const held = await usableRegistration(talk);
  if (held !== undefined && (options.url ?? held.url) === held.url) {
    asker.say(`The webhook is registered already: ${held.url}, as ${held.upstreamId}.`, 'good');
    return null;
  }
  if (options.url !== undefined || !asker.isPerson) return options.url ?? null;
  await settle(talk, 'WEBHOOK_SECRETS', { none: 'it is not' });
  if (draft.held('WEBHOOK_SECRETS') !== undefined) return null;
  const { host, port, compliance } = draft.config();
  const isLocal = compliance?.baseUrl.protocol === 'http:';
  const url = await asker.ask({
    text: `Address at which the compliance service reaches this receiver, such as https://mirror.example.com${RECEIVER_PATH}${isLocal ? '' : ' (Enter: later)'}`,
    flag: '--url',
    otherwise: isLocal ? `http://${host}:${port}${RECEIVER_PATH}` : '',
    // Only a person can remove a registration of a wrong address, in the compliance service.
    problem: (url) =>
      URL.canParse(url) && isReceiverPath(url)
        ? null
        : `It takes an address that ends in ${RECEIVER_PATH}, the only path at which deliveries are taken`,
  });
  return url === '' ? null : url;
}

/** The newest stored registration with a secret that verifies, if there is any. */
async function usableRegistration(talk: Talk): Promise<StoredRegistration | undefined> {
  const secrets = secretSettings(talk.draft.config());
  const isUsable = (each: StoredRegistration) => stateOfSecret(each, secrets) === 'verifies';
  try {
    const held = await withStore(commandOf(talk), 'read', (store) => store.listRegistrations());
    return held.findLast(isUsable);
  } catch (error) {
    // There is no database yet, or the service will migrate it.
    if (error instanceof MirrorError) return undefined;
    throw error;
  }
}

/** Registers the address. A failure ends setup only if there is nobody who could go on without. */
async function registerHook(talk: Talk, url: string): Promise<void> {
  const { asker } = talk;
  try {
    await register(commandOf(talk), asker, { events: DEFAULT_EVENTS, url });
  } catch (error) {
    if (!(error instanceof MirrorError) || !asker.isPerson || error.code === 'stopped') throw error;
    asker.say(explain(error).trim(), 'bad');
    asker.say('Setup goes on without. Later: compliance-mirror webhook register --url …');
  }
}

// ─── the try ────────────────────────────────────────────────────────────────────────────────────────────

/** Runs the mirror with the settings, until `doctor` has judged it. */
async function tryIt(talk: Talk, url: string | null): Promise<void> {
  const { asker, draft } = talk;
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
async function startService({ draft, asker, signal, clock }: Talk): Promise<Service | null> {
  const config = draft.config();
  if ((await holderOfDatabase(config.databaseUrl)) !== null) {
    asker.say('A service runs on this database already, and is made use of.');
    return null;
  }
  // Imported only here: short commands must not load a web server.
  const { createLogger } = await import('../platform/logger.ts');
  const { startService: start } = await import('../service/service.ts');
  // Setup itself prints what matters.
  const logger = createLogger({ level: 'silent', destination: { write: () => undefined } });
  const service = await start({ config, logger, signal, clock });
  asker.say(
    `The mirror runs while setup does; it takes deliveries at ${service.receiverUrl}${RECEIVER_PATH}.`,
  );
  return service;
}

const waysIn = ({ opsUrl, signIn }: Service) =>
  signIn === null
    ? `Operators: ${opsUrl}/, with a token of OPS_TOKENS.`
    : `It prints a link to the status page. Later, ${opsUrl}/ asks for the token in ${signIn.tokenFile}`;

/** Waits for a first delivery that is taken, or rejected: `doctor` says why. */
async function firstDelivery(talk: Talk, service: Service | null): Promise<'taken' | 'rejected' | null> {
  const { asker, options } = talk;
  const look = () =>
    withStore(commandOf(talk), 'read', async (store) => {
      const { items } = await store.list('deliveries', { outcome: 'rejected', limit: 1 });
      return { accepted: (await store.summary()).last_delivery_at, rejected: items[0] };
    });
  const before = await look();
  const text = 'Waiting for a first delivery: change something in the compliance service';
  const seen = await waitFor(talk, service, text, performance.now() + options.wait, async () => {
    const { accepted, rejected } = await look();
    if (accepted !== null) return 'taken';
    // That one is sent again.
    const isNews = rejected?.number !== before.rejected?.number && rejected?.reason !== 'no_signing_secret';
    return isNews ? 'rejected' : null;
  });
  if (seen === 'taken') asker.say('A delivery was taken: its signature fits.', 'good');
  else if (seen === 'rejected') asker.say('A delivery came, and was rejected.', 'bad');
  else asker.say('No delivery has come. Look at the delivery log of the compliance service.', 'bad');
  return seen;
}

/** A problem that lasts so long, and needs a person, is not waited for. Most that pass do so with the next read. Milliseconds. */
const HELPLESS_MS = 10_000;

/** Waits for the first full syncs. `since` (ISO 8601): one that ended before proves nothing about these settings. */
async function fullSyncs(talk: Talk, service: Service | null, since: string): Promise<void> {
  const { asker, options } = talk;
  const read = () => withStore(commandOf(talk), 'read', (store) => store.summary());
  const isVerified = ({ verdict, last_full_sync_at: at }: KindStatus) =>
    isWell(verdict) && (at ?? '') >= since;
  const text = 'Reading everything, and comparing';
  const until = performance.now() + options.wait;
  const asked = new Set<number>();
  let helplessAt: number | null = null;
  for (;;) {
    const unknown = await waitFor(talk, service, text, until, async () => {
      const { kinds, problems } = await read();
      if (kinds.every(isVerified)) return 'verified';
      const isHelpless = kinds.every((kind) => isVerified(kind) || kind.verdict === 'action_required');
      helplessAt = isHelpless ? (helplessAt ?? performance.now()) : null;
      if (helplessAt !== null && performance.now() - helplessAt >= HELPLESS_MS) return 'helpless';
      return problems.find(({ reason, id }) => reason === 'unknown_record' && !asked.has(id))?.id ?? null;
    });
    if (typeof unknown !== 'number') break;
    asked.add(unknown);
    await findRecord(talk, unknown);
    helplessAt = null;
  }
  const { kinds } = await read();
  for (const { kind, verdict, records } of kinds)
    asker.say(`${kind}: ${verdict}, ${count(records, 'record')}`, isWell(verdict) ? 'good' : 'bad');
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
