import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs, EVENT_BACKOFF, nextAttempt } from '../../src/inbox/retry.ts';

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

describe('an event that failed', () => {
  const limits = { maxAttempts: 3, backoff: EVENT_BACKOFF };
  it.each([
    { attempts: 1, next: { failed: false, delayMs: 500 } },
    { attempts: 2, next: { failed: false, delayMs: 1_000 } },
    { attempts: 3, next: { failed: true } },
    { attempts: 4, next: { failed: true } },
  ])('$attempts times of at most 3 goes on as $next', ({ attempts, next }) => {
    expect(nextAttempt(attempts, limits, 0)).toEqual(next);
  });

  it('is given up at once where one attempt is all there is', () => {
    expect(nextAttempt(1, { ...limits, maxAttempts: 1 }, 0)).toEqual({ failed: true });
  });
});
