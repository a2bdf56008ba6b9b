import {
  examinePaging,
  findingText,
  isOffset,
  type PagingSettings,
  type SeenPage,
} from '../../compliance/paging.ts';

/** One page asked for with these parameters; null: the service will not have such a question. */
export type AskPage = (query: Readonly<Record<string, string>>) => Promise<SeenPage | null>;

export interface FoundPaging {
  /** Settings as they have to be; empty: as they are. */
  settings: Record<string, string>;
  /** What was seen, in one sentence. */
  says: string;
  /** No setting takes what was seen. */
  isStrange: boolean;
}

/** What the size of a page is called elsewhere; the configured name is tried first. */
const SIZE_NAMES = [
  ...['perPage', 'per_page', 'limit', 'pageSize', 'page_size', 'size', 'count', 'page[size]'],
] as const;

/** One finding each for the page's name and for its first number, and a look that nothing is left. */
const LOOKS = 3;

/**
 * How a list is paged, by proof: one record a page is asked for under each name until one has an effect, so that a short list
 * tells as much as a long one, and the pages are examined as `doctor` examines them. `shown`: on the first page.
 */
export async function findPaging(ask: AskPage, set: PagingSettings, shown: number): Promise<FoundPaging> {
  if (shown < 2) {
    return { settings: {}, says: 'too few records to see how it is paged', isStrange: false };
  }
  const settings: Record<string, string> = {};
  const sized = await sizeParameter(ask, set.perPageParam);
  let paging: PagingSettings = sized === null ? set : { ...set, perPageParam: sized, pageSize: 1 };
  if (sized !== null && sized !== set.perPageParam) settings['COMPLIANCE_PER_PAGE_PARAM'] = sized;
  for (let look = 0; look < LOOKS; look += 1) {
    const { pageParam, perPageParam, pageSize } = paging;
    const size = { [perPageParam]: String(pageSize) };
    // A service that refuses a parameter that it does not know tells as much as one that ignores it.
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
