import { expect, it } from 'vitest';
import { runResume } from './resume-run.ts';

it('a full sync killed half way goes on where it was, deletes nothing for it, and a whole one follows', async () => {
  const result = await runResume(20_000, 240_000);

  // What was under way may not have been saved; what was saved is not read again.
  expect(result.resumedAtPage).toBeGreaterThan(result.killedAtPage - 3);
  expect(result.resumedAtPage).toBeLessThanOrEqual(result.killedAtPage + 1);
  expect(result.deletedByResumed).toBe(0);
  expect(result.deletedAfterwards).toBe(1);
  expect(result.syncRuns.at(0)?.outcome).toBe('interrupted');
  expect(result.syncRuns.at(-1)?.outcome).toBe('complete');
  expect(result.differences).toBe(0);
}, 900_000);
