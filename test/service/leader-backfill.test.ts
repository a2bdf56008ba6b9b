import { expect, it } from 'vitest';
import type { Backfill } from '../../src/backfill/backfill.ts';
import { createLeaderBackfill } from '../../src/service/leader-backfill.ts';
import type { Replicas } from '../../src/service/replicas.ts';
import type { Store } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

it('a replica that takes over while the service is paused reads nothing until it is resumed', async () => {
  const told: string[] = [];
  const ended = Promise.withResolvers<void>();
  const own = {
    pause: () => void told.push('pause'),
    resume: () => void told.push('resume'),
    requestFullSync: (_, reason) => void told.push(reason),
    async run() {
      told.push('run');
      await ended.promise;
    },
  } as Partial<Backfill> as Backfill;
  const lease = { name: 'backfill', owner: 'us', fence: 1 };
  const backfill = createLeaderBackfill({
    store: { interruptSyncRuns: async () => [] } as Partial<Store> as Store,
    replicas: { hold: (_, lead, signal) => lead({ lease, signal }) } as Partial<Replicas> as Replicas,
    ...{ clock: new HeldClock(), isFirst: false, forgeableDistanceMs: 0, create: () => own },
  });
  backfill.pause();
  const running = backfill.run(new AbortController().signal);
  await expect.poll(() => told).toEqual(['pause', 'takeover', 'run']);
  backfill.resume();
  expect(told.at(-1)).toBe('resume');
  ended.resolve();
  await running;
});
