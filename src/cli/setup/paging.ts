import type { ComplianceSettings } from '../../config.ts';

type Paging = ComplianceSettings['paging'];

/**
 * One page asked for with these parameters: whatever tells its records apart, in order. Null: the service will not have
 * such a question.
 */
export type AskPage = (query: Readonly<Record<string, string>>) => Promise<readonly string[] | null>;

export interface FoundPaging {
  /** Settings as they have to be; empty: as they are. */
  settings: Record<string, string>;
  /** What was seen, in one sentence. */
  says: string;
  /** No setting takes what was seen. */
  isStrange: boolean;
}

/** The names in use elsewhere; the configured ones are tried first. */
const PAGE_NAMES = ['page', 'pageNumber', 'page_number', 'pageIndex', 'p', 'page[number]'] as const;
const SIZE_NAMES = [
  ...['perPage', 'per_page', 'limit', 'pageSize', 'page_size', 'size', 'count', 'page[size]'],
] as const;
/** Parameters that count records and not pages. */
const OFFSET_NAMES = ['offset', 'skip', 'start'] as const;

/**
 * How a list is paged, by proof: one record a page is asked for under each name until one is heeded, then the second
 * page, then the page 0. About five questions where the settings fit, some twenty where nothing does.
 * `first`: the ids of the first page, as asked for with the settings.
 */
export async function findPaging(
  askOnce: AskPage,
  current: Paging,
  first: readonly string[],
): Promise<FoundPaging> {
  if (first.length < 2) {
    return { settings: {}, says: 'too few records to see how it is paged', isStrange: false };
  }
  const answers = new Map<string, ReturnType<AskPage>>();
  const ask: AskPage = (query) => {
    const key = JSON.stringify(query);
    const answer = answers.get(key) ?? askOnce(query);
    answers.set(key, answer);
    return answer;
  };
  const sized = await sizeParameter(ask, current.perPageParam);
  const one: Record<string, string> = sized === null ? {} : { [sized]: '1' };
  const start = sized === null ? first : [first[0]!];
  const paged = await pageParameter(ask, current.pageParam, one, start);
  const settings: Record<string, string> = {};
  if (sized !== null && sized !== current.perPageParam) settings['COMPLIANCE_PER_PAGE_PARAM'] = sized;
  if (paged === null) return await unpaged(ask, one, start, settings, sized);
  if (paged !== current.pageParam) settings['COMPLIANCE_PAGE_PARAM'] = paged;
  const zero = await ask({ ...one, [paged]: '0' });
  const next = await ask({ ...one, [paged]: '1' });
  // A service that counts from 1 refuses 0, or answers it as it does 1.
  const firstPage = zero === null || zero.length === 0 || next === null || isSame(zero, next) ? 1 : 0;
  if (firstPage !== current.firstPage) settings['COMPLIANCE_FIRST_PAGE'] = String(firstPage);
  const size = sized === null ? 'the size of a page is the service’s own' : `its size is ${sized}`;
  return { settings, says: `the page is ${paged}, from ${firstPage} on; ${size}`, isStrange: false };
}

async function sizeParameter(ask: AskPage, configured: string): Promise<string | null> {
  for (const name of new Set([configured, ...SIZE_NAMES])) {
    if ((await ask({ [name]: '1' }))?.length === 1) return name;
  }
  return null;
}

/** Any page but the first will do: which number it has depends on whether 0 is the first. */
async function pageParameter(
  ask: AskPage,
  configured: string,
  one: Readonly<Record<string, string>>,
  start: readonly string[],
): Promise<string | null> {
  for (const name of new Set([configured, ...PAGE_NAMES])) {
    const page = await ask({ ...one, [name]: '1' });
    const later = page !== null && !isSame(page, start) ? page : await ask({ ...one, [name]: '2' });
    if (later !== null && !isSame(later, start)) return name;
  }
  return null;
}

async function unpaged(
  ask: AskPage,
  one: Readonly<Record<string, string>>,
  start: readonly string[],
  settings: Record<string, string>,
  sized: string | null,
): Promise<FoundPaging> {
  for (const name of OFFSET_NAMES) {
    const later = await ask({ ...one, [name]: '1' });
    if (later === null || isSame(later, start)) continue;
    return {
      settings,
      says: `it counts records (${name}) and not pages, which no setting takes`,
      isStrange: true,
    };
  }
  if (sized === null) {
    return { settings, says: 'no paging parameter is heeded: the list comes whole', isStrange: false };
  }
  return { settings, says: 'no page but the first was found under any usual name', isStrange: true };
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((id, index) => id === other[index]);
}
