import type { Meta } from './envelope.ts';

/** How the pages of a list are asked for. */
export interface PagingSettings {
  pageParam: string;
  perPageParam: string;
  /** Not used where pages are asked for by offset. */
  firstPage: number;
  pageSize: number;
}

/** The content of one page of a list. */
export interface SeenPage {
  ids: readonly string[];
  meta: Meta;
  /** The name of the field with a cursor or link to the next page; null: there is none. */
  next: string | null;
}

/** Parameters that count the records to leave out. All others count pages. */
const OFFSET_PARAMS: ReadonlySet<string> = new Set(['offset', 'skip', 'start']);

/** Tried in this order when a service ignores the configured parameter. */
const KNOWN_PARAMS = ['page', 'pageNumber', 'page_number', 'page[number]', ...OFFSET_PARAMS];

/** Page sizes that services use by default. This many records may be only the first page. */
const USUAL_SIZES: ReadonlySet<number> = new Set([10, 20, 25, 30, 40, 50, 100, 200, 250, 500, 1000]);

export function isOffset(pageParam: string): boolean {
  return OFFSET_PARAMS.has(pageParam);
}

/** The parameter's value for the first page. */
export const firstPageOf = ({ pageParam, firstPage }: PagingSettings): number =>
  isOffset(pageParam) ? 0 : firstPage;

/** Whether a page that the second one repeats is the whole list of a service without pages. Pure. */
export function isWholeList({ ids, meta, next }: SeenPage, asked: PagingSettings): boolean {
  const distinct = new Set(ids).size;
  if (meta.total !== undefined) return meta.total === distinct;
  if (next !== null || distinct !== ids.length) return false;
  // With one of these sizes, the service may have cut the list.
  return distinct !== asked.pageSize && distinct !== meta.perPage && !USUAL_SIZES.has(distinct);
}

/** Asks for one page, with these parameters or the configured ones. Null: the answer is no list. */
export type AskForPage = (page: number, query: Record<string, string> | null) => Promise<SeenPage | null>;

type Attempt = [page: number, query: Record<string, string> | null, proven: string];

/** After this many failures in a row, no other parameter is tried. */
const FAILURES_MAX = 2;

/**
 * Why the second page repeats the first, and what to set. Tries other parameters with one request each. A parameter is proven if it shows
 * records that the first page did not show, while the configured second page still repeats the first.
 */
export async function explainRepeat(
  first: SeenPage,
  asked: PagingSettings,
  ask: AskForPage,
): Promise<string> {
  const { pageParam, perPageParam, firstPage, pageSize } = asked;
  const seen = new Set(first.ids);
  const second = isOffset(pageParam) ? seen.size : firstPage + 1;
  const sameFromZero =
    'pages 0 and 1 are the same, and page 2 is different: the first page of this list has the number 1; set COMPLIANCE_FIRST_PAGE=1';
  const attempts: Attempt[] = [
    ...(firstPage === 0 && !isOffset(pageParam) ? [[2, null, sameFromZero] satisfies Attempt] : []),
    ...KNOWN_PARAMS.filter((param) => param !== pageParam).map((param) => {
      const page = isOffset(param) ? seen.size : 2;
      const query = { [param]: String(page), [perPageParam]: String(pageSize) };
      const proven = `the service ignores “${pageParam}”, and “${param}=${page}” shows the next records; set COMPLIANCE_PAGE_PARAM=${param}`;
      return [page, query, proven] satisfies Attempt;
    }),
  ];
  let failures = 0;
  for (const [page, query, proven] of attempts) {
    const shown = await ask(page, query);
    // A failure of the first attempt, page 2, says nothing about other parameters.
    if (query !== null) failures = shown === null ? failures + 1 : 0;
    if (failures >= FAILURES_MAX) break;
    if (shown === null || shown.ids.length === 0 || shown.ids.some((id) => seen.has(id))) continue;
    const again = await ask(second, null);
    if (again?.ids.every((id) => seen.has(id))) return proven;
  }
  const shown = `the second page shows the same ${first.ids.length} records as the first`;
  if (first.next !== null)
    return `${shown}, and its field “${first.next}” says how the list goes on: paging by cursors or links is not supported`;
  const inAll =
    first.meta.total === undefined
      ? 'and nothing says whether these are all: many services cut a page to this size'
      : `of ${first.meta.total}`;
  return `${shown}, ${inAll}. The service ignores “${pageParam}”, and none of ${KNOWN_PARAMS.join(', ')} helps. Set COMPLIANCE_PAGE_PARAM to the parameter in its documentation`;
}

/** What to set if the page `before` the first shows records which are not in the list as read; null: it does not. Pure. */
export function explainBefore(
  before: SeenPage | null,
  first: SeenPage,
  seen: Pick<ReadonlySet<string>, 'has'>,
  { firstPage }: PagingSettings,
): string | null {
  if (before === null || before.ids.every((id) => seen.has(id))) return null;
  // Some services answer a number below their first page with the first page, which may have a new record by now.
  if (before.ids.some((id) => first.ids.includes(id))) return null;
  const number = firstPage - 1;
  return `page ${number} shows ${before.ids.length} records that are on no page from ${firstPage} on; set COMPLIANCE_FIRST_PAGE=${number}`;
}
