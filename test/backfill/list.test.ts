import { expect, it, onTestFinished } from 'vitest';
import { createListScanner } from '../../src/backfill/list.ts';
import type { Upstream } from '../../src/backfill/upstream.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS, type JsonObject } from '../../src/compliance/pointers.ts';
import { openStore } from '../../src/store/open.ts';
import type { Verbs } from '../../src/store/store.ts';

const ORIGIN = { wall: 1_800_000_000_000, steady: 0 };
const COUNTS = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

interface Shown {
  ids: readonly string[];
  total: number | null;
  rows?: readonly JsonObject[];
  next?: string;
  saysMore?: true;
  pages?: number;
  isShort?: true;
  isRefusal?: true;
}
type Answers = readonly Shown[] | ((page: number) => Shown | undefined);

/** A mirror, and scans of the list of a service with these answers to its first pages. */
async function readerOf({
  verbs = {},
  onAsked = async () => undefined,
  idBytesMax,
  settleMs = 0,
  sleep = async () => undefined,
}: {
  verbs?: Partial<Verbs>;
  /** Before a page is answered. */
  onAsked?: (page: number) => Promise<void>;
  idBytesMax?: number | undefined;
  settleMs?: number;
  sleep?: (ms: number) => Promise<void>;
} = {}) {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  const opened: (string | null)[] = [];
  const watched: Verbs = {
    ...store,
    openProblem: async (problem, error, ...rest) => {
      opened.push(error);
      await store.openProblem(problem, error, ...rest);
    },
    ...verbs,
  };
  let answers: Answers = [];
  let number = 0;
  let witnesses = 0;
  const moment = { steady: 0, wall: ORIGIN.wall };
  const asked: number[] = [];
  const page: Upstream['page'] = async (_kind, at) => {
    asked.push(at);
    await onAsked(at);
    const answer = typeof answers === 'function' ? answers(at) : answers[at - 1];
    const { ids, total, rows, next = null, ...more } = answer ?? { ids: [], total: null };
    return {
      answer: {
        objects: [...(rows ?? ids.map((id) => ({ id })))],
        meta: total === null ? {} : { total },
        unusable: new Map(),
        next,
        ...more,
        began: moment,
        ended: moment,
      },
      read: { number, beganAt: 0, endedAt: 0, endedWall: ORIGIN.wall },
    };
  };
  const reader = createListScanner({
    store: watched,
    upstream: {
      page,
      noteWitness: () => {
        witnesses += 1;
      },
      isOwnFault: (_): _ is UpstreamError => false,
    },
    clock: { wall: () => ORIGIN.wall, steady: () => ORIGIN.steady, sleep },
    timing: { settleMs },
    pointers: DEFAULT_ID_POINTERS,
    guardPercent: 20,
    random: () => 0,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
    signal: new AbortController().signal,
    onApplied: () => undefined,
    ...(idBytesMax === undefined ? {} : { idBytesMax }),
  });
  /** `shown`: how many living records each page has shown. */
  async function readList(from: Answers) {
    answers = from;
    const { id: syncRunId, number: began } = await store.startSyncRun('vendor', 'test', ORIGIN);
    number = began;
    const progress = { ...COUNTS };
    const shown: number[] = [];
    const list = await reader({
      kind: 'vendor',
      syncRunId,
      lane: 'scan',
      progress,
      seenBefore: new Set(),
      onPage: (applied) => shown.push(applied.length),
    });
    return { ...list, shown, progress, opened, witnesses, asked };
  }
  return { store, readList };
}

/** How many living records each page shows. Rejects if the list is not the whole one. */
async function read(
  answers: Answers,
  { announced = [], idBytesMax }: { announced?: string[]; idBytesMax?: number } = {},
): Promise<number[]> {
  const { readList } = await readerOf({ verbs: { announced: async () => announced }, idBytesMax });
  const { lack, shown } = await readList(answers);
  if (lack !== null) throw new Error(lack.error);
  return shown;
}

const ALL = ['a', 'b', 'c'];

it('a service that knows no pages answers the whole list each time: its own total says that this is the end', async () => {
  const whole = { ids: ALL, total: 3 };
  expect(await read([whole, whole, whole])).toEqual([3]);
});

it('a service that shows its last page again behind it has ended its list once all is seen that its total names', async () => {
  const clamped = (total: number | null) => [['a', 'b'], ['c'], ['c']].map((ids) => ({ ids, total }));
  expect(await read(clamped(3))).toEqual([2, 1]);
  for (const total of [4, null]) await expect(read(clamped(total))).rejects.toThrow('repeats the one before');
});

it('a service that begins again behind its last page has ended its list once all is seen, and is never read for ever', async () => {
  const around = (total: number | null) => (page: number) => ({
    ids: [['a', 'b'], ['c']][(page - 1) % 2]!,
    total,
  });
  expect(await read(around(3))).toEqual([2, 1]);
  for (const total of [4, null])
    await expect(read(around(total))).rejects.toThrow('page 3 repeats the first');
});

it('an empty page that names a next one ends a list without a total only if that is empty too', async () => {
  const total = null;
  const more = (ids: readonly string[]) => ({ ids, total, next: 'links.next' });
  const pages = [more(ALL), more([]), more(['d']), more([]), { ids: ['e'], total }];
  expect(await read(pages)).toEqual([3, 1, 1]);
  expect(await read((page) => more(page === 1 ? ALL : []))).toEqual([3]);
  expect(await read([{ ...more(ALL), total: 3 }, more([]), more(['d'])])).toEqual([3]);
});

it('an empty page that says that there is more never ends a list, whatever its total', async () => {
  for (const total of [null, 3]) {
    const more = (ids: readonly string[]) => ({ ids, total, next: 'meta.hasMore', saysMore: true as const });
    expect(await read([more(ALL), { ids: [], total }])).toEqual([3]);
    await expect(read((page) => more(page === 1 ? ALL : []))).rejects.toThrow(
      '“meta.hasMore” says that the list goes on',
    );
  }
});

it('an empty page before the last one that the list has by its own count is not its end, unless its total fits', async () => {
  const page = (ids: string[], pages: number, total: number | null = null) => ({ ids, pages, total });
  await expect(read([page(ALL, 4), page([], 4)])).rejects.toThrow(
    'page 2 is empty, and the list says that it has 4 pages',
  );
  await expect(read([page(ALL, 2, 4), page([], 2, 4)])).rejects.toThrow('2 pages');
  expect(await read([page(ALL, 4, 3), page([], 4, 3)])).toEqual([3]);
  expect(await read([page(ALL, 1), page([], 1)])).toEqual([3]);
  // It has lost one while it was read, or its count begins at 0.
  expect(await read([page(ALL, 2), page([], 1)])).toEqual([3]);
  expect(await read([page(ALL, 0), page([], 0)])).toEqual([3]);
  expect(await read([page([], 1)])).toEqual([]);
});

it('a page that is not full and says that there is more is not the last one, though an empty one follows', async () => {
  const page = (ids: string[], isShort?: true) => ({
    ...{ ids, total: null, next: 'truncated', saysMore: true as const },
    ...(isShort && { isShort }),
  });
  const end = { ids: [], total: null };
  for (const total of [null, 3])
    await expect(read([{ ...page(ALL, true), total }, end])).rejects.toThrow(
      'page 1 is not full, its field “truncated” says that the list goes on, and page 2 is empty',
    );
  await expect(read([page(['a', 'b'], true), page(['c'], true), end])).rejects.toThrow('page 2 is not full');
  expect(await read([page(ALL), end])).toEqual([3]);
  // The service takes no larger pages: with the last one as long as the first nobody knows, and what follows decides.
  expect(await read([page(['a', 'b'], true), page(['c', 'd'], true), end])).toEqual([2, 2]);
  expect(await read([page(ALL, true), { ids: ['d'], total: null }, end])).toEqual([3, 1]);
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
  for (const kind of ['server', 'malformed'] as const) expect(await read(without(kind))).toEqual([3]);
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
  expect(await list(7)).toEqual([7]);
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
  expect(await read([{ ids: [], total: null, rows: [twice, { ...twice }] }])).toEqual([2]);
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
    const { readList } = await readerOf();
    const { lack, shown, opened } = await readList([...pages, ...end]);
    expect(lack).toEqual({ error, stays: error });
    expect(opened).toEqual([expect.stringContaining(error)]);
    expect(shown).toEqual([1, 1, 1]);
  }
  await expect(read([{ ids: [], total: 1, rows: [{ id, name: 'B' }] }])).rejects.toThrow(
    `a vendor in the list ${why}; set ID_POINTERS_VENDOR to where`,
  );
});

const REFUSED: Shown = { ids: [], total: null, isRefusal: true };
const idsUpTo = (count: number) => Array.from({ length: count }, (_, n) => `id ${n}`);

it.each<[string, string[], RegExp | null]>([
  ['an event about one of its records', ['id 7'], null],
  ['an event about another one', ['id 23'], /refused, and id 23 of its events/],
])(
  'an error behind the last page is the end of the list, and after %s it proves nothing',
  async (_, announced, why) => {
    const page = { ids: idsUpTo(20), total: 20 };
    const reading = read([page, REFUSED], { announced });
    if (why === null) expect(await reading).toEqual([20]);
    else await expect(reading).rejects.toThrow(why);
  },
);

it('a list of more ids than the memory is for is not read on, and its number is named', async () => {
  const pages = (page: number): Shown => ({ ids: [`id ${page}`], total: null });
  await expect(read(pages, { idBytesMax: 4_500 })).rejects.toThrow(
    /^the list has shown 12 ids, more than the memory/,
  );
});

it('a row that is marked as deleted is none of the living, and belongs to the list all the same', async () => {
  const rows = [{ id: 'a' }, { id: 'b', deletedAt: '2026-11-01T00:00:00Z' }, { id: 'c', deleted: false }];
  expect(await read([{ ids: [], rows, total: 3 }])).toEqual([2]);
});

it('where the total says that there are more, a page is asked for while the one before it is not answered yet, and none behind the end', async () => {
  const pages = ['a', 'b', 'c', 'd', 'e'].map((id) => ({ ids: [id], total: 5 }));
  const isAsked = pages.map(() => Promise.withResolvers<void>());
  const { readList } = await readerOf({
    onAsked: async (page) => {
      isAsked[page - 1]?.resolve();
      // The first may be the whole list.
      if (page === 3 || page === 4) await isAsked[page]!.promise;
    },
  });
  const { lack, shown, asked } = await readList(pages);
  expect(lack).toBe(null);
  expect(shown).toEqual([1, 1, 1, 1, 1]);
  expect(asked).toEqual([1, 2, 3, 4, 5, 6]);
});

it('a page is saved in parts of 500, so that deliveries wait for no more, and counts once all of it is', async () => {
  const saved: { records: number; isCounted: boolean }[] = [];
  const verbs: Partial<Verbs> = {
    applyReads(kind, objects, read, context) {
      saved.push({ records: objects.length, isCounted: context.progress !== undefined });
      return store.applyReads(kind, objects, read, context);
    },
  };
  const { store, readList } = await readerOf({ verbs });
  const { lack, progress } = await readList([{ ids: idsUpTo(1_200), total: 1_200 }]);
  expect(lack).toBe(null);
  expect(progress).toMatchObject({ inserted: 1_200, seen: 1_200 });
  expect(saved).toEqual([
    { records: 500, isCounted: false },
    { records: 500, isCounted: false },
    { records: 200, isCounted: true },
  ]);
});

it('a record that a list shows otherwise than its row counts as updated, and one that it shows again as a witness', async () => {
  const { readList } = await readerOf();
  const rows = (...objects: JsonObject[]) => [{ ids: [], total: objects.length, rows: objects }];
  expect((await readList(rows({ id: 'a' }, { id: 'b', name: 'Old' }))).witnesses).toBe(0);
  expect(await readList(rows({ id: 'a' }, { id: 'b', name: 'New' }, { id: 'c' }))).toMatchObject({
    witnesses: 1,
    progress: { ...COUNTS, pages: 2, seen: 3, inserted: 1, updated: 1, unchanged: 1 },
  });
});

it('two rows of a list without a total that have one id are not taken for one record, even on two pages', async () => {
  const { readList } = await readerOf();
  const readNamed = async (...names: string[]) => {
    const pages = names.map((name, at) => ({
      ids: [],
      total: null,
      rows: [{ id: `other_${at}` }, { id: 'a', name }],
    }));
    return (await readList(pages)).lack?.error ?? null;
  };
  // A record that changed in between may have moved to a later page.
  expect(await readNamed('Old', 'New')).toBe(null);
  expect(await readNamed('New', 'Newer')).toBe(null);
  expect(await readNamed('Newer', 'Newest')).toBe(null);
  const error =
    'two different rows of the list have the id "a", so it is not the id of a vendor; set ID_POINTERS_VENDOR to where the service keeps it';
  expect(await readNamed('Newer', 'Newest')).toBe(error);
  expect(await readNamed('Newest', 'b', 'c')).toBe(null);
});

it('a deletion counts that happened a read delay before a scan, and that an event tells of as long after it', async () => {
  let now = 0;
  const { readList } = await readerOf({
    verbs: {
      hasAnnouncedDeletion: async (_kind, _number, from) => now >= 1_000 && ORIGIN.wall - 1_000 >= from,
    },
    settleMs: 1_000,
    sleep: async (ms) => {
      now += ms;
    },
  });
  const pages = [
    { ids: ['a'], total: 2 },
    { ids: ['b'], total: 2 },
  ];
  expect(await readList(pages)).toMatchObject({ lack: null, steady: true, again: 'more' });
  expect(await readList(pages)).toMatchObject({ lack: null, again: 'once' });
  now = 0;
  // Of a list that shows nothing new none has to be waited for.
  expect(await readList(pages)).toMatchObject({ lack: null, again: 'no' });
  // Nor of one page, from which no record can move to another.
  expect(await readList([{ ids: ['c'], total: 1 }])).toMatchObject({ lack: null, again: 'no' });
  expect(now).toBe(0);
});

it('a list without a total whose new records events have announced lacks no others for that', async () => {
  const { store, readList } = await readerOf({
    verbs: {
      applyReads: async (...reads) =>
        (await store.applyReads(...reads)).map((applied) => ({ ...applied, announced: true })),
    },
  });
  const list = await readList([
    { ids: ['a'], total: null },
    { ids: ['b'], total: null },
  ]);
  expect(list).toMatchObject({ lack: null, again: 'no', progress: { inserted: 2 } });
});

it.each<[string, string[][], number[], object]>([
  ['stays as it is', [['a'], ['b']], [2, 2], { steady: true, again: 'no' }],
  ['becomes longer', [['a'], ['b'], ['c']], [2, 3, 3], { steady: false, again: 'once' }],
  ['becomes shorter', [['a'], ['b']], [3, 2], { steady: false, again: 'more' }],
  ['shows a record twice', [['a', 'b'], ['b']], [2, 2], { steady: false, again: 'more' }],
])(
  'of a list that %s while it is read it is known whether another reading may show more',
  async (_, pages, totals, expected) => {
    const { readList } = await readerOf();
    const list = await readList(pages.map((ids, at) => ({ ids, total: totals[at]! })));
    expect(list).toMatchObject({ lack: null, ...expected });
    expect(list.progress).toMatchObject({ seen: list.ids.size, inserted: list.ids.size });
  },
);

const BROKEN = (kind: 'malformed' | 'unexpected_status' | 'server' | 'unreachable' | 'forbidden') => {
  throw new UpstreamError(kind, 'GET /vendors?page=3: no page', { excerpt: 'request 4711' });
};
const pagesBefore = (last: number, then: () => never) => (page: number) =>
  page <= last ? { ids: [`id ${page}`], total: null } : then();

it.each<[string, Answers, string | undefined]>([
  [
    'a last page that is shown again',
    [['a', 'b'], ['c'], ['c']].map((ids) => ({ ids, total: null })),
    'page 3 repeats the one before it',
  ],
  [
    'an error of its own',
    pagesBefore(2, () => BROKEN('unexpected_status')),
    'unexpected_status behind page 2',
  ],
  ['an answer that is no list', pagesBefore(2, () => BROKEN('malformed')), 'malformed behind page 2'],
  ['a failure that passes', pagesBefore(2, () => BROKEN('server')), undefined],
  ['silence', pagesBefore(2, () => BROKEN('unreachable')), undefined],
  ['a refusal of our credentials', pagesBefore(2, () => BROKEN('forbidden')), undefined],
  ['an error before any record was shown', pagesBefore(0, () => BROKEN('unexpected_status')), undefined],
])('what a person can accept of a list without a total that ends with %s', async (_, answers, stays) => {
  const { readList } = await readerOf();
  for (let times = 0; times < 2; times += 1) {
    const { lack } = await readList(answers);
    expect(lack?.error).toBeTypeOf('string');
    expect(lack?.stays).toBe(stays);
  }
});

it('a list without a total that shows a record on two pages is read again until it does not, though all are known', async () => {
  const { readList } = await readerOf();
  const pages = [
    ['a', 'b'],
    ['b', 'c'],
    ['c', 'd'],
  ].map((ids) => ({ ids, total: null }));
  for (let times = 0; times < 3; times += 1) {
    const list = await readList(pages);
    expect(list).toMatchObject({ lack: null, steady: false, again: 'more' });
    expect([...list.twice]).toEqual(['b', 'c']);
  }
  expect(await readList(pages.map(({ ids }) => ({ ids, total: 4 })))).toMatchObject({ again: 'once' });
});
