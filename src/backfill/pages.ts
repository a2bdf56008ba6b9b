import { isDeepStrictEqual } from 'node:util';
import type { Lane } from '../compliance/budget.ts';
import { idCandidatesIn } from '../compliance/candidates.ts';
import type { Page } from '../compliance/client.ts';
import { isUnreadable, UpstreamError } from '../compliance/errors.ts';
import type { ListedKind } from '../compliance/kinds.ts';
import {
  type AskForPage,
  explainBefore,
  explainRepeat,
  findingText,
  isOffset,
  isWholeList,
  type PagingFinding,
  type SeenPage,
} from '../compliance/paging.ts';
import {
  type IdPointers,
  type JsonObject,
  pointersSettingOf,
  recordIdIn,
  whyNoId,
} from '../compliance/pointers.ts';
import { MirrorError } from '../platform/errors.ts';
import type { ReadMoment, ReadObject } from '../store/store.ts';
import type { Context } from './context.ts';
import { retried, type Upstream } from './upstream.ts';

/** A page that fails is asked for this often in all; then the reading ends and proves nothing. */
const TRIES_PER_PAGE = 4;

/** A page that need not be there: fewer, since all other requests wait when several in a row bring nothing. */
const TRIES_OUT_OF_CURIOSITY = 2;

/** No service lists more: a paging parameter that it ignores would otherwise be read for ever. */
const PAGES_MAX = 200_000;

export interface ListPage {
  objects: ReadObject[];
  meta: Page['meta'];
  read: ReadMoment;
}

export interface PagesRequest {
  kind: ListedKind;
  lane: Lane;
  /** Pages to leave out from the front. */
  skip: number;
}

/**
 * The pages of a list one after another, the empty one that ends it included. Once all is seen that the list says it
 * holds, a 404 or a 400 counts as one, and so does a page that repeats the one before, as the first does from a service
 * without pages. Throws UpstreamError for a page that goes on failing, and MirrorError (`page_repeated`, `malformed_page`,
 * `endless_list`, `list_moved`) for one that no list has, or `paging`, whose message says which setting does not fit. Where
 * a row had no usable id, `malformed_page` comes in the place of the end.
 */
export function createPages(
  options: Pick<Context, 'clock' | 'pointers' | 'paging' | 'random' | 'signal'> & {
    upstream: Pick<Upstream, 'page'>;
  },
) {
  const { upstream, paging } = options;

  const byOffset = isOffset(paging.pageParam);

  const seenIn = ({ kind }: PagesRequest, answer: Page): SeenPage => ({
    ids: answer.objects.flatMap((object) => recordIdIn(object, kind, options.pointers) ?? []),
    meta: answer.meta,
    next: answer.next,
  });

  /** A page that nothing but curiosity asks for; null: the service has no such page. */
  function askWith(request: PagesRequest): AskForPage {
    return async (page, query) => {
      try {
        const how = query === null ? {} : { query };
        const askOnce = () => upstream.page(request.kind, page, request.lane, how);
        const { answer } = await retried(askOnce, options, TRIES_OUT_OF_CURIOSITY);
        return seenIn(request, answer);
      } catch (error) {
        // There are services that fail at a page of the number 0.
        const isNone = error instanceof UpstreamError && (isUnreadable(error) || error.kind === 'server');
        if (isNone) return null;
        throw error;
      }
    };
  }

  return async function* pages(request: PagesRequest): AsyncGenerator<ListPage, void, undefined> {
    let isReading = true;
    try {
      yield* pagesOf(request, () => isReading);
    } finally {
      isReading = false;
    }
  };

  async function* pagesOf(request: PagesRequest, isReading: () => boolean) {
    let before = '';
    let total: number | null = null;
    let first: SeenPage | null = null;
    let offset = request.skip * paging.pageSize;
    const seen = new Set<string>();
    /** Rows that have no usable id: how many, and which the first is. */
    let unusable = 0;
    let firstUnusable: string | null = null;
    const isAllSeen = () => request.skip === 0 && seen.size > 0 && seen.size + unusable === total;
    const ask = (page: number) => {
      const number = byOffset ? offset : paging.firstPage + page;
      // By its rows and not by their ids: a record that has moved stands on two pages, or was on none.
      const how = { isBehindLast: request.skip === 0 && offset > 0 && total !== null && offset >= total };
      const askOnce = () => upstream.page(request.kind, number, request.lane, how);
      const asked = retried(askOnce, options, TRIES_PER_PAGE, isReading);
      // It may fail before anybody waits for it.
      asked.catch(() => undefined);
      return { number, asked };
    };
    let next = ask(request.skip);
    for (let page = request.skip; page < PAGES_MAX; page += 1) {
      const { number, asked } = next;
      const { answer, read } = await asked;
      const { objects, others } = identify(request.kind, answer, options.pointers);
      const ids = JSON.stringify(objects.map((object) => object.id));
      const isRepeat = objects.length > 0 && ids === before;
      if ((isRepeat || objects.length === 0) && firstUnusable !== null) throw malformed(firstUnusable);
      total = answer.meta.total ?? total;
      if (isRepeat) {
        if (page === 1 && first !== null) {
          if (!isWholeList({ ...seenIn(request, answer), next: first.next }, paging)) {
            throw misfit(await explainRepeat(first, paging, askWith(request)));
          }
        } else if (!isAllSeen()) {
          throw new MirrorError('page_repeated', `page ${number} repeats the one before it`);
        }
        yield { objects: [], meta: answer.meta, read };
        return;
      }
      before = ids;
      for (const { id } of objects) seen.add(id);
      unusable += others.length;
      const [other] = others;
      if (other !== undefined) {
        const where = byOffset ? `the page at offset ${number}` : `page ${number}`;
        firstUnusable ??= `row ${other.row} of ${where}: a ${request.kind} ${other.why}`;
      }
      if (page === 0) first = seenIn(request, answer);
      offset += answer.objects.length;
      if (
        objects.length === 0 &&
        first !== null &&
        !byOffset &&
        paging.firstPage > 0 &&
        seen.size !== total
      ) {
        // Read from its second page on, a list looks like a whole one, unless it says how many it holds.
        const earlier = await askWith(request)(paging.firstPage - 1, null);
        const finding = explainBefore(earlier, first, seen, paging);
        // It may be the first page itself, if all of that is new.
        const again = finding === null ? null : await askWith(request)(paging.firstPage, null);
        if (again !== null && explainBefore(earlier, again, seen, paging) === null)
          throw new MirrorError('list_moved', 'the list changes too fast to show all that it holds');
        if (finding !== null) throw misfit(finding);
      }
      // While this one is worked on the next is on its way, so that neither the service nor the database waits for the other.
      if (objects.length > 0 && page + 1 < PAGES_MAX) next = ask(page + 1);
      yield { objects, meta: answer.meta, read };
      if (objects.length === 0) return;
    }
    throw new MirrorError('endless_list', `after ${PAGES_MAX} pages the list had not ended`);
  }
}

function misfit(finding: PagingFinding): MirrorError {
  return new MirrorError('paging', `the paging does not fit: ${findingText(finding)}`);
}

/** What is wrong with a list that was read to its end; null: nothing contradicts that it was the whole one. */
export function contradiction(total: number | null, distinctIds: number): string | null {
  if (total === null || total === distinctIds) return null;
  return `the list shows ${distinctIds} records where its total says ${total}`;
}

/** The rows with their ids, and those that have none that can be used, counted from 1. Where no row has one, it throws. */
function identify(
  kind: ListedKind,
  { objects: page, unusable }: Page,
  pointers: IdPointers,
): { objects: ReadObject[]; others: { row: number; why: string }[] } {
  const rows = new Map<string, JsonObject>();
  const objects: ReadObject[] = [];
  const others: { row: number; why: string }[] = [];
  for (const [index, data] of page.entries()) {
    const id = recordIdIn(data, kind, pointers);
    if (id === null) {
      others.push({ row: index + 1, why: unusable.get(index) ?? whyNoId(data, kind, pointers) });
      continue;
    }
    const same = rows.get(id);
    // One that would be written over the other is lost, and without a total nothing else would tell.
    if (same !== undefined && !isDeepStrictEqual(same, data)) {
      throw malformed(
        `two rows of one page differ and have the id ${JSON.stringify(id)}, so that it is not that of a ${kind}; ${whereIdsMayBe(kind, page, pointers)}`,
      );
    }
    rows.set(id, data);
    objects.push({ id, data });
  }
  const [other] = others;
  if (other !== undefined && objects.length === 0) {
    throw malformed(`a ${kind} in the list ${other.why}; ${whereIdsMayBe(kind, page, pointers)}`);
  }
  return { objects, others };
}

const malformed = (text: string) => new MirrorError('malformed_page', text);

/** The likeliest place in rows that show no id of their own: every row has a value there, and no two the same. */
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
