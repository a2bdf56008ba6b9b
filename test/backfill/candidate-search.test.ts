import { expect, it } from 'vitest';
import { createCandidateProof, createIdsBeside } from '../../src/backfill/candidate-search.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import type { RepairStore, UnreadEvent } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const eventOf = (seq: number, data: object): UnreadEvent => ({
  seq,
  id: `evt_${seq}`,
  type: 'risk.assessed',
  kind: 'risk_assessment',
  attempts: 0,
  body: JSON.stringify({ data }),
});

/** The search beside the unknown id `row_17`. What a test changes later, it changes in the result. */
function scene(events: UnreadEvent[], requestsPerMinute = 60) {
  const clock = new HeldClock();
  const api = {
    /** Ids that it shows. */
    shown: new Set<string>(),
    /** Ids whose requests fail, and how. */
    failing: new Map<string, 'server' | 'malformed' | 'network'>(),
    asked: [] as string[],
  };
  const mirror = {
    known: [] as string[],
    searched: [] as number[],
    named: [] as string[],
    learned: [] as string[],
    openProblems: new Set<string>(),
  };
  const store = {
    eventsNaming: async (_kind, _id, { after = mirror.searched.at(-1) ?? 0, through = 0, limit }) =>
      events.filter(({ seq }) => seq > after && seq <= through).slice(0, limit),
    shownIds: async (_kind, ids) => mirror.known.filter((id) => ids.includes(id)),
    noteSearched: async (_kind, _id, { through, named }) => {
      if (through > 0) mirror.searched.push(through);
      mirror.named.push(...named);
    },
    learnPointer: async ({ path, isUsed }) => void mirror.learned.push(isUsed ? `${path}, used` : path),
    openProblem: async ({ recordId }) => void mirror.openProblems.add(recordId!),
    endProblem: async ({ recordId }) => mirror.openProblems.delete(recordId!),
  } as Partial<RepairStore> as RepairStore;
  const shows = async (_kind: string, id: string) => {
    api.asked.push(id);
    const failure = api.failing.get(id);
    if (failure !== undefined) throw new UpstreamError(failure, 'no useful answer');
    return api.shown.has(id);
  };
  const proof = createCandidateProof({ store, clock, upstream: { shows }, requestsPerMinute });
  const beside = createIdsBeside({
    store,
    clock,
    timing: { settleMs: 10 },
    signal: new AbortController().signal,
    proof,
    onFound: () => undefined,
  });
  const search = (canCompare: (() => Promise<boolean>) | null) =>
    beside.search('row_17', events.at(-1)!.seq, canCompare);
  return { api, mirror, clock, proof, beside, search };
}

const can = async () => true;
const cannot = async () => false;

it('what the API does not know beside an id counts only if it shows a record afterwards; else all is asked again', async () => {
  const { api, mirror, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })]);
  expect(await search(cannot)).toEqual({ shown: [], restInMs: 60_000 });
  expect([api.asked, mirror.searched]).toEqual([['ra_7', 'ra_8'], []]);
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect([api.asked, mirror.searched]).toEqual([['ra_7', 'ra_8', 'ra_7', 'ra_8'], [3]]);
});

it('an event that names nothing beside the unknown id is settled only if the API shows a record after that', async () => {
  const { mirror, search } = scene([eventOf(3, { id: 'row_17' })]);
  expect(await search(cannot)).toEqual({ shown: [], restInMs: 60_000 });
  expect(mirror.searched).toEqual([]);
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect(mirror.searched).toEqual([3]);
});

it('what was answered while there was no record to compare with counts no more once there is one', async () => {
  const { api, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })]);
  api.failing.set('ra_8', 'server');
  expect(await search(null)).toEqual({ shown: [], restInMs: 60_000 });
  api.failing.clear();
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect(api.asked).toEqual(['ra_7', 'ra_8', 'ra_7', 'ra_8']);
});

it('what the API does not know beside an id does not count because another id in the event is a known record’s', async () => {
  const { api, mirror, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })]);
  mirror.known.push('ra_8');
  expect(await search(cannot)).toMatchObject({ restInMs: 60_000 });
  expect(mirror.searched).toEqual([]);
  api.shown.add('ra_7');
  expect(await search(can)).toMatchObject({ restInMs: null });
  expect([mirror.named, mirror.searched]).toEqual([['ra_7', 'ra_8'], [3]]);
});

it('what the API does not know beside an id does not count because it shows a record in the next minute, when the budget has room for the rest of the event', async () => {
  const { api, mirror, clock, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })], 4);
  expect(await search(cannot)).toEqual({ shown: [], restInMs: 60_000 });
  api.shown.add('ra_7');
  for (let minutes = 0; minutes < 3; minutes += 1) {
    await clock.advance(60_000);
    await search(can);
  }
  expect([mirror.named, mirror.searched]).toEqual([['ra_7'], [3]]);
});

it('what the API does not know beside an id does not count because it shows a record after a failure', async () => {
  const events = [eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })];
  const { api, mirror, search } = scene(events);
  api.failing.set('ra_8', 'server');
  expect(await search(cannot)).toEqual({ shown: [], restInMs: 60_000 });
  api.failing.clear();
  api.shown.add('ra_7');
  expect(await search(can)).toMatchObject({ restInMs: null });
  expect([mirror.named, mirror.searched]).toEqual([['ra_7'], [3]]);
});

it('an id is asked for again for each event that names it, since its record may be newer, but once a round after a failure', async () => {
  const data = { id: 'row_17', ref: 'ra_7', other: 'ra_8' };
  const { api, mirror, search } = scene([eventOf(3, data), eventOf(4, data)]);
  api.failing.set('ra_8', 'server');
  expect(await search(can)).toEqual({ shown: [], restInMs: 60_000 });
  expect(api.asked).toEqual(['ra_7', 'ra_8', 'ra_7']);
  api.failing.clear();
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect([api.asked, mirror.searched]).toEqual([
    ['ra_7', 'ra_8', 'ra_7', 'ra_8', 'ra_8'],
    [3, 4],
  ]);
});

it('while there is no record to compare with, an id is asked for once, and events go on being searched until one is found', async () => {
  const gone = Array.from({ length: 1_000 }, (_, n) => eventOf(n + 1, { id: 'row_17', ref: 'ra_0' }));
  const { api, mirror, search } = scene([...gone, eventOf(1_001, { id: 'row_17', ref: 'ra_1' })]);
  api.shown.add('ra_1');
  expect(await search(null)).toEqual({ shown: [], restInMs: 15_000 });
  expect(await search(null)).toMatchObject({ shown: [{ id: 'ra_1' }], restInMs: null });
  expect(api.asked).toEqual(['ra_0', 'ra_1']);
  expect([mirror.named, mirror.searched]).toEqual([['ra_1'], []]);
});

it('where a record was found before is asked first, and all else too if that is none or not the only likely place', async () => {
  const events = [
    eventOf(3, { id: 'row_17', ref: 'ra_1', number: 77 }),
    eventOf(4, { id: 'row_17', ref: 'ra_2', number: 78 }),
    eventOf(5, { id: 'row_17', ref: 'none', number: 79 }),
    eventOf(6, { id: 'row_17', first: { ref: 'ra_1' }, second: { ref: 'ra_3' } }),
    eventOf(7, { id: 'row_17', first: { ref: 'ra_4' } }),
    eventOf(8, { id: 'row_17', first: { ref: 'ra_1' }, second: { ref: 'ra_5' } }),
  ];
  const { api, mirror, search } = scene(events);
  api.shown = new Set(['ra_1', 'ra_2', '79', 'ra_4', 'ra_5']);
  const { shown, restInMs } = await search(can);
  expect(shown.map(({ id }) => id)).toEqual(['ra_1', 'ra_2', '79', 'ra_1', 'ra_4', 'ra_1', 'ra_5']);
  expect([api.asked.includes('78'), restInMs]).toEqual([false, null]);
  // Only proposed, and not where an event names several records.
  expect(mirror.learned).toEqual(['ref', 'ref', 'number', 'first.ref', 'first.ref']);
});

it('a search ends at the second failure in a row, which is the service’s, and not at one for each of several ids', async () => {
  const events = ['a', 'b', 'c', 'd', 'e'].map((key, n) =>
    eventOf(n + 3, { id: 'row_17', ref: `ra_${key}` }),
  );
  const { api, search } = scene(events);
  for (const id of ['ra_a', 'ra_c']) api.failing.set(id, 'server');
  expect(await search(can)).toEqual({ shown: [], restInMs: 60_000 });
  api.asked.length = 0;
  await expect(search(can)).rejects.toThrow(UpstreamError);
  expect(api.asked).toEqual(['ra_a', 'ra_c']);
});

it('a search ends at once where nothing answers, which is no problem of an id', async () => {
  const { api, mirror, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })]);
  api.failing.set('ra_7', 'network');
  await expect(search(can)).rejects.toThrow(UpstreamError);
  expect([api.asked, [...mirror.openProblems]]).toEqual([['ra_7'], []]);
});

it('a small budget too leaves a request a minute for searches, and the next one waits for no longer than that', async () => {
  const { api, clock, proof, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7', other: 'ra_8' })], 1);
  expect([proof.left(), scene([], 60).proof.left()]).toEqual([1, 15]);
  await clock.advance(5_000);
  expect(await search(can)).toEqual({ shown: [], restInMs: 60_000 });
  await clock.advance(40_000);
  expect(await search(can)).toEqual({ shown: [], restInMs: 20_000 });
  await clock.advance(20_000);
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect(api.asked).toEqual(['ra_7', 'ra_8']);
});

it('no request asks for what may be the id of a policy, which has no address, or of a record that an event reports deleted', async () => {
  const { mirror, proof } = scene([]);
  mirror.known.push('pol_1');
  const candidates = ['pol_1', 'pol_2'].map((id) => ({ id, path: id, place: 0, isNameable: true }));
  const isShown = async () => true;
  for (const about of [
    { kind: 'policy', type: 'policy.updated' },
    { kind: 'vendor', type: 'vendor.removed' },
  ] as const)
    expect(await proof.provenOf({ ...eventOf(3, {}), ...about }, candidates, isShown)).toEqual([
      candidates[0],
    ]);
});

it('the problem of an answer that nobody understands ends with the search, also if another record can be compared with only then', async () => {
  const { api, mirror, beside, search } = scene([eventOf(3, { id: 'row_17', ref: 'ra_7' })]);
  api.failing.set('ra_7', 'malformed');
  expect(await search(null)).toEqual({ shown: [], restInMs: 60_000 });
  // A 404 for the unknown id itself is no answer to the others.
  await beside.answered('risk_assessment', 'row_17', 'missing');
  expect(mirror.openProblems).toEqual(new Set(['row_17']));
  api.failing.clear();
  expect(await search(can)).toEqual({ shown: [], restInMs: null });
  expect(mirror.openProblems).toEqual(new Set());
  // Of an answer to the id itself.
  mirror.openProblems.add('row_17');
  await beside.answered('risk_assessment', 'row_17', 'missing');
  expect(mirror.openProblems).toEqual(new Set());
});
