import { coverageOf } from '../compliance/registration.ts';
import type { Diagnosis } from './diagnosis.ts';

/** One thing of the set-up, as the running service finds it. What it means for the mirror, its problems say. */
export interface Finding {
  subject: string;
  state: 'ok' | 'warning';
  says: string;
  /** What to do; null: nothing. */
  remedy: string | null;
}

/** What a service knows of its own set-up. Instants are ISO 8601 UTC text; null: never, or not known. */
export interface Found {
  /** What was said at the start: settings without effect, and what others can read. */
  warnings: readonly string[];
  /** What others could do to the database's tables. */
  exposures: readonly { says: string; remedy: string }[];
  /** Null: events only. */
  api: {
    origin: string;
    /** The setting, or the command, that its credentials are from. */
    credentials: string;
    /** It refuses them. */
    isRefused: boolean;
    /** Of the last request; null: there was none yet. */
    ok: boolean | null;
    lastOkAt: string | null;
    lastError: string | null;
    /** Its clock minus ours. Milliseconds. */
    skewMs: number | null;
  } | null;
  toleranceSeconds: number;
  /** Of secrets that are in use, since this start. */
  secrets: readonly { name: string; lastUsedAt: string | null }[];
  registrations: readonly Registration[];
  receiverUrl: string;
  lastDeliveryAt: string | null;
  /** Since the last accepted delivery. `isSenders`: it looks like the sender's, and not like a stranger's. */
  rejected: { id: string; at: string; isSenders: boolean; diagnosis: Diagnosis } | null;
}

export interface Registration {
  upstreamId: string;
  url: string;
  delivers: readonly string[];
  /** What keeps its secret from being used; null: nothing. */
  fault: { what: string; remedy: string } | null;
}

/** Clocks this far apart are worth a word, long before deliveries are rejected. */
const SKEW_OK_MS = 5_000;

/** In the order in which one thing causes the next. Pure. */
export function findingsOf(found: Found): Finding[] {
  return [
    ...found.warnings.map((says) => warning('settings', `${says}.`, null)),
    ...found.exposures.map(({ says, remedy }) =>
      warning('database', `${capitalised(says)}.`, `${capitalised(remedy)}.`),
    ),
    apiOf(found.api),
    clockOf(found),
    ...secretsOf(found),
    ...receiverOf(found),
    ...deliveriesOf(found),
  ];
}

const capitalised = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);
const ok = (subject: string, says: string): Finding => ({ subject, state: 'ok', says, remedy: null });
const warning = (subject: string, says: string, remedy: string | null): Finding => {
  return { subject, state: 'warning', says, remedy };
};
/** A problem says what to do about an API that is silent or refuses. */
function apiOf(api: Found['api']): Finding {
  if (api === null) return ok('API', 'Events only: COMPLIANCE_BASE_URL is not set.');
  const { origin, credentials, isRefused, ok: isOk, lastOkAt, lastError } = api;
  const why = lastError === null ? '' : `: ${lastError}`;
  if (isRefused) return warning('API', `The compliance service refuses ${credentials}${why}.`, null);
  if (isOk === false) return warning('API', `${origin} gives no usable answer${why}.`, null);
  if (isOk === null) return ok('API', `${origin} was not asked yet.`);
  return ok('API', `${origin} accepts ${credentials}; last answer ${lastOkAt}.`);
}

function clockOf({ api, toleranceSeconds }: Found): Finding {
  const skewMs = api?.skewMs ?? null;
  if (skewMs === null) return ok('clock', 'Not compared: no answer of the API had a date yet.');
  if (Math.abs(skewMs) <= SKEW_OK_MS) return ok('clock', 'The same time as at the compliance service.');
  const seconds = Math.round(Math.abs(skewMs) / 1000);
  const says = `This machine’s clock is ${seconds} s ${skewMs > 0 ? 'behind' : 'ahead of'} the compliance service’s`;
  const remedy =
    'Correct this machine’s time (date -u; NTP). If it is right, the other clock is wrong: tell them.';
  return warning('clock', `${says}; deliveries are rejected beyond ${toleranceSeconds} s.`, remedy);
}

const NO_SECRET = warning(
  'secrets',
  'No signing secret is known, so every delivery is rejected.',
  'Set WEBHOOK_SECRETS and restart, or register the webhook (“webhook register --url …”). If it is registered, “webhook list” says whether its secret verifies; if it does, the service was started without CREDENTIALS_KEY.',
);

function secretsOf({ secrets, registrations }: Found): Finding[] {
  const flawed = registrations.flatMap(({ upstreamId, fault }) => {
    if (fault === null) return [];
    const says = `The secret of registration ${upstreamId} cannot be used: ${fault.what}.`;
    return [warning('secrets', says, fault.remedy)];
  });
  if (secrets.length === 0) return [...flawed, NO_SECRET];
  const listed = secrets.map(
    ({ name, lastUsedAt }) =>
      `${name} (${lastUsedAt === null ? 'not used since the start' : `last used ${lastUsedAt}`})`,
  );
  return [...flawed, ok('secrets', `In use: ${listed.join(', ')}.`)];
}

function receiverOf({ registrations, receiverUrl, secrets }: Found): Finding[] {
  if (registrations.length === 0) {
    const says = `Deliveries are taken at ${receiverUrl}; no registration was made from here.`;
    return [
      secrets.length > 0 ? ok('receiver', says) : warning('receiver', says, 'Register: “webhook register”.'),
    ];
  }
  // Of two registrations for one address, one has replaced the other.
  return [...Map.groupBy(registrations, ({ url }) => url)].map(([url, same]) => {
    const ids = same.map(({ upstreamId }) => upstreamId).join(', ');
    const { missing } = coverageOf(same.flatMap(({ delivers }) => [...delivers]));
    if (missing.length === 0)
      return ok('receiver', `Registration ${ids} sends to ${url}; this receiver listens at ${receiverUrl}.`);
    const remedy = 'Register those too; until then only full syncs find what they would say.';
    return warning('receiver', `Registration ${ids} does not send ${missing.join(', ')}.`, remedy);
  });
}

function deliveriesOf({ lastDeliveryAt, rejected }: Found): Finding[] {
  const last =
    lastDeliveryAt === null
      ? warning(
          'deliveries',
          'None has been accepted yet.',
          'Change something in the compliance service, and look at its delivery log.',
        )
      : ok('deliveries', `The last one came ${lastDeliveryAt}.`);
  if (rejected === null) return [last];
  const { id, at, isSenders, diagnosis } = rejected;
  const [cause] = diagnosis.causes;
  const why =
    diagnosis.causes.map(({ what }) => what).join(' ') || 'By the present settings it would be taken.';
  const says = `${why} So a delivery was rejected ${at}, and none accepted since.`;
  const remedy = `${cause?.remedy ?? 'The sender tries again.'} More: deliveries show ${id}`;
  return [warning('deliveries', isSenders ? says : `${says} It may be a stranger’s.`, remedy), last];
}
