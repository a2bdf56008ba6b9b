import { describe, expect, it } from 'vitest';
import {
  type AskForPage,
  explainBefore,
  explainRepeat,
  firstPageOf,
  isOffset,
  isWholeList,
  type PagingSettings,
} from '../../src/compliance/paging.ts';

const SETTINGS: PagingSettings = { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 };
const RECORDS = Array.from({ length: 260 }, (_, index) => `r${index}`);

interface Shape {
  records?: readonly string[];
  /** Which part of the list these parameters ask for: how many to leave out. */
  leavesOut: (given: (name: string) => number | null, size: number) => number;
  size?: number;
  total?: boolean;
  next?: string;
}

/** A service of that shape, asked with these settings. */
function service(
  shape: Shape,
  settings: PagingSettings = SETTINGS,
): { ask: AskForPage; asked: () => number } {
  const { records = RECORDS, size = 50 } = shape;
  let asked = 0;
  return {
    asked: () => asked,
    async ask(page, query) {
      asked += 1;
      const sent = query ?? { [settings.pageParam]: String(page), [settings.perPageParam]: '100' };
      const given = (name: string) => (Object.hasOwn(sent, name) ? Number(sent[name]) : null);
      const from = shape.leavesOut(given, size);
      const meta = shape.total === true ? { total: records.length } : {};
      return { ids: records.slice(from, from + size), meta, next: shape.next ?? null };
    },
  };
}

const byNumber = (name: string, first: number) => (given: (name: string) => number | null, size: number) =>
  Math.max(0, ((given(name) ?? first) - first) * size);
/** As Django has it: 0 is out of range as well. */
const clamped = (first: number) => (given: (name: string) => number | null, size: number) => {
  const last = Math.ceil(RECORDS.length / size) - 1;
  const page = (given('page') ?? first) - first;
  return (page < 0 || page > last ? last : page) * size;
};
const byOffset = (name: string) => (given: (name: string) => number | null) => given(name) ?? 0;

/** As a full sync reads a list. */
async function examine(asked: PagingSettings, ask: AskForPage): Promise<string | null> {
  const first = (await ask(firstPageOf(asked), null))!;
  const seen = new Set(first.ids);
  for (let nth = 1; seen.size > 0; nth += 1) {
    const page = await ask(isOffset(asked.pageParam) ? seen.size : asked.firstPage + nth, null);
    if (nth === 1 && String(page?.ids) === String(first.ids))
      return isWholeList(first, asked) ? null : await explainRepeat(first, asked, ask);
    const before = seen.size;
    for (const id of page?.ids ?? []) seen.add(id);
    if (seen.size === before) break;
  }
  if (isOffset(asked.pageParam) || asked.firstPage === 0) return null;
  return explainBefore(await ask(asked.firstPage - 1, null), first, seen, asked);
}

describe('the first pages of a list', () => {
  it.each<[string, Shape, PagingSettings]>([
    ['pages as they are set', { leavesOut: byNumber('page', 1) }, SETTINGS],
    ['pages from 0, as set', { leavesOut: byNumber('page', 0) }, { ...SETTINGS, firstPage: 0 }],
    ['an offset, as set', { leavesOut: byOffset('offset') }, { ...SETTINGS, pageParam: 'offset' }],
    ['no pages and few records', { records: RECORDS.slice(0, 7), leavesOut: () => 0 }, SETTINGS],
    ['no pages, and a total that fits', { leavesOut: () => 0, size: 260, total: true }, SETTINGS],
    [
      'one page, and none behind it',
      { records: RECORDS.slice(0, 7), leavesOut: byNumber('page', 1) },
      SETTINGS,
    ],
    ['the last page for every number that is none', { leavesOut: clamped(1), total: true }, SETTINGS],
    ['nothing at all', { records: [], leavesOut: byNumber('page', 1) }, SETTINGS],
  ])('say nothing against the settings with %s', async (_what, shape, settings) => {
    expect(await examine(settings, service(shape, settings).ask)).toBeNull();
  });

  it.each<[string, Shape, PagingSettings, string]>([
    ['a first page of 0', { leavesOut: byNumber('page', 0) }, SETTINGS, 'COMPLIANCE_FIRST_PAGE=0'],
    [
      'a first page of 0 and few records',
      { records: RECORDS.slice(0, 7), leavesOut: byNumber('page', 0) },
      SETTINGS,
      'COMPLIANCE_FIRST_PAGE=0',
    ],
    [
      'a first page of 1 where 0 is set',
      { leavesOut: byNumber('page', 1), total: true },
      { ...SETTINGS, firstPage: 0 },
      'COMPLIANCE_FIRST_PAGE=1',
    ],
    [
      'pages by another name',
      { leavesOut: byNumber('pageNumber', 1) },
      SETTINGS,
      'COMPLIANCE_PAGE_PARAM=pageNumber',
    ],
    [
      'pages in brackets',
      { leavesOut: byNumber('page[number]', 1) },
      SETTINGS,
      'COMPLIANCE_PAGE_PARAM=page[number]',
    ],
    ['an offset', { leavesOut: byOffset('offset'), total: true }, SETTINGS, 'COMPLIANCE_PAGE_PARAM=offset'],
    ['records to skip', { leavesOut: byOffset('skip') }, SETTINGS, 'COMPLIANCE_PAGE_PARAM=skip'],
  ])('name the setting and the value with %s', async (_what, shape, settings, expected) => {
    const finding = await examine(settings, service(shape, settings).ask);
    expect(finding).toMatch(new RegExp(`; set ${expected.replace(/[[\]]/g, '\\$&')}$`));
  });

  it.each<[string, Shape, RegExp]>([
    ['cursors', { leavesOut: () => 0, next: 'meta.nextCursor' }, /“meta\.nextCursor”.*not supported/],
    ['no pages and a total of more', { leavesOut: () => 0, total: true }, /same 50 records.*of 260/],
    ['no pages and as many as a page has', { leavesOut: () => 0 }, /nothing says whether these are all/],
  ])('are explained without a setting with %s', async (_what, shape, expected) => {
    const { ask, asked } = service(shape);
    const finding = await examine(SETTINGS, ask);
    expect(finding).toMatch(expected);
    expect(finding).not.toContain('; set ');
    expect(asked()).toBeLessThan(12);
  });

  it('prove nothing where the list was only late to turn its page', async () => {
    let asked = 0;
    const finding = await examine(SETTINGS, async (page) => {
      asked += 1;
      // The second request alone is answered as if it were the first.
      const from = asked === 2 ? 0 : (page - 1) * 50;
      return { ids: RECORDS.slice(from, from + 50), meta: {}, next: null };
    });
    expect(finding).not.toContain('; set ');
  });

  it('are not asked for by guesses that the service refuses, more than twice', async () => {
    let guesses = 0;
    await examine(SETTINGS, async (_page, query) => {
      if (query === null) return { ids: RECORDS.slice(0, 50), meta: {}, next: null };
      guesses += 1;
      return null;
    });
    expect(guesses).toBe(2);
  });
});

it.each<[number, { perPage?: number; total?: number }, string | null, boolean]>([
  [7, {}, null, true],
  [7, {}, 'meta.cursor', false],
  [7, { perPage: 7 }, null, false],
  [7, { total: 7 }, 'links.next', true],
  [7, { total: 8 }, null, false],
  [100, {}, null, false],
  [25, {}, null, false],
  [25, { total: 25 }, null, true],
])('a page of %i that comes twice, with %j and %s, is the whole list: %s', (count, meta, next, expected) => {
  expect(isWholeList({ ids: RECORDS.slice(0, count), meta, next }, SETTINGS)).toBe(expected);
});

it('a page that shows a record twice is no whole list, since the list has moved while it was made', () => {
  const ids = [...RECORDS.slice(0, 9), RECORDS[0]!];
  expect(isWholeList({ ids, meta: {}, next: null }, SETTINGS)).toBe(false);
});
