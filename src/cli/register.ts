import { hash } from 'node:crypto';
import { Command } from 'commander';
import type { ComplianceClient } from '../compliance/client.ts';
import { UpstreamError } from '../compliance/errors.ts';
import { EVERY_FAMILY, REGISTRATION_PURPOSE } from '../compliance/registration.ts';
import {
  type RegistrationAnswer,
  type RegistrationRequest,
  registrationRequestSchema,
} from '../compliance/schemas.ts';
import { sealSecret } from '../compliance/secrets.ts';
import { loadConfig, requireHttpsOrLoopback } from '../config.ts';
import { MirrorError, UsageError } from '../errors.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import { type Cli, writeJson } from './cli.ts';
import { commandClient, complianceSettings } from './client.ts';
import { openForWriting, refuseFromAfar, withStore } from './database.ts';
import { clockOf } from './local-clock.ts';
import { jsonOption } from './options.ts';
import {
  type HeldRegistration,
  heldRegistrations,
  keepAnswer,
  settleUnreadable,
  warnOfAnswer,
  warnOfOverlap,
  warnOfUnmatched,
  writeHeld,
} from './register/held.ts';
import { printable } from './text.ts';

const DEFAULT_DESCRIPTION = 'compliance-mirror';

/** Set before the request leaves and cleared when its outcome is known: the memory of one that got no answer. */
const ATTEMPT_FACT = 'registration_attempt';

interface RegisterOptions {
  url?: string;
  events: string;
  description: string;
  force?: true;
  again?: true;
  json?: true;
}

export function registerCommand(cli: Cli): Command {
  return new Command('register')
    .description('have the compliance service send its events to us (POST /webhooks); asks only once')
    .option(
      '--url <url>',
      'where deliveries go: https, or loopback, ending in /webhooks; without it, shows what is held and sends nothing',
    )
    .option(
      '--events <patterns>',
      'exact types and families, comma-separated, such as policy.*,vendor.removed',
      EVERY_FAMILY.join(','),
    )
    .option('--description <text>', 'what the registration is called there', DEFAULT_DESCRIPTION)
    .option(
      '--force',
      'register although the outcome of an earlier request is not known, or a stored secret cannot be opened',
    )
    .option(
      '--again',
      'register although it is held here already: for when the compliance service no longer has it',
    )
    .addOption(jsonOption())
    .addHelpText(
      'after',
      '\nIt writes to the database itself, also beside a running service, which takes the new secret up within a second:' +
        '\na signing secret does not travel over the operators’ listener. So it runs where the database is.',
    )
    .action((options: RegisterOptions) => register(cli, options));
}

async function register(cli: Cli, options: RegisterOptions): Promise<void> {
  const config = loadConfig(cli.env);
  refuseFromAfar(config, 'register', 'the signing secret goes into the database and nowhere else');
  if (options.url === undefined) return await show(cli, options);
  const request = requestOf({ ...options, url: options.url });
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
    await settleUnreadable(cli, store, key, { force: options.force === true });
    const client = commandClient(cli, config, store, { actor: 'register', needs: 'write' });
    const stored = (await store.listRegistrations()).findLast((each) => isSame(each, request));
    // With --json standard output is for programs alone.
    const say = options.json ? cli.err : cli.out;
    let made: StoredRegistration | null = null;
    if (stored !== undefined && options.again !== true) {
      say.write(
        `Registered already, as ${printable(stored.upstreamId)}; nothing was sent. If the compliance service no longer has it, add --again.\n`,
      );
    } else {
      await refuseAfterUnknownOutcome(store, request, options.force === true);
      await store.writeFact(attemptFact(request), 'asked');
      const { registration, answer } = await audited(store, request, () =>
        send(cli, client, store, request, key),
      );
      made = registration;
      say.write(`Registered as ${printable(registration.upstreamId)}: ${printable(registration.url)}\n`);
      say.write(
        registration.sealedSecret === null
          ? 'The answer held no signing secret: set WEBHOOK_SECRETS to the one the compliance service shows you.\n'
          : 'Its signing secret is stored, encrypted.\n',
      );
      warnOfAnswer(cli, request, answer);
    }
    const held = await heldRegistrations(store);
    if (made !== null && options.again !== true) warnOfOverlap(cli, held, made);
    if (options.json) writeJson(cli.out, held.map(shownAsJson));
    else writeHeld(cli, held, request.url);
  } finally {
    await store.close();
  }
}

/** What we hold of our own registrations; nothing in the specification lists those of the service. */
async function show(cli: Cli, options: RegisterOptions): Promise<void> {
  const held = await withStore(cli, heldRegistrations);
  if (!options.json) return writeHeld(cli, held, null);
  writeJson(cli.out, held.map(shownAsJson));
}

function shownAsJson(held: HeldRegistration) {
  const { upstreamId, url, delivers, description, sealedSecret, createdWall } = held;
  return {
    ...{ id: upstreamId, url, events: delivers, description, secret_stored: sealedSecret !== null },
    created_at: new Date(createdWall).toISOString(),
  };
}

/** The fields of the specification, and no others. */
type Asked = Pick<RegistrationRequest, 'url' | 'events' | 'description'>;

function requestOf(options: RegisterOptions & { url: string }): Asked {
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
async function refuseAfterUnknownOutcome(store: Store, request: Asked, force: boolean): Promise<void> {
  if (force || (await store.readFact(attemptFact(request))) !== 'asked') return;
  throw new MirrorError(
    'outcome_unknown',
    'this was asked for before, and whether it took effect is not known; nothing was sent',
    { hint: 'look at the registrations in the compliance service; if it is not there, add --force' },
  );
}

/** Noted before it leaves: where the outcome stays unknown, so does the entry's. */
async function audited<T>(store: Store, { url }: Asked, work: () => Promise<T>): Promise<T> {
  // Without the query, in which an address may carry a secret of its own.
  const { origin, pathname } = new URL(url);
  const clock = await clockOf(store);
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
  key: Uint8Array,
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
      sealedSecret: answer.secret === undefined ? null : sealSecret(key, answer.secret, REGISTRATION_PURPOSE),
      createdWall: Date.now(),
    };
    await store.saveRegistration(registration);
    await keepAnswer(store, answer);
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
