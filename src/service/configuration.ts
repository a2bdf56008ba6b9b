import { randomBytes, scrypt } from 'node:crypto';
import { promisify } from 'node:util';
import { coverageOf } from '../compliance/registration.ts';
import { type Diagnosis, diagnoseRejection } from '../doctor/diagnosis.ts';
import type { Configuration } from '../ops/api/schemas.ts';
import type { LiveFacts } from '../ops/context.ts';
import type { ShownDelivery } from '../store/reports.ts';
import type { Base } from './opening.ts';
import { candidateSecrets, faultOfSecret, secretSettings } from './signing-secrets.ts';

/** 32 bits tell two secrets apart. Of a random secret they say nothing; a guess from a list of passwords they would confirm. */
const FINGERPRINT_BYTES = 4;
/** Tens of milliseconds for each such guess. */
const COST = { N: 16_384, r: 8, p: 1 };

const derive = promisify<string, string, number, object, Buffer>(scrypt);

/** New for each process, so that fingerprints of two cannot be compared, nor be looked up in a table. */
const newSalt = (): string => randomBytes(16).toString('hex');

/** Shows whether two processes have the same secret, and nothing else of it. */
async function fingerprint(secret: string, salt: string): Promise<string> {
  const key = await derive(secret, `compliance-mirror setting ${salt}`, FINGERPRINT_BYTES, COST);
  return key.toString('hex');
}

/** What the service runs with and what it finds of its own set-up, for GET /api/configuration. */
export function createConfiguration(options: Base & { receiverUrl: string; facts: () => LiveFacts }) {
  const { described } = options;
  const salt = newSalt();
  const atStart = described.settings();

  /** Only a secret follows its file; all else is as it was at the start. */
  async function settings(withSecrets: boolean): Promise<Configuration['settings']> {
    const now = atStart.some(({ path, isSecret }) => path !== null && isSecret) ? described.settings() : [];
    const listed = atStart.map((one) =>
      one.isSecret && one.path !== null ? (now.find(({ name }) => name === one.name) ?? one) : one,
    );
    return await Promise.all(
      listed.map(async ({ name, value, source, path, isSecret }) => ({
        name,
        value: isSecret ? null : value,
        source,
        path,
        secret: isSecret,
        fingerprint: isSecret && withSecrets && value !== null ? await fingerprint(value, salt) : null,
      })),
    );
  }

  /** `withSecrets`: with fingerprints, by which a holder of the secrets can compare his own. */
  return async (withSecrets: boolean): Promise<Configuration> => {
    const facts = options.facts();
    return {
      version: facts.service.version,
      started_at: new Date(options.startedAt).toISOString(),
      folder: process.cwd(),
      salt: withSecrets ? salt : null,
      settings: await settings(withSecrets),
      findings: await findingsOf(options, facts),
    };
  };
}

/** Why a stored delivery was rejected, by the secrets and settings that the service has now. */
export async function diagnosisOf({ config, store }: Base, rejection: ShownDelivery): Promise<Diagnosis> {
  const secrets = candidateSecrets(config, await store.listRegistrations());
  return diagnoseRejection(rejection, secrets, config.webhook);
}

// ─── what it finds ──────────────────────────────────────────────────────────────────────────────────────

/** One thing of the set-up, as the running service finds it. What it means for the mirror, its problems say. */
type Finding = Configuration['findings'][number];

/** Clocks this far apart are worth a word, long before deliveries are rejected. */
const SKEW_OK_MS = 5_000;
/** Rejections since the last accepted delivery, newest first, that are searched for the sender's. */
const REJECTIONS_LOOKED_AT = 50;
/** What a sender with a wrong secret, clock or setting gets. Those for the time prove that it is one. */
const SENDERS_REASONS = /^(bad_signature|timestamp_|bad_timestamp|no_signing_secret)/;

const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
const ok = (subject: string, says: string): Finding => ({ subject, state: 'ok', says, remedy: null });
const warning = (subject: string, says: string, remedy: string | null): Finding => {
  return { subject, state: 'warning', says, remedy };
};

/** In the order in which one thing causes the next. */
async function findingsOf(
  base: Base & { receiverUrl: string },
  { service, upstream }: LiveFacts,
): Promise<Finding[]> {
  const { described, store } = base;
  const { last_delivery_at: lastDeliveryAt, open_problems_by: open } = await store.summary();
  const isRefused = open.some(({ reason }) => reason === 'credentials_rejected');
  return [
    ...described.warnings.map((says) => warning('settings', `${says}.`, null)),
    ...(await store.exposures()).map(({ says, remedy }) =>
      warning('database', `${capitalised(says)}.`, `${capitalised(remedy)}.`),
    ),
    ofApi(base, upstream, isRefused),
    ofClock(base, upstream),
    ...(await ofWebhook(base, service.secrets)),
    ...(await ofRejection(base, lastDeliveryAt)),
    lastDeliveryAt === null
      ? warning(
          'deliveries',
          'None has been accepted yet.',
          'Change something in the compliance service, and look at its delivery log.',
        )
      : ok('deliveries', `The last one came ${lastDeliveryAt}.`),
  ];
}

const CREDENTIALS = {
  api_key: 'COMPLIANCE_API_KEY',
  oauth: 'the sign-in (“login”)',
  service_account: 'COMPLIANCE_CLIENT_SECRET',
};

/** A problem says what to do about an API that is silent or refuses. */
function ofApi({ config }: Base, upstream: LiveFacts['upstream'], isRefused: boolean): Finding {
  if (config.compliance === null) return ok('API', 'Events only: COMPLIANCE_BASE_URL is not set.');
  const { auth, baseUrl } = config.compliance;
  const { ok: isOk, last_ok_at, last_error } = upstream;
  const why = last_error === null ? '' : `: ${last_error}`;
  if (isRefused) return warning('API', `The compliance service refuses ${CREDENTIALS[auth]}${why}.`, null);
  if (isOk === false) return warning('API', `${baseUrl.origin} gives no usable answer${why}.`, null);
  if (isOk === null) return ok('API', `${baseUrl.origin} was not asked yet.`);
  return ok('API', `${baseUrl.origin} accepts ${CREDENTIALS[auth]}; last answer ${last_ok_at}.`);
}

function ofClock({ config }: Base, { skew_ms: skewMs }: LiveFacts['upstream']): Finding {
  if (skewMs === null) return ok('clock', 'Not compared: no answer of the API had a date yet.');
  if (Math.abs(skewMs) <= SKEW_OK_MS) return ok('clock', 'The same time as at the compliance service.');
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  const says = `This machine’s clock is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} the compliance service’s`;
  const remedy =
    'Correct this machine’s time (date -u; NTP). If it is right, the other clock is wrong: tell them.';
  const limit = `deliveries are rejected beyond ${config.webhook.toleranceSeconds} s`;
  return warning('clock', `${says}; ${limit}.`, remedy);
}

const NO_SECRET = warning(
  'secrets',
  'No signing secret is known, so every delivery is rejected.',
  'Set WEBHOOK_SECRETS and restart, or register the webhook (“webhook register --url …”). If it is registered, “webhook list” says whether its secret verifies; if it does, the service was started without CREDENTIALS_KEY.',
);

/** Of the secrets that are in use, the last use is since this start. */
async function ofWebhook(
  { config, store, receiverUrl }: Base & { receiverUrl: string },
  secrets: LiveFacts['service']['secrets'],
): Promise<Finding[]> {
  const registrations = await store.listRegistrations();
  const flawed = registrations.flatMap((each) => {
    const fault = faultOfSecret(each, secretSettings(config));
    // What it sends may be signed with another one that is known.
    if (fault === null || (each.sealedSecret === null && secrets.length > 0)) return [];
    const says = `The secret of registration ${each.upstreamId} cannot be used: ${fault.what}.`;
    return [warning('secrets', says, fault.remedy)];
  });
  const listed = secrets.map(({ position, registration, last_used_at: at }) => {
    const name =
      registration === null ? `WEBHOOK_SECRETS number ${position}` : `of registration ${registration}`;
    return `${name} (${at === null ? 'not used since the start' : `last used ${at}`})`;
  });
  const inUse = secrets.length === 0 ? NO_SECRET : ok('secrets', `In use: ${listed.join(', ')}.`);
  const here = `this receiver listens at ${receiverUrl}/webhooks`;
  if (registrations.length === 0) {
    const says = capitalised(`${here}; no registration was made from here.`);
    const register = warning('receiver', says, 'Register: “webhook register”.');
    return [...flawed, inUse, secrets.length > 0 ? ok('receiver', says) : register];
  }
  // Of two registrations for one address, one has replaced the other.
  const addresses = [...Map.groupBy(registrations, ({ url }) => url)].map(([url, same]) => {
    const ids = same.map(({ upstreamId }) => upstreamId).join(', ');
    const { missing } = coverageOf(same.flatMap(({ delivers }) => delivers));
    if (missing.length === 0) return ok('receiver', `Registration ${ids} sends to ${url}; ${here}.`);
    const remedy = 'Register those too; until then only full syncs find what they would say.';
    return warning('receiver', `Registration ${ids} does not send ${missing.join(', ')}.`, remedy);
  });
  return [...flawed, inUse, ...addresses];
}

/** The newest rejection since the last accepted delivery, and why; the sender's before a stranger's. */
async function ofRejection(base: Base, lastDeliveryAt: string | null): Promise<Finding[]> {
  const { store } = base;
  const since = lastDeliveryAt === null ? {} : { since: lastDeliveryAt };
  const rejected = { outcome: 'rejected', limit: REJECTIONS_LOOKED_AT } as const;
  const { items } = await store.list('deliveries', { ...rejected, ...since });
  const senders = items.find(({ reason }) => SENDERS_REASONS.test(reason ?? ''));
  const { id } = senders ?? items[0] ?? { id: null };
  // Lists have no bodies.
  const rejection = id === null ? null : await store.show('deliveries', id);
  if (rejection === null) return [];
  const { causes } = await diagnosisOf(base, rejection);
  const why = causes.map(({ what }) => what).join(' ') || 'By the present settings it would be taken.';
  const says = `${why} So a delivery was rejected ${rejection.received_at}, and none accepted since.`;
  const remedy = `${causes[0]?.remedy ?? 'The sender tries again.'} More: deliveries show ${id}`;
  return [warning('deliveries', senders === undefined ? `${says} It may be a stranger’s.` : says, remedy)];
}
