import { describe, expect, it, onTestFinished } from 'vitest';
import { NOTHING_KNOWN } from '../../src/backfill/upstream.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createLogger } from '../../src/platform/logger.ts';
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

  it('comes no more often than twice a second, however much is repaired, and not without the last repair', async () => {
    const { clock, beats, hurry } = await beating();
    await clock.advance(1_000);
    for (let n = 0; n < 10; n += 1) {
      hurry();
      hurry();
      await clock.advance(100);
    }
    await clock.advance(400);
    expect(beats).toEqual([1_000, 1_500, 2_000]);
  });

  it('tells of what was repaired while it was being written, with the next one', async () => {
    const { clock, beats, hurry, duringBeat } = await beating();
    duringBeat(async () => {
      if (beats.length === 1) hurry();
    });
    await clock.advance(6_000);
    expect(beats).toEqual([5_000, 5_500]);
  });

  it('leaves more time between them while they take long, and never more than five seconds', async () => {
    const { clock, beats, hurry, duringBeat } = await beating();
    const taking = (ms: number) => duringBeat(() => clock.sleep(ms));
    taking(100);
    await clock.advance(5_100);
    hurry();
    await clock.advance(2_000);
    expect(beats).toEqual([5_000, 7_100]);
    taking(1_000);
    hurry();
    await clock.advance(3_100);
    hurry();
    await clock.advance(6_500);
    expect(beats).toEqual([5_000, 7_100, 9_200, 15_200]);
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
function stateWith(own: { logger?: unknown; store?: object; repairs?: object; clock?: HeldClock }) {
  const clock = own.clock ?? new HeldClock();
  return createServiceState({
    config: { sync: { settleMs: 1, fullSyncMs: 0 } },
    rules: { eventsOnly: false },
    clock,
    startedAt: clock.wall(),
    logger: own.logger ?? createLogger({ level: 'silent' }),
    store: { beat: async () => ({ differing: [], otherAccess: false }), ...own.store },
    replicas: { isAlone: true, id: 'a', beat: async () => undefined },
    repairs: {
      backfill: { requestFullSync: () => undefined },
      health: () => NOTHING_KNOWN,
      credentials: null,
      access: () => 'a key',
      renewAccess: async () => undefined,
      budget: { facts: () => ({}) },
      ...own.repairs,
    },
  } as never);
}

it('the full syncs that other credentials need are requested also if the database fails once these are noted', async () => {
  const requested: string[] = [];
  const answers = [true, false];
  const failures = [new StoreUnavailable('the connection is lost')];
  const state = stateWith({
    store: { beat: async () => ({ differing: [], otherAccess: answers.shift() }) },
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

it('settings that differ from those of the replica that reads are told once, if they still do at the next beat', async () => {
  const told: unknown[] = [];
  const logger = { child: () => ({ warn: ({ setting }: { setting: string }) => void told.push(setting) }) };
  let differing: string[] = [];
  const state = stateWith({ logger, store: { beat: async () => ({ differing, otherAccess: false }) } });
  const beats = async (count: number, facts: string[]) => {
    differing = facts;
    for (let nth = 0; nth < count; nth += 1) await state.beat();
    return told.splice(0);
  };
  // The replicas read a file that has changed one after the other.
  expect(await beats(1, ['settle_ms'])).toEqual([]);
  expect(await beats(3, [])).toEqual([]);
  expect(await beats(3, ['settle_ms'])).toEqual(['SYNC_SETTLE_SECONDS']);
  expect(await beats(3, ['access', 'events_only'])).toEqual(['COMPLIANCE_BASE_URL']);
  expect(await beats(3, [])).toEqual([]);
  expect(await beats(3, ['settle_ms'])).toEqual(['SYNC_SETTLE_SECONDS']);
});

it('full syncs are requested once the credentials are no longer rejected, and only then', async () => {
  const refusals = [null, 'consent was withdrawn', 'consent was withdrawn'];
  let requested = 0;
  const state = stateWith({
    repairs: {
      backfill: {
        requestFullSync() {
          requested += 1;
        },
      },
      credentials: { standing: async () => ({ refusal: refusals.shift() ?? null }) },
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
    return { differing: [], otherAccess: false };
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
