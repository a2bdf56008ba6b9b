import { isDeepStrictEqual } from 'node:util';
import { getHeapStatistics } from 'node:v8';
import { crc32 } from 'node:zlib';
import type { Lane } from '../compliance/budget.ts';
import { idCandidatesIn } from '../compliance/candidates.ts';
import type { Page } from '../compliance/client.ts';
import { isUnreadable, UpstreamError } from '../compliance/errors.ts';
import type { Kind, ListedKind } from '../compliance/kinds.ts';
import {
  type AskForPage,
  explainBefore,
  explainRepeat,
  isOffset,
  isWholeList,
  type SeenPage,
} from '../compliance/paging.ts';
import {
  type IdPointers,
  isMarkedDeleted,
  type JsonObject,
  pointersSettingOf,
  recordIdIn,
  whyNoId,
} from '../compliance/pointers.ts';
import { listed, MirrorError } from '../platform/errors.ts';
import type { ReadMoment, ReadObject, Verbs } from '../store/store.ts';
import { type Context, READ_TRIES } from './context.ts';
import type { Upstream } from './upstream.ts';

/** For a page that need not exist. Few, because several failures in a row make all other requests wait. */
const TRIES_PER_EXTRA_PAGE = 2;

/** No service lists more. Without a limit, a list that repeats its pages in turn would be read for ever. */
const PAGES_MAX = 200_000;

export interface ListPage {
  objects: ReadObject[];
  /** Ids of rows that say that their records are deleted. */
  gone: string[];
  meta: Page['meta'];
  read: ReadMoment;
  /** How old the answer was. Milliseconds. */
  agedMs: number;
}

/** A list that is refused after so many records may go on: services show no more than this of one search. */
const WINDOWS: ReadonlySet<number> = new Set([1_000, 5_000, 10_000]);

/** The part of the heap that the ids of one list may take, and what one takes besides its characters: it stands in several sets. */
const HEAP_SHARE_OF_IDS = 1 / 4;
const BYTES_OF_ID = 400;

/**
 * The ids of a list so far, each with a checksum of its first row if the list has no total; otherwise null. Of two different rows, one
 * pair in four thousand million has the same checksum, and is not noticed. SHA-1 beside a set of the ids took 49 MB for 500,000
 * records; this takes 15.
 */
type Seen = Map<string, number | null>;

export interface PagesRequest {
  kind: ListedKind;
  lane: Lane;
  /** The counter when the scan began. */
  since: number;
}

/**
 * Reads a list page by page, including the empty page that ends it. Once as many records were seen as the list's total says, a
 * 404, a 400, or a page that repeats the one before or the first ends it too: a service without pages repeats the first.
 * Throws UpstreamError for a page that keeps failing, and MirrorError: `paging` (its message names the setting that does not
 * fit), `page_repeated`, `endless_list`, or `malformed_page`. If a row has no usable id, or two records have one id,
 * the other pages are still read, and `malformed_page` is thrown at the end.
 */
export function createPages(
  options: Pick<Context, 'pointers' | 'paging'> & {
    upstream: Pick<Upstream, 'page'>;
    store: Pick<Verbs, 'announced'>;
    /** Bytes that ids may take. */
    idBytesMax?: number;
  },
) {
  const { upstream, paging } = options;
  const idBytesMax = options.idBytesMax ?? getHeapStatistics().heap_size_limit * HEAP_SHARE_OF_IDS;
  const byOffset = isOffset(paging.pageParam);
  /** In the last whole reading of each kind's list, if it has no total: ids on several pages with other rows, and checksums of two of them. */
  const clashesOf = new Map<Kind, ReadonlyMap<string, string>>();

  /**
   * A list that moves may show a record twice, before and after a change. One that shows the same two rows in two list scans has two
   * records with one id, and the second row would silently overwrite the first.
   */
  function checkClashes(kind: Kind, clashes: ReadonlyMap<string, string>): void {
    const before = clashesOf.get(kind);
    clashesOf.set(kind, clashes);
    const id = [...clashes.keys()].find((each) => clashes.get(each) === before?.get(each));
    if (id === undefined) return;
    throw malformed(
      `two different rows of the list have the id ${JSON.stringify(id)}, so it is not the id of a ${kind}; set ${pointersSettingOf(kind)} to where the service keeps it`,
    );
  }

  const seenIn = ({ kind }: PagesRequest, answer: Page): SeenPage => ({
    ids: answer.objects.flatMap((object) => recordIdIn(object, kind, options.pointers) ?? []),
    meta: answer.meta,
    next: answer.next,
  });

  /** For pages that are read only to examine the paging. Null: the service has no such page. */
  function extraPagesOf(request: PagesRequest): AskForPage {
    return async (page, query) => {
      try {
        const how = { query: query ?? undefined, tries: TRIES_PER_EXTRA_PAGE };
        const { answer } = await upstream.page(request.kind, page, request.lane, how);
        return seenIn(request, answer);
      } catch (error) {
        // Some services answer 5xx for page 0.
        const isNone = error instanceof UpstreamError && (isUnreadable(error) || error.kind === 'server');
        if (isNone) return null;
        throw error;
      }
    };
  }

  /** A list read from its second page on looks like a whole one. Throws if the page before the first holds records of it. */
  async function checkFirstPage(request: PagesRequest, first: SeenPage, seen: Pick<Seen, 'has'>) {
    const earlier = await extraPagesOf(request)(paging.firstPage - 1, null);
    const finding = explainBefore(earlier, first, seen, paging);
    if (finding !== null) throw misfit(finding);
  }

  /** Behind the last page the service refuses. That proves no end where it shows only a window of a list, or a living record is missing. */
  async function checkRefusedEnd(
    { kind, since }: PagesRequest,
    seen: Pick<Seen, 'has' | 'size'>,
  ): Promise<void> {
    const announced = await options.store.announced(kind, since);
    const missing = announced.filter((id) => !seen.has(id));
    if (missing.length === 0 && !WINDOWS.has(seen.size)) return;
    const why =
      missing.length > 0 ? `${listed(missing)} of its events are not in it` : 'it may show no more than that';
    throw new MirrorError('refused_end', `after ${seen.size} records the list is refused, and ${why}`);
  }

  return async function* pages(request: PagesRequest): AsyncGenerator<ListPage, void, undefined> {
    // The next page is asked for ahead. Its retries end with the reading.
    let isReading = true;
    let before = '';
    /** The ids of the first page read. Some services begin again behind their last page. */
    let opening: string | null = null;
    let total: number | null = null;
    let first: SeenPage | null = null;
    let offset = 0;
    const seen: Seen = new Map();
    const clashes = new Map<string, string>();
    let wasEmpty = false;
    /** About the first row without a usable id. */
    let firstUnusable: string | null = null;
    let idBytes = 0;
    const isAllSeen = () => seen.size === total;
    const hold = (id: string): void => {
      if (seen.has(id)) return;
      seen.set(id, null);
      idBytes += BYTES_OF_ID + 2 * id.length;
      if (idBytes <= idBytesMax) return;
      throw malformed(`the list has shown ${seen.size} ids, more than the memory of this process is for`);
    };
    const ask = (page: number) => {
      const number = byOffset ? offset : paging.firstPage + page;
      // By its rows and not by their ids: a record that has moved stands on two pages, or was on none.
      const isBehindLast = total !== null && offset >= total;
      const how = { isBehindLast, tries: READ_TRIES, isWanted: () => isReading };
      const asked = upstream.page(request.kind, number, request.lane, how);
      // It may fail while the page before it is still being saved.
      asked.catch(() => undefined);
      return { number, asked };
    };
    try {
      let next = ask(0);
      for (let page = 0; page < PAGES_MAX; page += 1) {
        const { number, asked } = next;
        const { answer, read } = await asked;
        total = answer.meta.total ?? total;
        offset += answer.objects.length;
        const hasRows = answer.objects.length > 0;
        // The next page is asked for before this one is looked at and saved, so that neither the service nor the database waits. The second
        // one may be the whole list once more.
        if (hasRows && page !== 1) next = ask(page + 1);
        const { objects, gone, other } = identify(request.kind, answer, options.pointers);
        const { agedMs = 0 } = answer;
        const isEmpty = objects.length + gone.length === 0;
        const ids = JSON.stringify([...objects.map((object) => object.id), ...gone]);
        const isRepeat = !isEmpty && (ids === before || ids === opening);
        if ((isRepeat || isEmpty) && firstUnusable !== null) throw malformed(firstUnusable);
        if (answer.isRefusal) await checkRefusedEnd(request, seen);
        if (isRepeat) {
          if (page === 1 && first !== null) {
            if (!isWholeList({ ...seenIn(request, answer), next: first.next }, paging)) {
              throw misfit(await explainRepeat(first, paging, extraPagesOf(request)));
            }
          } else if (!isAllSeen()) {
            const earlier = ids === before ? 'the one before it' : 'the first';
            throw new MirrorError('page_repeated', `page ${number} repeats ${earlier}`);
          }
          yield { objects: [], gone: [], meta: answer.meta, read, agedMs };
          return checkClashes(request.kind, clashes);
        }
        before = ids;
        opening ??= ids;
        for (const { id } of objects) hold(id);
        for (const id of gone) hold(id);
        if (other !== null) {
          const where = byOffset ? `the page at offset ${number}` : `page ${number}`;
          firstUnusable ??= `row ${other.row} of ${where}: a ${request.kind} ${other.why}`;
        }
        if (page === 0) first = seenIn(request, answer);
        const isEnd = isEmpty;
        // Some services name a next page behind the last one too, so the page after it decides.
        const { next: says, saysMore } = answer;
        if (isEnd && !wasEmpty && says !== null && (total === null || saysMore)) {
          wasEmpty = true;
          next = ask(page + 1);
          continue;
        }
        if (isEnd && saysMore) {
          const text = `page ${number} is empty, and its field “${says}” says that the list goes on`;
          throw new MirrorError('endless_list', text);
        }
        wasEmpty = false;
        // With a total that fits, nothing can be missing before the first page.
        const mayBeginEarlier = !byOffset && paging.firstPage > 0 && seen.size !== total;
        if (isEnd && first !== null && mayBeginEarlier) await checkFirstPage(request, first, seen);
        if (hasRows && page === 1) next = ask(page + 1);
        if (total === null) noteClashes(objects, seen, clashes);
        yield { objects, gone, meta: answer.meta, read, agedMs };
        if (isEnd) return checkClashes(request.kind, clashes);
      }
      throw new MirrorError('endless_list', `after ${PAGES_MAX} pages the list had not ended`);
    } finally {
      isReading = false;
    }
  };
}

/** Notes the records that were on an earlier page with another row. */
function noteClashes(objects: readonly ReadObject[], seen: Seen, clashes: Map<string, string>): void {
  for (const { id, json } of objects) {
    // As a signed number, which the engine keeps in the map itself.
    const row = crc32(json) | 0;
    const first = seen.get(id) ?? row;
    seen.set(id, first);
    if (first !== row) clashes.set(id, `${first} ${row}`);
  }
}

const misfit = (why: string) => new MirrorError('paging', `the paging does not fit: ${why}`);

/** Why a list that was read to its end is not the whole one; null: nothing in it says so. */
export function contradiction(total: number | null, distinctIds: number, deleted = 0): string | null {
  if (distinctIds === 0 && deleted > 1)
    return `each of the ${deleted} records in the list is marked as deleted: does DELETED_MARKERS fit?`;
  // A total may count records that are shown as deleted, or not.
  if (total === null || total === distinctIds || total === distinctIds + deleted) return null;
  return `the list shows ${distinctIds} records where its total says ${total}`;
}

/** The rows with their ids, and the first row without a usable id, counted from 1. Throws if all rows are without. */
function identify(
  kind: ListedKind,
  { objects: page, unusable }: Page,
  pointers: IdPointers,
): { objects: ReadObject[]; gone: string[]; other: { row: number; why: string } | null } {
  const rows = new Map<string, JsonObject>();
  const objects: ReadObject[] = [];
  const gone: string[] = [];
  let other: { row: number; why: string } | null = null;
  for (const [index, data] of page.entries()) {
    const id = recordIdIn(data, kind, pointers);
    if (id === null) {
      other ??= { row: index + 1, why: unusable.get(index) ?? whyNoId(data, kind, pointers) };
      continue;
    }
    const same = rows.get(id);
    // Otherwise one row would silently overwrite the other.
    if (same !== undefined && !isDeepStrictEqual(same, data)) {
      throw malformed(
        `two different rows of one page have the id ${JSON.stringify(id)}, so it is not the id of a ${kind}; ${whereIdsMayBe(kind, page, pointers)}`,
      );
    }
    rows.set(id, data);
    if (isMarkedDeleted(data, pointers)) gone.push(id);
    else objects.push({ id, json: JSON.stringify(data) });
  }
  if (other !== null && objects.length + gone.length === 0) {
    throw malformed(`a ${kind} in the list ${other.why}; ${whereIdsMayBe(kind, page, pointers)}`);
  }
  return { objects, gone, other };
}

const malformed = (text: string) => new MirrorError('malformed_page', text);

/** For rows in which the pointers find no id: the likeliest path at which every row has a value of its own. */
function whereIdsMayBe(kind: ListedKind, objects: readonly JsonObject[], pointers: IdPointers): string {
  const idsIn = objects.map(
    (object) => new Map(idCandidatesIn(object, kind).map(({ path, id }) => [path, id])),
  );
  const path = [...(idsIn[0]?.keys() ?? [])].find(
    (each) =>
      idsIn.every((ids) => ids.has(each)) && new Set(idsIn.map((ids) => ids.get(each))).size === idsIn.length,
  );
  if (path === undefined) return `set ${pointersSettingOf(kind)} to where the service keeps it`;
  const others = pointers[kind].filter((pointer) => pointer !== path);
  return `each has a value of its own at ${path}: set ${pointersSettingOf(kind)}=${[path, ...others].join(',')}`;
}
