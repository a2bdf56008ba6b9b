import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openStage } from './stage.ts';

/** On a busy machine an attack takes many times its seconds. */
const TIMEOUT_MS = 120_000;

/**
 * One attack of each sort at a smaller size, one after the other on one service; `npm run hostile` makes them all in full, and there
 * nobody else may wait for long. Here no time is judged. It needs Linux: other loopback addresses without being set up, and /proc.
 */
const ONE_OF_EACH = ['endless-bodies', 'slow-headers', 'idle', 'wrong-signatures', 'operators'];

describe.skipIf(process.platform !== 'linux')('what a stranger does', { timeout: TIMEOUT_MS }, () => {
  let stage: Awaited<ReturnType<typeof openStage>>;
  beforeAll(async () => {
    stage = await openStage();
  }, TIMEOUT_MS);
  afterAll(async () => {
    expect(await stage.close()).toEqual([]);
  });

  it.each(ONE_OF_EACH)('%s: the service lives, serves everybody else, and keeps its bounds', async (name) => {
    const { faults, bystanders } = await stage.play(name, 'short');
    expect(faults).toEqual([]);
    for (const { served } of bystanders) expect(served).toBeGreaterThan(0);
  });
});
