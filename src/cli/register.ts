import { hash, randomBytes } from 'node:crypto';
import { Command } from 'commander';
import { UpstreamError } from '../compliance/errors.ts';
import {
  EVERY_FAMILY,
  type RegistrationAnswer,
  type RegistrationRequest,
  registrationRequestSchema,
} from '../compliance/registration.ts';
import { sealSecret } from '../compliance/secrets.ts';
import { type Clock, momentOf } from '../platform/clock.ts';
import { type Config, requireHttpsOrLoopback } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { AWAITED_FACT, SECRETS_LOOK_MS, stateOfSecret } from '../service/signing-secrets.ts';
import { AUDIT_ASKED } from '../store/reports.ts';
import type { SealedText, Store, StoredRegistration } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings, requireKey } from './client.ts';
import { clockOf, configHere, holderOfDatabase, livingReplicas, withStore } from './database.ts';
import { DifferenceFound } from './exit.ts';
import { helpNote, jsonOption } from './options.ts';
import {
  conclude,
  placesOfUnsent,
  requireReadable,
  secretSettings,
  takeSecret,
  warnOfAnswer,
  warnOfOverlap,
  warnOfUnmatched,
} from './registrations.ts';
import { printable } from './text.ts';

export const DEFAULT_DESCRIPTION = 'compliance-mirror';
export const DEFAULT_EVENTS = EVERY_FAMILY.join(',');

/** Set before the request is sent, and cleared when its outcome is known. So a request without an answer is remembered. */
const ATTEMPT_FACT = 'registration_attempt';
const ASKED = 'asked';

/**
 * How long the secret of a replaced registration still verifies. The sender signs a repeated attempt with the secret of its own
 * registration, and most attempts come within a day. Full syncs find what comes later. A leaked secret should not verify for longer.
 */
const OVERLAP_MS = 24 * 3_600_000;

/** How much longer than the request a running service expects the secret: a token may be needed, and the answer is written. */
const AWAITED_MARGIN_MS = 15_000;

interface RegisterOptions {
  url?: string;
  events: string;
  description: string;
  again?: true;
  secretAt?: string;
  id?: string;
  json?: true;
}

export function registerCommand(cli: Cli): Command {
  return new Command('register')
    .description(
      'make the compliance service send its events to us (POST /webhooks); sends nothing if that is done already',
    )
    .option('--url <url>', 'where deliveries go: https, or loopback, ending in /webhooks')
    .option(
      '--events <patterns>',
      'exact types and families, comma-separated, such as policy.*,vendor.removed',
      DEFAULT_EVENTS,
    )
    .option('--description <text>', 'what the registration is called there', DEFAULT_DESCRIPTION)
    .option(
      '--again',
      'register even if it is stored here already or may have been requested before: if the compliance service does not have it',
    )
    .option(
      '--secret-at <place>',
      'send nothing: take the signing secret from this place in the stored answer, such as data.hook.token',
    )
    .option('--id <id>', 'with --secret-at: the id of the registration, if there are several')
    .addOption(jsonOption())
    .addHelpText(
      'after',
      helpNote(
        'It writes to the database itself, also beside a running service, which takes the new secret up within a second: a signing secret does not travel over the operators’ listener. So it runs where the database is.',
        'With --again the secret of the previous registration still verifies for a day, and is then forgotten.',
        'The whole answer is stored, encrypted. If its secret is not recognised, give its place with --secret-at.',
        'Exit code 3: registered, but no signing secret is known yet, or WEBHOOK_SECRET_ENCODING makes no key of it.',
      ),
    )
    .action((options: RegisterOptions) => register(cli, options));
}

/** `setup` calls it as well. */
export async function register(cli: Cli, options: RegisterOptions): Promise<void> {
  const config = configHere(cli, 'register', 'the signing secret goes into the database and nowhere else');
  if (options.secretAt !== undefined) return await takeSecret(cli, config, options.secretAt, options);
  const request = requestOf(options);
  // Before the request: a secret that cannot be stored would be lost, and with it every delivery.
  const key = requireKey(config, 'the signing secret in the answer');
  complianceSettings(config);
  await withStore(cli, 'make', async (store) => {
    const clock = await clockOf(store);
    const secrets = secretSettings(config, clock);
    const before = await store.listRegistrations();
    requireReadable(before, secrets);
    const same = sameAs(before, request);
    const held = same.at(-1);
    // With --json, standard output is only for programs.
    const say = options.json ? cli.err : cli.out;
    const isAgain = options.again === true;
    const { registration, answer } =
      held !== undefined && !isAgain
        ? { registration: held, answer: null }
        : await ask({ cli, config, key, store, clock, request, before, isAgain });
    if (answer === null) {
      say.write(
        `Registered already, as ${printable(registration.upstreamId)}; nothing was sent. If the compliance service no longer has it, add --again.\n`,
      );
    } else {
      const { upstreamId, url } = registration;
      say.write(`Registered as ${printable(upstreamId)}: ${printable(url)}\n`);
      say.write(
        answer.secret === null
          ? lackOfSecret(registration, placesOfUnsent(registration, key()))
          : 'Its signing secret is stored, encrypted.\n',
      );
      warnOfAnswer(cli, request, answer);
      const replaced = same.filter((each) => each.upstreamId !== upstreamId);
      const isTakenUp = stateOfSecret(registration, secrets).state === 'verifies';
      await letExpire(say, store, clock, { replaced, isTakenUp });
      if (!isAgain) warnOfOverlap(cli, await store.listRegistrations(), registration);
    }
    await conclude(cli, store, registration, { json: options.json, secrets });
    if (registration.sealedSecret === null && config.webhook.secrets().length === 0) {
      const isElsewhere = placesOfUnsent(registration, key()).length === 0;
      throw new DifferenceFound(
        `no signing secret of ${printable(registration.upstreamId)} is known, so what it sends cannot be verified`,
        `${isElsewhere ? '' : 'take it from the answer with --secret-at, or '}set WEBHOOK_SECRETS to the one that the compliance service shows you`,
      );
    }
  });
}

/** Lets replaced secrets expire after a day, but only if the new one can be used. */
async function letExpire(
  say: Cli['out'],
  store: Store,
  clock: Clock,
  { replaced, isTakenUp }: { replaced: readonly StoredRegistration[]; isTakenUp: boolean },
): Promise<void> {
  for (const { upstreamId } of replaced) {
    const id = printable(upstreamId);
    if (!isTakenUp) {
      say.write(
        `The secret of ${id} goes on verifying, since there is no new one in its place; end it with: registrations forget ${id}\n`,
      );
      continue;
    }
    const now = momentOf(clock);
    const until = now.wall + OVERLAP_MS;
    const entry = { actor: 'register', action: 'registration_forget', outcome: 'ok', target: upstreamId };
    await store.forgetRegistration(upstreamId, until, entry, now);
    say.write(
      `The secret of ${id} verifies until ${new Date(until).toISOString()} and is then forgotten; remove that registration in the compliance service.\n`,
    );
  }
}

/** The fields of the specification, and no others. */
type Asked = Pick<RegistrationRequest, 'url' | 'events' | 'description'>;

function requestOf(options: RegisterOptions): Asked {
  if (options.url === undefined) {
    throw new UsageError('--url is missing', 'it is where deliveries go, such as https://…/webhooks');
  }
  requireHttpsOrLoopback(options.url, '--url');
  const events = options.events.split(',').map((pattern) => pattern.trim());
  const parsed = registrationRequestSchema.safeParse({
    url: options.url,
    events: [...new Set(events.filter((pattern) => pattern !== ''))],
    description: options.description,
  });
  if (parsed.success) {
    const { url, events: patterns, description } = parsed.data;
    return { url, events: patterns, description };
  }
  const field = String(parsed.error.issues[0]?.path[0] ?? 'url');
  throw new UsageError(
    `--${field} cannot be used as it is`,
    field === 'events' ? 'it takes types such as policy.created and families such as policy.*' : undefined,
  );
}

/** A text that is equal for equal requests, whatever the order of their events. */
const textOf = ({ url, events, description }: Asked) =>
  JSON.stringify({ url, events: [...events].sort(), description });

/** The stored registrations that an equal request has made, except those that expire. */
const sameAs = (held: readonly StoredRegistration[], request: Asked) =>
  held.filter((each) => textOf(each) === textOf(request) && each.expiresWall === null);

/** One entry for each request: the outcome of one says nothing about another. */
const attemptFact = (request: Asked) => `${ATTEMPT_FACT}:${hash('sha256', textOf(request), 'hex')}`;

/** The specification has no way to list or delete registrations, so a second one would stay for ever. */
const outcomeUnknown = () =>
  new MirrorError(
    'outcome_unknown',
    'this was requested before, and whether that took effect is not known; nothing was sent',
    { remedy: 'look at the registrations in the compliance service; if it is not there, add --again' },
  );

/**
 * Makes a running service look for the new secret more often, and waits until it does: deliveries may follow the answer at once.
 * Until the secret is stored they are answered 503, so they are sent again.
 */
async function announce(config: Config, store: Store, clock: Clock): Promise<void> {
  const hasService =
    store.engine === 'sqlite'
      ? (await holderOfDatabase(config.databaseUrl)) !== null
      : (await livingReplicas(store)) > 0;
  if (!hasService) return;
  // Twice, because the look that is under way may have begun earlier.
  const waitMs = 2 * SECRETS_LOOK_MS;
  const until = clock.wall() + waitMs + complianceSettings(config).timeoutMs + AWAITED_MARGIN_MS;
  await store.writeFact(AWAITED_FACT, String(until));
  await clock.sleep(waitMs);
}

interface Attempt {
  cli: Cli;
  config: Config;
  key: () => Uint8Array;
  store: Store;
  clock: Clock;
  request: Asked;
  before: readonly StoredRegistration[];
  isAgain: boolean;
}

/**
 * Registers and stores the answer. `answer` null: another command has just done the same. The audit entry is written before the
 * request. If the outcome stays unknown, so does the entry's.
 */
async function ask({ cli, config, key, store, clock, request, before, isAgain }: Attempt) {
  const fact = attemptFact(request);
  if (!isAgain && (await store.readFact(fact)) === ASKED) throw outcomeUnknown();
  const client = commandClient(cli, config, store, { actor: 'register', needs: 'write' });
  await announce(config, store, clock);
  // If several commands get here at once, one of them registers, and the others find what it has stored.
  const isOurs = await store.claimFact(fact, ASKED);
  if (!isAgain) {
    if (!isOurs) throw outcomeUnknown();
    const registration = sameAs(await store.listRegistrations(), request).at(-1);
    if (registration !== undefined) {
      await store.writeFact(fact, '');
      return { registration, answer: null };
    }
  }
  // Without the query, which may hold a secret.
  const { origin, pathname } = new URL(request.url);
  const entry = { actor: 'register', action: 'register', outcome: AUDIT_ASKED, target: origin + pathname };
  const auditId = await store.audit(entry, momentOf(clock));
  const settle = async (outcome: string) => {
    await store.writeFact(fact, '');
    await store.writeFact(AWAITED_FACT, '');
    await store.settleAudit(auditId, outcome);
  };
  try {
    const signal = new AbortController().signal;
    const answer = await client.registerWebhook(request, { lane: 'person', signal });
    const { secret, text, events } = answer;
    const upstreamId = ownId(answer, request, before);
    const seal = (plain: string, table: SealedText['table']) =>
      sealSecret(key(), plain, { table, row: upstreamId });
    const registration: StoredRegistration = {
      upstreamId,
      // As sent, not as answered: so the same request is recognised again.
      ...request,
      delivers: events ?? request.events,
      // Stored even if they cannot be used: the service shows them only once.
      sealedSecret: secret === null ? null : seal(secret, 'registrations'),
      sealedAnswer: seal(text, 'registration_answers'),
      createdWall: clock.wall(),
      expiresWall: null,
    };
    await store.saveRegistration(registration);
    await settle('ok');
    return { registration, answer };
  } catch (error) {
    // The service rejected it, so nothing was registered. Other errors may be ours, after the service has registered it.
    if (error instanceof UpstreamError && !error.outcomeUnknown) {
      await settle('failed');
      if (error.excerpt !== null && error.kind !== 'malformed') {
        cli.err.write(`The compliance service says: ${printable(error.excerpt)}\n`);
      }
      warnOfUnmatched(cli, request.events);
    }
    throw error;
  }
}

/**
 * The id under which the registration is stored. The id in the answer may be that of an account, the same in every answer. So it
 * replaces a stored registration only with a new secret for the same address: a lost secret is not shown again.
 */
function ownId(
  { id, secret }: RegistrationAnswer,
  { url }: Asked,
  before: readonly StoredRegistration[],
): string {
  const held = before.find(({ upstreamId }) => upstreamId === id);
  if (id !== null && (held === undefined || (secret !== null && held.url === url))) return id;
  return `${id ?? 'unnamed'}#${randomBytes(LOCAL_ID_BYTES).toString('hex')}`;
}

/** Makes an id for a registration to which the service gave none. */
const LOCAL_ID_BYTES = 4;

function lackOfSecret({ upstreamId }: StoredRegistration, places: readonly string[]): string {
  const lines = ['No signing secret was recognised in the answer, which is kept, encrypted.'];
  if (places.length > 0) {
    const shown = places.map(printable).join(', ');
    lines.push(
      `If one of these is the secret (${shown}), take it with: register --id ${printable(upstreamId)} --secret-at PLACE`,
    );
  }
  return `${lines.join('\n')}\n`;
}
