import { answerPlace, openSecret } from '../../compliance/secrets.ts';
import { MirrorError } from '../../platform/errors.ts';
import type { SecretEncoding } from '../../platform/signing-secret.ts';
import { standingOf } from '../../service/signing-secrets.ts';
import { withStore } from '../database.ts';
import { explain } from '../exit.ts';
import { DEFAULT_EVENTS, register } from '../register.ts';
import { placesOfUnsent, secretSettings } from '../registrations.ts';
import { printable } from '../text.ts';
import { commandOf, setFound, type Talk } from './talk.ts';

interface HeldSecret {
  /** Of a secret that makes no key as it is read now: the settings under which it would. */
  fits: readonly SecretEncoding[];
  /** Where in the answer it may be. */
  places: readonly string[];
}

/**
 * The registration of `url` is made, and `failure` says that no secret of it can be used. Has it read otherwise, taken from
 * the answer, or typed. True: a setting was changed. Rejects with `failure` where there is nobody to ask.
 */
export async function settleSecret(talk: Talk, url: string, failure: MirrorError): Promise<boolean> {
  const { asker, draft, say } = talk;
  for (let error = failure; ; ) {
    const { fits, places } = await heldSecret(talk, url);
    if (fits[0] !== undefined && !draft.isFixed('WEBHOOK_SECRET_ENCODING')) {
      // Which of them it is, deliveries tell.
      setFound(talk, 'WEBHOOK_SECRET_ENCODING', fits[0]);
      return true;
    }
    const given = talk.used.has(FLAG) || places.length === 0 ? undefined : talk.options.secretAt;
    talk.used.add(FLAG);
    if (given === undefined && !asker.isPerson) throw error;
    say(explain(error, { debug: false }).trimEnd());
    const place = given ?? (await askForPlace(talk, places));
    try {
      if (place !== null) {
        const cli = commandOf(talk);
        await register(cli, { url, events: DEFAULT_EVENTS, description: '', secretAt: place });
        return false;
      }
      return await askForText(talk);
    } catch (again) {
      if (!(again instanceof MirrorError) || talk.signal.aborted) throw again;
      error = again;
    }
  }
}

async function heldSecret(talk: Talk, url: string): Promise<HeldSecret> {
  const config = talk.draft.config();
  const settings = secretSettings(config, { wall: Date.now });
  return await withStore(commandOf(talk), 'read', async (store) => {
    const held = (await store.listRegistrations()).findLast(
      (each) => each.url === url && each.expiresWall === null,
    );
    if (held === undefined) return { fits: [], places: [] };
    const { standing, fits } = standingOf(held, settings);
    if (standing === 'too_short' || standing === 'not_in_encoding') return { fits, places: [] };
    const { upstreamId, sealedAnswer } = held;
    if (settings.key === null || sealedAnswer === null) return { fits: [], places: [] };
    const answer = openSecret(settings.key, sealedAnswer, answerPlace(upstreamId));
    return { fits: [], places: placesOfUnsent(held, answer) };
  });
}

const FLAG = '--secret-at';
const NOWHERE = 'nowhere';

async function askForPlace({ asker }: Talk, places: readonly string[]): Promise<string | null> {
  if (places.length === 0) return null;
  const place = await asker.ask({
    text: `Where in the answer it stands: ${places.map(printable).join(', ')}`,
    ...{ otherwise: NOWHERE, flag: FLAG },
  });
  return place === '' || place === NOWHERE ? null : place;
}

async function askForText({ asker, draft }: Talk): Promise<boolean> {
  const secret = await asker.ask({
    text: 'Signing secret that the service shows for it',
    ...{ otherwise: 'go on without', flag: '--webhook-secrets-file', isHidden: true },
  });
  if (secret === '') return false;
  draft.set('WEBHOOK_SECRETS', secret);
  const problem = draft.problemOf('WEBHOOK_SECRETS');
  if (problem === null) return true;
  draft.set('WEBHOOK_SECRETS', '', '');
  throw new MirrorError('unusable_secret', problem);
}
