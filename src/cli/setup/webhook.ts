import { isReceiverPath, RECEIVER_PATH } from '../../compliance/registration.ts';
import type { ShownDelivery } from '../../ops/api/schemas.ts';
import { MirrorError } from '../../platform/errors.ts';
import { secretSettings, stateOfSecret } from '../../service/signing-secrets.ts';
import type { StoredRegistration } from '../../store/store.ts';
import { withStore } from '../database.ts';
import { DifferenceFound, explain } from '../exit.ts';
import { withService } from '../service.ts';
import { DEFAULT_EVENTS, register } from '../webhook/register.ts';
import { commandOf, settle, type Talk } from './talk.ts';

const WAYS = [
  ['register', 'Register it now'],
  ['other', 'It is registered already: I have its signing secret'],
  ['later', 'Later: full syncs alone keep the mirror right'],
] as const;

/** The address to register, or null: nothing is registered from here. */
export async function askForHook(talk: Talk): Promise<string | null> {
  const { draft, asker, options } = talk;
  const held = await usableRegistration(talk);
  if (held !== undefined && (options.url ?? held.url) === held.url) {
    asker.say(`The webhook is registered already: ${held.url}, as ${held.upstreamId}.`, 'good');
    return null;
  }
  if (options.url !== undefined || !asker.isPerson) return options.url ?? null;
  const isKnown = draft.held('WEBHOOK_SECRETS') !== undefined;
  const text = 'The webhook, by which the compliance service sends its events';
  const otherwise = isKnown ? 'other' : 'register';
  const way = await asker.ask({ text, flag: '--url', choices: WAYS, otherwise });
  if (way === 'other' && !isKnown) await settle(talk, 'WEBHOOK_SECRETS');
  return way === 'register' ? await askForUrl(talk) : null;
}

async function askForUrl({ draft, asker }: Talk): Promise<string> {
  const { host, port, compliance } = draft.config();
  const isLocal = compliance?.baseUrl.protocol === 'http:';
  return await asker.ask({
    text: `Address at which the compliance service reaches this receiver, such as https://mirror.example.com${RECEIVER_PATH}`,
    flag: '--url',
    otherwise: isLocal ? `http://${host}:${port}${RECEIVER_PATH}` : undefined,
    // Only a person can remove a registration of a wrong address, in the compliance service.
    problem: (url) =>
      URL.canParse(url) && isReceiverPath(url)
        ? null
        : `It takes an address that ends in ${RECEIVER_PATH}, the only path at which deliveries are taken`,
  });
}

/** The newest stored registration with a secret that verifies, if there is any. */
export async function usableRegistration(talk: Talk): Promise<StoredRegistration | undefined> {
  const secrets = secretSettings(talk.draft.config(), { wall: Date.now });
  const isUsable = (each: StoredRegistration) =>
    each.expiresWall === null && stateOfSecret(each, secrets) === 'verifies';
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
export async function registerHook(talk: Talk, url: string): Promise<void> {
  const { asker, done } = talk;
  const registered = `registered in the compliance service: ${url}`;
  try {
    await register(commandOf(talk), asker, { events: DEFAULT_EVENTS, url });
    done.push(registered);
  } catch (error) {
    // It is registered, but its secret cannot be used.
    if (error instanceof DifferenceFound) done.push(registered);
    if (!(error instanceof MirrorError) || !asker.isPerson || error.code === 'stopped') throw error;
    asker.say(explain(error).trim(), 'bad');
    asker.say('Setup goes on without. Later: compliance-mirror webhook register --url …');
  }
}

/** The last delivery that was accepted and the last one that was rejected, or null. */
export async function arrivals(talk: Talk) {
  return await withStore(commandOf(talk), 'read', async (store) => {
    const { items } = await store.listDeliveries({ outcome: 'rejected' }, { limit: 1 });
    const [rejected = null] = items;
    const { last_delivery_at: accepted } = await store.summary();
    return { accepted, rejected };
  });
}

/** Says why a delivery was rejected. */
export async function explainRejection(talk: Talk, number: number): Promise<void> {
  const { diagnosis } = await withService(commandOf(talk), ({ get }) =>
    get<ShownDelivery>(`deliveries/rejection:${number}`),
  );
  talk.asker.say('A delivery came, and was rejected:', 'bad');
  for (const { what, remedy } of diagnosis?.causes ?? []) talk.asker.say(`${what} ${remedy}`);
}
