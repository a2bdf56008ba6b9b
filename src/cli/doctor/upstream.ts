import { readFileSync } from 'node:fs';
import type { ComplianceClient } from '../../compliance/client.ts';
import { credentialsFor } from '../../compliance/credentials.ts';
import { UpstreamError } from '../../compliance/errors.ts';
import type { ListedKind } from '../../compliance/kinds.ts';
import { examinePaging, firstPageOf, type PagingFinding } from '../../compliance/paging.ts';
import { isAddressable, recordIdIn } from '../../compliance/pointers.ts';
import type { Read, UpstreamFindings, WriteScope } from '../../doctor/judge.ts';
import { systemClock } from '../../platform/clock.ts';
import type { ComplianceSettings, Config } from '../../platform/config.ts';
import { describeError, MirrorError } from '../../platform/errors.ts';
import type { Store } from '../../store/store.ts';
import type { Cli } from '../cli.ts';
import { commandClient } from '../client.ts';

const ACTOR = 'doctor';
/** A service that wants to be left alone for longer is asked nothing more: somebody waits for the doctor's word. */
const BEARABLE_WAIT_MS = 5_000;
const call = () => ({ lane: 'person' as const, signal: new AbortController().signal });

/** Asks each of the addresses that reading needs, once, and what our credentials were granted. Writes nothing there. */
export async function upstreamOf(
  cli: Cli,
  config: Config,
  settings: ComplianceSettings,
  store: Store | null,
): Promise<UpstreamFindings> {
  const { baseUrl, auth } = settings;
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
  const firstPage = firstPageOf(settings.paging);
  const patience = createPatience();
  const read: ReadOne = async (route, request) => {
    const before = sent;
    const isOver = patience.isOver();
    const one = await readOf(route, () => patience.with(request));
    // What failed before anything left us, a token that could not be got above all, is not the API's fault.
    reads.push(one.outcome === 'ok' || sent > before || isOver ? one : { ...one, outcome: 'unauthorized' });
  };
  await read('GET /policies', () => client.listPage('policy', firstPage, call()));
  await read('GET /vendors', () => client.listPage('vendor', firstPage, call()));
  const paging = await pagingOf(client, config, settings, patience);
  const assessment = await assessmentOf(client, await knownAssessment(config, store), read);
  const write = await writeScopeOf(config, settings, store);
  return { baseUrl: baseUrl.href, auth, reads, ...seen, paging, assessment, write };
}

/** What of each list's paging does not fit. A list that cannot be read tells nothing of that. */
async function pagingOf(
  client: ComplianceClient,
  { idPointers }: Config,
  { paging }: ComplianceSettings,
  patience: Patience,
): Promise<UpstreamFindings['paging']> {
  const found: { kind: ListedKind; finding: PagingFinding }[] = [];
  for (const kind of ['policy', 'vendor'] as const) {
    const finding = await examinePaging(paging, async (page, query) => {
      try {
        const options = { ...call(), ...(query === null ? {} : { query }) };
        const answer = await patience.with(() => client.listPage(kind, page, options));
        const ids = answer.objects.flatMap((object) => recordIdIn(object, kind, idPointers) ?? []);
        return { ids, meta: answer.meta, next: answer.next ?? null };
      } catch (error) {
        if (error instanceof MirrorError) return null;
        throw error;
      }
    });
    if (finding !== null) found.push({ kind, finding });
  }
  return found;
}

type Patience = ReturnType<typeof createPatience>;

/** Lets requests through until one is answered with a pause longer than bearable, then gives that answer to all. */
function createPatience() {
  let told: UpstreamError | null = null;
  return {
    isOver: () => told !== null,
    async with<T>(request: () => Promise<T>): Promise<T> {
      if (told !== null) throw told;
      try {
        return await request();
      } catch (error) {
        if (error instanceof UpstreamError && isLong(error)) told = error;
        throw error;
      }
    },
  };
}

/** One that names no time is given a pause of ours. */
const isLong = ({ kind, retryAfterMs }: UpstreamError) =>
  retryAfterMs === null ? kind === 'rate_limited' : retryAfterMs > BEARABLE_WAIT_MS;

type ReadOne = (route: string, request: () => Promise<unknown>) => Promise<void>;

async function readOf(route: string, read: () => Promise<unknown>): Promise<Read> {
  try {
    await read();
    return { route, outcome: 'ok', message: '', remedy: null };
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    const { retryAfterMs = null } = error instanceof UpstreamError ? error : {};
    const wait = retryAfterMs === null ? '' : `, and asks to wait ${Math.ceil(retryAfterMs / 1000)} s`;
    const message = describeError(error) + wait;
    return { route, outcome: outcomeOf(error), message, remedy: error.remedy ?? null };
  }
}

function outcomeOf(error: MirrorError): Read['outcome'] {
  // Credentials that cannot even be written into a header.
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

/** Assessments have no list, so their address can only be tried with an id from somewhere. Null: none is known. */
async function knownAssessment(config: Config, store: Store | null): Promise<string | null> {
  const held = (await store?.listRecords('risk_assessment', { deleted: false }, { limit: 1 }))?.items ?? [];
  return [...held.map(({ id }) => id), ...listedAssessments(config)].find(isAddressable) ?? null;
}

function listedAssessments({ riskIdsFile }: Config): string[] {
  if (riskIdsFile === null) return [];
  try {
    const lines = readFileSync(riskIdsFile, 'utf8').split(/\r?\n/);
    return lines.map((line) => line.trim()).filter((line) => line !== '' && !line.startsWith('#'));
  } catch {
    // The service itself refuses to start with it, and says why.
    return [];
  }
}

async function assessmentOf(
  client: ComplianceClient,
  id: string | null,
  read: ReadOne,
): Promise<UpstreamFindings['assessment']> {
  if (id === null) return null;
  let outcome: 'found' | 'missing' | 'failed' = 'failed';
  await read('GET /risk-assessments/{id}', async () => {
    outcome = (await client.getRecord('risk_assessment', id, call())).outcome;
  });
  return { id, outcome };
}

/**
 * Whether `register` and creates would be allowed, from what was granted: no POST is without effect, so none is sent.
 * A service account asks for its token once more, with `write`.
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
    // Of scopes that the specification does not name nobody here knows what they allow.
    if (scopes.includes('write')) return { granted: true, why: null };
    return { granted: scopes.every((scope) => scope === 'read') ? false : null, why: scopes.join(' ') };
  } catch (error) {
    if (!(error instanceof MirrorError)) throw error;
    const isRefused =
      error instanceof UpstreamError && (error.kind === 'forbidden' || error.kind === 'unauthorized');
    return { granted: isRefused ? false : null, why: describeError(error) };
  }
}
