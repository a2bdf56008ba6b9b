import { expect, it, onTestFinished } from 'vitest';
import { createRefetch } from '../../src/backfill/refetch.ts';
import type { Upstream } from '../../src/backfill/upstream.ts';
import { isUnreadable, UpstreamError } from '../../src/compliance/errors.ts';
import type { FetchedKind, Kind } from '../../src/compliance/kinds.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { openStore } from '../../src/store/open.ts';
import type { ReadMoment } from '../../src/store/store.ts';
import { createScene, type Scene, SETTLE_MS, TIMING } from '../store/scene.ts';

/** A mirror of a service that answers 404 for all vendors and assessments that are not `found`. */
async function blindScene() {
  const store = await openStore(':memory:');
  const scene = await createScene(async () => ({
    store,
    query: async () => [],
    close: () => store.close(),
  }));
  onTestFinished(scene.close);
  const api = {
    found: new Set<string>(),
    unusable: new Set<string>(),
    failing: new Set<string>(),
    asked: [] as string[],
    /** How old all answers are. */
    agedMs: 0,
    limitedMs: null as number | null,
    /** How long the next answers with a record take. */
    takesMs: [] as number[],
  };
  const witnesses: { kind: string; at: number }[] = [];
  const moment = async () => scene.endRead(await scene.beginRead());
  const upstream = {
    async record(_kind: string, id: string) {
      api.asked.push(id);
      if (api.unusable.has(id)) throw new UpstreamError('malformed', 'the answer is about another one');
      if (api.failing.has(id)) throw new UpstreamError('server', `GET /vendors/${id}: answered 500`);
      if (api.limitedMs !== null)
        throw new UpstreamError('rate_limited', 'answered 429', { retryAfterMs: api.limitedMs });
      const { agedMs } = api;
      const ago = ({ beganAt, endedAt, ...read }: ReadMoment) => ({
        ...read,
        beganAt: beganAt - agedMs,
        endedAt: endedAt - agedMs,
      });
      if (!api.found.has(id)) return { answer: { outcome: 'missing', agedMs }, read: ago(await moment()) };
      scene.pass(api.takesMs.shift() ?? 0);
      return { answer: { outcome: 'found', object: { id }, agedMs }, read: ago(await moment()) };
    },
    isOwnFault: (error: unknown) => error instanceof UpstreamError && isUnreadable(error),
    isRejected: () => false,
    noteWitness: (kind: string, { beganAt }: { beganAt: number }) => witnesses.push({ kind, at: beganAt }),
    witnessedAt: (kind: string, before: number) =>
      witnesses.findLast((one) => one.kind === kind && one.at <= before)?.at ?? null,
  } as unknown as Upstream;
  const clock = {
    wall: () => scene.now().wall,
    steady: () => scene.now().steady,
    sleep: async () => undefined,
  };
  const refetch = createRefetch({
    store,
    upstream,
    clock,
    timing: TIMING,
    idsBeside: { answered: async () => undefined, search: async () => ({ shown: [], restInMs: null }) },
    pointers: DEFAULT_ID_POINTERS,
    random: () => 1,
    signal: new AbortController().signal,
    onApplied: () => undefined,
  } as unknown as Parameters<typeof createRefetch>[0]);
  const read = async (
    kind: FetchedKind,
    id: string,
    over: { attempts?: number; syncRunId?: number } = {},
  ) => {
    const { attempts = 0, syncRunId = null } = over;
    return await refetch({ kind, id, attempts, tries: 1, syncRunId, lane: 'live', absentFromList: false });
  };
  return { scene, api, read };
}

const pendingOf = async (scene: Scene, kind: Kind) =>
  (await scene.store.list('records', { kind, deletion_pending: true, limit: 9 })).items.map(({ id }) => id);
/** Reads of what its newest event may be ahead of, until they count. */
async function tooEarly(scene: Scene, read: () => Promise<unknown>): Promise<void> {
  for (const settles of [1, 6, 12]) {
    scene.pass(settles * SETTLE_MS);
    if (settles < 12) expect(await read()).toEqual({ outcome: 'missing', missing: 'first' });
  }
}

const NOT_COMPARED = {
  outcome: 'failed',
  error: 'the API answers 404, and no other record can be read to compare with',
};

/** Read after read cannot compare `ven_1`, until it has failed so often that this is no chance. */
async function expectPatience(
  scene: Scene,
  read: Awaited<ReturnType<typeof blindScene>>['read'],
): Promise<void> {
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  scene.pass(SETTLE_MS);
  for (let attempts = 0; attempts < 9; attempts += 1)
    expect(await read('vendor', 'ven_1', { attempts })).toEqual(NOT_COMPARED);
  expect(await read('vendor', 'ven_1', { attempts: 9 })).toEqual({ outcome: 'missing', missing: 'proven' });
}

it('the last record of all waits for a person only after it was asked for twice with nothing to compare it with', async () => {
  const { scene, read } = await blindScene();
  await scene.show('vendor', 'ven_1', { name: 'Only' });
  const pending = () => pendingOf(scene, 'vendor');
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  scene.pass(SETTLE_MS);
  expect(await read('vendor', 'ven_1')).toEqual(NOT_COMPARED);
  expect(await pending()).toEqual([]);
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'pending' });
  expect(await pending()).toEqual(['ven_1']);
});

it.each([
  [
    'goes without a person where it was the last record of all',
    ['ven_1'],
    { outcome: 'missing', missing: 'proven' },
  ],
  ['stays while another one is known and cannot be read', ['ven_1', 'ven_2'], NOT_COMPARED],
])('a vendor whose deletion an event has reported %s', async (_, vendors, expected) => {
  const { scene, read } = await blindScene();
  for (const id of vendors) await scene.show('vendor', id, { name: 'A vendor' });
  await scene.accept(scene.event({ type: 'vendor.removed', kind: 'vendor', recordId: 'ven_1' }));
  await scene.work();
  scene.pass(SETTLE_MS);
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  scene.pass(SETTLE_MS);
  expect(await read('vendor', 'ven_1', { attempts: 1 })).toEqual(expected);
});

it('an assessment stays while the others of its kind answer 404 too, however often it is read meanwhile', async () => {
  const { scene, api, read } = await blindScene();
  const ids = ['risk_1', 'risk_2', 'risk_3'];
  for (const id of ids) await scene.show('risk_assessment', id, { id });
  await scene.show('vendor', 'ven_1', { id: 'ven_1' });
  api.found.add('ven_1');
  for (const id of ids)
    expect(await read('risk_assessment', id)).toEqual({ outcome: 'missing', missing: 'first' });
  for (let round = 0; round < 3; round += 1) {
    scene.pass(SETTLE_MS);
    for (const id of ids)
      expect(await read('risk_assessment', id, { attempts: round })).toEqual(NOT_COMPARED);
  }
  expect(await pendingOf(scene, 'risk_assessment')).toEqual([]);
  for (const id of ['risk_2', 'risk_3']) api.found.add(id);
  expect(await read('risk_assessment', 'risk_1')).toEqual({ outcome: 'missing', missing: 'proven' });
});

it('assessments that are all gone wait for each other until a person is asked, and go once that approves', async () => {
  const { scene, api, read } = await blindScene();
  const ids = ['risk_1', 'risk_2'];
  for (const id of ids) await scene.show('risk_assessment', id, { id });
  await scene.show('vendor', 'ven_1', { id: 'ven_1' });
  api.found.add('ven_1');
  const readBoth = async (attempts: number) => {
    scene.pass(SETTLE_MS);
    return [
      await read('risk_assessment', 'risk_1', { attempts }),
      await read('risk_assessment', 'risk_2', { attempts }),
    ];
  };
  await readBoth(0);
  for (let attempts = 0; attempts < 8; attempts += 1)
    expect(await readBoth(attempts)).toEqual([NOT_COMPARED, NOT_COMPARED]);
  const pending = { outcome: 'missing', missing: 'pending' };
  await readBoth(8);
  expect(await readBoth(9)).toEqual([pending, pending]);
  expect(await pendingOf(scene, 'risk_assessment')).toEqual(ids);
  const { digest } = await scene.store.pendingOf('risk_assessment', scene.now().wall);
  const decision = { untilWall: scene.now().wall + 3_600_000, eventsOnly: false };
  await scene.store.decideDeletions('risk_assessment', digest, decision, scene.now());
  const proven = { outcome: 'missing', missing: 'proven' };
  expect(await readBoth(10)).toEqual([proven, proven]);
});

it('a deletion that an event has reported is believed once the only other vendor has failed too for minutes', async () => {
  const { scene, api, read } = await blindScene();
  for (const id of ['ven_1', 'ven_2']) await scene.show('vendor', id, { id });
  api.unusable.add('ven_2');
  await scene.accept(scene.event({ type: 'vendor.removed', kind: 'vendor', recordId: 'ven_1' }));
  await scene.work();
  scene.pass(SETTLE_MS);
  await expectPatience(scene, read);
});

it('a deletion that an event has reported is not believed at once where a newer event has named the record', async () => {
  const { scene, read } = await blindScene();
  await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'Only' });
  const about = { kind: 'vendor', recordId: 'ven_1' } as const;
  await scene.accept(scene.event({ ...about, type: 'vendor.removed' }));
  await scene.work();
  scene.pass(1_000);
  await scene.accept(scene.event({ ...about, type: 'vendor.updated', shows: { name: 'Back' } }));
  await scene.work();
  scene.pass(SETTLE_MS);
  await expectPatience(scene, read);
});

it('a record that many others ask for as a witness is not put off by that', async () => {
  const { scene, read } = await blindScene();
  const ids = ['risk_1', 'risk_2', 'risk_3', 'risk_4'];
  for (const id of ids) await scene.show('risk_assessment', id, { id });
  for (const id of ids) await read('risk_assessment', id);
  for (let round = 0; round < 3; round += 1) {
    scene.pass(SETTLE_MS);
    for (const id of ids) await read('risk_assessment', id, { attempts: round });
  }
  const last = await scene.store.someLiveRecord('risk_assessment', ids.slice(0, 3));
  // Once as a witness, and then by its own reads.
  expect(last).toEqual({ id: 'risk_4', attempts: 4 });
});

it('another record that was read long before the last 404 is no witness for it: both are read again', async () => {
  const { scene, api, read } = await blindScene();
  for (const id of ['ven_1', 'ven_2']) await scene.show('vendor', id, { id });
  api.found.add('ven_2');
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  await read('vendor', 'ven_2');
  scene.pass(2 * SETTLE_MS);
  api.asked = [];
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'proven' });
  expect(api.asked).toEqual(['ven_1', 'ven_2', 'ven_1', 'ven_2']);
});

it('another record that is read long after the last 404 is no witness for it', async () => {
  const { scene, api, read } = await blindScene();
  for (const id of ['ven_1', 'ven_2']) await scene.show('vendor', id, { id });
  api.found.add('ven_2');
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  scene.pass(SETTLE_MS);
  api.takesMs.push(0, Math.max(SETTLE_MS, 5_000) + 1);
  expect(await read('vendor', 'ven_1')).toEqual(NOT_COMPARED);
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'proven' });
});

it('a record of another kind is no witness: only the path of one kind may be lost', async () => {
  const { scene, api, read } = await blindScene();
  await scene.show('vendor', 'ven_1', { id: 'ven_1' });
  await scene.show('risk_assessment', 'risk_1', { id: 'risk_1' });
  api.found.add('risk_1');
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'first' });
  scene.pass(SETTLE_MS);
  expect(await read('vendor', 'ven_1')).toEqual(NOT_COMPARED);
  expect(await read('vendor', 'ven_1')).toEqual({ outcome: 'missing', missing: 'pending' });
});

it('an id that an event names is not judged while the only other vendor cannot be read', async () => {
  const { scene, read } = await blindScene();
  await scene.show('vendor', 'ven_1', { name: 'Only' });
  await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_9' }));
  await scene.work();
  await tooEarly(scene, () => read('vendor', 'ven_9'));
  expect(await read('vendor', 'ven_9')).toEqual(NOT_COMPARED);
  expect(await scene.openProblems()).toEqual([]);
});

it('a vendor that only its list can show stays, and an event about it opens one problem, which a list settles for good', async () => {
  const { scene, read } = await blindScene();
  await scene.show('vendor', '..', { name: 'Only in its list' });
  await scene.accept(scene.event({ kind: 'vendor', recordId: '..' }));
  await scene.work();
  const skipped = { outcome: 'failed', error: 'no request path can carry this id' };
  for (let round = 0; round < 3; round += 1) {
    scene.pass(SETTLE_MS);
    expect(await read('vendor', '..', { attempts: round })).toEqual(skipped);
    expect(await scene.openProblems()).toEqual(round === 0 ? ['unknown_record vendor ..'] : []);
    await scene.store.endProblem({ reason: 'unknown_record', kind: 'vendor', recordId: '..' }, scene.now());
  }
  expect(await scene.row('vendor', '..')).toMatchObject({ deleted_at: null });
});

it('an assessment without a usable answer waits for a person after ten of them, while another one can be read', async () => {
  const { scene, api, read } = await blindScene();
  for (const id of ['risk_1', 'risk_2']) await scene.show('risk_assessment', id, { id });
  for (const id of ['ven_1', 'ven_2']) await scene.show('vendor', id, { id });
  api.found.add('ven_2');
  for (const id of ['risk_1', 'risk_2', 'ven_1']) api.unusable.add(id);
  const asked = async (kind: FetchedKind, id: string, attempts: number) => {
    expect(await read(kind, id, { attempts })).toMatchObject({ outcome: 'failed' });
    return await pendingOf(scene, kind);
  };
  scene.pass(SETTLE_MS);
  expect(await asked('risk_assessment', 'risk_1', 9)).toEqual([]);
  api.unusable.delete('risk_2');
  api.found.add('risk_2');
  expect(await asked('risk_assessment', 'risk_1', 8)).toEqual([]);
  expect(await asked('vendor', 'ven_1', 9)).toEqual([]);
  expect(await asked('risk_assessment', 'risk_1', 9)).toEqual(['risk_1']);
  expect(await scene.row('risk_assessment', 'risk_1')).toMatchObject({ deleted_at: null });
});

it('a vendor whose address alone fails is a problem of its own after some tries, which a person can accept', async () => {
  const { scene, api, read } = await blindScene();
  for (const id of ['ven_1', 'ven_2']) await scene.show('vendor', id, { id });
  for (const id of ['ven_1', 'ven_2']) api.failing.add(id);
  const failed = { outcome: 'failed', error: 'GET /vendors/ven_1: answered 500', isOwn: true };
  for (const attempts of [0, 1, 2, 3]) {
    expect(await scene.openProblems()).toEqual([]);
    // While no other can be read either, it may be the whole service.
    expect(await read('vendor', 'ven_1', { attempts })).toMatchObject(failed);
  }
  api.failing.delete('ven_2');
  api.found.add('ven_2');
  await read('vendor', 'ven_1', { attempts: 4 });
  expect(await scene.openProblems()).toEqual(['unreadable_answer vendor ven_1']);
  const [shown] = (await scene.store.summary()).problems;
  expect(await scene.store.resolveProblem(shown!.id, shown!.digest, scene.now())).toBe('resolved');
  await read('vendor', 'ven_1', { attempts: 5 });
  expect(await scene.openProblems()).toEqual([]);
});

/** The assessment is read again after so long, and no sooner. */
async function dueIn(scene: Scene, ms: number): Promise<void> {
  scene.pass(ms - 1);
  expect(await scene.due('risk_assessment', 9)).toEqual([]);
  scene.pass(1);
  expect(await scene.due('risk_assessment', 9)).toMatchObject([{ id: 'ra_1' }]);
}

it('answers of a cache are waited for until they can be newer than the event, with one problem meanwhile, and not asked for in a loop', async () => {
  const { scene, api, read } = await blindScene();
  api.found.add('ra_1');
  await scene.show('risk_assessment', 'ra_1', { id: 'ra_1' });
  await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'ra_1', shows: {} }));
  await scene.work();
  scene.pass(SETTLE_MS);
  api.agedMs = 6 * SETTLE_MS;
  for (let times = 1; times <= 2; times += 1) {
    await read('risk_assessment', 'ra_1', { attempts: times });
    expect(await scene.store.list('problems', { limit: 9 })).toMatchObject({
      items: [{ reason: 'unreadable_answer', resolved_at: null }],
    });
    await dueIn(scene, 7 * SETTLE_MS);
  }
});

it('what the service limits is read again when it has said', async () => {
  const { scene, api, read } = await blindScene();
  await scene.show('risk_assessment', 'ra_1', { id: 'ra_1' });
  await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'ra_1', shows: {} }));
  await scene.work();
  scene.pass(SETTLE_MS);
  api.limitedMs = 2_345;
  await read('risk_assessment', 'ra_1', { attempts: 7 });
  await dueIn(scene, 2_345);
});
