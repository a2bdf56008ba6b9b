import { expect, it } from 'vitest';
import type { Backfill } from '../../src/backfill/backfill.ts';
import { NOTHING_KNOWN } from '../../src/backfill/upstream.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createLeaderBackfill } from '../../src/service/leader-backfill.ts';
import type { Replicas } from '../../src/service/replicas.ts';
import type { RepairStore, Store } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

const health = (lastError: string) => ({ ...NOTHING_KNOWN, lastError });

function scene({ isFirst = false, fact = null as string | null } = {}) {
  const told: string[] = [];
  let ended = Promise.withResolvers<void>();
  const known = { stores: [] as RepairStore[], interrupted: [] as unknown[], fact, wasUnreachable: false };
  const own = {
    pause: () => void told.push('pause'),
    resume: () => void told.push('resume'),
    wake: () => void told.push('wake'),
    requestFullSync: (kinds, reason) => void told.push(`${kinds.length > 1 ? '' : `${kinds[0]} `}${reason}`),
    refetch: async () => void told.push('refetch'),
    health: () => health('of the leader'),
    runningSyncRuns: () => ['a sync run'] as never,
    async run() {
      told.push('run');
      ended = Promise.withResolvers<void>();
      await ended.promise;
    },
  } as Partial<Backfill> as Backfill;
  const lease = { name: 'backfill', owner: 'us', fence: 1 };
  const turns = { isOurs: true };
  const replicas = {
    hold: (_, lead, signal) => lead({ lease, signal }),
    takeTurn: async () => turns.isOurs,
    notify: (notice) => void told.push(`notify ${notice}`),
    lookNow: () => undefined,
  } as Partial<Replicas> as Replicas;
  const waiting: { kind: Kind; reason: string }[] = [];
  const store = {
    interruptSyncRuns: async (_now, under) => (under === lease ? [{ kind: 'vendor', pages: 12 }] : []),
    requestSyncRuns: async (kinds, reason) => {
      told.push(reason);
      waiting.push(...kinds.map((kind) => ({ kind, reason })));
    },
    takeSyncRequests: async () => waiting.splice(0),
    makeDue: async () => void told.push('due'),
    readFact: async () => known.fact,
    writeFact: async (_name, value) => {
      told.push('report');
      known.fact = value;
    },
    startSyncRun: async (_kind, _reason, _now, under) => void told.push(`sync run ${under?.fence}`) as never,
    concludeDeletions: async (_kind, _proof, { lease: under }) =>
      void told.push(`deletions ${under?.fence}`) as never,
    dueRecords: async (_kind, { steady }) => void told.push(`due by ${steady}`) as never,
    nextDueAt: async (kind) => (kind === 'vendor' ? 5_000 : null),
  } as Partial<Store> as Store;
  const clock = Object.assign(new HeldClock(), { marginMs: () => 7 });
  const backfill = createLeaderBackfill({
    store,
    replicas,
    clock,
    isFirst,
    forgeableDistanceMs: 0,
    create: (over, interrupted, wasUnreachable = false) => {
      known.wasUnreachable = wasUnreachable;
      known.stores.push(over);
      known.interrupted.push(...interrupted);
      return own;
    },
  });
  return { told, turns, known, clock, backfill, end: () => ended.resolve() };
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
  expect(told).toEqual(['operator', 'notify work']);
  told.length = 0;
  turns.isOurs = true;
  await backfill.look(false);
  await backfill.look(false);
  expect(told).toEqual(['rejected deliveries', 'notify work']);
});

it('what a replica is asked for goes to its own backfill while it leads, and to the next leader before and after', async () => {
  const { told, known, clock, backfill, end } = scene({ isFirst: true });
  const takenSince = () => told.splice(0);
  await backfill.refetch('vendor', ['v']);
  backfill.wake();
  backfill.requestFullSync(['vendor'], 'operator');
  backfill.requestFullSync(['policy'], 'operator');
  await backfill.look(true);
  await backfill.askForFullSync(['policy'], 'approval');
  expect(takenSince()).toEqual([
    'due',
    'notify work',
    'notify work',
    'operator',
    'notify work',
    'operator',
    'notify work',
    'approval',
    'notify work',
  ]);

  for (const reason of ['start', 'takeover']) {
    const running = backfill.run(new AbortController().signal);
    await expect.poll(() => takenSince()).toEqual([reason, 'run']);
    expect(known.interrupted.splice(0)).toEqual([{ kind: 'vendor', pages: 12 }]);
    await backfill.refetch('vendor', ['v']);
    backfill.pause();
    backfill.resume();
    backfill.wake();
    expect(takenSince()).toEqual(['refetch', 'pause', 'resume', 'wake']);
    backfill.requestFullSync(['vendor'], 'operator');
    await backfill.look(true);
    const taken = reason === 'start' ? ['vendor operator', 'policy operator', 'policy approval'] : [];
    expect(takenSince()).toEqual(['operator', ...taken, 'vendor operator', 'wake', 'report']);
    end();
    await running;
    await clock.advance(5_000);
    await backfill.refetch('vendor', ['v']);
    expect(takenSince()).toEqual(['due', 'notify work']);
  }
});

it('a leader reports at each change and every 5 s, and others believe its report for 15 s', async () => {
  const leader = scene();
  const running = leader.backfill.run(new AbortController().signal);
  await expect.poll(() => leader.told).toEqual(['takeover', 'run']);
  leader.told.length = 0;
  for (let seconds = 0; seconds <= 5; seconds += 1) {
    await leader.backfill.look(false);
    await leader.clock.advance(1_000);
  }
  expect(leader.told).toEqual(['report', 'report']);
  expect(leader.backfill.health()).toEqual(health('of the leader'));
  leader.end();
  await running;

  const other = scene({ fact: leader.known.fact });
  await other.clock.advance(6_000);
  await other.backfill.look(false);
  expect(other.backfill.health()).toEqual(health('of the leader'));
  expect(other.backfill.runningSyncRuns()).toEqual(['a sync run']);
  await other.clock.advance(15_000);
  expect(other.backfill.health()).toEqual(NOTHING_KNOWN);
});

it('a leader syncs and deletes under its lease, and reads records later by what the clock of another may be behind', async () => {
  const { told, known, clock, backfill, end } = scene();
  const running = backfill.run(new AbortController().signal);
  await expect.poll(() => told).toEqual(['takeover', 'run']);
  told.length = 0;
  const store = known.stores.at(-1)!;
  const now = { wall: clock.wall(), steady: clock.steady() };
  await store.startSyncRun('vendor', 'timer', now);
  await store.concludeDeletions('vendor', null, { cause: '', syncRunId: null, unannounced: null }, now);
  await store.dueRecords('vendor', now, { settleMs: 10 }, 1);
  expect(told).toEqual(['sync run 1', 'deletions 1', `due by ${now.steady - 14}`]);
  expect([await store.nextDueAt('vendor'), await store.nextDueAt('policy')]).toEqual([5_014, null]);
  end();
  await running;
});

it('a leader that has stopped still says what it last knew of the API, for the beat that ends its process', async () => {
  const { told, backfill, end } = scene();
  const running = backfill.run(new AbortController().signal);
  await expect.poll(() => told).toEqual(['takeover', 'run']);
  end();
  await running;
  expect(backfill.health()).toEqual(health('of the leader'));
  expect(backfill.runningSyncRuns()).toEqual([]);
});

it('a leader knows from the database whether the API was unreachable before it took over', async () => {
  for (const fact of ['1', '0', null]) {
    const { told, known, backfill, end } = scene({ fact });
    const running = backfill.run(new AbortController().signal);
    await expect.poll(() => told).toEqual(['takeover', 'run']);
    expect(known.wasUnreachable).toBe(fact === '1');
    end();
    await running;
  }
});
