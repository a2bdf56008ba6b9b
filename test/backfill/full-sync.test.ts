import { expect, it, onTestFinished } from 'vitest';
import { createFullSyncer } from '../../src/backfill/full-sync.ts';
import type { Upstream } from '../../src/backfill/upstream.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { openStore } from '../../src/store/open.ts';

const WALL = 1_800_000_000_000;
const SETTLE_MS = 1_000;

/** Full syncs of the policies of a service that gives no total. Each time its list is read it shows the next of
 * `lists`. */
async function policiesOf() {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  let steady = 0;
  const clock = {
    wall: () => WALL + steady,
    steady: () => steady,
    sleep: async (ms: number) => {
      steady += ms;
    },
  };
  const lists: string[][] = [];
  let readAt: number[] = [];
  let shown: string[] = [];
  const page: Upstream['page'] = async (_kind, at) => {
    if (at === 1) {
      shown = lists.shift()!;
      readAt.push(steady);
    }
    if (at > 1 && shown === ENDLESS) throw new UpstreamError('server', 'it answered 500');
    const moment = { steady, wall: WALL + steady };
    return {
      answer: {
        objects: at === 1 ? shown.map((id) => ({ id })) : [],
        meta: {},
        unusable: new Map(),
        next: null,
        began: moment,
        ended: moment,
      },
      read: {
        number: await store.currentNumber(),
        beganAt: steady,
        endedAt: steady,
        endedWall: WALL + steady,
      },
    };
  };
  const syncer = createFullSyncer({
    store,
    clock,
    upstream: { page, noteWitness: () => undefined } as unknown as Upstream,
    timing: { settleMs: SETTLE_MS },
    pointers: DEFAULT_ID_POINTERS,
    paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
    random: () => 0,
    signal: new AbortController().signal,
    refetch: async () => expect.fail('only their list shows policies'),
    onApplied: () => undefined,
    onConcluded: () => undefined,
    onProgress: () => undefined,
    onFullSync: () => undefined,
  });
  const fullSync = async () => {
    steady += 60_000;
    readAt = [];
    const { outcome, progress } = await syncer.fullSync('policy', 'test', 0);
    return { outcome, deleted: progress.deleted, unread: lists.length, readAt };
  };
  return { lists, fullSync };
}

const ALL = ['a', 'b', 'c'];
const FEWER = ['a', 'b'];
/** Shows the same, and its end cannot be read. */
const ENDLESS = ['a', 'b'];
const COMPLETE = { outcome: 'complete', deleted: 0, unread: 0 };

it('a policy that two list scans leave out is not gone if a third shows it, where no total says that the list moved', async () => {
  const { lists, fullSync } = await policiesOf();
  lists.push(ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
  lists.push(FEWER, FEWER, ALL, ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
});

it('list scans prove nothing if a policy that the earlier one shows is left out by the later one', async () => {
  const { lists, fullSync } = await policiesOf();
  lists.push(ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
  lists.push(['a', 'c'], ['a'], ['a'], ALL, ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
});

it('list scans that agree prove nothing if the end of one could not be read', async () => {
  const { lists, fullSync } = await policiesOf();
  lists.push(ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
  lists.push(FEWER, ENDLESS, FEWER);
  expect(await fullSync()).toMatchObject({ outcome: 'incomplete', deleted: 0, unread: 1 });
});

it('a policy that is gone is deleted by list scans that agree, after others, each a consistency window behind the one before', async () => {
  const { lists, fullSync } = await policiesOf();
  lists.push(ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
  lists.push(['a'], FEWER, FEWER, FEWER);
  const { readAt, ...rest } = await fullSync();
  expect(rest).toEqual({ ...COMPLETE, deleted: 1 });
  expect(readAt.map((at) => at - readAt[0]!)).toEqual([0, SETTLE_MS, 2 * SETTLE_MS, 3 * SETTLE_MS]);
});
