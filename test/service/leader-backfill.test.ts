import { expect, it } from 'vitest';
import type { Backfill } from '../../src/backfill/backfill.ts';
import { createLeaderBackfill } from '../../src/service/leader-backfill.ts';
import type { Replicas } from '../../src/service/replicas.ts';
import type { Store } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

function scene() {
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
  const turns = { isOurs: true };
  const replicas = {
    hold: (_, lead, signal) => lead({ lease, signal }),
    takeTurn: async () => turns.isOurs,
    notify: () => undefined,
    lookNow: () => undefined,
  } as Partial<Replicas> as Replicas;
  const store = {
    interruptSyncRuns: async () => [],
    requestSyncRuns: async (_, reason) => void told.push(reason),
    readFact: async () => null,
  } as Partial<Store> as Store;
  const backfill = createLeaderBackfill({
    store,
    replicas,
    clock: new HeldClock(),
    isFirst: false,
    forgeableDistanceMs: 0,
    create: () => own,
  });
  return { told, turns, backfill, end: ended.resolve };
}

it('a replica that takes over while the service is paused reads nothing until it is resumed', async () => {
  const { told, backfill, end } = scene();
  backfill.pause();
  const running = backfill.run(new AbortController().signal);
  await expect.poll(() => told).toEqual(['pause', 'takeover', 'run']);
  backfill.resume();
  expect(told.at(-1)).toBe('resume');
  end();
  await running;
});

it('a full sync that a stranger can cause waits while another replica has the turn, once for all, and holds up no other', async () => {
  const { told, turns, backfill } = scene();
  turns.isOurs = false;
  for (let time = 0; time < 3; time += 1) backfill.requestFullSync(['vendor'], 'rejected deliveries');
  backfill.requestFullSync(['vendor'], 'operator');
  await backfill.look(false);
  expect(told).toEqual(['operator']);
  turns.isOurs = true;
  await backfill.look(false);
  await backfill.look(false);
  expect(told).toEqual(['operator', 'rejected deliveries']);
});
