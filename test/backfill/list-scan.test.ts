import { expect, it, onTestFinished } from 'vitest';
import { createListScan, type ListScan, scanWhole } from '../../src/backfill/list-scan.ts';
import type { Upstream } from '../../src/backfill/upstream.ts';
import { DEFAULT_ID_POINTERS, type JsonObject } from '../../src/compliance/pointers.ts';
import { openStore } from '../../src/store/open.ts';
import type { SyncRunProgress, Verbs } from '../../src/store/store.ts';

const ORIGIN = { wall: 1_800_000_000_000, steady: 0 };
const COUNTS = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

/** A service with the pages that `pagesNow` returns. A total is told unless it is null. */
function serviceWith(
  pagesNow: () => readonly (readonly JsonObject[])[],
  total: number | null,
  number: number,
  noteWitness: Upstream['noteWitness'] = () => undefined,
): Upstream {
  const moment = { steady: 0, wall: ORIGIN.wall };
  const page: Upstream['page'] = async (_kind, at) => ({
    answer: {
      objects: [...(pagesNow()[at - 1] ?? [])],
      meta: total === null ? {} : { total },
      unusable: new Map(),
      next: null,
      began: moment,
      ended: moment,
    },
    read: { number, beganAt: 0, endedAt: 0, endedWall: ORIGIN.wall },
  });
  return { page, noteWitness, isOwnFault: () => false } as unknown as Upstream;
}

/** A service whose whole list is one page. */
const serviceOf = (
  objects: readonly JsonObject[],
  number: number,
  noteWitness?: Upstream['noteWitness'],
): Upstream => serviceWith(() => [objects], objects.length, number, noteWitness);

const scanOf = (
  store: Verbs,
  upstream: Upstream,
  settleMs = 0,
  sleep: (ms: number) => Promise<void> = async () => undefined,
) =>
  createListScan({
    store,
    upstream,
    clock: { wall: () => ORIGIN.wall, steady: () => ORIGIN.steady, sleep },
    timing: { settleMs },
    pointers: DEFAULT_ID_POINTERS,
    guardPercent: 20,
    random: () => 0,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 2_000 },
    signal: new AbortController().signal,
    onApplied: () => undefined,
  });

const requestOf = (syncRunId: number, progress: SyncRunProgress) => ({
  kind: 'vendor' as const,
  syncRunId,
  lane: 'scan' as const,
  progress,
  seenBefore: new Set<string>(),
  onPage: () => undefined,
});

it('a page is saved in parts of 500, so that deliveries wait for no more, and counts once all of it is', async () => {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  const saved: { records: number; isCounted: boolean }[] = [];
  const watched: Verbs = {
    ...store,
    applyReads(kind, objects, read, context) {
      saved.push({ records: objects.length, isCounted: context.progress !== undefined });
      return store.applyReads(kind, objects, read, context);
    },
  };
  const ids = Array.from({ length: 1_200 }, (_, n) => `ven_${n}`);
  const { id: syncRunId } = await store.startSyncRun('vendor', 'test', ORIGIN);
  const progress = { ...COUNTS };
  const upstream = serviceOf(
    ids.map((id) => ({ id })),
    await store.currentNumber(),
  );
  const found = await scanOf(watched, upstream)(requestOf(syncRunId, progress));
  expect(found).toMatchObject({ complete: true, error: null });
  expect(progress).toMatchObject({ inserted: 1_200, seen: 1_200 });
  expect(saved).toEqual([
    { records: 500, isCounted: false },
    { records: 500, isCounted: false },
    { records: 200, isCounted: true },
  ]);
});

it('a record that a list shows otherwise than its row counts as updated, and one that it shows again as a witness', async () => {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  let witnesses = 0;
  const scan = async (objects: JsonObject[]) => {
    const { id, number } = await store.startSyncRun('vendor', 'test', ORIGIN);
    const progress = { ...COUNTS };
    const upstream = serviceOf(objects, number, () => {
      witnesses += 1;
    });
    await scanOf(store, upstream)(requestOf(id, progress));
    return progress;
  };
  await scan([{ id: 'a' }, { id: 'b', name: 'Old' }]);
  expect(witnesses).toBe(0);
  expect(await scan([{ id: 'a' }, { id: 'b', name: 'New' }, { id: 'c' }])).toEqual({
    ...COUNTS,
    pages: 2,
    seen: 3,
    inserted: 1,
    updated: 1,
    unchanged: 1,
  });
  expect(witnesses).toBe(1);
});

it('two rows of a list without a total that have one id are not taken for one record, even on two pages', async () => {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  const { id, number } = await store.startSyncRun('vendor', 'test', ORIGIN);
  let pages: JsonObject[][] = [];
  const scan = scanOf(
    store,
    serviceWith(() => pages, null, number),
  );
  const read = async (...next: string[]) => {
    pages = next.map((name, at) => [{ id: `other_${at}` }, { id: 'a', name }]);
    return (await scan(requestOf(id, { ...COUNTS }))).error;
  };
  // A record that changed in between may have moved to a later page.
  expect(await read('Old', 'New')).toBe(null);
  expect(await read('New', 'Newer')).toBe(null);
  expect(await read('Newer', 'Newest')).toBe(null);
  const error =
    'two different rows of the list have the id "a", so it is not the id of a vendor; set ID_POINTERS_VENDOR to where the service keeps it';
  expect(await read('Newer', 'Newest')).toBe(error);
  expect(await read('Newest', 'b', 'c')).toBe(null);
});

it('a deletion counts that happened a consistency window before a list scan, and that an event tells of as long after it', async () => {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  let now = 0;
  const told: Verbs = {
    ...store,
    hasAnnouncedDeletion: async (_kind, _number, from) => now >= 1_000 && ORIGIN.wall - 1_000 >= from,
  };
  const sleep = async (ms: number) => {
    now += ms;
  };
  const scan = async (pages = [[{ id: 'a' }], [{ id: 'b' }]]) => {
    now = 0;
    const { id, number } = await store.startSyncRun('vendor', 'test', ORIGIN);
    const upstream = serviceWith(() => pages, pages.flat().length, number);
    return await scanOf(told, upstream, 1_000, sleep)(requestOf(id, { ...COUNTS }));
  };
  expect(await scan()).toMatchObject({ complete: true, steady: true, shortened: true, mayLack: true });
  // Of a list that shows nothing new none has to be waited for.
  expect(await scan()).toMatchObject({ complete: true, shortened: false, mayLack: false });
  // Nor of one page, from which no record can move to another.
  expect(await scan([[{ id: 'c' }]])).toMatchObject({ complete: true, shortened: false, mayLack: false });
  expect(now).toBe(0);
});

it('a list without a total whose new records events have announced lacks no others for that', async () => {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  const announced: Verbs = {
    ...store,
    applyReads: async (...read) =>
      (await store.applyReads(...read)).map((applied) => ({ ...applied, announced: true })),
  };
  const { id, number } = await store.startSyncRun('vendor', 'test', ORIGIN);
  const upstream = serviceWith(() => [[{ id: 'a' }], [{ id: 'b' }]], null, number);
  const progress = { ...COUNTS };
  const scan = await scanOf(announced, upstream)(requestOf(id, progress));
  expect({ ...scan, ...progress }).toMatchObject({ complete: true, mayLack: false, inserted: 2 });
});

it.each([
  ['stays as it is', [['a'], ['b']], [2, 2], { steady: true, mayLack: false }],
  ['becomes longer', [['a'], ['b'], ['c']], [2, 3, 3], { steady: false, mayLack: false }],
  ['becomes shorter', [['a'], ['b']], [3, 2], { steady: false, mayLack: true }],
  ['shows a record twice', [['a', 'b'], ['b']], [2, 2], { steady: false, mayLack: true }],
])(
  'of a list that %s while it is read it is known whether it moved and may lack records',
  async (_, pages, totals, expected) => {
    const store = await openStore(':memory:');
    onTestFinished(() => store.close());
    const { id, number } = await store.startSyncRun('vendor', 'test', ORIGIN);
    const upstream = serviceWith(() => pages.map((ids) => ids.map((each) => ({ id: each }))), 0, number);
    const { page } = upstream;
    upstream.page = async (kind, at, ...rest) => {
      const seen = await page(kind, at, ...rest);
      return { ...seen, answer: { ...seen.answer, meta: { total: totals[at - 1] ?? totals.at(-1)! } } };
    };
    const progress = { ...COUNTS };
    const scan = await scanOf(store, upstream)(requestOf(id, progress));
    expect(scan).toMatchObject({ complete: true, ...expected });
    expect(progress).toMatchObject({ seen: scan.ids.size, inserted: scan.ids.size });
  },
);

const WHOLE: ListScan = {
  ids: new Set(),
  gone: new Set(),
  beganAt: 0,
  agedMs: 0,
  total: 9,
  complete: true,
  error: null,
  stays: undefined,
  steady: true,
  mayLack: false,
  shortened: false,
  number: 0,
  endedAt: 0,
};

it.each([
  ['that moved', { steady: false }, false],
  ['out of which a record was deleted', { shortened: true }, false],
  ['that may have skipped the record of an event', {}, true],
])(
  'a list %s is read once more after the consistency window, since earlier its pages could be as old',
  async (_, found, hasUnnamed) => {
    const did: string[] = [];
    const scanOnce = async () => {
      did.push('read');
      return { ...WHOLE, ...found };
    };
    const settledAfter = async () => void did.push('waited');
    await scanWhole(scanOnce, { hasUnnamed, settledAfter });
    expect(did).toEqual(['read', 'waited', 'read']);
  },
);

it('a list that may lack records however often it is read is given up, and proves nothing', async () => {
  let scans = 0;
  const whole = await scanWhole(
    async (seenBefore) => {
      scans += 1;
      expect(seenBefore.size).toBe(scans - 1);
      const ids = new Set([`ven_${scans}`]);
      return { ...WHOLE, ids, mayLack: true };
    },
    { hasUnnamed: false, settledAfter: async () => {} },
  );
  expect(whole).toMatchObject({
    complete: false,
    error: 'the list changes too fast to show all that it holds',
  });
  expect(scans).toBeLessThan(20);
});
