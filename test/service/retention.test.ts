import { expect, it, onTestFinished } from 'vitest';
import { createTrim, retentionTasks } from '../../src/service/upkeep.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, Store } from '../../src/store/store.ts';

const DAY_MS = 86_400_000;
const START = Date.parse('2026-01-01T00:00:00Z');
const TIMING = { settleMs: 10_000 };
const KEEP = { bodyDays: 90, historyDays: 0 };

const ignored = (id: string): IncomingEvent => ({
  id,
  type: 'ledger.closed',
  created: '2026-01-01T00:00:00Z',
  createdMs: START,
  t: '1',
  kind: null,
  recordId: null,
  known: false,
  body: `{"id":"${id}"}`,
});

async function scene() {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  let wall = START;
  let pauses = 0;
  const clock = {
    wall: () => wall,
    steady: () => wall,
    sleep: async () => {
      pauses += 1;
    },
  };
  const now = () => ({ wall, steady: wall });
  return {
    store,
    clock,
    pauses: () => pauses,
    at: (days: number) => {
      wall = START + days * DAY_MS;
    },
    accept: (...ids: string[]) => store.accept({ events: ids.map(ignored), unusable: [] }, now(), TIMING),
    audit: () => store.audit({ actor: 'a', action: 'b', outcome: 'ok', target: null }, now()),
  };
}

/** Until nothing that old is left, or the round ends early. */
async function trim(options: Parameters<typeof createTrim>[0], signal: AbortSignal) {
  return (await createTrim(options)(signal)).rows;
}

const signal = new AbortController().signal;
const bodies = async (store: Store, ...ids: string[]) =>
  Promise.all(ids.map(async (id) => (await store.show('deliveries', id))?.body != null));

it('trims bodies once they are as old as RETENTION_BODY_DAYS says, and nothing else unasked', async () => {
  const { store, clock, at, accept, audit } = await scene();
  await accept('e1');
  await audit();
  at(1);
  await accept('e2');
  at(90.5);
  expect(await trim({ store, clock, settings: KEEP }, signal)).toEqual({ event_bodies: 1 });
  expect(await bodies(store, 'e1', 'e2')).toEqual([false, true]);
  at(4000);
  expect(await trim({ store, clock, settings: KEEP }, signal)).toEqual({ event_bodies: 1 });
  expect((await store.list('audit', { limit: 5 })).items).toHaveLength(1);
});

it('takes the history away where asked, and the ids only after 400 days', async () => {
  const { store, clock, at, accept, audit } = await scene();
  const settings = { bodyDays: 1, historyDays: 10 };
  await accept('e1');
  await audit();
  at(11);
  await accept('e2');
  expect(await trim({ store, clock, settings }, signal)).toEqual({ event_bodies: 1, events: 1, audit: 1 });
  expect(await accept('e1')).toEqual([{ status: 'duplicate', conflicting: false }]);
  at(399);
  expect(await trim({ store, clock, settings }, signal)).toEqual({ event_bodies: 1 });
  at(401);
  expect(await trim({ store, clock, settings }, signal)).toEqual({ event_ids: 1 });
  expect(await accept('e1')).toMatchObject([{ status: 'accepted' }]);
});

it('pauses between short steps, so that deliveries get the lock', async () => {
  const { store, clock, at, accept, pauses } = await scene();
  await accept(...Array.from({ length: 500 }, (_, n) => `e${n}`));
  at(100);
  expect(await trim({ store, clock, settings: KEEP }, signal)).toEqual({ event_bodies: 500 });
  expect(pauses()).toBe(2);
});

it('ends early when the service stops', async () => {
  const { store, clock, at, accept } = await scene();
  await accept('e1');
  at(100);
  const stopped = AbortSignal.abort();
  expect(await trim({ store, clock, settings: KEEP }, stopped)).toEqual({});
  expect(await bodies(store, 'e1')).toEqual([true]);
});

it('never asks for history where RETENTION_HISTORY_DAYS is 0, and for rejections after a week', () => {
  const things = (historyDays: number) =>
    retentionTasks({ ...KEEP, historyDays }).map(({ thing, days }) => `${thing} ${days}`);
  expect(things(0)).toEqual(['rejections 7', 'event_bodies 90', 'quarantined_bodies 90', 'event_ids 400']);
  expect(things(5)).toContain('changes 5');
});
