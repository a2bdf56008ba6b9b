import { idCandidatesIn } from '../../compliance/candidates.ts';
import { COLLECTIONS, type ComplianceClient, recordPath } from '../../compliance/client.ts';
import { listIn, MalformedAnswer, objectIn, WRAPPERS } from '../../compliance/envelope.ts';
import { UpstreamError } from '../../compliance/errors.ts';
import { type FetchedKind, KINDS, type Kind, type ListedKind } from '../../compliance/kinds.ts';
import { type IdPointers, type JsonObject, recordIdIn } from '../../compliance/pointers.ts';
import type { Config } from '../../platform/config.ts';
import { MirrorError } from '../../platform/errors.ts';
import { type AskPage, findPaging } from './paging.ts';

export interface Explored {
  /** What was seen, a line each. */
  says: string[];
  /** What this version cannot take, or what was not there to be seen. */
  warnings: string[];
  /** Settings that differ from those in use, proven by what was read. */
  settings: Record<string, string>;
}

export interface ExploreOptions {
  client: Pick<ComplianceClient, 'request'>;
  config: Pick<Config, 'idPointers'>;
  paging: NonNullable<Config['compliance']>['paging'];
  /** A risk assessment that is there; null: none is known. */
  riskId: string | null;
  signal: AbortSignal;
}

const NAMES: Readonly<Record<Kind, string>> = {
  policy: 'Policies',
  risk_assessment: 'Risk assessments',
  vendor: 'Vendors',
};

/**
 * Reads the first pages of both lists and one record of each kind that can be read by itself, and tells what settings
 * they need. Rejects with UpstreamError where a list cannot be read, and MirrorError (`no_list`) where what comes is none.
 */
export async function explore(options: ExploreOptions): Promise<Explored> {
  const { config, paging } = options;
  const found: Explored = { says: [], warnings: [], settings: {} };
  const lists = [
    { kind: 'policy', ...(await readList(options, 'policy')) },
    { kind: 'vendor', ...(await readList(options, 'vendor')) },
  ] as const;
  const pointers: Record<Kind, readonly string[]> = { ...config.idPointers };
  for (const list of lists) {
    const { kind, objects, envelope, total } = list;
    const at = pointerOf(objects, kind, pointers, found);
    const count = `${objects.length} on the first page${total === null ? '' : `, ${total} in all`}`;
    const ids = objects.length === 0 ? 'no record to look at' : `ids at ${at ?? 'no place that was found'}`;
    found.says.push(`${NAMES[kind]}: ${count}; the list is ${envelope}; ${ids}`);
  }
  await explorePaging(options, lists, pointers, paging, found);
  const vendors = lists[1].objects;
  const vendor = vendors[0] === undefined ? null : recordIdIn(vendors[0], 'vendor', pointers);
  if (vendor !== null) await exploreRecord(options, 'vendor', vendor, pointers, found);
  if (options.riskId === null) {
    found.warnings.push(
      'Risk assessments cannot be listed, and no id was given: where their ids stand is found out when the first event names one',
    );
  } else {
    await exploreRecord(options, 'risk_assessment', options.riskId, pointers, found);
  }
  for (const kind of KINDS) {
    if (pointers[kind] !== config.idPointers[kind]) {
      found.settings[`ID_POINTERS_${kind.toUpperCase()}`] = pointers[kind].join(',');
    }
  }
  return found;
}

interface ListSeen extends ReturnType<typeof listIn> {
  /** In words. */
  envelope: string;
  total: number | null;
}

async function readList(options: ExploreOptions, kind: ListedKind): Promise<ListSeen> {
  const { pageParam, perPageParam, firstPage, pageSize } = options.paging;
  const query = { [pageParam]: String(firstPage), [perPageParam]: String(pageSize) };
  const bare = async () => listSeen(await read(options, kind, {}), kind, options);
  try {
    const seen = listSeen(await read(options, kind, query), kind, options);
    // Of a service that counts pages from 0 this may have been the second one.
    return seen.objects.length > 0 ? seen : await bare();
  } catch (error) {
    // A service may refuse parameters that it does not know: which it knows is found out from a list without any.
    const isRefused = error instanceof UpstreamError && QUERY_REFUSED.has(error.status ?? 0);
    if (!isRefused) throw error;
    return await bare();
  }
}

const QUERY_REFUSED: ReadonlySet<number> = new Set([400, 422]);

async function read(
  { client, signal }: ExploreOptions,
  kind: ListedKind,
  query: Readonly<Record<string, string>>,
): Promise<unknown> {
  const search = new URLSearchParams(query).toString();
  const path = `${COLLECTIONS[kind]}${search === '' ? '' : `?${search}`}`;
  return (await client.request({ method: 'GET', path, lane: 'person', signal })).value;
}

function listSeen(body: unknown, kind: ListedKind, { config }: ExploreOptions): ListSeen {
  try {
    const list = listIn(body, WRAPPERS[kind], (object) => recordIdIn(object, kind, config.idPointers));
    return { ...list, envelope: envelopeOf(body), total: list.meta.total ?? null };
  } catch (error) {
    if (!(error instanceof MalformedAnswer)) throw error;
    throw new MirrorError(
      'no_list',
      `GET ${COLLECTIONS[kind]} answers JSON that is no list: ${error.message}`,
      {
        remedy: 'look at COMPLIANCE_BASE_URL; of this API no other form of a list is known here',
      },
    );
  }
}

function envelopeOf(body: unknown): string {
  if (Array.isArray(body)) return 'the answer itself';
  const { data } = body as { data: unknown };
  if (Array.isArray(data)) return 'in data';
  const [name] = Object.entries(data as JsonObject).find(([, value]) => Array.isArray(value)) ?? [];
  return `in data.${name}`;
}

/** Where the ids of a list's rows are; a new place is put first in `pointers`. */
function pointerOf(
  objects: readonly JsonObject[],
  kind: Kind,
  pointers: Record<Kind, readonly string[]>,
  found: Explored,
): string | null {
  const [first] = objects;
  if (first === undefined) return null;
  const known = pointers[kind].find((path) => fits(path));
  if (known !== undefined) return known;
  const learned = idCandidatesIn(first, kind).find(({ path }) => fits(path))?.path ?? null;
  if (learned !== null) pointers[kind] = [learned, ...pointers[kind]];
  else {
    found.warnings.push(
      `${NAMES[kind]}: no field was found that has another id for each record; set ID_POINTERS_${kind.toUpperCase()} by hand`,
    );
  }
  return learned;

  function fits(path: string): boolean {
    const ids = objects.map((object) => idAt(object, kind, path));
    return ids.every((id) => id !== null) && new Set(ids).size === ids.length;
  }
}

function idAt(object: JsonObject, kind: Kind, path: string): string | null {
  return recordIdIn(object, kind, only(kind, path));
}

function only(kind: Kind, path: string): IdPointers {
  return { policy: [], risk_assessment: [], vendor: [], [kind]: [path] };
}

async function explorePaging(
  options: ExploreOptions,
  lists: readonly (ListSeen & { kind: ListedKind })[],
  pointers: IdPointers,
  paging: ExploreOptions['paging'],
  found: Explored,
): Promise<void> {
  // The longest tells most.
  const [list] = [...lists].sort((a, b) => b.objects.length - a.objects.length);
  if (list === undefined) return;
  const { kind } = list;
  const seenIn = (body: unknown) => {
    const { objects, meta, next } = listSeen(body, kind, options);
    return {
      ids: objects.map((each) => recordIdIn(each, kind, pointers) ?? JSON.stringify(each)),
      meta,
      next,
    };
  };
  const ask: AskPage = async (query) => {
    try {
      return seenIn(await read(options, kind, query));
    } catch (error) {
      const isRefusal =
        error instanceof UpstreamError &&
        error.status !== null &&
        error.status < 500 &&
        !NOT_THE_QUERY.has(error.kind);
      if (isRefusal || (error instanceof MirrorError && error.code === 'no_list')) return null;
      throw error;
    }
  };
  const { settings, says, isStrange } = await findPaging(ask, paging, list.objects.length);
  Object.assign(found.settings, settings);
  if (isStrange) found.warnings.push(`Paging: ${says}`);
  else found.says.push(`Paging: ${says}`);
}

const NOT_THE_QUERY: ReadonlySet<string> = new Set([
  'unauthorized',
  'forbidden',
  'rate_limited',
  'malformed',
]);

async function exploreRecord(
  { client, signal }: ExploreOptions,
  kind: FetchedKind,
  id: string,
  pointers: Record<Kind, readonly string[]>,
  found: Explored,
): Promise<void> {
  const route = `GET ${COLLECTIONS[kind]}/{id}`;
  const warn = (why: string) => found.warnings.push(`${NAMES[kind]}: ${route} for ${id}: ${why}`);
  try {
    const { value } = await client.request({
      method: 'GET',
      path: recordPath(kind, id),
      lane: 'person',
      signal,
    });
    const body = Array.isArray(value) && value.length === 1 ? value[0] : value;
    const idOf = (object: JsonObject) => recordIdIn(object, kind, pointers);
    const object = objectIn(body, WRAPPERS[kind], idOf);
    const answered = idOf(object);
    if (answered !== id) {
      // The very id that was asked for is proof of its place.
      const at = idCandidatesIn(object, kind).find((candidate) => candidate.id === id)?.path;
      if (at !== undefined) pointers[kind] = [at, ...pointers[kind]];
      else if (answered !== null) return void warn(`the answer has another id, ${answered}`);
      else return void found.says.push(`${NAMES[kind]}: ${route} answers, without an id in it`);
    }
    const where = pointers[kind].find((path) => idAt(object, kind, path) === id);
    found.says.push(`${NAMES[kind]}: ${route} answers; its id is at ${where}`);
  } catch (error) {
    if (error instanceof MalformedAnswer) return void warn(error.message);
    if (!(error instanceof MirrorError)) throw error;
    if (error instanceof UpstreamError && error.retryable) throw error;
    warn(`${error.message}${error.remedy === undefined ? '' : ` (${error.remedy})`}`);
  }
}
