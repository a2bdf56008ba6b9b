import { expect, it } from 'vitest';
import { inTemporaryDirectory } from './harness.ts';
import { killUnderLoad } from './kill-runs.ts';

/** Acknowledgements before each kill: at once, and with a backlog behind it. `npm run nightly` kills a hundred times. */
const KILLS = [5, 900];

/** Several starts and a long load: a machine that is busy otherwise needs more than a test usually may. */
const TIMEOUT_MS = 400_000;

it(
  'keeps every acknowledged delivery through kill -9, and applies each exactly once',
  async () => {
    await inTemporaryDirectory(async (directory) => {
      const { ledger, afterKill, atEnd, exitCode } = await killUnderLoad({
        directory,
        times: KILLS.length,
        acknowledgementsBefore: (n) => KILLS[n - 1]!,
      });

      expect(ledger.acknowledged.size).toBeGreaterThanOrEqual(KILLS.reduce((sum, n) => sum + n));
      // The kills met deliveries under way: otherwise this would have shown nothing.
      expect(ledger.others.get(null)).toBeGreaterThan(0);
      for (const findings of [...afterKill, atEnd]) {
        expect(findings).toMatchObject({
          integrity: 'ok',
          lost: [],
          storedTwice: [],
          notAppliedOnce: [],
          effectsWithoutMark: 0,
        });
      }
      expect(Object.keys(atEnd.states)).toEqual(['processed']);
      expect(exitCode).toBe(0);
    });
  },
  TIMEOUT_MS,
);
