import { expect, it } from 'vitest';
import { workOffBacklog } from './backlog-runs.ts';
import { inTemporaryDirectory } from './harness.ts';

const EVENTS = 60_000;

/**
 * What V8 may keep of objects, at most: a limit that ends the process, because the highest RSS tells of garbage that was not
 * collected yet, and a busy machine collects late. The service itself needs 28 MB and works any backlog off in 40; with
 * all of this one claimed at once, 72 are not enough.
 */
const HEAP_MIB = 56;

/** A start and a long load: a machine that is busy otherwise needs more than a test usually may. */
const TIMEOUT_MS = 400_000;

it(
  'works a long backlog off in the memory of a short one',
  async () => {
    await inTemporaryDirectory(async (directory) => {
      const report = await workOffBacklog(directory, EVENTS, [`--max-old-space-size=${HEAP_MIB}`]);
      expect(report.findings).toMatchObject({ integrity: 'ok', states: { processed: EVENTS } });
      expect(report.findings).toMatchObject({ notAppliedOnce: [], effectsWithoutMark: 0 });
      expect(report.exitCode).toBe(0);
    });
  },
  TIMEOUT_MS,
);
