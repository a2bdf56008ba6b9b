import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startMirror } from '../bench/processes.ts';
import { emptyLedger, inspect, inTemporaryDirectory, loadUntilGone, workedOff } from './harness.ts';

it('answers what is under way on SIGTERM, ends with 0, and has lost nothing', async () => {
  await inTemporaryDirectory(async (directory) => {
    const database = join(directory, 'mirror.db');
    const ledger = emptyLedger();
    const mirror = await startMirror(database);
    await loadUntilGone({
      mirror,
      run: 'stopped',
      ledger,
      after: 500,
      onReached: () => mirror.kill('SIGTERM'),
    });
    expect(await mirror.exited).toBe(0);

    const stopped = inspect(database, ledger);
    expect(stopped).toMatchObject({ integrity: 'ok', lost: [], storedTwice: [], notAppliedOnce: [] });
    // A sender that came too late finds nobody; nobody is told that it was a failure of ours, or of his.
    expect([...ledger.others.keys()].filter((status) => status !== null)).toEqual([]);

    const again = await startMirror(database);
    await workedOff(database);
    again.kill('SIGTERM');
    expect(await again.exited).toBe(0);
    const worked = inspect(database, ledger);
    expect(worked).toMatchObject({ lost: [], notAppliedOnce: [], effectsWithoutMark: 0 });
    expect(Object.keys(worked.states)).toEqual(['processed']);
  });
});
