import { expect, it } from 'vitest';
import { flushError } from './flush-error.ts';
import { powerLoss } from './power-loss.ts';
import type { Row } from './row.ts';

/** The two faults that decide what an answer is worth; `npm run faults` makes them all, at full length. */
it.for<[string, () => Promise<Row>, acknowledgedAtLeast: number]>([
  ['a power cut that forgets what was not flushed', () => powerLoss({ after: [60], keepPercent: 50 }), 60],
  ['flushes that fail, at which the service ends', () => flushError([30]), 1],
])('every acknowledged event is there after %s', async ([, check, acknowledgedAtLeast], { skip }) => {
  const row = await check();
  // The machine may lack what it takes.
  if (row.skipped !== undefined) skip(row.skipped);
  expect(row.faults).toEqual([]);
  expect(row).toMatchObject({ lost: 0, found: row.acknowledged });
  expect(row.acknowledged).toBeGreaterThanOrEqual(acknowledgedAtLeast);
});
