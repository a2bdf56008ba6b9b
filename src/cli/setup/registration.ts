import { RECEIVER_PATH } from '../../compliance/registration.ts';
import { openSecret } from '../../compliance/secrets.ts';
import { MirrorError } from '../../platform/errors.ts';
import type { SecretEncoding } from '../../platform/signing-secret.ts';
import { stateOfSecret } from '../../service/signing-secrets.ts';
import { withStore } from '../database.ts';
import { DifferenceFound, explain } from '../exit.ts';
import { DEFAULT_DESCRIPTION, DEFAULT_EVENTS, register } from '../register.ts';
import { placesOfUnsent, secretSettings } from '../registrations.ts';
import { printable } from '../text.ts';
import { applySettings } from './deliveries.ts';
import { commandOf, setFound, settle, type Talk } from './talk.ts';
import type { Trial } from './trial.ts';

/** What an answer to the address of the receiver says to register by other means. */
const BY_OTHER_MEANS = '-';

/** The address to register, or null: nothing is registered from here. */
export async function askForHook(talk: Talk): Promise<string | null> {
  const { draft, asker, options, say } = talk;
  const askForSecret = async () => {
    const isKnown = options.webhookSecretsFile !== undefined || draft.held('WEBHOOK_SECRETS') !== undefined;
    if (!isKnown && asker.isPerson) await settleSecrets(talk);
    return null;
  };
  if (options.webhookSecretsFile !== undefined) await settleSecrets(talk);
  if (!options.register) return await askForSecret();
  if (options.url !== undefined) return options.url;
  const { host, port, compliance } = draft.config();
  const isLocal = compliance?.baseUrl.protocol === 'http:';
  const local = isLocal ? `http://${host}:${port}${RECEIVER_PATH}` : undefined;
  const hasSecret = draft.held('WEBHOOK_SECRETS') !== undefined;
  const otherwise = (await registeredUrl(talk)) ?? (hasSecret ? BY_OTHER_MEANS : local);
  const text = `Address at which the compliance service reaches this receiver (https://…${RECEIVER_PATH}; ${BY_OTHER_MEANS}: it is registered by other means)`;
  for (;;) {
    const url = (await asker.ask({ text, flag: '--url, or --no-register', otherwise })) || otherwise;
    if (url === BY_OTHER_MEANS) return await askForSecret();
    if (url !== undefined && URL.canParse(url)) return url;
    say(`That is no address; it is one such as https://mirror.example.com${RECEIVER_PATH}`);
  }
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
    // No database yet, or one that the service will migrate.
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
      // It is registered, and lacks nothing but its secret.
      if (error instanceof DifferenceFound) {
        if (await settleSecret(talk, url, error)) await applySettings(talk, trial);
        return;
      }
      if (!(error instanceof MirrorError) || !asker.isPerson) throw error;
      say(explain(error, { debug: false }).trimEnd());
      const text = `Another address, or ${BY_OTHER_MEANS} to go on without registering`;
      const answer = await asker.ask({ text, otherwise: BY_OTHER_MEANS, flag: '--url' });
      if (answer === '' || answer === BY_OTHER_MEANS) return;
      url = answer;
    }
  }
}

const FLAG = '--secret-at';
const NOWHERE = 'nowhere';

/**
 * The registration of `url` is made, and `failure` says that no secret of it can be used. Has it read otherwise, taken from
 * the answer, or typed. True: a setting was changed. Rejects with `failure` where there is nobody to ask.
 */
async function settleSecret(talk: Talk, url: string, failure: MirrorError): Promise<boolean> {
  const { asker, draft, options, say, used } = talk;
  for (let error = failure; ; ) {
    const { fits, places } = await heldSecret(talk, url);
    if (fits[0] !== undefined && !draft.isFixed('WEBHOOK_SECRET_ENCODING')) {
      // Deliveries show which of them it is.
      setFound(talk, 'WEBHOOK_SECRET_ENCODING', fits[0]);
      return true;
    }
    const given = used.has(FLAG) || places.length === 0 ? undefined : options.secretAt;
    used.add(FLAG);
    if (given === undefined && !asker.isPerson) throw error;
    say(explain(error, { debug: false }).trimEnd());
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

/**
 * `fits`: of a secret that makes no key as it is read now, the encodings in which it would. `places`: where in the answer it may
 * be.
 */
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
  if (settings.key === null || held.sealedAnswer === null) return { fits: [], places: [] };
  const answer = openSecret(settings.key, held.sealedAnswer, {
    table: 'registration_answers',
    row: held.upstreamId,
  });
  return { fits: [], places: placesOfUnsent(held, answer) };
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
    ...{ otherwise: 'go on without', flag: '--webhook-secrets-file', isHidden: true },
  });
  if (secret === '') return false;
  const takeBack = draft.set('WEBHOOK_SECRETS', secret);
  const problem = draft.problemOf('WEBHOOK_SECRETS');
  if (problem === null) return true;
  takeBack();
  throw new MirrorError('unusable_secret', problem);
}
