import { expect, it } from 'vitest';
import type { Backfill } from '../../src/backfill/backfill.ts';
import { NOTHING_KNOWN } from '../../src/backfill/health.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { MirrorError } from '../../src/platform/errors.ts';
import { createWorkerBackfill } from '../../src/service/worker-backfill.ts';
import type { WorkerLease } from '../../src/service/worker-lease.ts';
import type { Lease, Store, Verbs } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';
import { workNow } from '../store/planner.ts';

const health = (lastError: string) => ({ ...NOTHING_KNOWN, lastError });

function scene({ isUnreachable = false, fact = null as string | null } = {}) {
  const told: string[] = [];
  let ended = Promise.withResolvers<void>();
  const known = {
    stores: [] as Verbs[],
    fact,
    isUnreachable,
    wasUnreachable: false,
    search: null as string | null,
  };
  const own = {
    pause: () => void told.push('pause'),
    resume: () => void told.push('resume'),
    wake: () => void told.push('wake'),
    requestFullSync: (kinds, reason) => void told.push(`${kinds.length > 1 ? '' : `${kinds[0]} `}${reason}`),
    refetch: async () => void told.push('refetch'),
    find: async ({ recordId }) => ({ pointer: null, retried: 0, says: `asked about ${recordId}` }),
    health: () => health('of the worker'),
    runningSyncRuns: () => ['a sync run'] as never,
    async run() {
      told.push('run');
      ended = Promise.withResolvers<void>();
      await ended.promise;
    },
  } as Partial<Backfill> as Backfill;
  const lease = { name: 'worker', owner: 'us', fence: 1 };
  const processes = {
    notify: (notice) => void told.push(`notify ${notice}`),
    isAlone: false,
  } as Partial<WorkerLease> as WorkerLease;
  const waiting: { kind: Kind; reason: string }[] = [];
  const shared = {
    interruptSyncRuns: async () => void told.push('interrupted'),
    requestSyncRuns: async (kinds, reason) => {
      told.push(reason);
      waiting.push(...kinds.map((kind) => ({ kind, reason })));
    },
    takeSyncRequests: async () => waiting.splice(0),
    makeDue: async () => void told.push('due'),
    readFact: async (name) => (name === 'id_search' ? known.search : known.fact),
    standing: async () => ({ openSince: known.isUnreachable ? 1 : null, isAccepted: false }),
    writeFact: async (name, value) => {
      if (name === 'id_search') known.search = value;
      else {
        told.push('report');
        known.fact = value;
      }
      return true;
    },
    startSyncRun: async () => void told.push('sync run') as never,
    async nextWork({ steady }) {
      told.push(`due by ${steady}`);
      return [{ what: 'rest', until: 5_000 }];
    },
  } as Partial<Store> as Store;
  const store = {
    ...shared,
    startSyncRun: async () => void told.push('sync run without the lease') as never,
    underLease: (held: Lease) => (held === lease ? shared : store),
  } as Store;
  const clock = Object.assign(new HeldClock(), { marginMs: () => 7 });
  const backfill = createWorkerBackfill({
    store,
    lease: processes,
    clock,
    requestsPerMinute: 60,
    onError: (error) => told.push(String(error)),
    create: async (over, wasUnreachable) => {
      known.wasUnreachable = wasUnreachable;
      known.stores.push(over);
      const budget = { limit: 60, left: 7, pausedForMs: 0 };
      return {
        backfill: own,
        known: () => ({ health: own.health(), running: own.runningSyncRuns(), budget, skewMs: null }),
      };
    },
  });
  const lead = () => backfill.work({ lease, signal: new AbortController().signal });
  return { told, known, clock, backfill, lead, end: () => ended.resolve() };
}

it('what a process is asked for goes to its own backfill while it is the worker, and to the next worker before and after', async () => {
  const { told, clock, backfill, lead, end } = scene();
  const takenSince = () => told.splice(0);
  await backfill.refetch('vendor', ['v']);
  backfill.wake();
  await backfill.requestFullSync(['vendor'], 'operator');
  await backfill.requestFullSync(['policy'], 'approval');
  expect(takenSince()).toEqual([
    ...['due', 'notify work', 'notify work', 'operator', 'notify work', 'approval', 'notify work'],
  ]);

  for (const taken of [['vendor operator', 'policy approval'], []]) {
    const running = lead();
    await expect.poll(() => told.at(-1)).toBe('run');
    expect(takenSince()).toEqual(['interrupted', 'start', 'run']);
    await backfill.refetch('vendor', ['v']);
    backfill.pause();
    backfill.resume();
    backfill.wake();
    await backfill.requestFullSync(['vendor'], 'operator');
    expect(takenSince()).toEqual(['refetch', 'pause', 'resume', 'wake', 'vendor operator']);
    await backfill.look(true);
    expect(takenSince()).toEqual([...taken, 'wake', 'report']);
    end();
    await running;
    await clock.advance(5_000);
    await backfill.refetch('vendor', ['v']);
    expect(takenSince()).toEqual(['due', 'notify work']);
  }
});

it('a worker reports at each change and every 5 s, and others believe its report for 15 s', async () => {
  const worker = scene();
  const running = worker.lead();
  await expect.poll(() => worker.told).toEqual(['interrupted', 'start', 'run']);
  worker.told.length = 0;
  for (let seconds = 0; seconds <= 5; seconds += 1) {
    await worker.backfill.look(false);
    await worker.clock.advance(1_000);
  }
  expect(worker.told).toEqual(['report', 'report']);
  expect(worker.backfill.known().health).toEqual(health('of the worker'));
  worker.end();
  await running;

  const other = scene({ fact: worker.known.fact });
  await other.clock.advance(6_000);
  await other.backfill.look(false);
  expect(other.backfill.known().health).toEqual(health('of the worker'));
  expect(other.backfill.known().running).toEqual(['a sync run']);
  await other.clock.advance(15_000);
  expect(other.backfill.known().health).toEqual(NOTHING_KNOWN);
});

it('a worker works under its lease, and reads records later by what the clock of another may be behind', async () => {
  const { told, known, clock, lead, end } = scene();
  const running = lead();
  await expect.poll(() => told).toEqual(['interrupted', 'start', 'run']);
  told.length = 0;
  const store = known.stores.at(-1)!;
  const now = { wall: clock.wall(), steady: clock.steady() };
  await store.startSyncRun('vendor', 'timer', now);
  expect(await workNow(store, now)).toEqual([{ what: 'rest', until: 5_014 }]);
  expect(told).toEqual(['sync run', `due by ${now.steady - 14}`]);
  end();
  await running;
});

it('only the worker asks the API which id an event has: another process leaves the question, and waits for its answer', async () => {
  const about = { kind: 'vendor', recordId: 'v' } as const;
  const worker = scene();
  const running = worker.lead();
  await expect.poll(() => worker.told).toEqual(['interrupted', 'start', 'run']);
  expect((await worker.backfill.find(about)).says).toBe('asked about v');

  const other = scene();
  const asked = other.backfill.find({ ...about, recordId: 'w' });
  await expect.poll(() => other.known.search).not.toBeNull();
  expect(other.told).toEqual(['notify work']);
  worker.known.search = other.known.search;
  await worker.backfill.look(true);
  await expect.poll(() => worker.known.search).toContain('asked about w');
  other.known.search = worker.known.search;
  await other.clock.advance(1_000);
  expect((await asked).says).toBe('asked about w');

  // Nobody is the worker.
  const vain = other.backfill.find(about).catch((error: MirrorError) => error.code);
  await expect.poll(() => other.known.search).not.toContain('asked about');
  for (let seconds = 0; seconds <= 60; seconds += 1) await other.clock.advance(1_000);
  expect(await vain).toBe('no_worker');
  worker.end();
  await running;
});

it('a worker that has stopped still says what it last knew of the API, for the beat that ends its process', async () => {
  const { told, backfill, lead, end } = scene();
  const running = lead();
  await expect.poll(() => told).toEqual(['interrupted', 'start', 'run']);
  end();
  await running;
  expect(backfill.known().health).toEqual(health('of the worker'));
  expect(backfill.known().running).toEqual([]);
});

it('a worker knows from the database whether the API was unreachable before it took over', async () => {
  for (const isUnreachable of [true, false]) {
    const { told, known, lead, end } = scene({ isUnreachable });
    const running = lead();
    await expect.poll(() => told).toEqual(['interrupted', 'start', 'run']);
    expect(known.wasUnreachable).toBe(isUnreachable);
    end();
    await running;
  }
});
