import { isReceiverPath, RECEIVER_PATH } from '../../compliance/registration.ts';
import { MirrorError } from '../../platform/errors.ts';
import type { SecretEncoding } from '../../platform/signing-secret.ts';
import { SECRETS_LOOK_MS, stateOfSecret } from '../../service/signing-secrets.ts';
import { withStore } from '../database.ts';
import { explainStored } from '../doctor.ts';
import { DifferenceFound, explain } from '../exit.ts';
import { DEFAULT_DESCRIPTION, DEFAULT_EVENTS, register } from '../register.ts';
import { placesOfUnsent, secretSettings } from '../registrations.ts';
import { printable } from '../text.ts';
import { commandOf, save, setFound, settle, type Talk } from './talk.ts';
import { type Trial, waitUntil } from './trial.ts';

/** The answer for a webhook that is registered by other means. */
const BY_OTHER_MEANS = '-';

/** The address to register, or null: nothing is registered from here. */
export async function askForHook(talk: Talk): Promise<string | null> {
  const { draft, asker, options, say } = talk;
  if (options.webhookSecretsFile !== undefined) await settleSecrets(talk);
  if (!options.register) {
    await askForSecret(talk);
    return null;
  }
  if (options.url !== undefined) return options.url;
  const { host, port, compliance } = draft.config();
  const isLocal = compliance?.baseUrl.protocol === 'http:';
  const local = isLocal ? `http://${host}:${port}${RECEIVER_PATH}` : undefined;
  const hasSecret = draft.held('WEBHOOK_SECRETS') !== undefined;
  let otherwise = (await registeredUrl(talk)) ?? (hasSecret ? BY_OTHER_MEANS : local);
  const text = `Address at which the compliance service reaches this receiver (https://…${RECEIVER_PATH}; ${BY_OTHER_MEANS}: it is registered by other means)`;
  for (;;) {
    const url = (await asker.ask({ text, flag: '--url, or --no-register', otherwise })) || otherwise;
    if (url === BY_OTHER_MEANS) {
      await askForSecret(talk);
      return null;
    }
    if (url === undefined || !URL.canParse(url)) {
      say(`That is no address; it is one such as https://mirror.example.com${RECEIVER_PATH}`);
      continue;
    }
    // Only a person can remove a registration of a wrong address, in the compliance service.
    if (url === otherwise || isReceiverPath(url)) return url;
    say(
      `It does not end in ${RECEIVER_PATH}, the only path at which deliveries are taken. Enter takes it, if a proxy rewrites it.`,
    );
    otherwise = url;
  }
}

/** Asks for the signing secret of a webhook that is registered by other means. False: it is known, or nobody can be asked. */
async function askForSecret(talk: Talk): Promise<boolean> {
  const { draft, asker, options } = talk;
  const isKnown = options.webhookSecretsFile !== undefined || draft.held('WEBHOOK_SECRETS') !== undefined;
  if (isKnown || !asker.isPerson || (await registeredUrl(talk)) !== undefined) return false;
  await settleSecrets(talk);
  return true;
}

const settleSecrets = (talk: Talk) =>
  settle(talk, 'WEBHOOK_SECRETS', 'Signing secret that the service shows', 'webhookSecretsFile');

/** The address of the newest stored registration, if there is any. */
async function registeredUrl(talk: Talk): Promise<string | undefined> {
  try {
    return await withStore(commandOf(talk), 'read', async (store) => {
      const held = await store.listRegistrations();
      return held.findLast(({ expiresWall }) => expiresWall === null)?.url;
    });
  } catch (error) {
    // There is no database yet, or the service will migrate it.
    if (error instanceof MirrorError) return undefined;
    throw error;
  }
}

export async function registerHook(talk: Talk, trial: Trial, first: string): Promise<void> {
  const { asker, say } = talk;
  for (let url: string = first; ; ) {
    try {
      await register(commandOf(talk), { url, events: DEFAULT_EVENTS, description: DEFAULT_DESCRIPTION });
      talk.sent += 1;
      return;
    } catch (error) {
      // It is registered, but its secret cannot be used.
      if (error instanceof DifferenceFound) {
        if (await settleSecret(talk, url, error)) await applySettings(talk, trial);
        return;
      }
      if (!(error instanceof MirrorError) || !asker.isPerson) throw error;
      say(explain(error).trimEnd());
      const text = `Another address, or ${BY_OTHER_MEANS} to go on without registering`;
      const answer = await asker.ask({ text, otherwise: BY_OTHER_MEANS, flag: '--url' });
      if (answer === '' || answer === BY_OTHER_MEANS) {
        if (await askForSecret(talk)) await applySettings(talk, trial);
        return;
      }
      url = answer;
    }
  }
}

const FLAG = '--secret-at';
const NOWHERE = 'nowhere';

/**
 * Settles the secret of a registration that was made without a usable one, as `failure` says: sets another encoding, takes the secret
 * from the answer, or asks for it. True: a setting was changed. Rejects with `failure` if nobody can be asked.
 */
async function settleSecret(talk: Talk, url: string, failure: MirrorError): Promise<boolean> {
  const { asker, draft, options, say, used } = talk;
  for (let error = failure; ; ) {
    const { fits, places } = await heldSecret(talk, url);
    if (fits[0] !== undefined && !draft.isFixed('WEBHOOK_SECRET_ENCODING')) {
      // If several fit, deliveries will show which one is right.
      setFound(talk, 'WEBHOOK_SECRET_ENCODING', fits[0]);
      return true;
    }
    const given = used.has(FLAG) || places.length === 0 ? undefined : options.secretAt;
    used.add(FLAG);
    if (given === undefined && !asker.isPerson) throw error;
    say(explain(error).trimEnd());
    const place = given ?? (await askForPlace(talk, places));
    try {
      if (place === null) return await askForText(talk);
      const request = { url, events: DEFAULT_EVENTS, description: '', secretAt: place };
      await register(commandOf(talk), request);
      return false;
    } catch (again) {
      if (!(again instanceof MirrorError) || talk.signal.aborted) throw again;
      error = again;
    }
  }
}

/** `fits`: encodings that make a key of the stored secret, if the present one makes none. `places`: where in the answer it may be. */
async function heldSecret(
  talk: Talk,
  url: string,
): Promise<{ fits: readonly SecretEncoding[]; places: readonly string[] }> {
  const settings = secretSettings(talk.draft.config(), { wall: Date.now });
  const registrations = await withStore(commandOf(talk), 'read', (store) => store.listRegistrations());
  const held = registrations.findLast((each) => each.url === url && each.expiresWall === null);
  if (held === undefined) return { fits: [], places: [] };
  const { state, fits } = stateOfSecret(held, settings);
  if (state === 'too_short' || state === 'not_in_encoding') return { fits, places: [] };
  return { fits: [], places: settings.key === null ? [] : placesOfUnsent(held, settings.key) };
}

async function askForPlace({ asker }: Talk, places: readonly string[]): Promise<string | null> {
  if (places.length === 0) return null;
  const text = `Where in the answer it stands: ${places.map(printable).join(', ')}`;
  const place = await asker.ask({ text, otherwise: NOWHERE, flag: FLAG });
  return place === '' || place === NOWHERE ? null : place;
}

async function askForText({ asker, draft }: Talk): Promise<boolean> {
  const secret = await asker.ask({
    text: 'Signing secret that the service shows for it',
    otherwise: 'go on without',
    flag: '--webhook-secrets-file',
    isHidden: true,
  });
  if (secret === '') return false;
  const takeBack = draft.set('WEBHOOK_SECRETS', secret);
  const problem = draft.problemOf('WEBHOOK_SECRETS');
  if (problem === null) return true;
  takeBack();
  throw new MirrorError('unusable_secret', problem);
}

/** Writes the settings and restarts the mirror with them. False: the service that runs is not ours. */
async function applySettings(talk: Talk, trial: Trial): Promise<boolean> {
  await save(talk);
  if (trial.service() === null) {
    talk.say('Start the running service again, so that it takes them.');
    return false;
  }
  await trial.restart();
  return true;
}

/** The last delivery that was accepted and the last one that was rejected, or null. */
async function arrivals(talk: Talk) {
  return await withStore(commandOf(talk), 'read', async (store) => {
    const [lastRejected = null] = await store.list('rejections', { limit: 1 });
    const { last_delivery_at: lastAccepted } = await store.summary();
    // One delivery was accepted, and none was rejected after it.
    const isProven = lastAccepted !== null && (lastRejected === null || lastRejected.at <= lastAccepted);
    return { lastAccepted, lastRejected, isProven };
  });
}

/** Waits for an accepted delivery. A rejected one shows how the sender signs, and the settings are changed to that. */
export async function learnRecipe(talk: Talk, trial: Trial): Promise<void> {
  const { say, asker, options } = talk;
  const before = await arrivals(talk);
  if (before.isProven) {
    say(`Deliveries are taken: the last one at ${before.lastAccepted}.`);
    return;
  }
  say(
    `Waiting for a first delivery: change something in the compliance service${asker.isPerson ? '. Enter skips it' : ''}.`,
  );
  // A delivery that came before the secret explains nothing, because nothing of it was kept.
  let examined = before.lastRejected?.reason === 'no_signing_secret' ? before.lastRejected.id : 0;
  // At this time the mirror uses a secret that was stored just now.
  const takenUpAt = performance.now() + 2 * SECRETS_LOOK_MS;
  const shown = new Set<string>();
  const unproven = new Set<string>();
  const until = performance.now() + options.wait;
  for (;;) {
    const seen = await waitUntil(talk, trial, until - performance.now(), async () => {
      const now = await arrivals(talk);
      if (now.isProven || now.lastAccepted !== before.lastAccepted) return 'accepted' as const;
      const { lastRejected } = now;
      if (lastRejected === null || lastRejected.id <= examined) return null;
      if (lastRejected.reason !== 'no_signing_secret' || performance.now() > takenUpAt)
        return lastRejected.id;
      examined = lastRejected.id;
      return null;
    });
    if (seen === 'accepted') say('A delivery was taken: its signature fits.');
    if (seen === 'late') {
      say(
        'No delivery that fits has come. Look at the delivery log of the compliance service, and at the way from there; "setup" can be run again.',
      );
    }
    if (seen === 'accepted') return;
    if (typeof seen !== 'number') break;
    examined = seen;
    if (!(await examine(talk, trial, seen, { shown, unproven }))) continue;
    if (!(await applySettings(talk, trial))) break;
    say('Waiting for the sender to try again.');
  }
  if (unproven.size === 0) return;
  say(
    `No signature has proven ${[...unproven].join(' and ')}: what it was taken from may be a stranger's. Compare it with what the compliance service says.`,
  );
}

/** What a delivery shows is found out in steps: first the header's name, then what is signed. */
const RECIPE_STEPS = 4;

/** Sets what a rejected delivery shows, and notes what no signature proves. Resolves with whether a setting was changed. */
async function examine(
  talk: Talk,
  trial: Trial,
  id: number,
  { shown, unproven }: { shown: Set<string>; unproven: Set<string> },
): Promise<boolean> {
  const { draft } = talk;
  let hasBegun = false;
  const say = (line: string) => {
    // The sender tries again, and each attempt shows the same.
    if (shown.has(line)) return;
    shown.add(line);
    if (!hasBegun) talk.say('A delivery came, and was rejected. What it shows:');
    hasBegun = true;
    talk.say(line);
  };
  let isChanged = false;
  for (let step = 0; step < RECIPE_STEPS; step += 1) {
    const own = `${draft.config().webhook.header}:`;
    const header = trial.lastHeaders().filter((line) => !line.toLowerCase().startsWith(own));
    const { causes, fit } = await explainStored(commandOf(talk), `rejection:${id}`, { header });
    if (fit !== null) unproven.clear();
    const found = causes.flatMap(({ settings = {} }) => Object.entries(settings));
    for (const { what, remedy, settings } of causes) {
      say(`  ${printable(what)}${settings === undefined ? ` What to do: ${printable(remedy)}` : ''}`);
    }
    const open = found.filter(([name, value]) => draft.get(name) !== value && !draft.isFixed(name));
    for (const [name, value] of found) setFound(talk, name, value);
    if (fit === null) for (const [name] of open) unproven.add(name);
    if (open.length === 0) return isChanged;
    isChanged = true;
  }
  return isChanged;
}
