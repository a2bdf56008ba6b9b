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

const USUAL_PARAMS = ['page', 'pageNumber', 'page_number', 'page[number]', ...OFFSET_PARAMS];

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

/** Why the second page repeats the first, and what to set. Pure. */
export function explainRepeat(
  { ids, meta, next }: SeenPage,
  { pageParam, firstPage }: PagingSettings,
): string {
  const inAll =
    meta.total === undefined
      ? 'and nothing says whether these are all: many services cut a page to this size'
      : `of ${meta.total}`;
  const others = USUAL_PARAMS.filter((param) => param !== pageParam).join(', ');
  const param = `The service ignores “${pageParam}”: set COMPLIANCE_PAGE_PARAM to the parameter in its documentation, such as ${others}`;
  const fromOne =
    firstPage === 0 && !isOffset(pageParam)
      ? '. Or its first page has the number 1: set COMPLIANCE_FIRST_PAGE=1'
      : '';
  const cursor =
    next === null
      ? ''
      : `. Its field “${next}” says how the list goes on, but paging by cursors or links is not supported`;
  return `the second page shows the same ${ids.length} records as the first, ${inAll}. ${param}${fromOne}${cursor}`;
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
