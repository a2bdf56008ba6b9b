import type { Kind } from '../compliance/kinds.ts';
import type { PagingFinding } from '../compliance/paging.ts';
import { pointersSettingOf } from '../compliance/pointers.ts';
import { coverageOf, isReceiverPath, RECEIVER_PATH } from '../compliance/registration.ts';
import { isLoopback } from '../platform/addresses.ts';
import type { RejectionReport, StoreSummary } from '../store/reports.ts';
import type { StoredRegistration } from '../store/store.ts';

/** What was found, before it is judged. Null: it could not be looked at. Times are wall-clock milliseconds. */
export interface Findings {
  now: number;
  warnings: readonly string[];
  database: {
    /** The file; or the server, its database and schema. */
    path: string;
    isServer?: boolean;
    problem: string | null;
    /** Null beside a problem: there is no database yet. */
    remedy: string | null;
    /** The problem is in the settings: "serve" would end with exit code 2. */
    isSetting?: boolean;
    /** What others on the way to the server can do, and the setting that prevents it. */
    exposure: { says: string; remedy: string } | null;
  };
  /** The service that holds the file, or how many share the PostgreSQL database. Null: none runs. Undefined: not known. */
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
  summary: Pick<StoreSummary, 'kinds' | 'events' | 'last_delivery_at' | 'quarantined' | 'open_gaps_by'>;
  isPaused: boolean;
  registrations: readonly Pick<StoredRegistration, 'upstreamId' | 'url' | 'delivers' | 'expiresWall'>[];
  /** How many stored texts open with CREDENTIALS_KEY, and the rows of those that do not. */
  sealed: { open: number; closed: readonly string[] };
  /** Of the deliveries that were rejected last, in any order. */
  rejections: readonly Pick<RejectionReport, 'id' | 'at' | 'reason' | 't'>[];
  /** Places of ids that no setting names. */
  toSet: readonly { kind: Kind; path: string; setting: string }[];
}

export interface UpstreamFindings {
  baseUrl: string;
  auth: string;
  reads: readonly Read[];
  /** Some answer came, whatever it said. */
  answered: boolean;
  /** The service's clock minus ours, by a Date header; null: there was none. */
  skewMs: number | null;
  /** The lists whose paging does not fit. */
  paging: readonly { kind: Kind; finding: PagingFinding }[];
  /** The assessment that was asked for; null: none is known. */
  assessment: { id: string; outcome: 'found' | 'missing' | 'failed' } | null;
  write: WriteScope;
}

/** `granted` null: only a POST would show it. `why`: the granted scopes, or what the service says. */
export type WriteScope = { granted: boolean | null; why: string | null };

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
  /** What to do; null: nothing. */
  remedy: string | null;
}

/** Clocks this far apart are worth a warning, long before deliveries are rejected. */
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
type Judge = (found: Findings) => Verdict;
const ok = (detail: string): Verdict => ({ state: 'ok', detail, remedy: null });
const warning = (detail: string, remedy: string): Verdict => ({ state: 'warning', detail, remedy });
const wrong = (detail: string, remedy: string): Verdict => ({ state: 'wrong', detail, remedy });
const skipped = (detail: string): Verdict => ({ state: 'skipped', detail, remedy: null });
const EVENTS_ONLY = 'events only: COMPLIANCE_BASE_URL is not set';
const NO_DATABASE = 'the database cannot be read';
const NOT_ACCEPTED = 'not known while the credentials are not accepted';

/** A check of the API; skipped without one. `isAccepted`: a read shows that the credentials are accepted. */
function ofUpstream(
  check: (upstream: UpstreamFindings & { isAccepted: boolean }, found: Findings) => Verdict,
): Judge {
  return (found) => {
    const { upstream } = found;
    if (upstream === null) return skipped(EVENTS_ONLY);
    const isAccepted = upstream.reads.some(({ outcome }) => outcome === 'ok' || outcome === 'forbidden');
    return check({ ...upstream, isAccepted }, found);
  };
}

/** A check of what the database says; skipped if it cannot be read. */
function ofStored(check: (stored: StoredFindings, found: Findings) => Verdict): Judge {
  return (found) => (found.stored === null ? skipped(NO_DATABASE) : check(found.stored, found));
}

const remedyOf = (read: Read) => read.remedy ?? 'see the message';

/** In the order in which they are shown. */
const CHECKS: Readonly<Record<string, Judge>> = {
  settings: ({ warnings }) =>
    warnings.length === 0
      ? ok('every setting can be used')
      : warning(warnings.join('; '), 'correct the names, or take them out of the environment'),

  database({ database: { path, problem, remedy, exposure, isServer = false } }) {
    if (problem !== null) {
      return wrong(`${path}: ${problem}`, remedy ?? 'start the service once: it makes what is missing');
    }
    const kept = isServer ? 'commits reach its disk' : 'write-ahead log, synchronous FULL';
    const detail = `${path}: writable, ${kept}`;
    return exposure === null ? ok(detail) : warning(`${detail}; ${exposure.says}`, exposure.remedy);
  },

  service({ service }) {
    if (service === undefined) return skipped(NO_DATABASE);
    if (service === null) {
      return warning('no service is running on this database', 'start it with "serve" (npm start)');
    }
    if ('replicas' in service) return ok(`${service.replicas} running on this database`);
    const address = service.opsUrl ?? 'an address not known yet';
    return ok(`running as process ${service.pid}, operators at ${address}`);
  },

  'base URL': ofUpstream(({ reads, answered, baseUrl }) => {
    const silent = reads.find(({ outcome }) => ['unreachable', 'not_the_api', 'failing'].includes(outcome));
    if (silent !== undefined) return wrong(silent.message, remedyOf(silent));
    if (answered) return ok(`${baseUrl} answers`);
    return skipped('not asked: there are no credentials to ask with');
  }),

  credentials: ofUpstream(({ reads, auth, isAccepted }) => {
    const refused = reads.find(({ outcome }) => outcome === 'unauthorized');
    if (refused !== undefined) return wrong(refused.message, remedyOf(refused));
    return isAccepted ? ok(`accepted (${auth})`) : skipped('not known while the service does not answer');
  }),

  scopes: ofUpstream(({ reads, isAccepted }) => {
    const forbidden = reads.filter(({ outcome }) => outcome === 'forbidden');
    const routes = forbidden.map(({ route }) => route).join(', ');
    if (forbidden[0] !== undefined) return wrong(`not allowed to read ${routes}`, remedyOf(forbidden[0]));
    return isAccepted ? ok('reading is allowed') : skipped(NOT_ACCEPTED);
  }),

  'write scope': ofUpstream(({ auth, write, isAccepted }, { stored }) => {
    if (auth === 'api_key')
      return skipped('an API key does not say whether it may write: only a POST would tell');
    if (!isAccepted) return skipped(NOT_ACCEPTED);
    if (write.granted === true) return ok('granted: "register" and creates are allowed');
    if (write.granted === null) {
      return skipped(`not known from what was granted${write.why === null ? '' : ` (${write.why})`}`);
    }
    // A mirror only reads.
    if ((stored?.registrations ?? []).length > 0)
      return ok('not granted, and not needed: the webhook is registered; creates would be refused');
    const how = auth === 'oauth' ? 'run "login --write"' : 'allow the service account the scope "write"';
    const what = 'not granted, and registering the webhook from here needs it';
    return warning(what, `${how} before "register" or a create`);
  }),

  paging: ofUpstream(({ paging: [worst], reads, isAccepted }) => {
    if (worst !== undefined) {
      const { set, sentence } = worst.finding;
      const remedy = set === null ? 'look into the service’s documentation' : `set ${set.name}=${set.value}`;
      return wrong(`${worst.kind}: ${sentence}`, remedy);
    }
    const isRead = reads.some(({ route, outcome }) => outcome === 'ok' && !route.includes('{id}'));
    if (!isAccepted || !isRead) return skipped('not known while no list can be read');
    return ok('the first pages fit the settings');
  }),

  'risk assessments': ofUpstream(({ assessment, reads, isAccepted }) => {
    const route = 'GET /risk-assessments/{id}';
    if (assessment === null) return skipped(`no assessment is known yet, so ${route} was not tried`);
    const { id, outcome } = assessment;
    // Another check has said so already.
    if (!isAccepted) return skipped(NOT_ACCEPTED);
    if (outcome === 'found') return ok(`${route} answers, for ${id}`);
    if (outcome === 'missing') {
      return warning(
        `${route} answers 404 for ${id}, which is known here`,
        'if it is gone, the mirror finds out by itself; if it is not, look at COMPLIANCE_BASE_URL and the permissions',
      );
    }
    const read = reads.find((each) => each.route === route);
    return wrong(read?.message ?? 'it could not be read', read?.remedy ?? 'see the message');
  }),

  clock: ofUpstream(({ skewMs, answered }, { settings: { toleranceSeconds } }) => {
    if (skewMs === null && answered) return skipped("the service's answers carry no Date");
    if (skewMs === null) return skipped('not known while the service does not answer');
    const detail = `the service's clock is ${Math.abs(skewMs / 1000)} s ${skewMs > 0 ? 'ahead of' : 'behind'} ours`;
    const remedy = 'have this machine keep its time by NTP; if it does, the other side is off';
    if (Math.abs(skewMs) > toleranceSeconds * 1000) {
      return wrong(`${detail}, and deliveries are rejected beyond ${toleranceSeconds} s`, remedy);
    }
    return Math.abs(skewMs) > SKEW_WARNING_MS ? warning(detail, remedy) : ok('in sync with the service');
  }),

  'stored secrets': ofStored(({ sealed: { open, closed } }) => {
    if (closed.length === 0)
      return ok(open === 0 ? 'none' : `${open}, and CREDENTIALS_KEY opens each in its row`);
    return wrong(
      `these do not open with CREDENTIALS_KEY: ${closed.join(', ')}`,
      'set CREDENTIALS_KEY to the key they were stored with; if it is lost: "registrations forget ID" and "register" anew, "login" for tokens',
    );
  }),

  'signing secrets'({ secrets: { configured, stored, unusable }, stored: database, database: { remedy } }) {
    if (unusable.length > 0) {
      const joined = (key: 'what' | 'remedy') => [...new Set(unusable.map((each) => each[key]))].join('; ');
      return wrong(joined('what'), joined('remedy'));
    }
    const isClosed = database?.sealed.closed.some((place) => place.startsWith('registrations ')) ?? false;
    // Not "register" as below: that would make a second registration.
    if (configured + stored === 0 && isClosed)
      return wrong('none that opens with CREDENTIALS_KEY', 'see “stored secrets”, just above');
    if (configured === 0 && database === null && remedy !== null)
      return skipped(`none in WEBHOOK_SECRETS; those of registrations are not known: ${NO_DATABASE}`);
    return configured + stored > 0
      ? ok(`${configured} in WEBHOOK_SECRETS, ${stored} of registrations`)
      : wrong('none: every delivery is answered 503', 'set WEBHOOK_SECRETS, or run "register --url …"');
  },

  registration: ofStored(({ registrations }, { secrets, receiver }) => {
    if (registrations.length === 0) {
      const remedy = 'run "register --url …", unless it is registered by other means';
      return secrets.configured > 0
        ? warning('none that was made from here', remedy)
        : wrong('the webhook is not registered', remedy);
    }
    // Each address by itself: it is not known which of them leads here, and only that one counts.
    const addresses = [...Map.groupBy(registrations, ({ url }) => url)].map(([url, held]) => ({
      url,
      ...aimOf(url, receiver),
      ids: held.map(({ upstreamId }) => upstreamId).join(', '),
      // A registration expires only after it was replaced.
      isReplaced: held.every(({ expiresWall }) => expiresWall !== null),
      missing: coverageOf(held.flatMap(({ delivers }) => delivers)).missing,
    }));
    const lacking = addresses.filter(({ missing }) => missing.length > 0);
    const detail = [
      ...addresses.map(({ ids, url, says }) => `${ids} → ${url} (${says})`),
      ...lacking.map(({ url, missing }) => `not covered at ${url}: ${missing.join(', ')}`),
    ].join('; ');
    const elsewhere = addresses.filter(({ isElsewhere, isReplaced }) => isElsewhere && !isReplaced);
    if (elsewhere.length > 0) {
      const ids = elsewhere.map((each) => each.ids).join(', ');
      const remedy = `register the address of this receiver, which takes deliveries at ${RECEIVER_PATH} of port ${receiver.port}, and "registrations forget" ${ids}; or set HOST and PORT`;
      return wrong(detail, remedy);
    }
    const remedy =
      'if that is where this receiver is, register those for it too: they are found by full syncs only';
    return lacking.length === 0 ? ok(detail) : warning(detail, remedy);
  }),

  'last delivery': ofStored((stored, { now, settings }) => {
    const remedy =
      'look at the delivery log of the compliance service, and at the way from there to POST /webhooks';
    const lastDelivery = lastDeliveryOf(stored);
    if (lastDelivery === 0) return warning('there has been none yet', remedy);
    const detail = `${new Date(lastDelivery).toISOString()}, ${agoText(now - lastDelivery)} ago`;
    const isSilent = settings.silenceMs > 0 && now - lastDelivery > settings.silenceMs;
    return isSilent ? wrong(`${detail}: longer than SYNC_SILENCE_HOURS`, remedy) : ok(detail);
  }),

  rejections: ofStored((stored, { now }) => {
    const newest = newestRejection(stored, () => true);
    if (newest === undefined) return ok('none');
    const { id, at, reason, isSinceAccepted } = newest;
    const detail = `the last one at ${new Date(at).toISOString()}: ${reason}`;
    const remedy = `have it explained: doctor --delivery rejection:${id}; those of other senders are in "rejections list"`;
    if (isSinceAccepted) return wrong(`${detail}; none has been accepted since`, remedy);
    return now - at < DAY_MS ? warning(`${detail}; others were accepted since`, remedy) : ok(detail);
  }),

  'sender clock': ofStored((stored, { now, settings: { toleranceSeconds } }) => {
    const newest = newestRejection(stored, (reason) => reason.startsWith('timestamp_'));
    if (newest === undefined || now - newest.at > DAY_MS)
      return ok('none was rejected for its time within a day');
    const { id, at, reason, t, isSinceAccepted } = newest;
    const offSeconds = Math.round(Number(t) - at / 1000);
    const off = `${Math.abs(offSeconds)} s ${offSeconds > 0 ? 'ahead of' : 'behind'} our time`;
    const fault =
      reason === 'timestamp_milliseconds'
        ? 'has its timestamp in milliseconds, not seconds'
        : `was signed ${off}, and ${toleranceSeconds} s are allowed`;
    const detail = `a delivery of ${new Date(at).toISOString()} ${fault}`;
    const remedy = `compare this machine's clock (date -u) with the sender's, and look for what holds deliveries back: doctor --delivery rejection:${id}`;
    return isSinceAccepted ? wrong(detail, remedy) : warning(`${detail}; others were accepted since`, remedy);
  }),

  // The next two wait for a person. Until then something may be missing.
  'failed events': ofStored(({ summary: { events } }) =>
    events.failed === 0
      ? ok('none')
      : wrong(
          `${events.failed} could not be processed`,
          'see "events list --state failed", then "events retry" or "events discard"',
        ),
  ),

  quarantine: ofStored(({ summary: { quarantined } }) =>
    quarantined === 0
      ? ok('nothing waits')
      : wrong(
          `${quarantined} correctly signed could not be used`,
          'see "quarantine list", then "quarantine release"',
        ),
  ),

  gaps: ofStored(({ summary: { open_gaps_by: gaps } }) => {
    if (gaps.length === 0) return ok('none is open');
    const listed = gaps.map(({ reason, kind }) => (kind === null ? reason : `${reason} (${kind})`));
    return wrong(
      `open: ${listed.join(', ')}`,
      'the page Gaps says of each what to do, and so does docs/operations.md',
    );
  }),

  paused: ofStored(({ isPaused }) =>
    isPaused ? wrong('processing and syncs are paused', 'resume') : ok('no'),
  ),

  'sync-runs'({ stored, now, settings, upstream }) {
    if (upstream === null) return skipped(EVENTS_ONLY);
    if (stored === null) return skipped(NO_DATABASE);
    if (settings.fullSyncMs === 0) return skipped('no timer: SYNC_FULL_MINUTES is 0');
    const limitMs = LATE_AFTER_SYNC_RUNS * settings.fullSyncMs + MINUTE_MS;
    const { kinds } = stored.summary;
    const late = kinds.filter(
      ({ last_full_sync_at: last }) => last === null || now - Date.parse(last) > limitMs,
    );
    if (late.length === 0) return ok('each kind has a recent complete full sync');
    const whatIsLate = late.map(
      ({ kind, last_full_sync_at: last }) => `${kind}: ${last ?? 'never complete'}`,
    );
    if (late.every(({ last_full_sync_at: last, verdict }) => last === null && verdict === 'catching_up'))
      return warning(whatIsLate.join(', '), 'wait: the status page shows how far the first full sync is');
    const remedy =
      'see "sync-runs list" and "gaps list --open" for what stops them; "sync --wait" begins one';
    return wrong(whatIsLate.join(', '), remedy);
  },

  'record ids': ofStored(({ summary, toSet }) => {
    const gaps = summary.open_gaps_by.flatMap(({ reason, kind }) =>
      reason === 'no_record_id' && kind !== null ? [kind] : [],
    );
    if (gaps.length > 0) {
      const settingOf = (kind: Kind) =>
        toSet.find((one) => one.kind === kind)?.setting ?? pointersSettingOf(kind);
      const remedy = `set ${gaps.map(settingOf).join(' and ')} to where the id stands in their data ("events list --state failed", "events show ID"), start again, then "events retry --failed-for no_record_id"`;
      return wrong(`events about ${gaps.join(', ')} name no record where the pointers look`, remedy);
    }
    if (toSet.length === 0) return ok('found at the places of ID_POINTERS_*');
    const found = toSet.map(
      ({ kind, path }) => `those of ${kind} were found at ${path}, which no setting names`,
    );
    return warning(found.join('; '), `set ${toSet.map(({ setting }) => setting).join(' and ')}`);
  }),
};

const EVERY_ADDRESS = new Set(['0.0.0.0', '::', '']);

/** Whether deliveries to `url` reach `receiver`, as far as this machine can know. Pure. */
function aimOf(url: string, { host, port }: Findings['receiver']): { isElsewhere: boolean; says: string } {
  const { hostname, port: given, protocol } = new URL(url);
  const elsewhere = (says: string) => ({ isElsewhere: true, says });
  const maybeHere = (says: string) => ({ isElsewhere: false, says });
  if (!isReceiverPath(url))
    return elsewhere(`not ${RECEIVER_PATH}, the only path at which deliveries are taken`);
  const bare = hostname.replace(/^\[|\]$/g, '');
  const isOfThisMachine = isLoopback(hostname);
  const isEither = EVERY_ADDRESS.has(host) || host === 'localhost' || bare === 'localhost';
  if (bare !== host && !(isOfThisMachine && isEither)) {
    // Another name or address belongs to a proxy, which may lead anywhere.
    return isOfThisMachine
      ? elsewhere(`this receiver listens at ${host}`)
      : maybeHere('host and port cannot be compared from here');
  }
  if (protocol === 'https:')
    return maybeHere('a proxy for https on this machine, whose aim cannot be compared from here');
  // Port 0 becomes any free port at the start.
  if (port === 0) return maybeHere('PORT is 0, so the port cannot be compared');
  return Number(given || 80) === port
    ? maybeHere('this receiver')
    : elsewhere(`this receiver listens on port ${port}`);
}

const lastDeliveryOf = ({ summary }: StoredFindings) => Date.parse(summary.last_delivery_at ?? '') || 0;

/** The newest rejection for a reason that `isIt` accepts. */
function newestRejection(stored: StoredFindings, isIt: (reason: string) => boolean) {
  const [newest] = stored.rejections
    .filter(({ reason }) => isIt(reason))
    .map((each) => ({ ...each, at: Date.parse(each.at) }))
    .sort((a, b) => b.at - a.at);
  return newest && { ...newest, isSinceAccepted: newest.at > lastDeliveryOf(stored) };
}

function agoText(ms: number): string {
  const minutes = Math.max(0, Math.floor(ms / MINUTE_MS));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 48 * 60 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} days`;
}
