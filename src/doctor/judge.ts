import type { Kind } from '../compliance/kinds.ts';
import type { PagingFinding } from '../compliance/paging.ts';
import { pointersSettingOf } from '../compliance/pointers.ts';
import { coverageOf, isReceiverPath, RECEIVER_PATH } from '../compliance/registration.ts';
import type { RejectionReport, StoreSummary } from '../store/reports.ts';
import type { StoredRegistration } from '../store/store.ts';

/** What was found, before anything is made of it. Null: it could not be looked at. Times are wall-clock milliseconds. */
export interface Findings {
  now: number;
  warnings: readonly string[];
  database: {
    /** The file, or the server and where on it. */
    path: string;
    isServer?: boolean;
    problem: string | null;
    remedy: string | null;
    /** The problem is one of the settings: "serve" ends with exit code 2 for it. */
    isSetting?: boolean;
    /** What others can do on the way there, and what to set against it. */
    exposure: { says: string; remedy: string } | null;
  };
  /** The one that holds the file, or how many share the server's database. Null: none runs. Undefined: it cannot be known. */
  service: { pid: number; opsUrl: string | null } | { replicas: number } | null | undefined;
  upstream: UpstreamFindings | null;
  settings: { silenceMs: number; fullSyncMs: number; toleranceSeconds: number };
  /** Where this receiver listens. */
  receiver: { host: string; port: number };
  /** How many signing secrets are configured, how many stored ones verify, and which of these make no key. */
  secrets: { configured: number; stored: number; unusable: readonly { what: string; remedy: string }[] };
  stored: StoredFindings | null;
}

/** What the database says. */
export interface StoredFindings {
  summary: Pick<
    StoreSummary,
    'kinds' | 'events' | 'last_delivery_at' | 'quarantined' | 'open_gaps_by' | 'database_bytes'
  >;
  isPaused: boolean;
  registrations: readonly Pick<StoredRegistration, 'upstreamId' | 'url' | 'delivers' | 'expiresWall'>[];
  /** How many stored texts open with CREDENTIALS_KEY, and the rows of those that do not. */
  sealed: { open: number; closed: readonly string[] };
  /** Of the deliveries that were rejected last, in any order. */
  rejections: readonly Pick<RejectionReport, 'id' | 'at' | 'reason' | 't'>[];
  /** Where ids were found that no setting names. */
  toSet: readonly { kind: Kind; path: string; setting: string }[];
}

export interface UpstreamFindings {
  baseUrl: string;
  auth: string;
  reads: readonly Read[];
  /** Some answer came, whatever it said. */
  answered: boolean;
  /** Their clock minus ours, as far as a Date header tells. */
  skewMs: number | null;
  /** The lists whose paging does not fit. */
  paging: readonly { kind: Kind; finding: PagingFinding }[];
  /** The one that was asked for; null: none is known. */
  assessment: { id: string; outcome: 'found' | 'missing' | 'failed' } | null;
  write: WriteScope;
}

export interface WriteScope {
  /** Null: only a POST would tell. */
  granted: boolean | null;
  /** The scopes that were granted, or what the refusal says. */
  why: string | null;
}

export interface Read {
  route: string;
  outcome: 'ok' | 'unreachable' | 'unauthorized' | 'forbidden' | 'not_the_api' | 'failing';
  message: string;
  remedy: string | null;
}

export interface Check {
  name: string;
  state: 'ok' | 'warning' | 'wrong' | 'skipped';
  detail: string;
  /** What to do; null where there is nothing to do. */
  remedy: string | null;
}

/** Clocks this far apart deserve a look long before deliveries are rejected. */
const SKEW_WARNING_MS = 5_000;
/** A full sync is late when two of its intervals have passed without a complete one. */
const LATE_AFTER_SYNC_RUNS = 2;
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** One line for each thing that can be wrong. Pure. */
export function judge(found: Findings): Check[] {
  return Object.entries(CHECKS).map(([name, check]) => ({ name, ...check(found) }));
}

type Verdict = Omit<Check, 'name'>;
const ok = (detail: string): Verdict => ({ state: 'ok', detail, remedy: null });
const warning = (detail: string, remedy: string): Verdict => ({ state: 'warning', detail, remedy });
const wrong = (detail: string, remedy: string): Verdict => ({ state: 'wrong', detail, remedy });
const skipped = (detail: string): Verdict => ({ state: 'skipped', detail, remedy: null });
const EVENTS_ONLY = 'events only: COMPLIANCE_BASE_URL is not set';
const NO_DATABASE = 'the database cannot be read';

function settingsCheck({ warnings }: Findings): Verdict {
  return warnings.length === 0
    ? ok('every setting can be used')
    : warning(warnings.join('; '), 'correct the names, or take them out of the environment');
}

function databaseCheck({ database, stored }: Findings): Verdict {
  const { path, problem, remedy, exposure, isServer = false } = database;
  if (problem !== null) {
    return wrong(`${path}: ${problem}`, remedy ?? 'start the service once: it makes what is missing');
  }
  const kept = isServer ? 'commits reach its disk' : 'write-ahead log, synchronous FULL';
  const detail = `${path}: writable, ${kept}, ${stored?.summary.database_bytes ?? 0} bytes`;
  return exposure === null ? ok(detail) : warning(`${detail}; ${exposure.says}`, exposure.remedy);
}

function serviceCheck({ service }: Findings): Verdict {
  if (service === undefined) return skipped(NO_DATABASE);
  if (service === null) {
    return warning('no service is running on this database', 'start it with "serve" (npm start)');
  }
  return ok(
    'replicas' in service
      ? `${service.replicas} running on this database`
      : `running as process ${service.pid}, operators at ${service.opsUrl ?? 'an address not known yet'}`,
  );
}

/** A check of the API, where there is one. `isAccepted`: some read shows that the credentials are. */
function ofUpstream(
  check: (upstream: UpstreamFindings, isAccepted: boolean, found: Findings) => Verdict,
): (found: Findings) => Verdict {
  return (found) => {
    const { upstream } = found;
    if (upstream === null) return skipped(EVENTS_ONLY);
    const isAccepted = upstream.reads.some(({ outcome }) => outcome === 'ok' || outcome === 'forbidden');
    return check(upstream, isAccepted, found);
  };
}

/** A check of what the database says, where it can be read. */
function ofStored(check: (stored: StoredFindings, found: Findings) => Verdict): (found: Findings) => Verdict {
  return (found) => (found.stored === null ? skipped(NO_DATABASE) : check(found.stored, found));
}

const firstOf = ({ reads }: UpstreamFindings, ...outcomes: Read['outcome'][]) =>
  reads.find(({ outcome }) => outcomes.includes(outcome));
const remedyOf = (read: Read) => read.remedy ?? 'see the message';

function baseUrlVerdict(upstream: UpstreamFindings): Verdict {
  const silent = firstOf(upstream, 'unreachable', 'not_the_api', 'failing');
  if (silent !== undefined) return wrong(silent.message, remedyOf(silent));
  if (upstream.answered) return ok(`${upstream.baseUrl} answers`);
  return skipped('not asked: there are no credentials to ask with');
}

function credentialsVerdict(upstream: UpstreamFindings, isAccepted: boolean): Verdict {
  const refused = firstOf(upstream, 'unauthorized');
  if (refused !== undefined) return wrong(refused.message, remedyOf(refused));
  if (isAccepted) return ok(`accepted (${upstream.auth})`);
  return skipped('not known while the service does not answer');
}

function scopesVerdict({ reads }: UpstreamFindings, isAccepted: boolean): Verdict {
  const forbidden = reads.filter(({ outcome }) => outcome === 'forbidden');
  const [first] = forbidden;
  if (first !== undefined) {
    return wrong(`not allowed to read ${forbidden.map(({ route }) => route).join(', ')}`, remedyOf(first));
  }
  if (isAccepted) return ok('reading is allowed');
  return skipped('not known while the credentials are not accepted');
}

function writeVerdict({ auth, write }: UpstreamFindings, isAccepted: boolean, { stored }: Findings): Verdict {
  if (auth === 'api_key')
    return skipped('an API key does not say whether it may write: only a POST would tell');
  if (!isAccepted) return skipped('not known while the credentials are not accepted');
  if (write.granted === true) return ok('granted: "register" and creates are allowed');
  if (write.granted === null) {
    return skipped(`not known from what was granted${write.why === null ? '' : ` (${write.why})`}`);
  }
  const remedy =
    auth === 'oauth'
      ? 'run "login --write" before "register" or a create'
      : 'allow the service account the scope "write" before "register" or a create';
  // What mirrors needs to read only.
  return (stored?.registrations ?? []).length > 0
    ? ok('not granted, and not needed: the webhook is registered; creates would be refused')
    : warning('not granted, and registering the webhook from here needs it', remedy);
}

function pagingVerdict({ paging, reads }: UpstreamFindings, isAccepted: boolean): Verdict {
  const [worst] = paging;
  if (worst !== undefined) {
    const set = worst.finding.set;
    const remedy = set === null ? 'look into the service’s documentation' : `set ${set.name}=${set.value}`;
    return wrong(`${worst.kind}: ${worst.finding.sentence}`, remedy);
  }
  const isRead = reads.some(({ route, outcome }) => outcome === 'ok' && !route.includes('{id}'));
  if (!isAccepted || !isRead) return skipped('not known while no list can be read');
  return ok('nothing in the first pages speaks against the settings');
}

function assessmentVerdict({ assessment, reads }: UpstreamFindings, isAccepted: boolean): Verdict {
  if (assessment === null) {
    return skipped('no assessment is known yet, so GET /risk-assessments/{id} was not tried');
  }
  const { id, outcome } = assessment;
  // The same fault as that of every other read, which has its line already.
  if (!isAccepted) return skipped('not known while the credentials are not accepted');
  if (outcome === 'found') return ok(`GET /risk-assessments/{id} answers, for ${id}`);
  if (outcome === 'missing') {
    return warning(
      `GET /risk-assessments/{id} answers 404 for ${id}, which is known here`,
      'if it is gone, the mirror finds out by itself; if it is not, look at COMPLIANCE_BASE_URL and the permissions',
    );
  }
  const read = reads.find(({ route }) => route.startsWith('GET /risk-assessments'));
  return wrong(read?.message ?? 'it could not be read', read?.remedy ?? 'see the message');
}

function clockVerdict(
  { skewMs, answered }: UpstreamFindings,
  _isAccepted: boolean,
  { settings: { toleranceSeconds } }: Findings,
): Verdict {
  if (skewMs === null) {
    return skipped(
      answered ? "the service's answers carry no Date" : 'not known while the service does not answer',
    );
  }
  const detail = `the service's clock is ${Math.abs(skewMs / 1000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} ours`;
  const remedy = 'have this machine keep its time by NTP; if it does, the other side is off';
  if (Math.abs(skewMs) > toleranceSeconds * 1000) {
    return wrong(`${detail}, and deliveries are rejected beyond ${toleranceSeconds} s`, remedy);
  }
  return Math.abs(skewMs) > SKEW_WARNING_MS ? warning(detail, remedy) : ok('in sync with the service');
}

function sealedVerdict({ sealed: { open, closed } }: StoredFindings): Verdict {
  return closed.length > 0
    ? wrong(
        `these do not open with CREDENTIALS_KEY: ${closed.join(', ')}`,
        'set CREDENTIALS_KEY to the key they were stored with; if it is lost: "registrations forget ID" and "register" anew, "login" for tokens',
      )
    : ok(open === 0 ? 'none' : `${open}, and CREDENTIALS_KEY opens each in its row`);
}

function secretsCheck({ secrets }: Findings): Verdict {
  const { configured, stored, unusable } = secrets;
  if (unusable.length > 0) {
    const joined = (key: 'what' | 'remedy') => [...new Set(unusable.map((each) => each[key]))].join('; ');
    return wrong(joined('what'), joined('remedy'));
  }
  return configured + stored > 0
    ? ok(`${configured} configured, ${stored} of registrations`)
    : wrong('none: every delivery is answered 503', 'set WEBHOOK_SECRETS, or run "register --url …"');
}

function registrationVerdict({ registrations }: StoredFindings, { secrets, receiver }: Findings): Verdict {
  if (registrations.length === 0) {
    const remedy = 'run "register --url …", unless it is registered by other means';
    return secrets.configured > 0
      ? warning('none that was made from here', remedy)
      : wrong('the webhook is not registered', remedy);
  }
  // Each by itself: which of them leads here is not known, and what one gets does not reach another.
  const addresses = [...Map.groupBy(registrations, ({ url }) => url)].map(([url, held]) => ({
    url,
    ids: held.map(({ upstreamId }) => upstreamId),
    // What is about to be forgotten was replaced.
    isReplaced: held.every(({ expiresWall }) => expiresWall !== null),
    missing: coverageOf(held.flatMap(({ delivers }) => delivers)).missing,
  }));
  const where = addresses
    .map((each) => `${each.ids.join(', ')} → ${each.url} (${aimOf(each.url, receiver).says})`)
    .join('; ');
  const lacking = addresses.filter(({ missing }) => missing.length > 0);
  const detail = [
    where,
    ...lacking.map(({ url, missing }) => `not covered at ${url}: ${missing.join(', ')}`),
  ].join('; ');
  const astray = addresses.filter(({ url, isReplaced }) => !isReplaced && aimOf(url, receiver).isAstray);
  if (astray.length > 0) {
    const ids = astray.flatMap((each) => each.ids).join(', ');
    const remedy = `register the address of this receiver, which takes deliveries at ${RECEIVER_PATH} of port ${receiver.port}, and "registrations forget" ${ids}; or set HOST and PORT`;
    return wrong(detail, remedy);
  }
  const remedy =
    'if that is where this receiver is, register those for it too: they are found by full syncs only';
  return lacking.length === 0 ? ok(detail) : warning(detail, remedy);
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;
const EVERY_ADDRESS = new Set(['0.0.0.0', '::', '']);

/** Whether deliveries to `url` come to `receiver`, as far as this machine can know. Pure. */
function aimOf(url: string, receiver: Findings['receiver']): { isAstray: boolean; says: string } {
  const { hostname, port, protocol } = new URL(url);
  const astray = (says: string) => ({ isAstray: true, says });
  if (!isReceiverPath(url))
    return astray(`not ${RECEIVER_PATH}, the only path at which deliveries are taken`);
  const bare = hostname.replace(/^\[|\]$/g, '');
  const isOurHost =
    bare === receiver.host ||
    (LOOPBACK.test(hostname) &&
      (EVERY_ADDRESS.has(receiver.host) || receiver.host === 'localhost' || bare === 'localhost'));
  // What comes by a name or another address passes a proxy, which may lead anywhere.
  if (!isOurHost && !LOOPBACK.test(hostname)) {
    return { isAstray: false, says: 'host and port cannot be compared from here' };
  }
  if (!isOurHost) return astray(`this receiver listens at ${receiver.host}`);
  if (protocol === 'https:') {
    return {
      isAstray: false,
      says: 'a proxy for https on this machine, whose aim cannot be compared from here',
    };
  }
  // 0: whichever is free at the start.
  if (receiver.port === 0) return { isAstray: false, says: 'PORT is 0, so the port cannot be compared' };
  const given = port === '' ? 80 : Number(port);
  return given === receiver.port
    ? { isAstray: false, says: 'this receiver' }
    : astray(`this receiver listens on port ${receiver.port}`);
}

const lastDeliveryOf = ({ summary }: StoredFindings) => Date.parse(summary.last_delivery_at ?? '') || 0;

function deliveryVerdict(stored: StoredFindings, { now, settings }: Findings): Verdict {
  const remedy =
    'look at the delivery log of the compliance service, and at the way from there to POST /webhooks';
  const lastDelivery = lastDeliveryOf(stored);
  if (lastDelivery === 0) return warning('there has been none yet', remedy);
  const detail = `${new Date(lastDelivery).toISOString()}, ${agoText(now - lastDelivery)} ago`;
  const isSilent = settings.silenceMs > 0 && now - lastDelivery > settings.silenceMs;
  return isSilent ? wrong(`${detail}: longer than SYNC_SILENCE_HOURS`, remedy) : ok(detail);
}

/** The newest one that was rejected for such a reason. */
function newestRejection({ rejections }: StoredFindings, isIt: (reason: string) => boolean) {
  const [newest] = rejections
    .filter(({ reason }) => isIt(reason))
    .sort((a, b) => (a.at < b.at ? 1 : -1))
    .map((each) => ({ ...each, at: Date.parse(each.at) }));
  return newest;
}

function rejectionsVerdict(stored: StoredFindings, { now }: Findings): Verdict {
  const newest = newestRejection(stored, () => true);
  if (newest === undefined) return ok('none is kept');
  const { id, at, reason } = newest;
  const detail = `the last one at ${new Date(at).toISOString()}: ${reason}`;
  const remedy = `have it explained: doctor --delivery rejection:${id}; those of other senders are in "rejections list"`;
  if (at > lastDeliveryOf(stored)) {
    return wrong(`${detail}; none has been accepted since`, remedy);
  }
  const isRecent = now - at < DAY_MS;
  return isRecent ? warning(`${detail}; others were accepted since`, remedy) : ok(detail);
}

function senderClockVerdict(stored: StoredFindings, { now, settings }: Findings): Verdict {
  const ofTime = newestRejection(stored, (reason) => reason.startsWith('timestamp_'));
  if (ofTime === undefined || now - ofTime.at > DAY_MS)
    return ok('none was rejected for its time within a day');
  const { id, at, reason, t } = ofTime;
  const offSeconds = Math.round(Number(t) - at / 1000);
  const side = offSeconds > 0 ? 'ahead of' : 'behind';
  const detail =
    reason === 'timestamp_milliseconds'
      ? `a delivery of ${new Date(at).toISOString()} has its timestamp in milliseconds, not seconds`
      : `a delivery of ${new Date(at).toISOString()} was signed ${Math.abs(offSeconds)} s ${side} our time, and ${settings.toleranceSeconds} s are allowed`;
  const remedy = `compare this machine's clock (date -u) with the sender's, and look for what holds deliveries back: doctor --delivery rejection:${id}`;
  return at > lastDeliveryOf(stored)
    ? wrong(detail, remedy)
    : warning(`${detail}; others were accepted since`, remedy);
}

function idsVerdict({ summary, toSet }: StoredFindings): Verdict {
  const gaps = summary.open_gaps_by.flatMap(({ reason, kind }) =>
    reason === 'no_record_id' && kind !== null ? [kind] : [],
  );
  if (gaps.length > 0) {
    const settings = gaps.map(
      (kind) => toSet.find((one) => one.kind === kind)?.setting ?? pointersSettingOf(kind),
    );
    const remedy = `set ${settings.join(' and ')} to where the id stands in their data ("events list --state failed", "events show ID"), start again, then "events retry --failed-for no_record_id"`;
    return wrong(`events about ${gaps.join(', ')} name no record where the pointers look`, remedy);
  }
  if (toSet.length === 0) return ok('found where the settings look');
  return warning(
    toSet
      .map(({ kind, path }) => `those of ${kind} were found at ${path}, which no setting names`)
      .join('; '),
    `set ${toSet.map(({ setting }) => setting).join(' and ')}`,
  );
}

function gapsVerdict({ summary: { open_gaps_by: gaps } }: StoredFindings): Verdict {
  if (gaps.length === 0) return ok('none is open');
  const listed = gaps.map(({ reason, kind }) => (kind === null ? reason : `${reason} (${kind})`));
  return wrong(`open: ${listed.join(', ')}`, 'see "gaps list --open", which says of each what ends it');
}

function syncRunsCheck({ stored, now, settings, upstream }: Findings): Verdict {
  if (upstream === null) return skipped(EVENTS_ONLY);
  if (stored === null) return skipped(NO_DATABASE);
  if (settings.fullSyncMs === 0) return skipped('no timer: SYNC_FULL_MINUTES is 0');
  const limitMs = LATE_AFTER_SYNC_RUNS * settings.fullSyncMs + MINUTE_MS;
  const late = stored.summary.kinds.filter(
    ({ last_full_sync_at }) => last_full_sync_at === null || now - Date.parse(last_full_sync_at) > limitMs,
  );
  return late.length === 0
    ? ok('each kind was read whole within its time')
    : wrong(
        late
          .map(({ kind, last_full_sync_at }) => `${kind}: ${last_full_sync_at ?? 'never complete'}`)
          .join(', '),
        'see "sync-runs list" and "gaps list --open" for what stops them; "sync --wait" begins one',
      );
}

function agoText(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / MINUTE_MS));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}

const EVENTS_REMEDY = 'see "events list --state failed", then "events retry" or "events discard"';
const QUARANTINE_REMEDY = 'see "quarantine list", then "quarantine release"';

/** In the order in which they are shown. */
const CHECKS: Readonly<Record<string, (found: Findings) => Verdict>> = {
  settings: settingsCheck,
  database: databaseCheck,
  service: serviceCheck,
  'base URL': ofUpstream(baseUrlVerdict),
  credentials: ofUpstream(credentialsVerdict),
  scopes: ofUpstream(scopesVerdict),
  'write scope': ofUpstream(writeVerdict),
  paging: ofUpstream(pagingVerdict),
  'risk assessments': ofUpstream(assessmentVerdict),
  clock: ofUpstream(clockVerdict),
  'stored secrets': ofStored(sealedVerdict),
  'signing secrets': secretsCheck,
  registration: ofStored(registrationVerdict),
  'last delivery': ofStored(deliveryVerdict),
  rejections: ofStored(rejectionsVerdict),
  'sender clock': ofStored(senderClockVerdict),
  // What waits for a person: until it is dealt with, something may be missing.
  'failed events': ofStored(({ summary: { events } }) =>
    events.failed === 0 ? ok('none') : wrong(`${events.failed} could not be processed`, EVENTS_REMEDY),
  ),
  quarantine: ofStored(({ summary: { quarantined } }) =>
    quarantined === 0
      ? ok('nothing waits')
      : wrong(`${quarantined} signed deliveries are no events`, QUARANTINE_REMEDY),
  ),
  gaps: ofStored(gapsVerdict),
  paused: ofStored(({ isPaused }) =>
    isPaused ? wrong('processing and syncs are paused', 'resume') : ok('no'),
  ),
  'sync-runs': syncRunsCheck,
  'record ids': ofStored(idsVerdict),
};
