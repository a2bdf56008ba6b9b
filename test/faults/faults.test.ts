import { describe, expect, it } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { corruptFile } from './corrupt-file.ts';
import { noSpace } from './disk-full.ts';
import { flushError } from './flush-error.ts';
import { foreignLock } from './foreign-lock.ts';
import { killAtFlush } from './kill-at-flush.ts';
import { failingMigration, killInMigration } from './migration.ts';
import { powerLoss } from './power-loss.ts';
import type { Row } from './row.ts';

/** A round of each, and without `FULL` none of kills: `npm run faults` makes them all. On a busy machine a round takes some seconds. */
const TIMEOUT_MS = 400_000;

/** No acknowledged event is lost, and nothing else is wrong; skipped with its reason where the machine lacks the means. */
function good(check: () => Promise<Row>, acknowledgedAtLeast: number) {
  return async ({ skip }: { skip: (note?: string) => never }) => {
    const row = await check();
    if (row.skipped !== undefined) skip(row.skipped);
    expect(row.faults).toEqual([]);
    expect(row).toMatchObject({ lost: 0, found: row.acknowledged });
    expect(row.acknowledged).toBeGreaterThanOrEqual(acknowledgedAtLeast);
  };
}

describe('every acknowledged event is there after', { timeout: TIMEOUT_MS }, () => {
  it.runIf(IS_FULL)(
    'a kill at a flush to disk',
    good(() => killAtFlush([41]), 1),
  );
  it(
    'a power cut that forgets what was not flushed',
    good(() => powerLoss({ after: [60], keepPercent: 50 }), 60),
  );
  it(
    'flushes that fail, at which the service ends',
    good(() => flushError([48]), 1),
  );
  it(
    'a disk that is full for a while',
    good(() => noSpace([[400, 430]]), 1),
  );
  it(
    'damage to the file, from its backup',
    good(() => corruptFile(['pages of one table']), 100),
  );
  it('a write lock of another program', good(foreignLock, 100));
  it.runIf(IS_FULL)(
    'a kill in mid-migration',
    good(() => killInMigration([150]), 200),
  );
  it('a migration that fails', good(failingMigration, 200));
});

it(
  'the power-loss model loses events of a service that does not wait for the disk',
  async ({ skip }) => {
    const row = await powerLoss({ after: [30], keepPercent: 0, control: true });
    if (row.skipped !== undefined) skip(row.skipped);
    expect(row.acknowledged).toBeGreaterThanOrEqual(30);
    expect(row.lost).toBeGreaterThan(0);
  },
  TIMEOUT_MS,
);
