import { Command } from 'commander';
import {
  coverageOf,
  isReceiverPath,
  placesOfTexts,
  RECEIVER_PATH,
  type RegistrationAnswer,
  secretAt,
} from '../compliance/registration.ts';
import { openSecret, sealSecret } from '../compliance/secrets.ts';
import { momentOf } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { UsageError } from '../platform/errors.ts';
import { flawText, type SecretEncoding } from '../platform/signing-secret.ts';
import { type SecretState, stateOfSecret } from '../service/signing-secrets.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import { type Cli, writeJson, writeRows } from './cli.ts';
import { clockOf, configHere, withStore } from './database.ts';
import { DifferenceFound } from './exit.ts';
import { notFound } from './lists.ts';
import { helpNote, jsonOption, parseDuration } from './options.ts';
import { printable } from './text.ts';

/** The actor in the audit. */
const ACTOR = 'cli';

export function registrationsCommand(cli: Cli): Command {
  const registrations = new Command('registrations').description(
    'what “register” made, and whether its secrets verify deliveries: list, forget',
  );

  registrations
    .command('list')
    .description('registrations held here, oldest first; nothing lists those of the compliance service')
    .addOption(jsonOption())
    .action((options: { json?: true }) => list(cli, options));

  registrations
    .command('forget')
    .description('remove a registration and its signing secret: deliveries signed with it get 401')
    .argument('<id>', 'as in the list')
    .option('--after <time>', 'let its secret still verify for this long, such as 24h', parseDuration)
    .addHelpText(
      'after',
      helpNote(
        'It works on the database itself, also beside a running service, which obeys within a second.',
        'After --after, another "forget" without it takes effect at once, and a new registration with the same id undoes it.',
      ),
    )
    .action((id: string, options: { after?: number }) => forget(cli, id, options));

  return registrations;
}

async function list(cli: Cli, options: { json?: true }): Promise<void> {
  const why = 'whether a secret verifies depends on the settings there';
  const config = configHere(cli, 'registrations', why);
  await withStore(cli, 'read', async (store) => {
    const secrets = secretSettings(config, await clockOf(store));
    writeRegistrations(cli, await store.listRegistrations(), { json: options.json, secrets });
  });
}

async function forget(cli: Cli, id: string, { after = 0 }: { after?: number }): Promise<void> {
  const config = configHere(cli, 'registrations', 'as "register" does');
  await withStore(cli, 'write', async (store) => {
    const clock = await clockOf(store);
    const now = momentOf(clock);
    const until = now.wall + after;
    const entry = { actor: ACTOR, action: 'registration_forget', outcome: 'ok', target: id };
    if (!(await store.forgetRegistration(id, until, entry, now))) {
      throw notFound(`no registration ${id} is held here`, 'registrations list');
    }
    const name = printable(id);
    const remove = 'Remove that registration in the compliance service: nothing else ends its deliveries.\n';
    cli.out.write(
      after === 0
        ? `Forgotten: ${name}. What its secret signs is not accepted any more. ${remove}`
        : `The secret of ${name} verifies until ${new Date(until).toISOString()} and is then forgotten. ${remove}`,
    );
    const secrets = { ...secretSettings(config, clock), now: until };
    const left = (await store.listRegistrations()).filter(
      (each) => stateOfSecret(each, secrets).state === 'verifies',
    );
    if (left.length === 0 && config.webhook.secrets().length === 0) {
      cli.err.write(
        'Warning: no other signing secret is known, so every delivery will be answered 503: "register", or set WEBHOOK_SECRETS\n',
      );
    }
  });
}

interface Wanted {
  id?: string;
  url?: string;
  json?: true;
}

/** Takes a registration's signing secret from `place` in its stored answer. Sends nothing. */
export async function takeSecret(
  cli: Cli,
  config: Config,
  place: string,
  { id, url, json }: Wanted,
): Promise<void> {
  const { credentialsKey: key } = config;
  if (key === null) throw new UsageError('CREDENTIALS_KEY is not set, and the answer is encrypted with it');
  await withStore(cli, 'write', async (store) => {
    const clock = await clockOf(store);
    const held = (await store.listRegistrations()).filter(
      (each) => (id === undefined || each.upstreamId === id) && (url === undefined || each.url === url),
    );
    const registration = onlyOne(held);
    const { upstreamId } = registration;
    const text = answerOf(registration, key);
    const secret = secretAt(text, place);
    if (secret === null) {
      const places = placesOfTexts(text).map(printable).join(', ');
      throw new UsageError(
        `the answer for ${upstreamId} has no text at ${place}`,
        places === '' ? 'it has none at all' : `it has texts at: ${places}`,
      );
    }
    const taken = {
      ...registration,
      sealedSecret: sealSecret(key, secret, { table: 'registrations', row: upstreamId }),
    };
    await store.saveRegistration(taken);
    const entry = { actor: 'register', action: 'registration_secret', outcome: 'ok', target: upstreamId };
    await store.audit(entry, momentOf(clock));
    (json ? cli.err : cli.out).write(
      `The signing secret of ${printable(upstreamId)} is stored, encrypted.\n`,
    );
    await conclude(cli, store, taken, { json, secrets: secretSettings(config, clock) });
  });
}

/** Shows all registrations, and throws DifferenceFound where the secret of `registration` cannot be used. */
export async function conclude(
  cli: Cli,
  store: Store,
  registration: StoredRegistration,
  { json, secrets }: { json: true | undefined; secrets: SecretSettings },
): Promise<void> {
  const held = await store.listRegistrations();
  writeRegistrations(cli, held, { url: registration.url, json, secrets });
  const unusable = unusableSecret(registration, secrets);
  if (unusable !== null) throw new DifferenceFound(unusable.what, unusable.remedy);
}

type Answered = StoredRegistration & { sealedAnswer: string };

const isKept = (registration: StoredRegistration): registration is Answered =>
  registration.sealedAnswer !== null;

const answerOf = ({ sealedAnswer, upstreamId }: Answered, key: Uint8Array) =>
  openSecret(key, sealedAnswer, { table: 'registration_answers', row: upstreamId });

/** The one registration of `held`, or the only one that lacks its secret. @throws UsageError if it is not clear which. */
function onlyOne(held: readonly StoredRegistration[]): Answered {
  const kept = held.filter(isKept);
  const lacking = kept.filter(({ sealedSecret }) => sealedSecret === null);
  const meant = kept.length === 1 ? kept : lacking;
  const [first, ...others] = meant;
  if (first !== undefined && others.length === 0) return first;
  if (kept.length === 0)
    throw new UsageError('no answer of such a registration is stored', 'see "registrations list"');
  const ids = (meant.length === 0 ? kept : meant).map(({ upstreamId }) => upstreamId).join(', ');
  throw new UsageError('it is not clear which registration is meant', `add --id with one of: ${ids}`);
}

/** What decides whether a registration's secret can be used. */
export function secretSettings(
  { webhook, credentialsKey }: Pick<Config, 'webhook' | 'credentialsKey'>,
  clock: { wall(): number },
) {
  return { key: credentialsKey, encoding: webhook.secretEncoding, now: clock.wall() };
}
type SecretSettings = ReturnType<typeof secretSettings>;

/** Shows all registrations, and warns of event types that are not delivered to `url`, or to some address if none is given. */
function writeRegistrations(
  cli: Cli,
  stored: readonly StoredRegistration[],
  { url, json, secrets }: { url?: string; json?: true | undefined; secrets: SecretSettings },
): void {
  const instantOf = (wall: number | null) => (wall === null ? null : new Date(wall).toISOString());
  const shown = stored.map((each) => ({
    id: each.upstreamId,
    url: each.url,
    events: each.delivers,
    description: each.description,
    created_at: instantOf(each.createdWall),
    secret: stateOfSecret(each, secrets).state,
    expires_at: instantOf(each.expiresWall),
  }));
  if (json) writeJson(cli.out, shown);
  else
    writeRows(cli.out, shown, [
      'id',
      'url',
      ['EVENTS', ({ events }) => events.join(', ')],
      'description',
      'created_at',
      ['SECRET', ({ secret }) => stateText(secret, secrets.encoding)],
      'expires_at',
    ]);
  for (const each of url === undefined ? new Set(stored.map((one) => one.url)) : [url]) {
    const selected = stored.filter((one) => one.url === each).flatMap(({ delivers }) => delivers);
    writeCoverage(cli, selected, each);
  }
}

function stateText(state: SecretState, encoding: SecretEncoding): string {
  if (state === 'verifies') return 'verifies';
  if (state === 'not_stored') return 'is not stored';
  if (state === 'expired') return 'has expired';
  return state === 'unreadable' ? 'does not open with CREDENTIALS_KEY' : flawText(state, encoding);
}

/** What to do if WEBHOOK_SECRET_ENCODING makes no key of the secret; null: it makes one, or something else is wrong. */
export function unusableSecret(
  registration: StoredRegistration,
  secrets: SecretSettings,
): { what: string; remedy: string } | null {
  const { state, fits } = stateOfSecret(registration, secrets);
  if (state !== 'too_short' && state !== 'not_in_encoding') return null;
  const flaw = flawText(state, secrets.encoding);
  return {
    what: `the signing secret of ${registration.upstreamId} is stored and cannot be used: it ${flaw} (WEBHOOK_SECRET_ENCODING=${secrets.encoding})`,
    remedy:
      fits.length === 0
        ? 'no encoding makes a key of it: have the compliance service give another, and "registrations forget" this one'
        : `set WEBHOOK_SECRET_ENCODING=${fits.join(' or ')}, as the compliance service means it, and start the service anew`,
  };
}

/** The places of all texts in the stored answer that we did not send and that are not its id: one may be the secret. */
export function placesOfUnsent(registration: StoredRegistration, key: Uint8Array): string[] {
  if (!isKept(registration)) return [];
  const answer = answerOf(registration, key);
  const { upstreamId, url, description, events, delivers } = registration;
  const known = new Set([upstreamId, url, description, ...events, ...delivers]);
  return placesOfTexts(answer).filter((place) => !known.has(secretAt(answer, place) ?? ''));
}

function writeCoverage(cli: Cli, patterns: readonly string[], url: string): void {
  if (!isReceiverPath(url)) {
    cli.err.write(
      `Warning: ${printable(url)} does not end in ${RECEIVER_PATH}, the only path at which deliveries are taken, unless a proxy rewrites it\n`,
    );
  }
  const { missing, without } = coverageOf(patterns);
  if (missing.length > 0) {
    const whole = without.length === 0 ? '' : ` (nothing at all of: ${without.join(', ')})`;
    cli.err.write(
      `Warning: not covered at ${printable(url)}, so found by full syncs only: ${missing.join(', ')}${whole}\n`,
    );
  }
  warnOfUnmatched(cli, patterns);
}

/** Warns of patterns that select no known type: misspelled ones, or types newer than this version. */
export function warnOfUnmatched(cli: Cli, patterns: readonly string[]): void {
  const { unmatched } = coverageOf(patterns);
  if (unmatched.length === 0) return;
  cli.err.write(`Warning: no known event type is selected by: ${unmatched.map(printable).join(', ')}\n`);
}

/** Warns of events that come twice, because another registration sends them to the same address. */
export function warnOfOverlap(cli: Cli, held: readonly StoredRegistration[], made: StoredRegistration): void {
  const { covered } = coverageOf(made.delivers);
  for (const { upstreamId, url, delivers } of held) {
    if (url !== made.url || upstreamId === made.upstreamId) continue;
    const twice = coverageOf(delivers).covered.filter((type) => covered.includes(type));
    if (twice.length === 0) continue;
    cli.err.write(
      `Warning: ${printable(upstreamId)} delivers to ${printable(made.url)} as well; if the compliance service still has it, these come twice, which does no harm: ${twice.join(', ')}\n`,
    );
  }
}

/** Warns if the service has registered something else than was requested. */
export function warnOfAnswer(
  cli: Cli,
  asked: { url: string; events: readonly string[] },
  answer: RegistrationAnswer,
): void {
  const sorted = (events: readonly string[]) => [...events].sort().map(printable).join(', ');
  if (answer.events !== null && sorted(answer.events) !== sorted(asked.events)) {
    cli.err.write(
      `Warning: asked for ${sorted(asked.events)}, and the answer names ${sorted(answer.events) || 'none'}\n`,
    );
  }
  if (answer.url !== null && answer.url !== asked.url) {
    cli.err.write(`Warning: the answer names another address: ${printable(answer.url)}\n`);
  }
}

/** @throws UsageError if CREDENTIALS_KEY does not open every stored secret: the service would not start. */
export function requireReadable(registrations: readonly StoredRegistration[], secrets: SecretSettings): void {
  const unreadable = registrations.filter((each) => stateOfSecret(each, secrets).state === 'unreadable');
  if (unreadable.length === 0) return;
  throw new UsageError(
    `the stored signing secret of ${unreadable.map(({ upstreamId }) => upstreamId).join(', ')} does not open with this CREDENTIALS_KEY; nothing was sent`,
    'set CREDENTIALS_KEY to the key it was stored with; if that is lost, "registrations forget ID" gives the secret up',
  );
}
