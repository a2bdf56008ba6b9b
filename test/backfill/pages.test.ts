import { expect, it } from 'vitest';
import { createPages } from '../../src/backfill/pages.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS, type JsonObject } from '../../src/compliance/pointers.ts';

interface Shown {
  ids: readonly string[];
  total: number | null;
  rows?: readonly JsonObject[];
  next?: string;
  saysMore?: true;
  isRefusal?: true;
}

/** How many records each page shows of a list that is read from a service with these answers to its first pages. */
async function read(
  answers: readonly Shown[] | ((page: number) => Shown | undefined),
  shown: number[] = [],
  { announced = [], idBytesMax }: { announced?: string[]; idBytesMax?: number } = {},
) {
  const answerTo = typeof answers === 'function' ? answers : (page: number) => answers[page - 1];
  const pages = createPages({
    store: { announced: async () => announced },
    ...(idBytesMax === undefined ? {} : { idBytesMax }),
    upstream: {
      async page(_kind, page) {
        const { ids, total, rows, next = null, ...more } = answerTo(page) ?? { ids: [], total: null };
        return {
          answer: {
            objects: [...(rows ?? ids.map((id) => ({ id })))],
            meta: total === null ? {} : { total },
            unusable: new Map(),
            next,
            ...more,
            began: { steady: 0, wall: 0 },
            ended: { steady: 0, wall: 0 },
          },
          read: { number: 1, beganAt: 0, endedAt: 0, endedWall: 0 },
        };
      },
    },
    pointers: DEFAULT_ID_POINTERS,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
  });
  for await (const { objects } of pages({ kind: 'vendor', lane: 'scan', since: 0 }))
    shown.push(objects.length);
  return shown;
}

const ALL = ['a', 'b', 'c'];

it('a service that knows no pages answers the whole list each time: its own total says that this is the end', async () => {
  const whole = { ids: ALL, total: 3 };
  expect(await read([whole, whole, whole])).toEqual([3, 0]);
});

it('a service that shows its last page again behind it has ended its list once all is seen that its total names', async () => {
  const clamped = (total: number | null) => [['a', 'b'], ['c'], ['c']].map((ids) => ({ ids, total }));
  expect(await read(clamped(3))).toEqual([2, 1, 0]);
  for (const total of [4, null]) await expect(read(clamped(total))).rejects.toThrow('repeats the one before');
});

it('a service that begins again behind its last page has ended its list once all is seen, and is never read for ever', async () => {
  const around = (total: number | null) => (page: number) => ({
    ids: [['a', 'b'], ['c']][(page - 1) % 2]!,
    total,
  });
  expect(await read(around(3))).toEqual([2, 1, 0]);
  for (const total of [4, null])
    await expect(read(around(total))).rejects.toThrow('page 3 repeats the first');
});

it('an empty page that names a next one ends a list without a total only if that is empty too', async () => {
  const total = null;
  const more = (ids: readonly string[]) => ({ ids, total, next: 'links.next' });
  const pages = [more(ALL), more([]), more(['d']), more([]), { ids: ['e'], total }];
  expect(await read(pages)).toEqual([3, 1, 1, 0]);
  expect(await read((page) => more(page === 1 ? ALL : []))).toEqual([3, 0]);
  expect(await read([{ ...more(ALL), total: 3 }, more([]), more(['d'])])).toEqual([3, 0]);
});

it('an empty page that says that there is more never ends a list, whatever its total', async () => {
  for (const total of [null, 3]) {
    const more = (ids: readonly string[]) => ({ ids, total, next: 'meta.hasMore', saysMore: true as const });
    expect(await read([more(ALL), { ids: [], total }])).toEqual([3, 0]);
    await expect(read((page) => more(page === 1 ? ALL : []))).rejects.toThrow(
      '“meta.hasMore” says that the list goes on',
    );
  }
});

it.each([
  ['its total says that there are more', [ALL, ALL], 4],
  [
    'one record stands on it twice',
    [
      [...ALL, 'a'],
      [...ALL, 'a'],
    ],
    4,
  ],
  ['it is a later one', [['x', 'y', 'z'], ALL, ALL], 3],
])(
  'a page that repeats the one before ends the reading without a proof where %s',
  async (_why, lists, total) => {
    await expect(read(lists.map((ids) => ({ ids, total })))).rejects.toThrow(/repeats|paging does not fit/);
  },
);

it('a list is whole where the page before its first is no page, and not where nobody knows whether it is', async () => {
  const without = (kind: 'server' | 'malformed' | 'unreachable' | 'unauthorized') => (page: number) => {
    if (page === 0) throw new UpstreamError(kind, 'no useful answer');
    return { ids: page === 1 ? ALL : [], total: null };
  };
  for (const kind of ['server', 'malformed'] as const) expect(await read(without(kind))).toEqual([3, 0]);
  for (const kind of ['unreachable', 'unauthorized'] as const)
    await expect(read(without(kind))).rejects.toThrow('no useful answer');
});

it('a service without pages and totals shows the whole list twice, if it is not as long as a page would be', async () => {
  const list = (length: number) => {
    const ids = Array.from({ length }, (_, index) => `v${index}`);
    return read([
      { ids, total: null },
      { ids, total: null },
    ]);
  };
  expect(await list(7)).toEqual([7, 0]);
  for (const length of [10, 20, 50, 100]) await expect(list(length)).rejects.toThrow('COMPLIANCE_PAGE_PARAM');
});

it('two rows of a page that differ and have one id are not taken for one record, and the setting is named', async () => {
  const rows = [
    { vendorId: 'group', id: 'a', name: 'A' },
    { vendorId: 'group', id: 'b', name: 'B' },
  ];
  await expect(read([{ ids: [], total: null, rows }])).rejects.toThrow(
    /have the id "group".* at id: set ID_POINTERS_VENDOR=id,/,
  );
  const twice = { id: 'a', name: 'A' };
  expect(await read([{ ids: [], total: null, rows: [twice, { ...twice }] }])).toEqual([2, 0]);
});

it.each<[string, unknown, string]>([
  ['none', undefined, 'has no id at any of vendorId, vendor.id, id'],
  ['null', null, 'has no id at any of vendorId, vendor.id, id'],
  ['an empty one', '', 'has an empty id at id'],
  ['one with a control character', 'b\u0007', 'has an id with a control character at id'],
  ['half a character', 'b\ud800', 'has an id with half a character at id'],
  ['one of 256 characters', 'b'.repeat(256), 'has an id longer than 255 characters at id'],
  ['a fraction', 1.5, 'has a number that is not whole at id'],
  ['an object', {}, 'has neither text nor a number at id'],
])('a row whose id is %s fails the list at its end, once all others are shown', async (_what, id, why) => {
  const pages = [
    { ids: ['a'], total: 4 },
    { ids: [], total: 4, rows: [{ id: 'b' }, { id, name: 'B' }] },
    { ids: ['c'], total: 4 },
  ];
  const error = `row 2 of page 2: a vendor ${why}`;
  for (const end of [[], [{ ids: ['c'], total: 4 }]]) {
    const shown: number[] = [];
    await expect(read([...pages, ...end], shown)).rejects.toMatchObject({
      code: 'malformed_page',
      message: error,
    });
    expect(shown).toEqual([1, 1, 1]);
  }
  await expect(read([{ ids: [], total: 1, rows: [{ id, name: 'B' }] }])).rejects.toThrow(
    `a vendor in the list ${why}; set ID_POINTERS_VENDOR to where`,
  );
});

const REFUSED: Shown = { ids: [], total: null, isRefusal: true };
const idsUpTo = (count: number) => Array.from({ length: count }, (_, n) => `id ${n}`);

it.each<[string, number, string[], RegExp | null]>([
  ['all that its total says', 20, [], null],
  ['all that its total says, and an event about one of them', 20, ['id 7'], null],
  [
    'all that its total says, and an event about another one',
    20,
    ['id 23'],
    /refused, and id 23 of its events/,
  ],
  ['a window of 1,000', 1_000, [], /after 1000 records the list is refused/],
  ['a window of 10,000', 10_000, [], /after 10000 records the list is refused/],
  ['a few more than a window', 1_001, [], null],
])(
  'an error behind the last page ends a list that has shown %s, or proves nothing',
  async (_, count, announced, why) => {
    const page = { ids: idsUpTo(count), total: count };
    const reading = read([page, REFUSED], [], { announced });
    if (why === null) expect(await reading).toEqual([count, 0]);
    else await expect(reading).rejects.toThrow(why);
  },
);

it('a list of more ids than the memory is for is not read on, and its number is named', async () => {
  const pages = (page: number): Shown => ({ ids: [`id ${page}`], total: null });
  await expect(read(pages, [], { idBytesMax: 4_500 })).rejects.toMatchObject({
    code: 'malformed_page',
    message: expect.stringMatching(/^the list has shown 12 ids, more than the memory/),
  });
});

it('a row that is marked as deleted is none of the living, and belongs to the list all the same', async () => {
  const rows = [{ id: 'a' }, { id: 'b', deletedAt: '2026-11-01T00:00:00Z' }, { id: 'c', deleted: false }];
  expect(await read([{ ids: [], rows, total: 3 }])).toEqual([2, 0]);
});
