import { expect, it } from 'vitest';
import { workOffBacklog } from './backlog-runs.ts';
import { inTemporaryDirectory } from './harness.ts';

const FEW = 1_000;
/** Fewer would fit unseen into what loading the program has needed at first and given back. */
const MANY = 60_000;

/**
 * What the longer backlog may add to the highest RSS. A claimed batch holds 256 bodies and SQLite 16 MiB of
 * pages, however long the backlog is; the rest is garbage that V8 has not collected yet. Two runs of the same
 * length differ by up to 8 MiB; with all 60,000 claimed at once it was 52 MiB more.
 */
const ALLOWED_GROWTH_BYTES = 32 * 2 ** 20;

/** Several starts and a long load: a machine that is busy otherwise needs more than a test usually may. */
const TIMEOUT_MS = 400_000;

it(
  'works a long backlog off in the memory of a short one',
  async () => {
    await inTemporaryDirectory(async (directory) => {
      const few = await workOffBacklog(directory, FEW);
      const many = await workOffBacklog(directory, MANY);

      for (const [report, events] of [
        [few, FEW],
        [many, MANY],
      ] as const) {
        expect(report.findings).toMatchObject({ integrity: 'ok', states: { done: events } });
        expect(report.findings).toMatchObject({ notAppliedOnce: [], effectsWithoutMark: 0 });
        expect(report.exitCode).toBe(0);
      }
      expect(many.maxRssBytes - few.maxRssBytes).toBeLessThan(ALLOWED_GROWTH_BYTES);
    });
  },
  TIMEOUT_MS,
);
