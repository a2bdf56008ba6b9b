import { existsSync } from 'node:fs';
import { COLLECTIONS } from '../compliance/client.ts';
import { credentialsFor } from '../compliance/credentials.ts';
import { UpstreamError } from '../compliance/errors.ts';
import type { ListedKind } from '../compliance/kinds.ts';
import { examinePaging, firstPageOf, type PagingFinding } from '../compliance/paging.ts';
import { isAddressable, pointersToSet, recordIdIn } from '../compliance/pointers.ts';
import type { Findings, Read, StoredFindings, UpstreamFindings, WriteScope } from '../doctor/judge.ts';
import { systemClock } from '../platform/clock.ts';
import { type ComplianceSettings, type Config, configWarnings } from '../platform/config.ts';
import { describeError, MirrorError, NotMigrated, UsageError } from '../platform/errors.ts';
import { readRiskIds } from '../service/repairs.ts';
import { openedText, stateOfSecret } from '../service/signing-secrets.ts';
import { readPause } from '../service/state.ts';
import type { Store, StoredRegistration } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { commandClient } from './client.ts';
import { nameOf } from './credentials.ts';
import {
  databasePath,
  engines,
  holderOfDatabase,
  livingReplicas,
  openForWriting,
  withStore,
} from './database.ts';
import { secretSettings, unusableSecret } from './registrations.ts';

/** Collects what `judge` judges. Changes nothing, except that it may get or renew a token. */
export async function examine(cli: Cli, config: Config): Promise<Findings> {
  const path = await databasePath(config.databaseUrl);
  const { store, ...problem } = await open(cli, config, path);
  try {
    const { databaseExposure } = await engines();
    const registrations = (await store?.listRegistrations()) ?? [];
    return {
      now: Date.now(),
      warnings: configWarnings(cli.env),
      database: {
        path: path ?? serverOf(config),
        isServer: path === null,
        ...problem,
        exposure: store && (await databaseExposure(config.databaseUrl, config.database)),
      },
      service: await serviceOn(config, path, store),
      upstream: config.compliance && (await upstreamOf(cli, config, config.compliance, store)),
      settings: { ...config.sync, toleranceSeconds: config.webhook.toleranceSeconds },
      receiver: { host: config.host, port: config.port },
      secrets: secretsOf(config, registrations),
      stored: store && (await storedIn(store, config, registrations)),
    };
  } finally {
    await store?.close();
  }
}

/** How many rejections, newest first, are searched for one that shows the sender's clock. A busy day has about as many. */
const REJECTIONS_LOOKED_AT = 500;

async function storedIn(
  store: Store,
  { credentialsKey, idPointers }: Config,
  registrations: readonly StoredRegistration[],
): Promise<StoredFindings> {
  const summary = await store.summary();
  const sealed = await store.listSealed();
  const closed = sealed.filter(
    (text) => credentialsKey === null || openedText(text, credentialsKey) === null,
  );
  return {
    summary,
    isPaused: (await readPause(store)) !== null,
    registrations,
    sealed: { open: sealed.length - closed.length, closed: closed.map(nameOf) },
    rejections: await store.list('rejections', { limit: REJECTIONS_LOOKED_AT }),
    toSet: pointersToSet(summary.learned_pointers, idPointers),
  };
}

/** The service on the database; null: none runs. Undefined: the database server, which alone knows, cannot be asked. */
async function serviceOn({ databaseUrl }: Config, path: string | null, store: Store | null) {
  if (path !== null) return existsSync(path) ? await holderOfDatabase(databaseUrl) : null;
  if (store === null) return undefined;
  const replicas = await livingReplicas(store);
  return replicas === 0 ? null : { replicas };
}

/** The server without user and password. The driver also takes addresses that are no URL, such as a socket's. */
function serverOf({ databaseUrl, database }: Config): string {
  const url = URL.parse(databaseUrl);
  const place = url === null ? '' : `, ${url.host}${url.pathname}`;
  return `PostgreSQL${place}, schema ${database.schema}`;
}

/** The store, open for writing; or null, and the problem. */
async function open(cli: Cli, config: Config, path: string | null) {
  let store: Store | null = null;
  try {
    (await engines()).probePlace(config.databaseUrl);
    if (path !== null && !existsSync(path)) {
      return { store, problem: 'there is no database yet', remedy: null, isSetting: false };
    }
    // Read-only first: opening for writing would migrate a database of another version.
    await withStore(cli, 'read', async () => {});
    // Opening for writing also checks for the write-ahead log and synchronous=FULL.
    store = await openForWriting(cli, config);
    await store.checkWritable();
    return { store, problem: null, remedy: null, isSetting: false };
  } catch (error) {
    await store?.close();
    const remedy = error instanceof MirrorError ? error.remedy : undefined;
    return {
      store: null,
      problem: describeError(error),
      remedy: remedy ?? 'look at the file and its folder',
      isSetting: error instanceof UsageError && !(error instanceof NotMigrated),
    };
  }
}

function secretsOf(config: Config, registrations: readonly StoredRegistration[]): Findings['secrets'] {
  const settings = secretSettings(config, { wall: Date.now });
  return {
    configured: config.webhook.secrets().length,
    stored: registrations.filter((each) => stateOfSecret(each, settings).state === 'verifies').length,
    unusable: registrations.flatMap((each) => unusableSecret(each, settings) ?? []),
  };
}

const ACTOR = 'doctor';
/** If the service asks us to wait longer, nothing more is sent: a person waits for the result. */
const BEARABLE_WAIT_MS = 5_000;
const call = () => ({ lane: 'person' as const, signal: new AbortController().signal });

/** Sends requests as the doctor, and notes what they show in `reads` and `seen`. */
function createExaminer(cli: Cli, config: Config, store: Store | null) {
  const reads: Read[] = [];
  const seen: Pick<UpstreamFindings, 'answered' | 'skewMs'> = { answered: false, skewMs: null };
  let sent = 0;
  const client = commandClient(cli, config, store, {
    actor: ACTOR,
    needs: 'read',
    observe: ({ status, dateHeaderSkewMs }) => {
      sent++;
      seen.answered ||= status !== null;
      seen.skewMs = dateHeaderSkewMs ?? seen.skewMs;
    },
  });

  /** The first answer that asked for too long a pause. Every later request fails with it. */
  let pause: UpstreamError | null = null;
  async function send<T>(request: () => Promise<T>): Promise<T> {
    if (pause !== null) throw pause;
    try {
      return await request();
    } catch (error) {
      if (error instanceof UpstreamError && isLong(error)) pause = error;
      throw error;
    }
  }

  /** Notes the outcome in `reads`. Null: it failed. */
  async function read<T>(route: string, request: () => Promise<T>): Promise<T | null> {
    const sentBefore = sent;
    const wasPaused = pause !== null;
    try {
      const answer = await send(request);
      reads.push({ route, outcome: 'ok', message: '', remedy: null });
      return answer;
    } catch (error) {
      if (!(error instanceof MirrorError)) throw error;
      // If nothing was sent, as without a token, the API is not to blame.
      const outcome = wasPaused || sent > sentBefore ? outcomeOf(error) : 'unauthorized';
      const { retryAfterMs = null } = error instanceof UpstreamError ? error : {};
      const wait = retryAfterMs === null ? '' : `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} s`;
      reads.push({ route, outcome, message: describeError(error) + wait, remedy: error.remedy ?? null });
      return null;
    }
  }

  return { client, reads, seen, send, read };
}

/** Reads from each address that the mirror reads, and what our credentials were granted. Sends nothing that writes. */
async function upstreamOf(
  cli: Cli,
  config: Config,
  settings: ComplianceSettings,
  store: Store | null,
): Promise<UpstreamFindings> {
  const { baseUrl, auth, paging } = settings;
  const { client, reads, seen, send, read } = createExaminer(cli, config, store);
  const misfits: { kind: ListedKind; finding: PagingFinding }[] = [];
  for (const kind of ['policy', 'vendor'] as const) {
    const list = async (page: number, query: Record<string, string> | null) => {
      const answer = await client.listPage(kind, page, { ...call(), ...(query === null ? {} : { query }) });
      const ids = answer.objects.flatMap((object) => recordIdIn(object, kind, config.idPointers) ?? []);
      return { ids, meta: answer.meta, next: answer.next };
    };
    const firstPage = firstPageOf(paging);
    const first = await read(`GET ${COLLECTIONS[kind]}`, () => list(firstPage, null));
    // A list that cannot be read does not show how it is paged.
    if (first === null) continue;
    const finding = await examinePaging(paging, async (page, query) => {
      if (page === firstPage && query === null) return first;
      return await send(() => list(page, query)).catch((error) => {
        if (error instanceof MirrorError) return null;
        throw error;
      });
    });
    if (finding !== null) misfits.push({ kind, finding });
  }

  const id = await knownAssessment(config, store);
  const answer =
    id === null
      ? null
      : await read('GET /risk-assessments/{id}', () => client.getRecord('risk_assessment', id, call()));
  const assessment = id === null ? null : { id, outcome: answer?.outcome ?? ('failed' as const) };
  const write = await writeScopeOf(config, settings, store);
  return { baseUrl: baseUrl.href, auth, reads, ...seen, paging: misfits, assessment, write };
}

/** Whether the service asks for too long a pause. A 429 without Retry-After counts as long. */
const isLong = ({ kind, retryAfterMs }: UpstreamError) =>
  retryAfterMs === null ? kind === 'rate_limited' : retryAfterMs > BEARABLE_WAIT_MS;

function outcomeOf(error: MirrorError): Read['outcome'] {
  // Such as credentials that cannot be written into a header.
  if (!(error instanceof UpstreamError)) return 'unauthorized';
  switch (error.kind) {
    case 'unauthorized':
    case 'forbidden':
      return error.kind;
    case 'network':
    case 'timeout':
      return 'unreachable';
    case 'malformed':
    case 'unexpected_status':
      return 'not_the_api';
    default:
      return 'failing';
  }
}

/** The id to try the address of assessments with, because they have no list. Null: none is known. */
async function knownAssessment({ riskIdsFile }: Config, store: Store | null): Promise<string | null> {
  const held = (await store?.listRecords('risk_assessment', { deleted: false }, { limit: 1 }))?.items ?? [];
  // If the file cannot be read, the service does not start and says why.
  const listed = riskIdsFile === null ? [] : await readRiskIds(riskIdsFile).catch(() => []);
  return [...held.map(({ id }) => id), ...listed].find(isAddressable) ?? null;
}

/**
 * Whether `register` and creates would be allowed, judged by the granted scopes: a POST always has an effect, so none is sent.
 * A service account asks for another token, with `write`.
 */
async function writeScopeOf(
  config: Config,
  settings: ComplianceSettings,
  store: Store | null,
): Promise<WriteScope> {
  if (settings.auth === 'api_key' || store === null) return { granted: null, why: null };
  const key = () => config.credentialsKey;
  const options = { settings, store, key, clock: systemClock(), actor: ACTOR };
  try {
    const credentials = credentialsFor({ ...options, needs: 'write' });
    await credentials.authorization(new AbortController().signal);
    const scopes = (await credentials.standing?.())?.scopes ?? [];
    // Scopes that the specification does not name may or may not allow writing.
    if (scopes.includes('write')) return { granted: true, why: null };
    return { granted: scopes.every((scope) => scope === 'read') ? false : null, why: scopes.join(' ') };
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    const isRefused =
      error instanceof UpstreamError && (error.kind === 'forbidden' || error.kind === 'unauthorized');
    return { granted: isRefused ? false : null, why: describeError(error) };
  }
}
