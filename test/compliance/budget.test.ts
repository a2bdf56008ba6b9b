import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createBudget, type Lane, WINDOW_MS } from '../../src/compliance/budget.ts';
import { take } from './budget-places.ts';
import { HeldClock, settled } from './held-clock.ts';

const never = new AbortController().signal;
const LANES: readonly Lane[] = ['person', 'live', 'scan'];

function held(requestsPerMinute: number) {
  const clock = new HeldClock();
  return { clock, budget: createBudget({ requestsPerMinute, clock }) };
}

/** Takes places until `lane` has to wait; returns how many it got. The last one goes on waiting. */
async function burst(budget: ReturnType<typeof createBudget>, lane: Lane): Promise<number> {
  for (let taken = 0; ; taken++) {
    let isSent = false;
    void take(budget, lane, never).then((request) => {
      isSent = true;
      request.end();
    });
    await settled();
    if (!isSent) return taken;
  }
}

describe('the bound', () => {
  test('no 60 seconds see more arrivals than the limit, however slow the requests, and every one is let go', async () => {
    const call = fc.record({
      gapMs: fc.integer({ min: 0, max: 9_000 }),
      lane: fc.constantFrom(...LANES),
      // Mostly at once: time under way only makes the bound easier to keep.
      flightMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 10_000 })),
      homeMs: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 5_000 })),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 12 }),
        fc.array(call, { maxLength: 40 }),
        async (limit, calls) => {
          const { clock, budget } = held(limit);
          const arrivals: number[] = [];
          for (const { gapMs, lane, flightMs, homeMs } of calls) {
            await clock.advance(gapMs);
            void take(budget, lane, never).then(async (request) => {
              await clock.sleep(flightMs);
              arrivals.push(clock.steady());
              await clock.sleep(homeMs);
              request.end();
            });
          }
          await clock.advance(80_000 * (1 + calls.length));
          expect(arrivals).toHaveLength(calls.length);
          arrivals.sort((a, b) => a - b);
          for (const [index, at] of arrivals.entries()) {
            const within = arrivals.slice(index).filter((other) => other - at <= WINDOW_MS);
            expect(within.length).toBeLessThanOrEqual(limit);
          }
          expect(clock.sleepers).toBe(0);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('a request under way keeps its place however long it takes, and 60 s more', async () => {
    const { clock, budget } = held(1);
    const first = await take(budget, 'live', never);
    let isSecondOut = false;
    void take(budget, 'live', never).then(() => {
      isSecondOut = true;
    });
    await clock.advance(5 * WINDOW_MS);
    expect(isSecondOut).toBe(false);
    expect(budget.left()).toMatchObject({ left: 0 });
    first.end();
    await clock.advance(WINDOW_MS);
    expect(isSecondOut).toBe(false);
    await clock.advance(1);
    expect(isSecondOut).toBe(true);
  });
});

test('what is told to be left is what is left by now', async () => {
  const { clock, budget } = held(2);
  (await take(budget, 'live', never)).end();
  expect(budget.left()).toMatchObject({ left: 1 });
  await clock.advance(WINDOW_MS + 1);
  expect(budget.left()).toMatchObject({ left: 2 });
});

describe('sharing', () => {
  test('a burst of list scans leaves a quarter of the window, of list scans and repairs a tenth, and a person takes that', async () => {
    const { budget } = held(60);
    expect(await burst(budget, 'scan')).toBe(45);
    expect(await burst(budget, 'live')).toBe(9);
    expect(await burst(budget, 'person')).toBe(6);
    expect(budget.left()).toEqual({ limit: 60, left: 0, pausedForMs: 0 });
    expect(budget.inUse()).toBe(60);
  });

  test('what a process before this one has sent is taken from the part of list scans', async () => {
    const { clock, budget } = held(60);
    budget.alreadySent(45, clock.steady());
    expect(await burst(budget, 'scan')).toBe(0);
    expect(await burst(budget, 'live')).toBe(9);
  });

  test('while all lanes want more than there is, each is served in its turn and none starves, at any limit', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 40 }), async (limit) => {
        const { clock, budget } = held(limit);
        const order: Lane[] = [];
        for (const lane of LANES.flatMap((each) => Array<Lane>(60).fill(each))) {
          void take(budget, lane, never).then((request) => {
            order.push(lane);
            request.end();
          });
        }
        while (order.length < limit + 70) await clock.advance(WINDOW_MS + 1);
        // What went out before the window was full follows who asked first.
        const contended = order.slice(limit, limit + 70);
        for (let start = 0; start + 12 <= contended.length; start++) {
          const run = contended.slice(start, start + 12);
          const waiting = LANES.filter(
            (lane) => order.slice(0, limit + start + 12).filter((l) => l === lane).length < 60,
          );
          for (const lane of waiting) expect(run).toContain(lane);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('within a lane the first to ask is the first to go', async () => {
    const { clock, budget } = held(1);
    const order: number[] = [];
    for (const number of [1, 2, 3, 4]) {
      void take(budget, 'live', never).then((request) => {
        order.push(number);
        request.end();
      });
    }
    await clock.advance(4 * (WINDOW_MS + 1));
    expect(order).toEqual([1, 2, 3, 4]);
  });

  test('a lane that was idle has saved up no turns', async () => {
    const { clock, budget } = held(1);
    const order: Lane[] = [];
    const ask = (lane: Lane) =>
      void take(budget, lane, never).then((request) => {
        order.push(lane);
        request.end();
      });
    for (let count = 0; count < 20; count++) ask('live');
    await clock.advance(10 * (WINDOW_MS + 1));
    for (let count = 0; count < 20; count++) ask('scan');
    order.length = 0;
    await clock.advance(9 * (WINDOW_MS + 1));
    expect(order.filter((lane) => lane === 'live').length).toBeGreaterThanOrEqual(5);
  });
});

describe('waiting', () => {
  test('a pause holds every lane, and a shorter one after it does not cut it', async () => {
    const { clock, budget } = held(60);
    budget.pauseUntil(clock.steady() + 30_000);
    budget.pauseUntil(clock.steady() + 5_000);
    const out: Lane[] = [];
    for (const lane of LANES) void take(budget, lane, never).then(() => out.push(lane));
    await clock.advance(29_999);
    expect(out).toEqual([]);
    expect(budget.left()).toMatchObject({ left: 60, pausedForMs: 1 });
    await clock.advance(1);
    expect([...out].sort()).toEqual(['live', 'person', 'scan']);
  });

  test('a waiter that gives up leaves the queue with its own reason, and no timer stays behind', async () => {
    const { clock, budget } = held(1);
    (await take(budget, 'live', never)).end();
    const giveUp = new AbortController();
    const waiting = take(budget, 'live', giveUp.signal);
    await settled();
    expect(clock.sleepers).toBe(1);
    giveUp.abort(new Error('stopping'));
    await expect(waiting).rejects.toThrow('stopping');
    expect(clock.sleepers).toBe(0);
    await expect(take(budget, 'live', giveUp.signal)).rejects.toThrow('stopping');
  });
});
