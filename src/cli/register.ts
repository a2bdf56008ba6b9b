import { hash, randomBytes } from 'node:crypto';
import { UpstreamError } from '../compliance/errors.ts';
import {
  EVERY_FAMILY,
  isReceiverPath,
  RECEIVER_PATH,
  type RegistrationAnswer,
  registrationRequestSchema,
  textsIn,
} from '../compliance/registration.ts';
import { openSecret, sealSecret } from '../compliance/secrets.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import { type Config, requireHttpsOrLoopback } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import {
  AWAITED_FACT,
  faultOfSecret,
  SECRETS_LOOK_MS,
  secretSettings,
  stateOfSecret,
} from '../service/signing-secrets.ts';
import { AUDIT_ASKED } from '../store/reports.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import { type Asker, yes } from './asker.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings, requireKey } from './client.ts';
import { clockOf, configHere, isServed, withStore } from './database.ts';
import { DifferenceFound } from './exit.ts';

const DESCRIPTION = 'compliance-mirror';
export const DEFAULT_EVENTS = EVERY_FAMILY.join(',');
/** The actor in the audit. */
const ACTOR = 'register';

/** Set before the request is sent, and cleared when its outcome is known. So a request without an answer is remembered. */
const ATTEMPT_FACT = 'registration_attempt';
const ASKED = 'asked';

/** How much longer than the request a running service expects the secret: a token may be needed, and the answer is written. */
const AWAITED_MARGIN_MS = 15_000;

export interface RegisterOptions {
  url?: string;
  events: string;
  secretAt?: string;
  yes?: true;
}

interface Request {
  url: string;
  events: string[];
}

/** What the steps share. */
interface Steps {
  asker: Asker;
  config: Config;
  key: () => Uint8Array;
  store: Store;
  clock: Clock;
}

/**
 * Registers the address, or takes the secret of a registration whose answer is stored. `setup` calls it as well. Resolves with the
 * registration; rejects with DifferenceFound if its secret cannot be used.
 */
export async function register(
  cli: Cli,
  asker: Asker,
  options: RegisterOptions,
): Promise<StoredRegistration> {
  const why = 'the signing secret goes into the database and nowhere else';
  const config = configHere(cli, 'webhook register', why);
  // Before the request: a secret that cannot be stored would be lost, and with it every delivery.
  const key = requireKey(config, 'the signing secret in the answer');
  complianceSettings(config);
  return await withStore(cli, 'make', async (store) => {
    const steps: Steps = { asker, config, key, store, clock: await clockOf(store) };
    const held = await readable(steps);
    const isMeant = ({ url }: StoredRegistration) => options.url === undefined || url === options.url;
    const bare = held.findLast((each) => isMeant(each) && each.sealedSecret === null);
    const isStored = bare !== undefined && options.secretAt !== undefined;
    const { present, isNew } = isStored
      ? { present: bare, isNew: false }
      : await make(steps, requestOf(options), options.yes === true);
    const registration =
      present.sealedSecret === null ? await takeSecret(steps, present, options.secretAt) : present;
    if (isNew) sayReplaced(steps, registration, held);
    requireUsable(steps, registration);
    return registration;
  });
}

/** The registrations. @throws UsageError if CREDENTIALS_KEY does not open a secret: no service would start. */
async function readable({ config, store }: Steps): Promise<StoredRegistration[]> {
  const held = await store.listRegistrations();
  const secrets = secretSettings(config);
  const closed = held.filter((each) => stateOfSecret(each, secrets) === 'unreadable');
  if (closed.length > 0) {
    throw new UsageError(
      `the stored signing secret of ${closed.map(({ upstreamId }) => upstreamId).join(', ')} does not open with this CREDENTIALS_KEY; nothing was sent`,
      'set CREDENTIALS_KEY to the key it was stored with; if that is lost, "webhook forget ID" gives the secret up',
    );
  }
  return held;
}

function requestOf(options: RegisterOptions): Request {
  if (options.url === undefined) {
    throw new UsageError('--url is missing', 'it is where deliveries go, such as https://…/webhooks');
  }
  requireHttpsOrLoopback(options.url, '--url');
  const events = options.events.split(',').map((pattern) => pattern.trim());
  const request = { url: options.url, events: [...new Set(events.filter((pattern) => pattern !== ''))] };
  if (registrationRequestSchema.safeParse({ ...request, description: DESCRIPTION }).success) return request;
  const remedy = 'it takes types such as policy.created and families such as policy.*';
  throw new UsageError('--events cannot be used as it is', remedy);
}

/** The newest registration of the address, after saying so. */
async function heldOf(steps: Steps, url: string): Promise<StoredRegistration | undefined> {
  const { asker, config } = steps;
  const held = (await readable(steps)).findLast((each) => each.url === url);
  if (held === undefined) return undefined;
  const state = stateOfSecret(held, secretSettings(config));
  const secret = state === 'verifies' ? 'is here' : 'is not usable here';
  const since = held.createdAt;
  asker.say(`${url} is registered already, as ${held.upstreamId} since ${since}; its secret ${secret}.`);
  return held;
}

/** `isNew`: not one that was there before. */
interface Made {
  present: StoredRegistration;
  isNew: boolean;
}

/** Says what is known of the address, asks, and registers it, unless it is registered already and stays so. */
async function make(steps: Steps, request: Request, always: boolean): Promise<Made> {
  const { asker, store } = steps;
  const { url } = request;
  const held = await heldOf(steps, url);
  // One for each address: the outcome of one says nothing about another.
  const fact = `${ATTEMPT_FACT}:${hash('sha256', url, 'hex')}`;
  const isOpen = (await store.readFact(fact)) === ASKED;
  if (held === undefined && isOpen) {
    asker.say('It was requested before, and whether that took effect is not known.', 'bad');
  }
  const isKnown = held !== undefined || isOpen;
  if (!isReceiverPath(url)) {
    const only = `${RECEIVER_PATH}, the only path at which deliveries are taken, unless a proxy rewrites it`;
    asker.say(`${url} does not end in ${only}.`, 'bad');
  }
  const question = isKnown ? `Register ${url} once more?` : `Register ${url}?`;
  if (always || (await yes(asker, question, !isKnown))) {
    return await send(steps, request, fact);
  }
  if (held === undefined) throw isOpen ? outcomeUnknown() : new MirrorError('declined', 'nothing was sent');
  asker.say('Nothing was sent. If the compliance service no longer has it, register it with --yes.');
  return { present: held, isNew: false };
}

/** The specification has no way to list or delete registrations, so a second one would stay for ever. */
const outcomeUnknown = () =>
  new MirrorError(
    'outcome_unknown',
    'this was requested before, and whether that took effect is not known; nothing was sent',
    { remedy: 'look at the registrations in the compliance service; if it is not there, add --yes' },
  );

/**
 * Makes a running service look for the new secret more often, and waits until it does: deliveries may follow the answer at once.
 * Until the secret is stored they are answered 503, so they are sent again.
 */
async function announce({ config, store, clock }: Steps): Promise<void> {
  if (!(await isServed(store, config.databaseUrl))) return;
  // Twice, because the look that is under way may have begun earlier.
  const waitMs = 2 * SECRETS_LOOK_MS;
  const until = clock.wall() + waitMs + complianceSettings(config).timeoutMs + AWAITED_MARGIN_MS;
  await store.writeFact(AWAITED_FACT, String(until));
  await clock.sleep(waitMs);
}

/**
 * Registers and stores the answer. The audit entry is written before the request. If the outcome stays unknown, so does the entry's.
 */
async function send(steps: Steps, request: Request, fact: string): Promise<Made> {
  const { asker, config, store, clock, key } = steps;
  const before = await store.listRegistrations();
  const client = commandClient(config, store, { actor: ACTOR, needs: 'write' });
  await announce(steps);
  await store.writeFact(fact, ASKED);
  // Without the query, which may hold a secret.
  const { origin, pathname } = new URL(request.url);
  const entry = { actor: ACTOR, action: 'register', outcome: AUDIT_ASKED, target: origin + pathname };
  const auditId = await store.audit(entry, momentOf(clock));
  const settle = async (outcome: string) => {
    await store.writeFact(fact, '');
    await store.writeFact(AWAITED_FACT, '');
    await store.settleAudit(auditId, outcome);
  };
  try {
    const { signal } = new AbortController();
    const body = { ...request, description: DESCRIPTION };
    const answer = await client.registerWebhook(body, { lane: 'person', signal });
    const { secret, text, events } = answer;
    const upstreamId = ownId(answer, request, before);
    const registration: StoredRegistration = {
      upstreamId,
      ...body,
      delivers: events ?? request.events,
      // Both are stored even if they cannot be used: the service shows them only once.
      sealedSecret: secret && sealSecret(key(), secret, { table: 'registrations', row: upstreamId }),
      sealedAnswer: sealSecret(key(), text, { table: 'registration_answers', row: upstreamId }),
      createdAt: new Date(clock.wall()).toISOString(),
    };
    await store.saveRegistration(registration);
    await settle('ok');
    asker.say(`Registered as ${upstreamId}: ${request.url}`, 'good');
    if (secret !== null) asker.say('Its signing secret is stored, encrypted.');
    warnOf(asker, answer, registration);
    return { present: registration, isNew: true };
  } catch (error) {
    // The service rejected it, so nothing was registered. Other errors may be ours, after the service has registered it.
    if (error instanceof UpstreamError && !error.outcomeUnknown) {
      await settle('failed');
      if (error.excerpt !== null && error.kind !== 'malformed') {
        asker.say(`The compliance service says: ${error.excerpt}`, 'bad');
      }
    }
    throw error;
  }
}

/** Makes an id for a registration to which the service gave none. */
const LOCAL_ID_BYTES = 4;

/**
 * The id under which the registration is stored. The id in the answer may be that of an account, the same in every answer. So it
 * replaces a stored registration only with a new secret for the same address: a lost secret is not shown again.
 */
function ownId(
  { id, secret }: RegistrationAnswer,
  { url }: Request,
  before: readonly StoredRegistration[],
): string {
  const held = before.find(({ upstreamId }) => upstreamId === id);
  if (id !== null && (held === undefined || (secret !== null && held.url === url))) return id;
  return `${id ?? 'unnamed'}#${randomBytes(LOCAL_ID_BYTES).toString('hex')}`;
}

/** Warns if the service has registered something else than was requested. */
function warnOf(asker: Asker, answer: RegistrationAnswer, { url }: StoredRegistration): void {
  if (answer.url !== null && answer.url !== url) {
    asker.say(`The answer names another address: ${answer.url}`, 'bad');
  }
}

/** More are of no use to a person. */
const MAX_PLACES_SHOWN = 30;

/** Takes the signing secret of a registration from its stored answer, at `place`. Sends nothing. */
async function takeSecret(
  { asker, config, key, store, clock }: Steps,
  registration: StoredRegistration,
  place: string | undefined,
): Promise<StoredRegistration> {
  const { upstreamId, sealedAnswer, url, description, events, delivers } = registration;
  const row = { table: 'registration_answers', row: upstreamId } as const;
  const answer = sealedAnswer === null ? '' : openSecret(key(), sealedAnswer, row);
  // Not the texts that we sent ourselves.
  const known = new Set([upstreamId, url, description, ...events, ...delivers]);
  const texts = textsIn(answer);
  const places = [...texts].filter(([, text]) => !known.has(text)).map(([each]) => each);
  const some = places.slice(0, MAX_PLACES_SHOWN).join(', ');
  const shown = some === '' ? 'it has no text at all' : `it has texts at: ${some}`;
  if (place === undefined) {
    asker.say('No signing secret was recognised in the answer, which is kept, encrypted.', 'bad');
    // Those that are set may verify what it sends.
    if (config.webhook.secrets().length > 0) return registration;
    throw new DifferenceFound(
      `no signing secret of ${upstreamId} is known, so what it sends cannot be verified`,
      `take it from the answer with --secret-at (${shown}), or set WEBHOOK_SECRETS to the one that the compliance service shows you`,
    );
  }
  const secret = texts.get(place);
  if (secret === undefined)
    throw new UsageError(`the answer for ${upstreamId} has no text at ${place}`, shown);
  const sealedSecret = sealSecret(key(), secret, { table: 'registrations', row: upstreamId });
  await store.saveRegistration({ ...registration, sealedSecret });
  const entry = { actor: ACTOR, action: 'registration_secret', outcome: 'ok', target: upstreamId };
  await store.audit(entry, momentOf(clock));
  asker.say(`The signing secret of ${upstreamId} is stored, encrypted.`, 'good');
  return { ...registration, sealedSecret };
}

/** Names the registrations that `made` replaces: what they have begun to send may come for a day. */
function sayReplaced(
  { asker }: Steps,
  made: StoredRegistration,
  before: readonly StoredRegistration[],
): void {
  const others = before.filter((each) => each.url === made.url && each.upstreamId !== made.upstreamId);
  for (const { upstreamId } of others) {
    asker.say(
      `The secret of ${upstreamId} still verifies. Remove that registration in the compliance service, and a day later “webhook forget ${upstreamId}”.`,
    );
  }
}

function requireUsable({ config }: Steps, registration: StoredRegistration): void {
  const fault = faultOfSecret(registration, secretSettings(config));
  if (fault === null || registration.sealedSecret === null) return;
  const what = `the signing secret of ${registration.upstreamId} is stored and cannot be used: ${fault.what}`;
  throw new DifferenceFound(what, fault.remedy);
}
