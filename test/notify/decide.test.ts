import { describe, expect, it } from 'vitest';
import { newsOf, type Tries, triedAgain } from '../../src/notify/decide.ts';
import { problem, T0 } from './problem.ts';

const passing = problem(2, { needs: 'time', verdict: 'catching_up' });

describe('what is told', () => {
  it.each([
    ['one that needs you, at once', [problem(1)], [], 0, ['opened 1']],
    ['one that ends by itself, not before it has been open for ten seconds', [passing], [], 9_999, []],
    ['one that ends by itself and lasts', [passing], [], 10_000, ['opened 2']],
    ['each of several, the worst first', [problem(1), passing], [], 10_000, ['opened 1', 'opened 2']],
    ['nothing twice', [problem(1)], [1], 900_000, []],
    ['the end of what was told', [], [1], 0, ['resolved 1']],
    ['the end of one beside another that opened', [problem(3)], [1], 0, ['opened 3', 'resolved 1']],
    ['no end of what was not told', [], [], 900_000, []],
    [
      'that the database is down, and no end that nobody can know',
      [problem(0, { reason: 'database' })],
      [1],
      0,
      ['opened 0'],
    ],
    ['that it is up again', [], [0], 0, ['resolved 0']],
  ] as const)('is %s', (_, open, told, afterMs, news) => {
    const said = newsOf(open, new Set(told), T0 + afterMs).map(({ what, id }) => `${what} ${id}`);
    expect(said).toEqual(news);
  });
});

it('a failed attempt is made again later each time, up to five minutes, and given up after a day', () => {
  const waits: number[] = [];
  let tries: Tries | null | undefined;
  let now = 0;
  for (;;) {
    tries = triedAgain(tries ?? undefined, now, 0.999);
    if (tries === null) break;
    waits.push(Math.round((tries.nextAt - now) / 1000));
    now = tries.nextAt;
  }
  expect(waits.slice(0, 4)).toEqual([1, 2, 4, 8]);
  expect(Math.max(...waits)).toBe(300);
  expect(now / 3_600_000).toBeGreaterThan(20);
  expect(now / 3_600_000).toBeLessThan(30);
});
