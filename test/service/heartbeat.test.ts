import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createHeartbeat, createServiceState } from '../../src/service/state.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';

async function beating() {
  const clock = new HeldClock();
  const stopping = new AbortController();
  const startedAt = clock.wall();
  const beats: number[] = [];
  const errors: unknown[] = [];
  let during: () => Promise<void> = async () => undefined;
  const heart = createHeartbeat({ clock, onError: (error) => void errors.push(error) });
  const ended = heart.run(async () => {
    beats.push(clock.wall() - startedAt);
    await during();
  }, stopping.signal);
  onTestFinished(async () => {
    stopping.abort();
    await ended;
  });
  await settled();
  return {
    clock,
    stopping,
    beats,
    errors,
    ended,
    hurry: heart.hurry,
    duringBeat(work: () => Promise<void>) {
      during = work;
    },
  };
}

describe('the heartbeat', () => {
  it('comes every five seconds', async () => {
    const { clock, beats } = await beating();
    await clock.advance(15_000);
    expect(beats).toEqual([5_000, 10_000, 15_000]);
  });

  it('comes at once when something was repaired, and five seconds after that', async () => {
    const { clock, beats, hurry } = await beating();
    await clock.advance(2_000);
    hurry();
    await clock.advance(7_000);
    expect(beats).toEqual([2_000, 7_000]);
  });

  it('goes on after one that could not be written, and says so', async () => {
    const { clock, beats, errors, duringBeat } = await beating();
    duringBeat(() => Promise.reject(new Error('the disk is full')));
    await clock.advance(10_000);
    expect(beats).toEqual([5_000, 10_000]);
    expect(errors).toHaveLength(2);
  });

  it('ends when the service does, without another beat', async () => {
    const { clock, beats, stopping, ended } = await beating();
    await clock.advance(1_000);
    stopping.abort();
    await ended;
    expect(beats).toEqual([]);
  });
});

/** The state of a process, of which `own` says what a test is about. */
function stateWith(own: { store?: object; repairs?: object; clock?: HeldClock }) {
  const clock = own.clock ?? new HeldClock();
  return createServiceState({
    config: { sync: { settleMs: 1, fullSyncMs: 0 } },
    rules: { eventsOnly: false },
    clock,
    startedAt: clock.wall(),
    store: { beat: async () => ({ otherAccess: false }), ...own.store },
    lease: { isWorker: () => true },
    repairs: {
      backfill: { requestFullSync: () => undefined },
      known: () => null,
      credentials: null,
      access: () => 'a key',
      renewAccess: async () => undefined,
      ...own.repairs,
    },
  } as never);
}

it('the full syncs that other credentials need are requested also if the database fails once these are noted', async () => {
  const requested: string[] = [];
  const answers = [true, false];
  const failures = [new StoreUnavailable('the connection is lost')];
  const state = stateWith({
    store: { beat: async () => ({ otherAccess: answers.shift() }) },
    repairs: {
      backfill: { requestFullSync: (_kinds: unknown, reason: string) => void requested.push(reason) },
      async renewAccess() {
        const failure = failures.shift();
        if (failure !== undefined) throw failure;
      },
    },
  });
  await expect(state.beat()).rejects.toThrow(StoreUnavailable);
  await state.beat();
  expect(requested).toEqual(['credentials']);
});

it('full syncs are requested once the credentials are no longer rejected, and only then', async () => {
  const refusals = [false, true, true];
  let requested = 0;
  const state = stateWith({
    repairs: {
      backfill: {
        requestFullSync() {
          requested += 1;
        },
      },
      credentials: { needPerson: async () => refusals.shift() ?? false },
    },
  });
  for (const count of [0, 0, 0, 1, 1]) {
    await state.beat();
    expect(requested).toBe(count);
  }
});

it('the database counts as not writable since the first failure, until it takes a beat', async () => {
  const clock = new HeldClock();
  const failure = new StoreUnavailable('the disk is full');
  const failures = [failure, failure];
  const beat = async () => {
    if (failures.length > 0) throw failures.shift()!;
    return { otherAccess: false };
  };
  const state = stateWith({ clock, store: { beat } });
  const since = clock.wall();
  for (let n = 0; n < 2; n += 1) {
    await expect(state.beat()).rejects.toThrow(failure);
    const { unwritableSince, databaseError } = state.facts();
    expect([unwritableSince, databaseError]).toEqual([since, expect.stringContaining('the disk is full')]);
    await clock.advance(5_000);
  }
  await state.beat();
  expect(state.facts()).toMatchObject({ unwritableSince: null, databaseError: null });
});
