import { expect, it, onTestFinished } from 'vitest';
import { createFullSyncer } from '../../src/backfill/full-sync.ts';
import type { Refetch } from '../../src/backfill/refetch.ts';
import type { Upstream } from '../../src/backfill/upstream.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { momentOf } from '../../src/platform/clock.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import type { Applied, Now } from '../../src/store/store.ts';

const WALL = 1_800_000_000_000;
const SETTLE_MS = 1_000;

/** An empty mirror, and full syncs of it from a service that answers so. */
async function mirror() {
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
  const syncerOver = (upstream: Partial<Upstream>, refetch: Refetch) =>
    createFullSyncer({
      store,
      clock,
      upstream: { noteWitness: () => undefined, isOwnFault: () => false, ...upstream } as Upstream,
      timing: { settleMs: SETTLE_MS },
      pointers: DEFAULT_ID_POINTERS,
      guardPercent: 20,
      paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: 100 },
      random: () => 0,
      signal: new AbortController().signal,
      refetch,
      onApplied: () => undefined,
      onConcluded: () => undefined,
      onFullSync: () => undefined,
    });
  return { store, clock, syncerOver };
}

const pageOf = (ids: readonly string[], moment: Now, number: number) => ({
  answer: {
    objects: ids.map((id) => ({ id })),
    meta: {},
    unusable: new Map(),
    next: null,
    began: moment,
    ended: moment,
  },
  read: { number, beganAt: moment.steady, endedAt: moment.steady, endedWall: moment.wall },
});

const READ: Applied = {
  id: 'r1',
  outcome: 'unchanged',
  differences: [],
  verified: true,
  lagMs: null,
  witness: true,
  announced: false,
  lacks: false,
};

/** Full syncs of the policies of a service that gives no total. Each time its list is read it shows the next of
 * `lists`. */
async function policiesOf() {
  const { store, clock, syncerOver } = await mirror();
  const lists: string[][] = [];
  let readAt: number[] = [];
  let shown: string[] = [];
  const page: Upstream['page'] = async (_kind, at) => {
    if (at === 1) {
      shown = lists.shift()!;
      readAt.push(clock.steady());
    }
    if (at > 1 && shown === ENDLESS) throw new UpstreamError('server', 'it answered 500');
    return pageOf(at === 1 ? shown : [], momentOf(clock), await store.currentNumber());
  };
  const syncer = syncerOver({ page }, async () => expect.fail('only their list shows policies'));
  const fullSync = async () => {
    await clock.sleep(60_000);
    readAt = [];
    const { outcome, progress } = await syncer.fullSync('policy', 'test', true);
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

it('a policy that is gone is deleted by list scans that agree, after others, each a read delay behind the one before', async () => {
  const { lists, fullSync } = await policiesOf();
  lists.push(ALL, ALL);
  expect(await fullSync()).toMatchObject(COMPLETE);
  lists.push(['a'], FEWER, FEWER, FEWER);
  const { readAt, ...rest } = await fullSync();
  expect(rest).toEqual({ ...COMPLETE, deleted: 1 });
  expect(readAt.map((at) => at - readAt[0]!)).toEqual([0, SETTLE_MS, 2 * SETTLE_MS, 3 * SETTLE_MS]);
});

/** A full sync of three known assessments. `answers`: what each read of the second is answered with. */
async function assessmentsOf(answers: (Awaited<ReturnType<Refetch>> | Error)[]) {
  const { store, clock, syncerOver } = await mirror();
  await store.makeDue('risk_assessment', ['r1', 'r2', 'r3'], momentOf(clock));
  const syncer = syncerOver({ probe: async () => undefined }, async ({ id }) => {
    const answer = id === 'r2' ? answers.shift() : undefined;
    if (answer instanceof Error) throw answer;
    return answer ?? { outcome: 'applied', applied: READ };
  });
  return await syncer.fullSync('risk_assessment', 'test', false);
}

const FAILED = { outcome: 'failed', error: 'it answered 500', isOwn: true } as const;
const SILENT = { outcome: 'failed', error: 'no answer' } as const;
const UNREAD = '1 of 3 known records could not be read at their own addresses: r2';
const MISSING = { outcome: 'missing', missing: 'first' } as const;

it.each([
  ['cannot be read', [FAILED], UNREAD, 'unread r2'],
  ['cannot be read again after a 404', [MISSING, FAILED], UNREAD, 'unread r2'],
  ['is not answered', [SILENT], UNREAD, undefined],
  ['is read in the end', [MISSING], null, undefined],
])(
  'assessments of which one %s are named, and accepted if it may stay so',
  async (_, answers, error, stays) => {
    const result = await assessmentsOf([...answers]);
    expect(result.outcome).toBe(error === null ? 'complete' : 'incomplete');
    expect(result.error).toBe(error);
    expect(result.stays).toBe(stays);
  },
);

it('a full sync ends with the failure of the database, though other reads go on', async () => {
  await expect(assessmentsOf([new StoreUnavailable('the disk is full')])).rejects.toThrow('the disk is full');
});

it.each([
  ['that a read has verified before', {}, 'v1'],
  ['that its read has just brought back', { outcome: 'revived', witness: false, announced: true }, undefined],
] as const)('a vendor that the list hides, %s, keeps a full sync incomplete', async (_, applied, stays) => {
  const { store, clock, syncerOver } = await mirror();
  await store.makeDue('vendor', ['v1'], momentOf(clock));
  const page: Upstream['page'] = async () => pageOf([], momentOf(clock), await store.currentNumber());
  const syncer = syncerOver({ page }, async () => ({ outcome: 'applied', applied: { ...READ, ...applied } }));
  const { outcome, error, stays: accepted } = await syncer.fullSync('vendor', 'test', true);
  expect({ outcome, error, accepted }).toEqual({
    outcome: 'incomplete',
    error: 'the list leaves out records that their own addresses still show: v1',
    accepted: stays,
  });
});
