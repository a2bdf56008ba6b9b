import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { momentOf } from '../../src/platform/clock.ts';
import { loadConfig } from '../../src/platform/config.ts';
import { createMetrics } from '../../src/platform/metrics.ts';
import { keepUp } from '../../src/service/upkeep.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const HOUR_MS = 3_600_000;
/** Short, since something is looked at each second of it. */
const BODIES_KEPT_MS = 10 * 60_000;

async function upkeep(over: (store: Store) => Partial<Store> = () => ({})) {
  const store = await openStore(':memory:');
  const clock = new HeldClock();
  const told: { type?: string; count?: number }[] = [];
  const errors: unknown[] = [];
  const stop = new AbortController();
  const run = keepUp(
    {
      config: {
        retention: { bodyDays: BODIES_KEPT_MS / (24 * HOUR_MS), historyDays: 0 },
        idPointers: loadConfig({}).idPointers,
      },
      store: { ...store, ...over(store) },
      clock,
      random: () => 0.5,
      metrics: createMetrics(),
      logger: pino({}, { write: (line) => void told.push(JSON.parse(line)) }),
      notices: {
        to: null,
        look: () => Promise.reject(new Error('nobody asks')),
        show: async () => null,
      },
      stopping: stop.signal,
      onError: (error) => errors.push(error),
    },
    stop.signal,
  );
  onTestFinished(async () => {
    stop.abort();
    await run;
    await store.close();
  });
  const accept = (id: string) =>
    store.accept(
      {
        events: [
          {
            id,
            type: 'x.y',
            created: '2026-01-01T00:00:00Z',
            createdMs: 0,
            t: '1',
            body: '{}',
            kind: null,
            recordId: null,
            known: false,
          },
        ],
        unusable: [],
      },
      momentOf(clock),
      { settleMs: 10_000 },
    );
  const hasBody = async (id: string) => (await store.show('deliveries', id))?.body !== null;
  /** As the log has it. */
  const trimmed = () =>
    told.reduce((sum, { type, count = 0 }) => sum + (type === 'event_bodies' ? count : 0), 0);
  return { clock, errors, accept, hasBody, trimmed };
}

it('the service trims by itself, soon after its start and then hourly', async () => {
  const { clock, accept, hasBody, trimmed } = await upkeep();
  await accept('e1');
  await clock.advance(2 * 60_000);
  expect(await hasBody('e1')).toBe(true);
  await clock.advance(HOUR_MS);
  expect(await hasBody('e1')).toBe(false);
  expect(trimmed()).toBe(1);
});

it('a round that fails is told of, and the next one comes an hour later all the same', async () => {
  let failures = 2;
  const { clock, errors, accept, hasBody } = await upkeep((store) => ({
    trim: (thing, step) => {
      failures -= 1;
      return failures >= 0 ? Promise.reject(new Error('locked')) : store.trim(thing, step);
    },
  }));
  await accept('e1');
  await clock.advance(60_000);
  expect(errors).toHaveLength(1);
  await clock.advance(2 * HOUR_MS);
  expect(await hasBody('e1')).toBe(false);
  expect(errors).toHaveLength(2);
});

it('what keeps new columns from coming is told once for as long as it lasts, as while a reader holds a view', async () => {
  let isHeld = true;
  const { clock, errors } = await upkeep((store) => ({
    seeFields: async (look, limit) => {
      if (isHeld) throw new Error('held');
      return await store.seeFields(look, limit);
    },
  }));
  await clock.advance(5_000);
  expect(errors).toHaveLength(1);
  isHeld = false;
  await clock.advance(2_000);
  isHeld = true;
  await clock.advance(5_000);
  expect(errors).toHaveLength(2);
});

it('a new field is learned once, and not again each second', async () => {
  const seen = [{ kind: 'vendor', path: 'tier', type: 'text' }] as never[];
  let times = 0;
  const { clock } = await upkeep(() => ({
    seeFields: async (look) => ({
      ...(look ?? { through: 1, seen, objects: [], waiting: [] }),
      isOver: true,
    }),
    learnFields: async () => {
      times += 1;
      return [];
    },
  }));
  await clock.advance(5_000);
  expect(times).toBe(1);
});

it('more fields than columns are a problem, until a person accepts it or a setting excludes some', async () => {
  const store = await openStore(':memory:');
  const { clock } = await upkeep(() => store);
  const wide = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`field${n}`, n]));
  const show = async (data: object) => {
    const { steady, wall } = momentOf(clock);
    const read = { number: await store.currentNumber(), beganAt: steady, endedAt: steady, endedWall: wall };
    const context = {
      cause: { cause: 'sync', causeId: '1' },
      syncRunId: null,
      timing: { settleMs: 0 },
      pointers: loadConfig({}).idPointers,
    } as const;
    await store.applyReads(
      'vendor',
      [{ id: 'v1', json: JSON.stringify({ id: 'v1', ...data }) }],
      read,
      context,
    );
  };
  await show(wide);
  await clock.advance(5_000);
  const open = async () =>
    (await store.list('problems', { open: true, limit: 9 })).items.map(({ reason, kind }) => [reason, kind]);
  expect(await open()).toEqual([['full_columns', 'vendor']]);
  const [problem] = (await store.list('problems', { open: true, limit: 9 })).items;
  expect(await store.resolveProblem(problem!.id, problem!.digest, momentOf(clock))).toBe('resolved');
  await show({ ...wide, another: 1 });
  await clock.advance(5_000);
  expect(await open()).toEqual([]);
  // It is no difference from the service.
  const kinds = (await store.list('sync_status', { limit: 9 })).items;
  expect(kinds).toMatchObject([{ accepted: 0 }, { accepted: 0 }, { accepted: 0 }]);
});
