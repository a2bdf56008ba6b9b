import type { Meta } from './envelope.ts';

/** How a list is asked for in pages. */
export interface PagingSettings {
  pageParam: string;
  perPageParam: string;
  /** Not used where pages are asked for by offset. */
  firstPage: number;
  pageSize: number;
}

/** What one page of a list showed. */
export interface SeenPage {
  ids: readonly string[];
  meta: Meta;
  /** The field that says where the list goes on, by its name; null: none does. */
  next: string | null;
}

/** What does not fit in the paging settings. */
export interface PagingFinding {
  /** What to set, proven by a request; null: no setting that was tried helps. */
  set: { name: string; value: string } | null;
  sentence: string;
}

/** Parameters that count records to leave out, where others count pages. */
const OFFSET_PARAMS: ReadonlySet<string> = new Set(['offset', 'skip', 'start']);

/** Tried in this order where a service ignores the one that is set. */
const KNOWN_PARAMS = ['page', 'pageNumber', 'page_number', 'page[number]', ...OFFSET_PARAMS];

/** Page sizes that services choose by themselves: this many records may be all, or only the first page. */
const USUAL_SIZES: ReadonlySet<number> = new Set([10, 20, 25, 30, 40, 50, 100, 200, 250, 500, 1000]);

export function isOffset(pageParam: string): boolean {
  return OFFSET_PARAMS.has(pageParam);
}

/** The number by which the first page of a list is asked for. */
export const firstPageOf = ({ pageParam, firstPage }: PagingSettings): number =>
  isOffset(pageParam) ? 0 : firstPage;

/** The second page was the same: whether it is the whole list of a service without pages. Pure. */
export function isWholeList({ ids, meta, next }: SeenPage, asked: PagingSettings): boolean {
  const distinct = new Set(ids).size;
  if (meta.total !== undefined) return meta.total === distinct;
  if (next !== null || distinct !== ids.length) return false;
  // A service that cuts its only page to a size would look the same.
  return distinct !== asked.pageSize && distinct !== meta.perPage && !USUAL_SIZES.has(distinct);
}

/** Asks for one page by these parameters; null: it was not answered with a list. */
export type AskForPage = (page: number, query: Record<string, string> | null) => Promise<SeenPage | null>;

/** Failures in a row after which nothing more is tried. */
const FAILURES_MAX = 2;

/**
 * Why the second page was the first one again. Tries other parameters, one request each. One is proven if it shows records that
 * the first page did not show, while the second page as set still repeats the first.
 */
export async function explainRepeat(
  first: SeenPage,
  asked: PagingSettings,
  ask: AskForPage,
): Promise<PagingFinding> {
  const { pageParam, perPageParam, firstPage, pageSize } = asked;
  const seen = new Set(first.ids);
  const second = isOffset(pageParam) ? seen.size : firstPage + 1;
  const sameFromZero =
    'pages 0 and 1 are the same, and page 2 is another: the first page of this list has the number 1';
  const attempts = [
    ...(firstPage === 0 && !isOffset(pageParam)
      ? [{ page: 2, query: null, name: 'COMPLIANCE_FIRST_PAGE', value: '1', sentence: sameFromZero }]
      : []),
    ...KNOWN_PARAMS.filter((param) => param !== pageParam).map((param) => {
      const page = isOffset(param) ? seen.size : 2;
      const query = { [param]: String(page), [perPageParam]: String(pageSize) };
      const sentence = `the service pays no heed to “${pageParam}”, and “${param}=${page}” shows what comes next`;
      return { page, query, name: 'COMPLIANCE_PAGE_PARAM', value: param, sentence };
    }),
  ];
  let failures = 0;
  for (const { page, query, name, value, sentence } of attempts) {
    const shown = await ask(page, query);
    // If page 2 is not answered, the other attempts may still be.
    if (query !== null) failures = shown === null ? failures + 1 : 0;
    if (failures >= FAILURES_MAX) break;
    if (shown === null || shown.ids.length === 0 || shown.ids.some((id) => seen.has(id))) continue;
    const again = await ask(second, null);
    if (again?.ids.every((id) => seen.has(id))) return { set: { name, value }, sentence };
  }
  const shown = `the second page shows the same ${first.ids.length} records as the first`;
  if (first.next !== null) {
    return {
      set: null,
      sentence: `${shown}, and the list goes on by its field “${first.next}”: paging by cursors or links is not supported`,
    };
  }
  const inAll =
    first.meta.total === undefined
      ? 'and nothing says whether that is all of them: so many is what services cut a page to'
      : `of ${first.meta.total}`;
  return {
    set: null,
    sentence: `${shown}, ${inAll}. The service pays no heed to “${pageParam}”; none of ${KNOWN_PARAMS.join(', ')} helps. Set COMPLIANCE_PAGE_PARAM to what its documentation names`,
  };
}

/** Whether the page before the first shows records that a list read to its end did not; null: it does not. Pure. */
export function explainBefore(
  before: SeenPage | null,
  first: SeenPage,
  seen: ReadonlySet<string>,
  { firstPage }: PagingSettings,
): PagingFinding | null {
  if (before === null || before.ids.every((id) => seen.has(id))) return null;
  // A service may answer any number below its first page with the first page, with a new record in it.
  if (before.ids.some((id) => first.ids.includes(id))) return null;
  const number = String(firstPage - 1);
  return {
    set: { name: 'COMPLIANCE_FIRST_PAGE', value: number },
    sentence: `page ${number} shows ${before.ids.length} records that are on no page from ${firstPage} on`,
  };
}

export function findingText({ set, sentence }: PagingFinding): string {
  return set === null ? sentence : `${sentence}; set ${set.name}=${set.value}`;
}

/** A number far behind the last page of any list. */
const FAR_BEHIND = 1_000_000;

/** What does not fit, by the first two pages of a list and the one before them; null: nothing that they show. */
export async function examinePaging(asked: PagingSettings, ask: AskForPage): Promise<PagingFinding | null> {
  const byOffset = isOffset(asked.pageParam);
  const first = await ask(firstPageOf(asked), null);
  if (first === null) return null;
  const second = await ask(byOffset ? first.ids.length : asked.firstPage + 1, null);
  const repeats =
    first.ids.length > 0 && second !== null && JSON.stringify(second.ids) === JSON.stringify(first.ids);
  if (repeats) return isWholeList(first, asked) ? null : await explainRepeat(first, asked, ask);
  if (byOffset || asked.firstPage === 0) return null;
  const seen = new Set([...first.ids, ...(second?.ids ?? [])]);
  const before = await ask(asked.firstPage - 1, null);
  const finding = explainBefore(before, first, seen, asked);
  if (finding === null) return null;
  // A service may answer any number out of range with its last page.
  const last = await ask(FAR_BEHIND, null);
  for (const id of last?.ids ?? []) seen.add(id);
  return explainBefore(before, first, seen, asked);
}
