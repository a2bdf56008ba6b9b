import { getEventListeners } from 'node:events';
import fc from 'fast-check';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { backoffMs, createNap, sharedClock, systemClock } from '../src/platform/clock.ts';

const DATABASE_ORIGIN = 1_800_000_000_000;

/** A process and a database whose clocks differ, and a network between them. */
function scene(options: { differences?: number } = {}) {
  const { differences = 0 } = options;
  let ms = 0;
  let stepMs = 0;
  let suspendedMs = 0;
  let setMs = 0;
  const trip = { thereMs: 0, backMs: 0 };
  const asked: (number | null)[] = [];
  const database = () => DATABASE_ORIGIN + ms * (1 + differences) + stepMs;
  return {
    trip,
    asked,
    database,
    pass: (by: number) => {
      ms += by;
    },
    step: (by: number) => {
      stepMs += by;
    },
    /** The process's machine stands still, and learns it when it resumes. */
    suspend: (by: number) => {
      ms += by;
      suspendedMs += by;
    },
    setWall: (by: number) => {
      setMs += by;
    },
    start: () =>
      sharedClock(
        async (atLeast) => {
          asked.push(atLeast);
          ms += trip.thereMs;
          const now = database();
          ms += trip.backMs;
          return { wall: now, steady: now };
        },
        {
          monotonic: () => 5_000 + ms - suspendedMs,
          wall: () => DATABASE_ORIGIN + ms + setMs,
          sleep: async () => undefined,
        },
      ),
  };
}

describe("the database's time", () => {
  it('is known to half a round trip, whichever way took longer', async () => {
    for (const [thereMs, backMs] of [
      [0, 0],
      [10, 10],
      [0, 40],
      [40, 0],
    ] as const) {
      const world = scene();
      Object.assign(world.trip, { thereMs, backMs });
      const clock = await world.start();
      world.pass(1_234);
      const off = Math.abs(clock.steady() - world.database());
      expect(off).toBeLessThanOrEqual(clock.marginMs());
      expect(clock.marginMs()).toBeLessThanOrEqual((thereMs + backMs) / 2 + 2);
    }
  });

  it('stays within its margin while the clocks drift, and a better measurement narrows it', async () => {
    const world = scene({ differences: 150e-6 });
    Object.assign(world.trip, { thereMs: 30, backMs: 10 });
    const clock = await world.start();
    world.pass(600_000);
    expect(Math.abs(clock.steady() - world.database())).toBeLessThanOrEqual(clock.marginMs());
    const before = clock.marginMs();
    Object.assign(world.trip, { thereMs: 1, backMs: 1 });
    await clock.measure();
    expect(clock.marginMs()).toBeLessThan(before / 10);
    expect(Math.abs(clock.steady() - world.database())).toBeLessThanOrEqual(clock.marginMs());
  });

  it('follows a database that was set forward, also by a measurement that is slower than the last', async () => {
    const world = scene();
    const clock = await world.start();
    world.step(60_000);
    Object.assign(world.trip, { thereMs: 20, backMs: 20 });
    await clock.measure();
    expect(Math.abs(clock.steady() - world.database())).toBeLessThanOrEqual(1);
  });

  it('never goes back, and its margin says how far ahead it stands', async () => {
    const world = scene();
    const clock = await world.start();
    world.pass(10_000);
    const before = clock.steady();
    world.step(-5_000);
    await clock.measure();
    expect(clock.steady()).toBe(before);
    expect(clock.marginMs()).toBeGreaterThanOrEqual(5_000);
    world.pass(5_001);
    expect(clock.steady()).toBeGreaterThan(before);
    expect(clock.marginMs()).toBeLessThan(10);
  });

  it('is known to be doubtful after a suspension, or once the wall clock was set, until it is measured', async () => {
    const world = scene();
    const clock = await world.start();
    world.pass(600_000);
    expect(clock.hasJumped()).toBe(false);
    world.suspend(60_000);
    expect(world.database() - clock.steady()).toBe(60_000);
    expect(clock.hasJumped()).toBe(true);
    await clock.measure();
    expect(clock.hasJumped()).toBe(false);
    expect(clock.steady()).toBe(world.database());
    world.setWall(-3_600_000);
    expect(clock.hasJumped()).toBe(true);
    await clock.measure();
    expect(clock.hasJumped()).toBe(false);
  });

  it('tells the database what it takes the time for, so that one that is behind can be set right', async () => {
    const world = scene();
    const clock = await world.start();
    world.pass(10_000);
    await clock.measure();
    expect(world.asked[0]).toBeNull();
    expect(world.asked[1]).toBeGreaterThan(DATABASE_ORIGIN + 9_900);
    expect(world.asked[1]).toBeLessThanOrEqual(world.database());
  });
});

it('a sleep that is over, or was ended early, leaves nothing at its signal, which lives as long as the service', async () => {
  const { signal } = new AbortController();
  const clock = systemClock();
  const nap = createNap(clock);
  await clock.sleep(0, signal);
  await nap.sleep(0, signal);
  const napping = nap.sleep(60_000, signal);
  nap.wake();
  await napping;
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

it('a sleep that is longer than a timer can be is not over at once', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  let isOver = false;
  void systemClock()
    .sleep(365 * 86_400_000)
    .then(() => {
      isOver = true;
    });
  await vi.advanceTimersByTimeAsync(86_400_000);
  expect(isOver).toBe(false);
});

const BACKOFF = { firstMs: 1_000, longestMs: 60_000 };

describe('the wait before the next attempt', () => {
  it.each([
    { failures: 1, random: 0, ms: 500 },
    { failures: 1, random: 0.5, ms: 750 },
    { failures: 1, random: 1, ms: 1_000 },
    { failures: 2, random: 1, ms: 2_000 },
    { failures: 4, random: 0, ms: 4_000 },
    { failures: 6, random: 1, ms: 32_000 },
    { failures: 7, random: 1, ms: 60_000 },
    { failures: 7, random: 0, ms: 30_000 },
    { failures: 5_000, random: 1, ms: 60_000 },
    { failures: 0, random: 1, ms: 1_000 },
  ])('after $failures failures, with $random drawn, is $ms ms', ({ failures, random, ms }) => {
    expect(backoffMs(BACKOFF, failures, random)).toBe(ms);
  });

  it('never shrinks with more failures, and stays between half a step and the longest', () => {
    const draw = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2_000 }), draw, (failures, random) => {
        const ms = backoffMs(BACKOFF, failures, random);
        expect(ms).toBeGreaterThanOrEqual(BACKOFF.firstMs / 2);
        expect(ms).toBeLessThanOrEqual(BACKOFF.longestMs);
        expect(backoffMs(BACKOFF, failures + 1, random)).toBeGreaterThanOrEqual(ms);
      }),
    );
  });
});
