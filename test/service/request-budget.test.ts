import { describe, expect, it } from 'vitest';
import { type Lane, WINDOW_MS } from '../../src/compliance/budget.ts';
import { createSharedBudget, partOf } from '../../src/service/request-budget.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import { HeldClock } from '../compliance/held-clock.ts';

describe('how many places a process asks for', () => {
  const state = { limit: 60, inUse: 0, waiting: 0, othersWanting: 0, passes: false };
  it.each([
    ['nothing to do: one at hand', {}, { takes: 1, wants: 0, uses: 1 }],
    ['alone: what is in use, and one', { inUse: 10 }, { takes: 11, wants: 10, uses: 11 }],
    [
      'alone: what it needs and a list scan leaves free, and one',
      { inUse: 10, waiting: 1 },
      { takes: 16, wants: 15, uses: 16 },
    ],
    ['alone, much to do: step by step', { inUse: 9, waiting: 30 }, { takes: 15, wants: 52, uses: 15 }],
    ['alone: never more than there are', { inUse: 59, waiting: 500 }, { takes: 60, wants: 60, uses: 60 }],
    [
      'another wants: a step towards its share',
      { inUse: 9, waiting: 500, othersWanting: 1 },
      { takes: 15, wants: 60, uses: 30 },
    ],
    [
      'another wants: its share',
      { inUse: 29, waiting: 500, othersWanting: 1 },
      { takes: 30, wants: 60, uses: 30 },
    ],
    [
      'what is in the window cannot be given',
      { inUse: 55, othersWanting: 1 },
      { takes: 55, wants: 55, uses: 30 },
    ],
    ['idle, another wants: nothing', { othersWanting: 1 }, { takes: 0, wants: 0, uses: 30 }],
    ['fewer than ask: in turns', { limit: 1, waiting: 1, othersWanting: 2 }, { takes: 1, wants: 1, uses: 1 }],
    [
      'fewer than ask, and the turn of another',
      { limit: 1, waiting: 1, othersWanting: 2, passes: true },
      { takes: 0, wants: 1, uses: 0 },
    ],
  ])('%s', (_, over, part) => {
    expect(partOf({ ...state, ...over })).toEqual(part);
  });
});

/** Several processes over one database, and what each has sent, by the one clock. */
async function processes(
  names: readonly string[],
  limit: number,
  work: (scene: {
    clock: HeldClock;
    /** Wants to send so many; they leave as the budget lets them. */
    want: (name: string, count: number, how?: { lane?: Lane; flightMs?: number }) => void;
    /** Kills it. */
    end: (name: string) => void;
    stop: (name: string) => void;
    sent: { name: string; at: number }[];
    pause: (name: string, ms: number) => void;
    left: (name: string) => number;
    /** Until the returned function is called, the database does what it is asked but does not answer, or does nothing and fails. */
    cut: (name: string, how: 'unanswered' | 'failing') => () => void;
  }) => Promise<void>,
): Promise<void> {
  const clock = new HeldClock();
  const store = await openSqlite(':memory:');
  const sent: { name: string; at: number }[] = [];
  const errors: unknown[] = [];
  const running = names.map((name) => {
    const end = new AbortController();
    let isFailed = false;
    let answers: Promise<void> = Promise.resolve();
    let isCut = false;
    const budget = createSharedBudget({
      store: {
        // A process that was killed says nothing at its end.
        async sharePlaces(...asked) {
          if (isFailed) return await new Promise(() => undefined);
          if (isCut) throw new Error('the database is gone');
          const given = await store.sharePlaces(...asked);
          await answers;
          return given;
        },
        async pausePlaces(until) {
          await store.pausePlaces(until);
          await answers;
        },
      },
      replica: name,
      requestsPerMinute: limit,
      requestTimeoutMs: 1_000,
      clock,
      onError: (error) => isCut || errors.push(error),
    });
    void budget.run(end.signal);
    return {
      name,
      budget,
      signal: end.signal,
      die: () => {
        isFailed = true;
        end.abort();
      },
      stop: () => end.abort(),
      cut: (how: 'unanswered' | 'failing') => {
        const { promise, resolve } = Promise.withResolvers<void>();
        if (how === 'unanswered') answers = promise;
        else isCut = true;
        return () => {
          isCut = false;
          resolve();
        };
      },
    };
  });
  const named = (name: string) => running.find((each) => each.name === name)!;
  try {
    await clock.advance(1);
    await work({
      clock,
      sent,
      want(name, count, { lane = 'scan', flightMs = 0 } = {}) {
        for (let n = 0; n < count; n += 1) {
          const { budget, signal } = named(name);
          budget.take(lane, signal).then(
            async (ticket) => {
              await clock.sleep(flightMs);
              sent.push({ name, at: clock.steady() });
              ticket.arrived();
            },
            () => undefined,
          );
        }
      },
      end: (name) => named(name).die(),
      stop: (name) => named(name).stop(),
      pause: (name, ms) => named(name).budget.pauseUntil(clock.steady() + ms),
      left: (name) => named(name).budget.left().left,
      cut: (name, how) => named(name).cut(how),
    });
    expect(errors).toEqual([]);
  } finally {
    for (const each of running) each.die();
    await store.close();
  }
}

function mostInAnyMinute(sent: readonly { at: number }[]): number {
  return Math.max(
    0,
    ...sent.map(({ at }) => sent.filter((other) => other.at >= at && other.at - at <= WINDOW_MS).length),
  );
}

describe('one budget among several processes', () => {
  it('is never exceeded by all of them together, and none starves', async () => {
    await processes(['a', 'b', 'c'], 12, async ({ clock, want, sent }) => {
      want('a', 200);
      await clock.advance(5_000);
      want('b', 200);
      want('c', 3);
      await clock.advance(10 * WINDOW_MS);
      const by = (name: string) => sent.filter((each) => each.name === name).length;
      expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(12);
      expect(by('c')).toBe(3);
      expect(Math.min(by('a'), by('b'))).toBeGreaterThan(25);
    });
  });

  it.each([8, 60, 600])(
    'lets a list scan of page after page use its part of %i without a pause',
    async (limit) => {
      await processes(['a', 'b'], limit, async ({ clock, want, sent }) => {
        const part = Math.floor(limit * (3 / 4));
        for (let pages = 1; pages <= Math.min(part, 100); pages += 1) {
          want('a', 1);
          // A round of asking, and the one before it that may just have ended.
          await clock.advance(Math.min(700, WINDOW_MS / 2 / part));
          expect(sent).toHaveLength(pages);
        }
      });
    },
  );

  it('goes to whoever needs it, when the others are idle', async () => {
    await processes(['a', 'b', 'c'], 12, async ({ clock, want, sent }) => {
      want('b', 200);
      await clock.advance(10 * WINDOW_MS);
      // List scans leave a quarter free for whatever is more urgent.
      expect(sent.length).toBeGreaterThanOrEqual(9 * 9);
      expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(12);
    });
  });

  it('is given back by one that has used it and is idle since', async () => {
    await processes(['a', 'b'], 8, async ({ clock, want, sent, left }) => {
      want('a', 6);
      await clock.advance(WINDOW_MS);
      expect(sent).toHaveLength(6);
      await clock.advance(WINDOW_MS);
      // One is at hand for the other.
      expect(left('b')).toBe(7);
      want('b', 6);
      await clock.advance(10_000);
      expect(sent).toHaveLength(12);
    });
  });

  it('is taken over from one that was killed, once nothing it sent can count any more', async () => {
    await processes(['a', 'b'], 8, async ({ clock, want, sent, end }) => {
      want('a', 100);
      await clock.advance(2_000);
      end('a');
      want('b', 100);
      await clock.advance(5 * WINDOW_MS);
      expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(8);
      expect(sent.filter(({ name }) => name === 'b').length).toBeGreaterThanOrEqual(12);
    });
  });

  it.each(['unanswered', 'failing'] as const)(
    'is not used while the database is %s, once others may have it, but again afterwards',
    async (how) => {
      await processes(['a', 'b'], 8, async ({ clock, want, sent, cut }) => {
        const mend = cut('a', how);
        await clock.advance(70_000);
        want('a', 100);
        want('b', 100);
        await clock.advance(10_000);
        mend();
        await clock.advance(1);
        expect(sent.length).toBeGreaterThan(3);
        expect(sent.filter(({ name }) => name === 'a')).toEqual([]);
        await clock.advance(3 * WINDOW_MS);
        expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(8);
        expect(sent.some(({ name }) => name === 'a')).toBe(true);
      });
    },
  );

  it('is not taken over before a minute after the last request that may arrive', async () => {
    await processes(['a', 'b'], 8, async ({ clock, want, sent, cut }) => {
      cut('a', 'failing');
      want('b', 100, { lane: 'person' });
      await clock.advance(5_990);
      want('a', 1, { flightMs: 1_000 });
      await clock.advance(2 * WINDOW_MS);
      expect(sent.some(({ name }) => name === 'a')).toBe(true);
      expect(mostInAnyMinute(sent)).toBe(8);
    });
  });

  it('is given back by one that stops: at once what it has not used, and the rest after a minute', async () => {
    await processes(['a', 'b'], 8, async ({ clock, want, sent, stop, left }) => {
      want('a', 4);
      await clock.advance(3_000);
      stop('a');
      await clock.advance(1);
      want('b', 100, { lane: 'person' });
      await clock.advance(10_000);
      expect(sent).toHaveLength(8);
      expect(left('b')).toBe(0);
      await clock.advance(WINDOW_MS);
      expect(mostInAnyMinute(sent)).toBe(8);
    });
  });

  it('is not used any more from the moment that it is given back', async () => {
    for (let afterMs = 0; afterMs < 5_000; afterMs += 500) {
      await processes(['a', 'b'], 8, async ({ clock, want, sent, cut }) => {
        want('a', 6);
        await clock.advance(WINDOW_MS + afterMs);
        cut('a', 'unanswered');
        await clock.advance(3_000);
        for (const name of ['a', 'b']) want(name, 100, { lane: 'person' });
        await clock.advance(WINDOW_MS / 2);
        expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(8);
      });
    }
  });

  it('is not used any more while it is given back to another that wants it', async () => {
    for (let afterMs = 0; afterMs < 5_000; afterMs += 250) {
      await processes(['a', 'b'], 8, async ({ clock, want, sent, cut }) => {
        want('a', 4, { lane: 'person' });
        want('b', 100, { lane: 'person' });
        await clock.advance(WINDOW_MS + afterMs);
        cut('a', 'unanswered');
        await clock.advance(1_000);
        want('a', 100, { lane: 'person' });
        await clock.advance(WINDOW_MS / 2);
        expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(8);
      });
    }
  });

  it('is left to the living when many are killed one after the other, each with much to do', async () => {
    const killed = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i'];
    await processes([...killed, 'last'], 60, async ({ clock, want, sent, end }) => {
      for (const name of killed) {
        want(name, 1);
        await clock.advance(1_000);
        end(name);
      }
      const before = sent.length;
      expect(before).toBe(9);
      want('last', 100);
      await clock.advance(10_000);
      expect(sent.length - before).toBeGreaterThan(30);
      expect(mostInAnyMinute(sent)).toBeLessThanOrEqual(60);
    });
  });

  it('of one request a minute is used in turns', async () => {
    await processes(['a', 'b', 'c'], 1, async ({ clock, want, sent }) => {
      want('a', 50);
      want('b', 50);
      want('c', 50);
      await clock.advance(30 * WINDOW_MS);
      expect(mostInAnyMinute(sent)).toBe(1);
      expect(sent.length).toBeGreaterThan(25);
      expect(new Set(sent.map(({ name }) => name))).toEqual(new Set(['a', 'b', 'c']));
    });
  });

  it('rests for all when the upstream asks one of them to wait', async () => {
    await processes(['a', 'b'], 20, async ({ clock, want, sent, pause }) => {
      pause('a', 30_000);
      pause('a', 5_000);
      want('a', 1);
      await clock.advance(4_000);
      const from = clock.steady();
      want('b', 5);
      await clock.advance(20_000);
      expect(sent).toEqual([]);
      await clock.advance(10_000);
      expect(sent).toHaveLength(6);
      expect(sent[0]!.at - from).toBeGreaterThan(20_000);
    });
  });

  it('rests for all until the last time that the upstream asks for, also if it asks while an earlier one is passed on', async () => {
    await processes(['a', 'b'], 20, async ({ clock, want, sent, pause, cut }) => {
      const answer = cut('a', 'unanswered');
      pause('a', 2_000);
      await clock.advance(500);
      pause('a', 30_000);
      answer();
      await clock.advance(7_000);
      want('b', 1);
      await clock.advance(20_000);
      expect(sent).toEqual([]);
      await clock.advance(10_000);
      expect(sent).toHaveLength(1);
    });
  });
});
