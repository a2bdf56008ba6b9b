import { expect, it } from 'vitest';
import { createCandidateProof } from '../../src/backfill/candidate-search.ts';
import { createUnnamedEvents } from '../../src/backfill/unnamed-events.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import {
  DEFAULT_ID_POINTERS,
  type LearnedPointer,
  payloadIn,
  recordIdIn,
  withLearned,
} from '../../src/compliance/pointers.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import type { RepairStore, UnreadEvent } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const eventOf = (seq: number, data: object): UnreadEvent => ({
  seq,
  id: `evt_${seq}`,
  type: 'risk.assessed',
  kind: 'risk_assessment',
  attempts: 1,
  body: JSON.stringify({ data }),
});

/** Failed events in a store that retries them as the real one does, and an API that shows what a test says. */
function scene(failed: UnreadEvent[]) {
  const clock = new HeldClock();
  const api = { shown: new Set<string>(), asked: [] as string[], failing: /^$/ };
  const mirror = {
    learned: [] as LearnedPointer[],
    retried: [] as string[],
    records: new Map<string, string>(),
    putOff: new Map<string, string>(),
    until: new Map<string, number>(),
    failure: null as Error | null,
    refuses: '',
  };
  const isLeft = ({ id }: UnreadEvent) => !mirror.records.has(id);
  const store = {
    seekAnew: async () => undefined,
    learnedPointers: async () => mirror.learned,
    learnPointer: async ({ isUsed, kind, path }) => {
      if (isUsed) mirror.learned.push({ kind, path });
    },
    async failedWithoutRecord(after, limit) {
      const { failure } = mirror;
      mirror.failure = null;
      if (failure !== null) throw failure;
      return failed.filter((event) => isLeft(event) && event.seq > after).slice(0, limit);
    },
    async retryEvent(id, { pointers }) {
      mirror.retried.push(id);
      const { body, kind } = failed.find((event) => event.id === id)!;
      const recordId = recordIdIn(payloadIn(body), kind, withLearned(pointers, mirror.learned));
      if (recordId === null || mirror.refuses === id) return { outcome: 'failed', error: 'cannot be read' };
      mirror.records.set(id, recordId);
      return { outcome: 'processed', kind, recordId };
    },
    unreadEvents: async ({ wall }, limit) =>
      failed
        .map((event) => ({ event, until: mirror.until.get(event.id) ?? 0 }))
        .filter(({ event, until }) => isLeft(event) && until <= wall)
        .sort((a, b) => a.until - b.until)
        .slice(0, limit)
        .map(({ event }) => event),
    putOffUnread: async ({ id }, error, until) => {
      mirror.putOff.set(id, error);
      mirror.until.set(id, until);
    },
    shownIds: async () => [],
  } as Partial<RepairStore> as RepairStore;
  const shows = async (_kind: string, id: string) => {
    api.asked.push(id);
    if (api.failing.test(id)) throw new UpstreamError('server', 'answered 500');
    return api.shown.has(id);
  };
  const rules = {
    pointers: DEFAULT_ID_POINTERS,
    timing: { settleMs: 10 },
    toleranceMs: 0,
    guardPercent: 20,
    eventsOnly: false,
  };
  const events = createUnnamedEvents({
    store,
    clock,
    random: () => 1,
    signal: new AbortController().signal,
    rules,
    proof: createCandidateProof({ store, clock, upstream: { shows }, requestsPerMinute: 600 }),
    onFound: () => undefined,
  });
  return { api, mirror, clock, events };
}

it('failed events that the present settings understand are read again also if the database failed at the first attempt', async () => {
  const { mirror, events } = scene([eventOf(3, { riskAssessmentId: 'ra_7' })]);
  mirror.failure = new StoreUnavailable('the disk is full');
  await expect(events.look()).rejects.toThrow(StoreUnavailable);
  expect(await events.look()).toBe(false);
  expect(await events.look()).toBe(false);
  expect(mirror.retried).toEqual(['evt_3']);
});

it('a start reads again all failed events that the settings understand, however many, and leaves the others', async () => {
  const all = Array.from({ length: 250 }, (_, n) =>
    eventOf(n + 1, n % 2 === 0 ? { riskAssessmentId: `ra_${n}` } : { says: 'nothing' }),
  );
  const { mirror, events } = scene(all);
  await events.look();
  expect(mirror.retried).toEqual(all.filter((_, n) => n % 2 === 0).map(({ id }) => id));
});

it('a place that was learned settles all failed events that have an id there, without a request for each', async () => {
  const { api, mirror, events } = scene([
    eventOf(3, { risk: { ref: 'ra_3' } }),
    eventOf(4, { risk: { ref: 'ra_4' } }),
  ]);
  api.shown.add('ra_4');
  // Nothing is known of the first one yet.
  await events.look();
  expect([api.asked, [...mirror.records]]).toEqual([['ra_3', 'ra_4'], [['evt_4', 'ra_4']]]);
  await events.look();
  expect(api.asked).toEqual(['ra_3', 'ra_4']);
  expect(mirror.records.get('evt_3')).toBe('ra_3');
});

it('an event is about the record that was proven for it, also where a place learned before shows another value', async () => {
  const { api, mirror, events } = scene([eventOf(3, { risk: { ref: 'gone' }, about: { ref: 'ra_7' } })]);
  await events.look();
  mirror.until.clear();
  mirror.learned.push({ kind: 'risk_assessment', path: 'risk.ref' });
  api.shown.add('ra_7');
  await events.look();
  expect([...mirror.records]).toEqual([['evt_3', 'ra_7']]);
});

it('a place is not learned from an event in which another value was as likely', async () => {
  const { api, mirror, events } = scene([
    eventOf(3, { old: { risk_id: 'ra_1' }, present: { risk_id: 'ra_2' } }),
  ]);
  api.shown.add('ra_1');
  await events.look();
  expect([[...mirror.records], mirror.learned]).toEqual([[['evt_3', 'ra_1']], []]);
});

it('an event that cannot be processed once its record is found is put off with the reason', async () => {
  const { api, mirror, clock, events } = scene([eventOf(3, { risk: { ref: 'ra_3' } })]);
  api.shown.add('ra_3');
  mirror.refuses = 'evt_3';
  await events.look();
  expect([...mirror.putOff]).toEqual([['evt_3', 'cannot be read']]);
  expect(mirror.until.get('evt_3')).toBe(clock.wall() + 60_000);
});

it('events whose searches the API always fails do not keep the others from their turn', async () => {
  const { api, mirror, clock, events } = scene(
    [3, 4, 5, 6, 7, 8].map((seq) => eventOf(seq, { risk: { ref: `ra_${seq}` } })),
  );
  api.failing = /[34567]/;
  api.shown.add('ra_8');
  for (let look = 0; look < 12 && mirror.records.size === 0; look += 1) {
    await events.look().catch(() => undefined);
    await clock.advance(30_000);
  }
  expect([...mirror.records]).toEqual([['evt_8', 'ra_8']]);
  expect(mirror.putOff.get('evt_3')).toBe('the search for its record failed: answered 500');
});

it('after a failed search the next one waits, the longer the more have failed in a row', async () => {
  const { api, clock, events } = scene([3, 4, 5].map((seq) => eventOf(seq, { risk: { ref: `ra_${seq}` } })));
  api.failing = /./;
  await expect(events.look()).rejects.toThrow('answered 500');
  expect(await events.look()).toBe(false);
  await clock.advance(1_000);
  await expect(events.look()).rejects.toThrow('answered 500');
  await clock.advance(1_000);
  expect(await events.look()).toBe(false);
  expect(api.asked).toHaveLength(2);
  await clock.advance(1_000);
  api.failing = /3/;
  await expect(events.look()).rejects.toThrow('answered 500');
  expect(api.asked).toHaveLength(4);
  // Others have succeeded meanwhile, so this is the first failure in a row.
  await clock.advance(1_000);
  await expect(events.look()).rejects.toThrow('answered 500');
});
