import pino from 'pino';
import { expect, it, onTestFinished } from 'vitest';
import { createMetrics } from '../../src/platform/metrics.ts';
import { keepUp } from '../../src/service/upkeep.ts';
import { openStore } from '../../src/store/open.ts';
import type { Store } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const HOUR_MS = 3_600_000;
/** Short, since something is looked at each second of it. */
const BODIES_KEPT_MS = 3 * HOUR_MS;

async function upkeep(over: (store: Store) => Partial<Store> = () => ({})) {
  const store = await openStore(':memory:');
  const clock = new HeldClock();
  const metrics = createMetrics();
  const errors: unknown[] = [];
  const stop = new AbortController();
  const run = keepUp(
    {
      config: {
        retention: { bodyDays: BODIES_KEPT_MS / (24 * HOUR_MS), historyDays: 0, dedupeDays: 400 },
        notify: { url: null, format: 'json' },
      },
      store: { ...store, ...over(store) },
      clock,
      random: () => 0.5,
      metrics,
      logger: pino({ level: 'silent' }),
      about: { version: '0', operators: '' },
      verdict: () => Promise.reject(new Error('nobody asks')),
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
      { wall: clock.wall(), steady: clock.steady() },
      { settleMs: 10_000 },
    );
  const hasBody = async (id: string) => (await store.showEvent(id))?.body !== null;
  return { clock, metrics, errors, accept, hasBody };
}

it('the service trims by itself, soon after its start and then hourly', async () => {
  const { clock, metrics, accept, hasBody } = await upkeep();
  await accept('e1');
  await clock.advance(2 * 60_000);
  expect(await hasBody('e1')).toBe(true);
  await clock.advance(BODIES_KEPT_MS + HOUR_MS);
  expect(await hasBody('e1')).toBe(false);
  const text = await metrics.registry.metrics();
  expect(text).toContain('compliance_mirror_trimmed_rows_total{what="event_bodies"} 1');
});

it('a backlog of more than one round is trimmed without an hour between, and told of meanwhile', async () => {
  let left = 3_000;
  const { clock, metrics } = await upkeep(() => ({
    trim: async (thing) => {
      if (thing === 'event_bodies') left -= 1;
      return { trimmed: 1, next: thing === 'event_bodies' && left > 0 ? 1 : null };
    },
  }));
  const trimmed = async () => Number(/event_bodies"} (\d+)/.exec(await metrics.registry.metrics())?.[1] ?? 0);
  await clock.advance(2 * 60_000);
  expect(await trimmed()).toBeGreaterThan(0);
  expect(await trimmed()).toBeLessThan(3_000);
  await clock.advance(2 * 60_000);
  expect(await trimmed()).toBe(3_000);
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
  await clock.advance(BODIES_KEPT_MS + HOUR_MS);
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
    seeFields: async (look) => ({ ...(look ?? { through: 1, seen }), isOver: true }),
    learnFields: async () => {
      times += 1;
      return [];
    },
  }));
  await clock.advance(5_000);
  expect(times).toBe(1);
});
