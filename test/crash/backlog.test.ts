import { expect, it } from 'vitest';
import { workOffBacklog } from './backlog-runs.ts';
import { inTemporaryDirectory } from './harness.ts';

const FEW = 1_000;
const MANY = 20_000;

/**
 * What the longer backlog may add. A claimed batch holds 256 bodies and SQLite 16 MiB of pages, however long the
 * backlog is; the rest is garbage that V8 has not collected yet. Kept in memory as events, 19,000 more would
 * take some 60 MB at 3 KB each, and the 100,000 of the run by hand (`backlog.ts`) five times that.
 */
const ALLOWED_GROWTH_BYTES = 48 * 2 ** 20;

it('works a long backlog off in the memory of a short one', async () => {
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
});
