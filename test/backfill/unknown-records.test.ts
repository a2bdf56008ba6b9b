import { expect, it } from 'vitest';
import { createUnknownRecords } from '../../src/backfill/unknown-records.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { DEFAULT_ID_POINTERS, type IdPointers } from '../../src/compliance/pointers.ts';
import type { ProvenPointer, UnknownEvent, Verbs } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const eventOf = (seq: number, data: object, over: Partial<UnknownEvent> = {}): UnknownEvent => ({
  seq,
  id: `evt_${seq}`,
  type: 'risk.assessed',
  kind: 'risk_assessment',
  recordId: null,
  body: JSON.stringify({ data }),
  named: null,
  ...over,
});

/** Events of one problem, and an API that shows what a test says. */
function scene(events: UnknownEvent[], pointers: IdPointers = DEFAULT_ID_POINTERS) {
  const api = {
    shown: new Set<string>(),
    asked: [] as string[],
    says: (_id: string, isShown: boolean) => isShown,
  };
  const mirror = { learned: [] as ProvenPointer[], retried: [] as string[], found: 0 };
  const store = {
    unknownEvents: async (_about, { before = Number.MAX_SAFE_INTEGER, limit }) =>
      events.filter(({ seq }) => seq < before).slice(0, limit),
    learnPointer: async (pointer) => void mirror.learned.push(pointer),
    retryEvent: async (id) => {
      mirror.retried.push(id);
      return { outcome: 'processed', kind: 'risk_assessment', recordId: 'x' };
    },
    shownIds: async (_kind, ids) => ids.filter((id) => api.shown.has(id)),
  } as Partial<Verbs> as Verbs;
  const { find, retryAll } = createUnknownRecords({
    store,
    clock: new HeldClock(),
    signal: new AbortController().signal,
    rules: { pointers, timing: { settleMs: 1 }, eventsOnly: false, toleranceMs: 0, guardPercent: 20 },
    upstream: {
      shows: async (_kind, id) => {
        api.asked.push(id);
        return api.says(id, api.shown.has(id));
      },
    },
    onFound: () => {
      mirror.found += 1;
    },
  });
  const ask = (recordId: string | null = null) => find({ kind: 'risk_assessment', recordId });
  return { api, mirror, ask, find, retryAll };
}

it('the one value that is a record is proven, each 404 between two answers with it', async () => {
  const { api, mirror, ask } = scene([eventOf(1, { number: 5, assessment: { ref: 'A-1', code: 'zz' } })]);
  api.shown.add('A-1');
  expect(await ask()).toMatchObject({ pointer: { path: 'assessment.ref', recordId: 'A-1', leads: false } });
  expect(api.asked).toEqual(['A-1', 'zz', '5', 'A-1']);
  expect(mirror.learned).toHaveLength(1);
});

it('a record that is answered only now and then proves nothing: all answers were 404 while a path was lost', async () => {
  const { api, mirror, ask } = scene([eventOf(1, { assessment: { ref: 'A-1', code: 'A-2' } })]);
  let times = 0;
  for (const id of ['A-1', 'A-2']) api.shown.add(id);
  api.says = () => {
    times += 1;
    return times === 1;
  };
  const { pointer, says } = await ask();
  expect(pointer).toBeNull();
  expect(says).toContain('try again');
  expect(mirror.learned).toEqual([]);
});

it.each<[string, object, string[], string]>([
  ['two values are records', { a: { ref: 'A-1' }, b: { ref: 'A-2' } }, ['A-1', 'A-2'], 'several values'],
  ['a likelier value may be of one that is gone', { code: 'A-1', b: { ref: 'A-2' } }, ['A-2'], 'code = A-1'],
  ['an equally likely value may be so', { a: { ref: 'A-1' }, b: { ref: 'A-2' } }, ['A-1'], 'b.ref = A-2'],
  ['none is a record', { ref: 'A-1' }, [], 'shows no record for ref = A-1'],
  ['nothing looks like an id', { name: 'One' }, ['One'], 'nothing else in it looks like an id'],
])('no place is learned where %s, and the answer says why', async (_, data, shown, why) => {
  const { api, mirror, ask } = scene([eventOf(1, data)]);
  for (const id of shown) api.shown.add(id);
  const { pointer, says } = await ask();
  expect(pointer).toBeNull();
  expect(says).toContain(`event evt_1: `);
  expect(says).toContain(why);
  expect(says).toContain('ID_POINTERS_RISK_ASSESSMENT');
  expect(mirror.learned).toEqual([]);
});

it('the id of a deleted record is not asked for', async () => {
  const { api, find } = scene([
    eventOf(1, { vendor: { ref: 'V-1' } }, { type: 'vendor.removed', kind: 'vendor' }),
  ]);
  api.shown.add('V-1');
  expect((await find({ kind: 'vendor', recordId: null })).says).toContain('announces a deletion');
  expect(api.asked).toEqual([]);
});

it('a policy is proven by a list that has shown it, since it has no address of its own', async () => {
  const { api, find } = scene([
    eventOf(1, { policy: { ref: 'P-1' } }, { type: 'policy.updated', kind: 'policy' }),
  ]);
  api.shown.add('P-1');
  expect(await find({ kind: 'policy', recordId: null })).toMatchObject({ pointer: { path: 'policy.ref' } });
  expect(api.asked).toEqual([]);
});

it('an older event is looked at where the newest shows nothing', async () => {
  const { api, ask } = scene([eventOf(2, { ref: 'gone' }), eventOf(1, { ref: 'A-1' })]);
  api.shown.add('A-1');
  expect(await ask()).toMatchObject({ pointer: { path: 'ref', eventId: 'evt_1' } });
});

it('beside an id that the API does not know the others are asked for, and what is proven goes before the defaults', async () => {
  const event = eventOf(
    1,
    { id: 'row_1', assessment: { ref: 'A-1' } },
    { recordId: 'row_1', named: 'row_1' },
  );
  const { api, ask } = scene([event]);
  api.shown.add('A-1');
  expect(await ask('row_1')).toMatchObject({ pointer: { path: 'assessment.ref', leads: true } });
  expect(api.asked).toEqual(['A-1']);
});

it('an answer that nobody can understand, or none, proves nothing', async () => {
  const { api, ask } = scene([eventOf(1, { ref: 'A-1' })]);
  api.says = () => {
    throw new UpstreamError('malformed', 'not understood');
  };
  expect((await ask()).says).toContain('could not be asked: not understood');
});

it('only events that the pointers find another record in are read again, however many there are', async () => {
  const events = Array.from({ length: 250 }, (_, nth) =>
    eventOf(1_000 - nth, {}, nth % 2 === 0 ? { named: 'A-1' } : { recordId: 'A-1', named: 'A-1' }),
  );
  const { mirror, retryAll } = scene(events);
  expect(await retryAll()).toBe(125);
  expect(mirror.retried).toEqual(events.filter(({ recordId }) => recordId === null).map(({ id }) => id));
  expect(mirror.found).toBe(1);
});
