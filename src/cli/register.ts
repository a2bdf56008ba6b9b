import { hash } from 'node:crypto';
import { Command } from 'commander';
import type { Clock } from '../clock.ts';
import type { ComplianceClient } from '../compliance/client.ts';
import { UpstreamError } from '../compliance/errors.ts';
import { EVERY_FAMILY, registrationPlace } from '../compliance/registration.ts';
import {
  type RegistrationAnswer,
  type RegistrationRequest,
  registrationRequestSchema,
} from '../compliance/schemas.ts';
import { sealSecret } from '../compliance/secrets.ts';
import { loadConfig, requireHttpsOrLoopback } from '../config.ts';
import { MirrorError, UsageError } from '../errors.ts';
import { standingOf } from '../service/stored-secrets.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { openForWriting, refuseFromAfar } from './database.ts';
import { DifferenceFound } from './exit.ts';
import { clockOf } from './local-clock.ts';
import { jsonOption } from './options.ts';
import {
  requireReadable,
  secretSettings,
  unusableSecret,
  warnOfAnswer,
  warnOfOverlap,
  warnOfUnmatched,
  writeHeld,
} from './register/held.ts';
import { printable } from './text.ts';

export const DEFAULT_DESCRIPTION = 'compliance-mirror';

/** Set before the request leaves and cleared when its outcome is known: the memory of one that got no answer. */
const ATTEMPT_FACT = 'registration_attempt';

/**
 * How long the secret of a registration that was made anew goes on verifying. Attempts are signed anew each time, but with
 * the secret of the registration that they belong to: so long, most of a sender's repeated attempts come within it. What
 * comes later is found by the full syncs, while a secret that has leaked should not be good for longer.
 */
const OVERLAP_MS = 24 * 3_600_000;

export interface RegisterOptions {
  url: string;
  events: string;
  description: string;
  again?: true;
  json?: true;
}

export function registerCommand(cli: Cli): Command {
  return new Command('register')
    .description('have the compliance service send its events to us (POST /webhooks); asks only once')
    .requiredOption('--url <url>', 'where deliveries go: https, or loopback, ending in /webhooks')
    .option(
      '--events <patterns>',
      'exact types and families, comma-separated, such as policy.*,vendor.removed',
      EVERY_FAMILY.join(','),
    )
    .option('--description <text>', 'what the registration is called there', DEFAULT_DESCRIPTION)
    .option(
      '--again',
      'register although it is held here already, or may have been asked for before: for when the compliance service does not have it',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nIt writes to the database itself, also beside a running service, which takes the new secret up within a second:' +
        '\na signing secret does not travel over the operators’ listener. So it runs where the database is.' +
        '\nWith --again the secret of the registration before goes on verifying for a day, and is then forgotten.' +
        '\nExit code 3: registered, but WEBHOOK_SECRET_ENCODING makes no key of the secret in the answer.',
    )
    .action((options: RegisterOptions) => register(cli, options));
}

/** The command itself, for `setup` as well. */
export async function register(cli: Cli, options: RegisterOptions): Promise<void> {
  const config = loadConfig(cli.env);
  refuseFromAfar(config, 'register', 'the signing secret goes into the database and nowhere else');
  const request = requestOf(options);
  const key = config.credentialsKey;
  // Before the request: a secret that cannot be kept would be lost, and with it every delivery.
  if (key === null) {
    throw new UsageError(
      'CREDENTIALS_KEY is not set, and the signing secret in the answer could not be stored',
      'make one with: openssl rand -base64 32',
    );
  }
  complianceSettings(config);
  const store = await openForWriting(config);
  try {
    const clock = await clockOf(store);
    const secrets = secretSettings(config, clock);
    const before = await store.listRegistrations();
    requireReadable(before, secrets);
    const client = commandClient(cli, config, store, { actor: 'register', needs: 'write' });
    // One that is to be forgotten anyway does not count.
    const same = before.filter((each) => isSame(each, request) && each.expiresWall === null);
    let registration = same.at(-1);
    // With --json standard output is for programs alone.
    const say = options.json ? cli.err : cli.out;
    if (registration !== undefined && options.again !== true) {
      say.write(
        `Registered already, as ${printable(registration.upstreamId)}; nothing was sent. If the compliance service no longer has it, add --again.\n`,
      );
    } else {
      await refuseAfterUnknownOutcome(store, request, options.again === true);
      await store.writeFact(attemptFact(request), 'asked');
      const made = await audited(store, request, clock, () =>
        send(cli, client, store, request, { key, clock }),
      );
      registration = made.registration;
      say.write(`Registered as ${printable(registration.upstreamId)}: ${printable(registration.url)}\n`);
      say.write(
        registration.sealedSecret === null
          ? 'The answer held no signing secret: set WEBHOOK_SECRETS to the one the compliance service shows you.\n'
          : 'Its signing secret is stored, encrypted.\n',
      );
      warnOfAnswer(cli, request, made.answer);
      await letExpire(say, store, clock, {
        replaced: same.filter(({ upstreamId }) => upstreamId !== made.registration.upstreamId),
        isTakenUp: standingOf(registration, secrets).standing === 'verifies',
      });
      if (options.again !== true) warnOfOverlap(cli, await store.listRegistrations(), registration);
    }
    const held = await store.listRegistrations();
    writeHeld(cli, held, { url: request.url, json: options.json, secrets });
    const unusable = unusableSecret(registration, secrets);
    if (unusable !== null) throw new DifferenceFound(unusable.what, unusable.remedy);
  } finally {
    await store.close();
  }
}

/** The secrets that a new one replaces: not before that one is here and can be used, and not at once. */
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
    const now = { wall: clock.wall(), steady: clock.steady() };
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

/** One entry for each thing asked for: what became of one says nothing of another. The order of events is no difference. */
function attemptFact({ url, events, description }: Asked): string {
  const asked = JSON.stringify({ url, events: [...events].sort(), description });
  return `${ATTEMPT_FACT}:${hash('sha256', asked, 'hex')}`;
}

function isSame(stored: StoredRegistration, request: Asked): boolean {
  return (
    stored.url === request.url &&
    stored.description === request.description &&
    JSON.stringify([...stored.events].sort()) === JSON.stringify([...request.events].sort())
  );
}

/** Nothing in the specification lists or deletes registrations, so that a second one would be there for good. */
async function refuseAfterUnknownOutcome(store: Store, request: Asked, again: boolean): Promise<void> {
  if (again || (await store.readFact(attemptFact(request))) !== 'asked') return;
  throw new MirrorError(
    'outcome_unknown',
    'this was asked for before, and whether it took effect is not known; nothing was sent',
    { hint: 'look at the registrations in the compliance service; if it is not there, add --again' },
  );
}

/** Noted before it leaves: where the outcome stays unknown, so does the entry's. */
async function audited<T>(store: Store, { url }: Asked, clock: Clock, work: () => Promise<T>): Promise<T> {
  // Without the query, in which an address may carry a secret of its own.
  const { origin, pathname } = new URL(url);
  const now = { wall: clock.wall(), steady: clock.steady() };
  const id = await store.askAudit({ actor: 'register', action: 'register', target: origin + pathname }, now);
  try {
    const result = await work();
    await store.settleAudit(id, 'ok');
    return result;
  } catch (error) {
    if (isRefusal(error)) await store.settleAudit(id, 'failed');
    throw error;
  }
}

async function send(
  cli: Cli,
  client: ComplianceClient,
  store: Store,
  request: Asked,
  { key, clock }: { key: Uint8Array; clock: Clock },
): Promise<{ registration: StoredRegistration; answer: RegistrationAnswer }> {
  try {
    const answer = await client.registerWebhook(request, {
      lane: 'person',
      signal: new AbortController().signal,
    });
    const registration: StoredRegistration = {
      upstreamId: answer.id,
      // As asked for, so that asking again is recognised even if the service spells its answer otherwise.
      ...request,
      delivers: answer.events ?? request.events,
      // Whether or not it can be used as it is: it is shown once.
      sealedSecret:
        answer.secret === undefined ? null : sealSecret(key, answer.secret, registrationPlace(answer.id)),
      createdWall: clock.wall(),
      expiresWall: null,
    };
    await store.saveRegistration(registration);
    await store.writeFact(attemptFact(request), '');
    return { registration, answer };
  } catch (error) {
    if (isRefusal(error)) {
      await store.writeFact(attemptFact(request), '');
      warnOfUnmatched(cli, request.events);
    }
    throw error;
  }
}

/** Plainly refused, so that nothing was registered. A fault of our own is none: it may follow the service's success. */
function isRefusal(error: unknown): boolean {
  return error instanceof UpstreamError && !error.outcomeUnknown;
}
