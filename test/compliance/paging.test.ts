import { expect, it } from 'vitest';
import {
  explainBefore,
  explainRepeat,
  isWholeList,
  type PagingSettings,
  type SeenPage,
} from '../../src/compliance/paging.ts';

const SETTINGS: PagingSettings = { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 };
const RECORDS = Array.from({ length: 260 }, (_, index) => `r${index}`);

it.each<[string, Partial<SeenPage>, Partial<PagingSettings>, RegExp]>([
  ['a total of more', { meta: { total: 260 } }, {}, /same 50 records as the first, of 260\. .*“page”/],
  ['no total', {}, {}, /nothing says whether these are all.* COMPLIANCE_PAGE_PARAM .* such as pageNumber/],
  ['an offset that is ignored', {}, { pageParam: 'offset' }, /ignores “offset”.* such as page, .*skip/],
  ['pages counted from 0', {}, { firstPage: 0 }, /set COMPLIANCE_FIRST_PAGE=1/],
  ['a cursor', { next: 'meta.cursor' }, {}, /“meta\.cursor”.* cursors or links is not supported/],
])('a second page that repeats the first, with %s, is explained', (_what, page, settings, expected) => {
  const first = { ids: RECORDS.slice(0, 50), meta: {}, next: null, ...page };
  expect(explainRepeat(first, { ...SETTINGS, ...settings })).toMatch(expected);
});

it.each<[string, readonly string[] | null, string | null]>([
  ['is none', null, null],
  ['shows what other pages showed', RECORDS.slice(50, 100), null],
  ['shows the first page once more, with a new record', ['new', ...RECORDS.slice(0, 49)], null],
  ['shows records of its own', ['x', 'y'], 'COMPLIANCE_FIRST_PAGE=0'],
])('a page before the first that %s', (_what, ids, setting) => {
  const first = { ids: RECORDS.slice(0, 50), meta: {}, next: null };
  const before = ids === null ? null : { ...first, ids };
  const finding = explainBefore(before, first, new Set(RECORDS), SETTINGS);
  if (setting === null) expect(finding).toBeNull();
  else expect(finding).toContain(setting);
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
