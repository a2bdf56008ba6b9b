import { answerPlace, placesOfTexts, registrationPlace, secretAt } from '../../compliance/registration.ts';
import { openSecret, sealSecret } from '../../compliance/secrets.ts';
import type { Config } from '../../platform/config.ts';
import { UsageError } from '../../platform/errors.ts';
import type { StoredRegistration } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { clockOf, withPresentStore } from '../database.ts';
import { DifferenceFound } from '../exit.ts';
import { printable } from '../text.ts';
import { secretSettings, unusableSecret, writeHeld } from './held.ts';

interface Wanted {
  /** Where the secret stands in the answer. */
  place: string;
  id: string | undefined;
  url: string | undefined;
  json: true | undefined;
}

/** Takes a registration's signing secret from its answer that is kept. Sends nothing. */
export async function takeSecret(cli: Cli, config: Config, { place, id, url, json }: Wanted): Promise<void> {
  const { credentialsKey: key } = config;
  if (key === null) throw new UsageError('CREDENTIALS_KEY is not set, and the answer is encrypted with it');
  await withPresentStore(cli, config, async (store) => {
    const clock = await clockOf(store);
    const held = (await store.listRegistrations()).filter(
      (each) => (id === undefined || each.upstreamId === id) && (url === undefined || each.url === url),
    );
    const registration = onlyOne(held);
    const { upstreamId, sealedAnswer } = registration;
    const text = openSecret(key, sealedAnswer, answerPlace(upstreamId));
    const secret = secretAt(text, place);
    if (secret === null) {
      const places = placesOfTexts(text).map(printable).join(', ');
      throw new UsageError(
        `the answer for ${upstreamId} has no text at ${place}`,
        places === '' ? 'it has none at all' : `it has texts at: ${places}`,
      );
    }
    const taken = { ...registration, sealedSecret: sealSecret(key, secret, registrationPlace(upstreamId)) };
    await store.saveRegistration(taken);
    const now = { wall: clock.wall(), steady: clock.steady() };
    const entry = { actor: 'register', action: 'registration_secret', outcome: 'ok', target: upstreamId };
    await store.audit(entry, now);
    const say = json ? cli.err : cli.out;
    say.write(`The signing secret of ${printable(upstreamId)} is stored, encrypted.\n`);
    const secrets = secretSettings(config, clock);
    writeHeld(cli, await store.listRegistrations(), { url: registration.url, json, secrets });
    const unusable = unusableSecret(taken, secrets);
    if (unusable !== null) throw new DifferenceFound(unusable.what, unusable.remedy);
  });
}

/** The one that is meant: of several, the one that still lacks its secret. */
function onlyOne(held: readonly StoredRegistration[]): StoredRegistration & { sealedAnswer: string } {
  const kept = held.filter((each) => hasAnswer(each));
  const lacking = kept.filter(({ sealedSecret }) => sealedSecret === null);
  const meant = kept.length === 1 ? kept : lacking;
  const [first, ...others] = meant;
  if (first !== undefined && others.length === 0) return first;
  if (kept.length === 0)
    throw new UsageError('no answer of such a registration is kept', 'see "registrations list"');
  const ids = (meant.length === 0 ? kept : meant).map(({ upstreamId }) => upstreamId).join(', ');
  throw new UsageError('which registration is meant is open', `add --id with one of: ${ids}`);
}

function hasAnswer(each: StoredRegistration): each is StoredRegistration & { sealedAnswer: string } {
  return each.sealedAnswer !== null;
}
