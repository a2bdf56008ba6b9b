import { existsSync, readFileSync } from 'node:fs';
import { allAtOnce, type Diagnosis, diagnose, diagnoseRejection } from '../../doctor/diagnosis.ts';
import type { CandidateSecret } from '../../doctor/diagnosis-search.ts';
import { type Config, loadConfig } from '../../platform/config.ts';
import { describeError, MirrorError, UsageError } from '../../platform/errors.ts';
import { candidateSecrets } from '../../service/signing-secrets.ts';
import { PAGE_LIMIT_MAX, type RejectionReport } from '../../store/reports.ts';
import type { Store, StoredRegistration } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { databasePath, withStore } from '../database.ts';
import { bodyCause, explainEvent, explainQuarantined } from './accepted.ts';

export interface DeliveryOptions {
  /** Headers of the delivery; of a stored one those that are signed besides, because no header is stored. */
  header?: string[];
  body?: string;
  secret?: string[];
  retired?: string[];
  receivedAt?: string;
}

/** Explains a delivery that somebody recorded. */
export async function explainRecorded(cli: Cli, options: DeliveryOptions): Promise<Diagnosis> {
  const config = loadConfig(cli.env);
  if (options.body === undefined) {
    throw new UsageError('--header needs --body FILE beside it', 'a signature is over the bytes of the body');
  }
  let body: Buffer;
  try {
    body = readFileSync(options.body);
  } catch (error) {
    throw new UsageError(`--body cannot be read: ${describeError(error)}`);
  }
  const headers = headersIn(options.header ?? [], config.webhook.header);
  const specimen = {
    ...{ headers, body, headerValue: headers.get(config.webhook.header) },
    receivedSeconds: secondsOf(options.receivedAt),
  };
  const secrets = candidates(config, await registrationsOf(cli, config), options);
  const diagnosis = allAtOnce(diagnose(specimen, secrets, config.webhook));
  // Of a body that was changed on the way its change is the cause, and not what it has become.
  const cause = diagnosis.healthy ? bodyCause(body, config) : null;
  return cause === null ? diagnosis : { ...diagnosis, healthy: false, causes: [cause] };
}

type List = 'rejection' | 'quarantine' | 'event';

/** `rejection:7`, `quarantines/7`, `event:evt_7`; anything else is looked for in all three. */
const PREFIXED = /^(rejection|quarantine|event)s?[:/](.+)$/s;
/** Ids of the two numbered lists. */
const NUMBER = /^\d{1,15}$/;

/** Explains a delivery that the service rejected, put into quarantine, or accepted. */
export async function explainStored(cli: Cli, given: string, options: DeliveryOptions): Promise<Diagnosis> {
  const [, prefix, rest] = PREFIXED.exec(given) ?? [];
  const id = rest ?? given;
  return await withStore(cli, 'read', async (store) => {
    const config = loadConfig(cli.env);
    const find = finders(store, config, options);
    // An event's own id may begin like a prefix, so the whole is tried as one first.
    const whole = prefix === undefined ? null : await find.event(given);
    if (whole !== null) return await whole();
    const lists = prefix === undefined ? (Object.keys(find) as List[]) : [prefix as List];
    const found: { list: List; explain: Explain }[] = [];
    for (const list of lists) {
      const explain = await find[list](id);
      if (explain !== null) found.push({ list, explain });
    }
    if (found.length > 1) {
      const names = found.map(({ list }) => `${list}:${given}`).join(' or ');
      throw new UsageError(`several deliveries go by "${given}"`, `say ${names}`);
    }
    if (found[0] !== undefined) return await found[0].explain();
    // An id that no event has may be in the body of a delivery that was rejected.
    const rejected = await rejectionOfEvent(store, id);
    if (rejected === null) {
      throw new MirrorError('not_found', `no delivery ${id} is kept`, {
        remedy: 'events are, what "rejections list" shows, and what is in "quarantine list"',
      });
    }
    cli.err.write(`Rejected, as rejection:${rejected.id}\n`);
    return await explainRejection(store, config, rejected, options);
  });
}

type Explain = () => Promise<Diagnosis> | Diagnosis;

/** What finds a delivery in each list by its id, to be explained when it is known which one is meant. */
function finders(
  store: Store,
  config: Config,
  options: DeliveryOptions,
): Record<List, (id: string) => Promise<Explain | null>> {
  return {
    async rejection(id) {
      const rejection = NUMBER.test(id) ? await store.show('rejections', Number(id)) : null;
      return rejection && (() => explainRejection(store, config, rejection, options));
    },
    async quarantine(id) {
      const quarantined = NUMBER.test(id) ? await store.show('quarantine', Number(id)) : null;
      return quarantined && (() => explainQuarantined(quarantined));
    },
    async event(id) {
      const event = await store.showEvent(id);
      if (event === null) return null;
      return async () => explainEvent(event, config.webhook, (await rejectionOfEvent(store, id))?.id ?? null);
    },
  };
}

async function explainRejection(
  store: Store,
  config: Config,
  rejection: RejectionReport,
  options: DeliveryOptions,
): Promise<Diagnosis> {
  const secrets =
    rejection.body_base64 === null ? [] : candidates(config, await store.listRegistrations(), options);
  const headers = headersIn(options.header ?? [], config.webhook.header);
  if (headers.has(config.webhook.header)) {
    throw new UsageError(
      'the signature header of a delivery that is kept is known',
      "--header takes others beside --delivery, as 'Name: value'",
    );
  }
  return allAtOnce(diagnoseRejection(rejection, secrets, config.webhook, headers));
}

/** The newest rejected delivery whose body, as far as it was kept, names this event. */
async function rejectionOfEvent(store: Store, eventId: string): Promise<RejectionReport | null> {
  for (let after: string | undefined; ; ) {
    const rows = await store.list('rejections', { limit: PAGE_LIMIT_MAX, after });
    for (const { id, reason } of rows) {
      if (!keepsBody(reason)) continue;
      const rejection = await store.show('rejections', id);
      if (rejection?.body != null && idIn(rejection.body) === eventId) return rejection;
    }
    if (rows.length < PAGE_LIMIT_MAX) return null;
    after = String(rows.at(-1)!.id);
  }
}

function idIn(body: string): unknown {
  try {
    const document: unknown = JSON.parse(body.replace(/^\ufeff/, ''));
    return typeof document === 'object' && document !== null && 'id' in document ? document.id : null;
  } catch {
    return null;
  }
}

/** The receiver keeps bodies on which a signature can be tried: none of the others need to be read. */
function keepsBody(reason: string): boolean {
  return reason === 'bad_signature' || reason.startsWith('timestamp_');
}

/** None where there is no database yet: a recorded delivery can be examined anywhere. */
async function registrationsOf(cli: Cli, { databaseUrl }: Config): Promise<StoredRegistration[]> {
  const path = await databasePath(databaseUrl);
  if (path !== null && !existsSync(path)) return [];
  return await withStore(cli, 'read', (store) => store.listRegistrations());
}

/** `Name: value`, or a bare value, which is the signature header's. By their names in lower case. */
function headersIn(lines: readonly string[], signatureHeader: string): Map<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const match = /^([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.*)$/s.exec(line.trim());
    const name = match?.[1]?.toLowerCase() ?? signatureHeader;
    const value = (match?.[2] ?? line).trim();
    const before = headers.get(name);
    headers.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return headers;
}

function secondsOf(receivedAt: string | undefined): number {
  if (receivedAt === undefined) return Math.floor(Date.now() / 1000);
  if (/^\d{1,11}$/.test(receivedAt)) return Number(receivedAt);
  const ms = /^\d{4}-\d\d-\d\dT.*(Z|[+-]\d\d:\d\d)$/.test(receivedAt) ? Date.parse(receivedAt) : Number.NaN;
  if (Number.isFinite(ms)) return Math.floor(ms / 1000);
  throw new UsageError('--received-at takes an instant such as 2026-11-02T12:00:00Z, or seconds since 1970');
}

/**
 * Every secret to try. Those in use decide what is healthy; where none is, the ones given on the command line
 * take their place, so that a delivery can be examined on a machine that is not configured.
 */
function candidates(
  config: Config,
  registrations: readonly StoredRegistration[],
  given: DeliveryOptions,
): CandidateSecret[] {
  const inUse = candidateSecrets(config, registrations, Date.now());
  const known = new Set(inUse.map(({ text }) => text));
  const isNoneInUse = !inUse.some((each) => each.isInUse);
  const numbered = (texts: readonly string[] = [], option: string, isInUse: boolean) =>
    texts
      .filter((text) => !known.has(text))
      .map((text, index): CandidateSecret => ({ text, isInUse, name: `${option} number ${index + 1}` }));
  return [
    ...inUse,
    ...numbered(given.secret, '--secret', isNoneInUse),
    ...numbered(given.retired, '--retired', false),
  ];
}
