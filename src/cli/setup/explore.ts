import { idCandidatesIn } from '../../compliance/candidates.ts';
import { COLLECTIONS, type ComplianceClient, recordPath } from '../../compliance/client.ts';
import { listIn, MalformedAnswer, objectIn, WRAPPERS } from '../../compliance/envelope.ts';
import { UpstreamError } from '../../compliance/errors.ts';
import { type FetchedKind, KINDS, type Kind, type ListedKind } from '../../compliance/kinds.ts';
import {
  examinePaging,
  findingText,
  isOffset,
  type PagingSettings,
  type SeenPage,
} from '../../compliance/paging.ts';
import { type JsonObject, recordIdIn } from '../../compliance/pointers.ts';
import { kindPlural, sentenceCase } from '../../ops/words.ts';
import type { Config } from '../../platform/config.ts';
import { MirrorError } from '../../platform/errors.ts';

interface ExploreOptions {
  client: Pick<ComplianceClient, 'request'>;
  config: Pick<Config, 'idPointers'>;
  paging: NonNullable<Config['compliance']>['paging'];
  /** The id of an existing risk assessment; null: none is known. */
  riskId: string | null;
  signal: AbortSignal;
}

const nameOf = (kind: Kind) => sentenceCase(kindPlural(kind));

type ListSeen = ReturnType<typeof listIn> & { kind: ListedKind; body: unknown };

/**
 * Reads the first pages of both lists, and one vendor and one assessment by their ids, and finds the settings that they need.
 * Rejects with UpstreamError if a list cannot be read, and with MirrorError (`no_list`) if the answer is no list.
 */
export async function explore({ client, config, paging, riskId, signal }: ExploreOptions) {
  const found = {
    /** Lines that say what was seen. */
    says: [] as string[],
    /** Lines that say what this version cannot use or could not look at. */
    warnings: [] as string[],
    /** New values of settings, proven by what was read. */
    settings: {} as Record<string, string>,
  };
  const pointers: Record<Kind, readonly string[]> = { ...config.idPointers };

  const lists = [await readList('policy'), await readList('vendor')] as const;
  for (const list of lists) {
    const { kind, objects, meta, body } = list;
    const at = pointerOf(list);
    const count = `${objects.length} on the first page${meta.total === undefined ? '' : `, ${meta.total} in all`}`;
    const form =
      objects.length === 0
        ? 'no record to look at'
        : `the list is ${envelopeOf(body)}; ids at ${at ?? 'no place that was found'}`;
    found.says.push(`${nameOf(kind)}: ${count}; ${form}`);
  }
  await explorePaging();
  const [vendor] = lists[1].objects;
  const vendorId = vendor === undefined ? null : recordIdIn(vendor, 'vendor', pointers);
  if (vendorId !== null) await exploreRecord('vendor', vendorId);
  if (riskId !== null) await exploreRecord('risk_assessment', riskId);
  else {
    found.warnings.push(
      'Risk assessments cannot be listed, and no id was given: where their ids stand is found out when the first event names one',
    );
  }
  for (const kind of KINDS) {
    if (pointers[kind] === config.idPointers[kind]) continue;
    found.settings[`ID_POINTERS_${kind.toUpperCase()}`] = pointers[kind].join(',');
  }
  return found;

  async function get(path: string): Promise<unknown> {
    return (await client.request({ method: 'GET', path, lane: 'person', signal })).value;
  }

  async function listBy(kind: ListedKind, query: Readonly<Record<string, string>>): Promise<ListSeen> {
    const search = new URLSearchParams(query).toString();
    const body = await get(`${COLLECTIONS[kind]}${search === '' ? '' : `?${search}`}`);
    try {
      const list = listIn(body, WRAPPERS[kind], (object) => recordIdIn(object, kind, config.idPointers));
      return { ...list, kind, body };
    } catch (error) {
      if (!(error instanceof MalformedAnswer)) throw error;
      const what = `GET ${COLLECTIONS[kind]} answers JSON that is no list: ${error.message}`;
      throw new MirrorError('no_list', what, {
        remedy: 'look at COMPLIANCE_BASE_URL; of this API no other form of a list is known here',
      });
    }
  }

  async function readList(kind: ListedKind): Promise<ListSeen> {
    const { pageParam, perPageParam, firstPage, pageSize } = paging;
    try {
      const query = { [pageParam]: String(firstPage), [perPageParam]: String(pageSize) };
      const seen = await listBy(kind, query);
      // If the service counts pages from 0, this may have been the second one.
      return seen.objects.length > 0 ? seen : await listBy(kind, {});
    } catch (error) {
      // A service may reject parameters that it does not know. `explorePaging` finds out which ones it knows.
      const isRefused = error instanceof UpstreamError && QUERY_REFUSED.has(error.status ?? 0);
      if (!isRefused) throw error;
      return await listBy(kind, {});
    }
  }

  /** The pointer that finds the ids of a list's rows. A new one is put first in `pointers`. */
  function pointerOf({ objects, kind }: ListSeen): string | null {
    const [first] = objects;
    if (first === undefined) return null;
    const fits = (path: string) => {
      const ids = objects.map((object) => idAt(object, kind, path));
      return ids.every((id) => id !== null) && new Set(ids).size === ids.length;
    };
    const known = pointers[kind].find(fits);
    if (known !== undefined) return known;
    const learned = idCandidatesIn(first, kind).find(({ path }) => fits(path))?.path;
    if (learned !== undefined) pointers[kind] = [learned, ...pointers[kind]];
    else {
      found.warnings.push(
        `${nameOf(kind)}: no field was found that has another id for each record; set ID_POINTERS_${kind.toUpperCase()} by hand`,
      );
    }
    return learned ?? null;
  }

  async function explorePaging(): Promise<void> {
    // The longer list shows more.
    const { kind, objects } = lists[1].objects.length > lists[0].objects.length ? lists[1] : lists[0];
    const idOf = (object: JsonObject) => recordIdIn(object, kind, pointers) ?? JSON.stringify(object);
    const ask: AskPage = async (query) => {
      try {
        const { objects, meta, next } = await listBy(kind, query);
        return { ids: objects.map(idOf), meta, next };
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
    const { settings, says, isStrange } = await findPaging(ask, paging, objects.length);
    Object.assign(found.settings, settings);
    (isStrange ? found.warnings : found.says).push(`Paging: ${says}`);
  }

  async function exploreRecord(kind: FetchedKind, id: string): Promise<void> {
    const route = `${nameOf(kind)}: GET ${COLLECTIONS[kind]}/{id}`;
    const warn = (why: string) => void found.warnings.push(`${route} for ${id}: ${why}`);
    try {
      const idOf = (object: JsonObject) => recordIdIn(object, kind, pointers);
      const object = objectIn(await get(recordPath(kind, id)), WRAPPERS[kind], idOf);
      const answered = idOf(object);
      if (answered !== id) {
        // The id that was asked for proves its place.
        const at = idCandidatesIn(object, kind).find((candidate) => candidate.id === id)?.path;
        if (at !== undefined) pointers[kind] = [at, ...pointers[kind]];
        else if (answered !== null) return warn(`the answer has another id, ${answered}`);
        else return void found.says.push(`${route} answers, without an id in it`);
      }
      const where = pointers[kind].find((path) => idAt(object, kind, path) === id);
      found.says.push(`${route} answers; its id is at ${where}`);
    } catch (error) {
      if (error instanceof MalformedAnswer) return warn(error.message);
      if (!(error instanceof MirrorError)) throw error;
      if (error instanceof UpstreamError && error.retryable) throw error;
      warn(`${error.message}${error.remedy === undefined ? '' : ` (${error.remedy})`}`);
    }
  }
}

const QUERY_REFUSED: ReadonlySet<number> = new Set([400, 422]);
const NOT_THE_QUERY: ReadonlySet<string> = new Set([
  'unauthorized',
  'forbidden',
  'rate_limited',
  'malformed',
]);

function envelopeOf(body: unknown): string {
  if (Array.isArray(body)) return 'the answer itself';
  const { data } = body as { data: unknown };
  if (Array.isArray(data)) return 'in data';
  const [name] = Object.entries(data as JsonObject).find(([, value]) => Array.isArray(value)) ?? [];
  return `in data.${name}`;
}

function idAt(object: JsonObject, kind: Kind, path: string): string | null {
  return recordIdIn(object, kind, { policy: [], risk_assessment: [], vendor: [], [kind]: [path] });
}

/** Asks for one page with these parameters; null: the service rejects them. */
export type AskPage = (query: Readonly<Record<string, string>>) => Promise<SeenPage | null>;

/** Usual names of the page size. The configured name is tried before them. */
const SIZE_NAMES = ['perPage', 'per_page', 'limit', 'pageSize', 'page_size', 'size', 'count', 'page[size]'];

/** The first look can find the page's name, the second its first number, and the third that everything fits. */
const LOOKS = 3;

/**
 * Finds out how a list is paged. First it asks for pages of one record under each name of the page size, until one has an effect.
 * Then it examines the pages as `doctor` does. `shown`: records on the first page. Resolves with the settings to change, with a
 * sentence, and with whether no setting fits.
 */
export async function findPaging(ask: AskPage, set: PagingSettings, shown: number) {
  const settings: Record<string, string> = {};
  if (shown < 2) return { settings, says: 'too few records to see how it is paged', isStrange: false };
  const sized = await sizeParameter(ask, set.perPageParam);
  let paging: PagingSettings = sized === null ? set : { ...set, perPageParam: sized, pageSize: 1 };
  if (sized !== null && sized !== set.perPageParam) settings['COMPLIANCE_PER_PAGE_PARAM'] = sized;
  for (let look = 0; look < LOOKS; look += 1) {
    const { pageParam, perPageParam, pageSize } = paging;
    const size = { [perPageParam]: String(pageSize) };
    // A service that rejects an unknown parameter is treated like one that ignores it.
    const asked = async (query: Readonly<Record<string, string>>) =>
      (await ask(query)) ?? (await ask(sized === null ? {} : size));
    const finding = await examinePaging(paging, (page, query) =>
      asked(query ?? { [pageParam]: String(page), ...size }),
    );
    if (finding === null) break;
    if (finding.set === null) return { settings, says: findingText(finding), isStrange: true };
    const { name, value } = finding.set;
    settings[name] = value;
    paging =
      name === 'COMPLIANCE_PAGE_PARAM'
        ? { ...paging, pageParam: value }
        : { ...paging, firstPage: Number(value) };
  }
  const from = isOffset(paging.pageParam) ? 'records are left out by' : `from ${paging.firstPage} on by`;
  const size = sized === null ? 'the size of a page is the service’s own' : `their size is ${sized}`;
  return { settings, says: `pages ${from} ${paging.pageParam}; ${size}`, isStrange: false };
}

async function sizeParameter(ask: AskPage, configured: string): Promise<string | null> {
  for (const name of new Set([configured, ...SIZE_NAMES])) {
    if ((await ask({ [name]: '1' }))?.ids.length === 1) return name;
  }
  return null;
}
