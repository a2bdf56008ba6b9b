import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createWorker } from '../../src/process/worker.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, ProvisionalOutcome, Store } from '../../src/store/store.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';

const TIMING = { settleMs: 10_000 };
const RULES = {
  pointers: { policy: ['policyId'], risk_assessment: ['riskId'], vendor: ['vendorId'] },
  eventsOnly: false,
  toleranceMs: 300_000,
  timing: TIMING,
};
/** Turns of the event loop after which a condition will not come true any more. */
const PATIENCE_TURNS = 5_000;

function event(id: string, over: Partial<IncomingEvent> = {}): IncomingEvent {
  const recordId = over.recordId ?? `pol of ${id}`;
  return {
    id,
    type: 'policy.updated',
    created: '2026-11-01T12:00:00Z',
    createdMs: 1_000,
    t: '1',
    kind: 'policy',
    recordId,
    known: true,
    body: JSON.stringify({ data: { policyId: recordId, name: id } }),
    ...over,
  };
}
const many = (count: number) => Array.from({ length: count }, (_, n) => event(`evt_${n}`));

type Faults = {
  [Verb in
    | 'claimEvents'
    | 'applyEvents'
    | 'deferEvent'
    | 'nextAttemptWall'
    | 'recoverClaims'
    | 'releaseEvents']?: (call: number) => Error | null;
};

async function started(
  over: {
    events?: IncomingEvent[];
    concurrency?: number;
    maxAttempts?: number;
    faults?: Faults;
    gate?: () => Promise<void>;
    whileAsking?: () => Promise<void>;
    paused?: boolean;
    claimed?: boolean;
    /** That of another process. */
    store?: Store;
    /** The name of this process. */
    owner?: string;
  } = {},
) {
  const store = over.store ?? (await openStore(':memory:'));
  const clock = new HeldClock();
  // The system's time was set since the start: no wait may depend on it.
  clock.wall = () => clock.steady() + 3_600_000;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const accept = (...events: IncomingEvent[]) => store.accept({ events, unusable: [] }, now(), TIMING);
  if (over.events !== undefined) await accept(...over.events);
  // An earlier process got this far.
  if (over.claimed) await store.claimEvents('an earlier process', 100, 60_000, now());

  const calls = {
    claimEvents: 0,
    applyEvents: 0,
    deferEvent: 0,
    nextAttemptWall: 0,
    recoverClaims: 0,
    releaseEvents: 0,
  };
  const atWork = { batches: 0, most: 0 };
  function failing<Verb extends keyof Faults>(verb: Verb): Store[Verb] {
    const real = store[verb] as (...args: unknown[]) => Promise<unknown>;
    const wrapped = async (...args: unknown[]) => {
      calls[verb] += 1;
      const failure = over.faults?.[verb]?.(calls[verb]) ?? null;
      if (failure !== null) {
        await settled();
        throw failure;
      }
      return real(...args);
    };
    return wrapped as Store[Verb];
  }
  const apply = failing('applyEvents');
  const nextAttemptWall = failing('nextAttemptWall');
  const outcomes: ProvisionalOutcome[] = [];
  const retries: { id: string; error: string; delayMs: number | null }[] = [];
  const errors: unknown[] = [];
  const worker = createWorker({
    store: {
      ...store,
      claimEvents: failing('claimEvents'),
      deferEvent: failing('deferEvent'),
      recoverClaims: failing('recoverClaims'),
      releaseEvents: failing('releaseEvents'),
      async nextAttemptWall() {
        await over.whileAsking?.();
        return await nextAttemptWall();
      },
      async applyEvents(...args) {
        atWork.batches += 1;
        atWork.most = Math.max(atWork.most, atWork.batches);
        await over.gate?.();
        return apply(...args).finally(() => {
          atWork.batches -= 1;
        });
      },
    },
    clock,
    rules: RULES,
    concurrency: over.concurrency ?? 8,
    maxAttempts: over.maxAttempts ?? 10,
    claims: { owner: over.owner ?? '', leaseMs: 60_000, lookEveryMs: 30_000 },
    random: () => 1,
    onOutcome: (outcome) => void outcomes.push(outcome),
    onRetry: ({ id }, error, delayMs) => void retries.push({ id, error, delayMs }),
    onError: (error) => void errors.push(error),
  });
  if (over.paused) worker.pause();
  const stop = new AbortController();
  const running = worker.run(stop.signal);
  let ended = false;
  void running.then(() => {
    ended = true;
  });
  onTestFinished(async () => {
    stop.abort();
    while (!ended) await clock.advance(60_000);
    if (over.store === undefined) await store.close();
  });

  const counts = async () => (await store.summary()).events;
  /** Lets the worker go on until `condition` holds; time passes only when `stepMs` says so. */
  async function until(condition: () => Promise<boolean> | boolean, stepMs = 0) {
    for (let turn = 0; turn < PATIENCE_TURNS; turn += 1) {
      if (await condition()) return;
      if (stepMs > 0) await clock.advance(stepMs);
      else await settled();
    }
    throw new Error('the condition never came true');
  }
  const rest = async () => {
    for (let turn = 0; turn < 20; turn += 1) await settled();
  };
  return {
    store,
    clock,
    worker,
    accept,
    calls,
    atWork,
    outcomes,
    retries,
    errors,
    counts,
    until,
    rest,
    stop,
    running,
    ended: () => ended,
    done: async (count: number) => until(async () => (await counts()).processed === count),
  };
}

describe('the processor', () => {
  it('works off a backlog of many batches, each event once', async () => {
    const { store, outcomes, done, stop, running } = await started({ events: many(1_000) });
    await done(1_000);
    expect(outcomes.map((one) => one.outcome)).toEqual(Array.from({ length: 1_000 }, () => 'provisional'));
    expect(new Set(outcomes.map((one) => one.event.id)).size).toBe(1_000);
    expect(await store.listChanges(0, 500)).toHaveLength(500);
    stop.abort();
    await running;
  });

  it('goes on when it is woken, and sleeps meanwhile', async () => {
    const { worker, accept, done, calls, rest } = await started();
    await rest();
    const idle = calls.claimEvents;
    await rest();
    expect(calls.claimEvents).toBe(idle);
    await accept(event('a'));
    worker.wake();
    await done(1);
  });

  it('hears that it is woken while it asks when it must look again', async () => {
    const asking = Promise.withResolvers<void>();
    const { worker, accept, done, rest } = await started({ whileAsking: () => asking.promise });
    await rest();
    await accept(event('a'));
    worker.wake();
    asking.resolve();
    await done(1);
  });

  it('looks again by itself, should nobody wake it, however late the next attempt is', async () => {
    const { store, worker, accept, clock, done, rest } = await started({
      events: [event('late')],
      paused: true,
    });
    const now = { wall: clock.wall(), steady: clock.steady() };
    const [late] = await store.claimEvents('another process', 1, 60_000, now);
    const retryAtMs = now.steady + 600_000;
    await store.deferEvent({ event: late!, retryAtMs, error: 'ours' }, now, TIMING);
    worker.resume();
    await rest();
    await accept(event('a'));
    await clock.advance(30_000);
    await done(1);
  });

  it('leaves everything where it is while paused', async () => {
    const { worker, accept, counts, calls, done, rest, clock } = await started({
      events: [event('a')],
      paused: true,
    });
    worker.wake();
    await clock.advance(120_000);
    await accept(event('b'));
    worker.wake();
    await rest();
    expect(await counts()).toMatchObject({ pending: 2, processed: 0 });
    expect(calls).toMatchObject({ claimEvents: 0, nextAttemptWall: 0 });
    worker.resume();
    await done(2);
  });

  it('takes up what an earlier process had claimed', async () => {
    const { done } = await started({ events: many(3), claimed: true });
    await done(3);
  });

  it('finishes what is claimed when it is stopped, and leaves the rest', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { stop, running, counts, until, atWork, rest, ended } = await started({
      events: many(1_500),
      concurrency: 8,
      gate: () => promise,
    });
    await until(() => atWork.batches > 0);
    stop.abort();
    await rest();
    const claimed = 256 * atWork.most;
    expect(claimed).toBeLessThan(1_500);
    expect(ended()).toBe(false);
    resolve();
    await running;
    expect(await counts()).toMatchObject({ processed: claimed, pending: 1_500 - claimed });
  });

  it('holds no more than its batches, however long the backlog', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { store, clock, until, done, atWork, rest, calls } = await started({
      events: many(2_000),
      concurrency: 2,
      gate: () => promise,
    });
    await until(() => atWork.batches === 2);
    await rest();
    expect(calls.claimEvents).toBe(2);
    // What is not claimed can be claimed by somebody else.
    const free = await store.claimEvents('me', 10_000, 60_000, {
      wall: clock.wall(),
      steady: clock.steady(),
    });
    expect(free).toHaveLength(2_000 - 2 * 256);
    await store.releaseEvents(free);
    resolve();
    await done(2_000);
    expect(atWork.most).toBe(2);
  });

  it.each(['batch', 'process'])(
    'works on no event of a record while another %s works on one of it',
    async (other) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const gates = [promise];
      const { store, until, rest, done } = await started({
        events: [event('a'), ...many(255), event('b', { recordId: 'pol of a' }), event('c')],
        concurrency: other === 'batch' ? 2 : 1,
        owner: 'one/',
        gate: async () => await gates.shift(),
      });
      if (other === 'process') await started({ store, owner: 'another/' });
      onTestFinished(() => resolve());
      await until(async () => (await store.showEvent('c'))?.state === 'processed');
      await rest();
      expect(await store.showEvent('b')).toMatchObject({ state: 'pending' });
      resolve();
      await done(258);
    },
  );

  it('finds the one event that breaks a batch, and shows the others', async () => {
    const poisoned = event('poisoned', { body: 'not JSON' });
    const { store, retries, done } = await started({ events: [event('a'), poisoned, event('b')] });
    await done(2);
    expect(await store.showEvent('poisoned')).toMatchObject({ state: 'pending', attempts: 1 });
    expect(retries).toEqual([{ id: 'poisoned', error: expect.stringContaining('JSON'), delayMs: 1_000 }]);
  });

  it('gives an event up after its last attempt, with the error that it died of', async () => {
    const poisoned = event('poisoned', { body: 'not JSON' });
    const { store, retries, until, counts } = await started({ events: [poisoned], maxAttempts: 3 });
    await until(async () => (await counts()).failed === 1, 250);
    expect(await store.showEvent('poisoned')).toMatchObject({
      state: 'failed',
      attempts: 3,
      error: expect.stringContaining('JSON'),
    });
    expect(retries.map((retry) => retry.delayMs)).toEqual([1_000, 2_000, null]);
    const [gap] = await store.list('gaps', { open: true, limit: 10 });
    expect(gap).toMatchObject({ reason: 'failed_event', record_id: 'pol of poisoned' });
  });

  it('tries a deferred event again at its time, not before', async () => {
    const { calls, clock, until, done, rest } = await started({
      events: [event('a')],
      faults: { applyEvents: (call) => (call === 1 ? new Error('once') : null) },
    });
    await until(() => calls.deferEvent === 1);
    await rest();
    const looked = calls.claimEvents;
    await clock.advance(999);
    await rest();
    expect(calls.applyEvents).toBe(1);
    // It slept until then, rather than to ask again and again.
    expect(calls.claimEvents).toBe(looked);
    await clock.advance(1);
    await done(1);
  });

  it('looks now and then, not all the time, for a deferred event that another process has claimed', async () => {
    const { store, worker, clock, calls, retries, rest, until } = await started({
      events: [event('evt_0')],
      faults: { applyEvents: (call) => (call === 1 ? new Error('a bug') : null) },
    });
    await until(() => retries.length === 1);
    worker.pause();
    await clock.advance(2_000);
    const now = { wall: clock.wall(), steady: clock.steady() };
    expect(await store.claimEvents('another process', 1, 60_000, now)).toHaveLength(1);
    worker.resume();
    await rest();
    const before = calls.claimEvents;
    for (let ms = 0; ms < 1_000; ms += 1) await clock.advance(1);
    expect(calls.claimEvents - before).toBeLessThan(30);
  });

  it('counts no attempt while the database cannot commit, and leaves it alone for a second', async () => {
    const unavailable = new StoreUnavailable('the disk is full');
    const { store, calls, clock, errors, retries, until, done, rest } = await started({
      events: many(3),
      concurrency: 4,
      faults: { applyEvents: (call) => (call <= 2 ? unavailable : null) },
    });
    await until(() => errors.length === 1);
    await rest();
    await clock.advance(999);
    await rest();
    expect(calls.applyEvents).toBe(1);
    await until(() => errors.length === 2, 1);
    await until(() => calls.applyEvents === 3, 250);
    await done(3);
    expect(retries).toEqual([]);
    expect(await store.showEvent('evt_0')).toMatchObject({ state: 'processed', attempts: 1, error: null });
  });

  it('goes on after a claim that failed, and after a start that could not take back what was claimed before', async () => {
    const once = (call: number) => (call === 1 ? new StoreUnavailable('no') : null);
    const { errors, until, counts, clock } = await started({
      events: many(3),
      claimed: true,
      faults: { claimEvents: once, recoverClaims: once },
    });
    const begun = clock.steady();
    await until(async () => (await counts()).processed === 3, 250);
    expect(errors).toHaveLength(2);
    // Each time it left the database alone for a second.
    expect(clock.steady() - begun).toBeGreaterThanOrEqual(2_000);
    // Long before the lease of those claims would have ended.
    expect(clock.steady() - begun).toBeLessThan(5_000);
  });

  it('goes on where the database could not say when to look again', async () => {
    const { accept, worker, errors, until, done } = await started({
      faults: { nextAttemptWall: (call) => (call === 1 ? new StoreUnavailable('no') : null) },
    });
    await until(() => errors.length === 1);
    await accept(event('a'));
    worker.wake();
    await done(1);
  });

  it('stops at once also where the database has not let it begin', async () => {
    const { stop, errors, until, ended } = await started({
      faults: { recoverClaims: () => new StoreUnavailable('no') },
    });
    await until(() => errors.length === 1);
    stop.abort();
    await until(ended);
  });

  it('tries events again once their lease has ended, where the database could not even release them', async () => {
    const once = (call: number) => (call === 1 ? new StoreUnavailable('no') : null);
    const { errors, until, counts, rest } = await started({
      events: many(3),
      faults: { applyEvents: once, releaseEvents: once },
    });
    await until(() => errors.length === 2, 250);
    await rest();
    expect(await counts()).toMatchObject({ processed: 0 });
    await until(async () => (await counts()).processed === 3, 1_000);
  });

  it('keeps no event for itself when even its failure could not be written', async () => {
    const { errors, until, counts, clock } = await started({
      events: [event('poisoned', { body: 'not JSON' }), event('b')],
      faults: { deferEvent: (call) => (call === 1 ? new StoreUnavailable('no') : null) },
    });
    const begun = clock.steady();
    await until(async () => (await counts()).processed === 1, 250);
    expect(errors).toHaveLength(1);
    // Long before the lease would have ended.
    expect(clock.steady() - begun).toBeLessThan(5_000);
  });
});
