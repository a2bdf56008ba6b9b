import { describe, expect, it, onTestFinished } from 'vitest';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { createWorker, GATHER_MS } from '../../src/process/worker.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, ProvisionalOutcome, Store } from '../../src/store/store.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';

const TIMING = { settleMs: 10_000 };
const RULES = {
  pointers: { policy: ['policyId'], risk_assessment: ['riskId'], vendor: ['vendorId'] },
  eventsOnly: false,
  toleranceMs: 300_000,
  guardPercent: 20,
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

async function started(
  over: {
    events?: IncomingEvent[];
    /** What the nth call of the store fails with. */
    fault?: (call: number) => Error | null;
    gate?: () => Promise<void>;
    paused?: boolean;
    gatherMs?: number;
  } = {},
) {
  const store = await openStore(':memory:');
  const clock = new HeldClock();
  // The system's time was set since the start: no wait may depend on it.
  clock.wall = () => clock.steady() + 3_600_000;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const accept = (...events: IncomingEvent[]) => store.accept({ events, unusable: [] }, now(), TIMING);
  if (over.events !== undefined) await accept(...over.events);

  const seen = { calls: 0, atOnce: 0, most: 0, batches: [] as number[] };
  const outcomes: ProvisionalOutcome[] = [];
  const deferred: { id: string; error: string; delayMs: number | null }[] = [];
  const errors: unknown[] = [];
  const worker = createWorker({
    clock,
    rules: RULES,
    gatherMs: over.gatherMs ?? 0,
    random: () => 1,
    onOutcome: (outcome) => void outcomes.push(outcome),
    onDeferred: ({ id }, error, delayMs) => void deferred.push({ id, error, delayMs }),
    onError: (error) => void errors.push(error),
  });
  const processPending: Store['processPending'] = async (...args) => {
    seen.calls += 1;
    const failure = over.fault?.(seen.calls) ?? null;
    await settled();
    if (failure !== null) throw failure;
    seen.atOnce += 1;
    seen.most = Math.max(seen.most, seen.atOnce);
    await over.gate?.();
    const processed = await store.processPending(...args);
    seen.atOnce -= 1;
    if (processed.outcomes.length > 0) seen.batches.push(processed.outcomes.length);
    return processed;
  };
  if (over.paused) worker.pause();
  const stop = new AbortController();
  const running = worker.run({ processPending }, stop.signal);
  let ended = false;
  void running.then(() => {
    ended = true;
  });
  onTestFinished(async () => {
    stop.abort();
    while (!ended) await clock.advance(60_000);
    await store.close();
  });

  const counts = async () => ({
    ...(await store.summary()).events,
    processed: outcomes.filter(({ outcome }) => outcome !== 'failed').length,
  });
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
    seen,
    outcomes,
    deferred,
    errors,
    counts,
    until,
    rest,
    stop,
    running,
    ended: () => ended,
    done: async (count: number, stepMs = 0) =>
      until(async () => (await counts()).processed === count, stepMs),
  };
}

describe('the worker', () => {
  it('works off a backlog of many batches, each event once and in order, one batch at a time', async () => {
    const { outcomes, done, seen } = await started({ events: many(1_000) });
    await done(1_000);
    expect(outcomes.map(({ event }) => event.id)).toEqual(many(1_000).map(({ id }) => id));
    expect(new Set(outcomes.map(({ outcome }) => outcome))).toEqual(new Set(['provisional']));
    expect(seen).toMatchObject({ most: 1, batches: [256, 256, 256, 232] });
  });

  it('goes on when it is woken, and asks nothing meanwhile', async () => {
    const { worker, accept, done, seen, rest } = await started();
    await rest();
    const idle = seen.calls;
    await rest();
    expect(seen.calls).toBe(idle);
    await accept(event('a'));
    worker.wake();
    await done(1);
  });

  it('is woken once for what comes while it is at a batch, however often it is told', async () => {
    const gate = Promise.withResolvers<void>();
    const { worker, accept, done, until, rest, seen } = await started({
      events: [event('a')],
      gate: () => gate.promise,
    });
    await until(() => seen.atOnce === 1);
    for (const id of ['b', 'c', 'd']) {
      await accept(event(id));
      worker.wake();
    }
    gate.resolve();
    await done(4);
    await rest();
    expect(seen.calls).toBe(2);
  });

  it('looks again by itself every five seconds, should nobody wake it', async () => {
    const { accept, clock, done, rest, counts } = await started();
    await rest();
    await accept(event('a'));
    await clock.advance(4_999);
    await rest();
    expect(await counts()).toMatchObject({ pending: 1 });
    await clock.advance(1);
    await done(1);
  });

  it('leaves everything where it is while paused', async () => {
    const { worker, accept, counts, seen, done, rest, clock } = await started({
      events: [event('a')],
      paused: true,
    });
    worker.wake();
    await clock.advance(120_000);
    await accept(event('b'));
    worker.wake();
    await rest();
    expect(await counts()).toMatchObject({ pending: 2, processed: 0 });
    expect(seen.calls).toBe(0);
    worker.resume();
    await done(2);
  });

  it('finishes the batch that it is at when it is stopped, and leaves the rest', async () => {
    const gate = Promise.withResolvers<void>();
    const { stop, running, counts, until, seen, rest, ended } = await started({
      events: many(1_500),
      gate: () => gate.promise,
    });
    await until(() => seen.atOnce > 0);
    stop.abort();
    await rest();
    expect(ended()).toBe(false);
    gate.resolve();
    await running;
    expect(await counts()).toMatchObject({ processed: 256, pending: 1_244 });
  });

  it('shows a single event at once, and lets a busy time gather a larger batch', async () => {
    const { worker, accept, clock, done, rest, seen } = await started({ gatherMs: GATHER_MS });
    await rest();
    await accept(event('alone'));
    worker.wake();
    await done(1);
    await accept(event('next'));
    worker.wake();
    await done(2);
    await accept(...many(20));
    worker.wake();
    await done(22);
    for (const id of ['x', 'y']) {
      await accept(event(id));
      worker.wake();
      await rest();
    }
    expect(seen.batches).toEqual([1, 1, 20]);
    await clock.advance(GATHER_MS);
    await done(24);
    expect(seen.batches).toEqual([1, 1, 20, 2]);
  });

  it('tries an event on which our own code breaks ten times, with longer waits, while others go on', async () => {
    const poisoned = event('poisoned', { body: 'not JSON' });
    const { deferred, until, counts, done } = await started({ events: [event('a'), poisoned, event('b')] });
    await done(2);
    await until(async () => (await counts()).failed === 1, 5_000);
    expect(deferred.map(({ id, delayMs }) => [id, delayMs])).toEqual([
      ...[1, 2, 4, 8, 16, 32, 64, 128, 256].map((seconds) => ['poisoned', seconds * 1_000]),
      ['poisoned', null],
    ]);
  });

  it('counts no attempt while the database cannot commit, and leaves it alone for a second', async () => {
    const unavailable = new StoreUnavailable('the disk is full');
    const { store, seen, clock, errors, deferred, until, done, rest } = await started({
      events: many(3),
      fault: (call) => (call <= 2 ? unavailable : null),
    });
    await until(() => errors.length === 1);
    await rest();
    await clock.advance(999);
    await rest();
    expect(seen.calls).toBe(1);
    await done(3, 250);
    expect(errors).toEqual([unavailable, unavailable]);
    expect(deferred).toEqual([]);
    expect(await store.show('deliveries', 'evt_0')).toMatchObject({
      state: 'processed',
      attempts: 1,
      reason: null,
    });
  });

  it('stops at once also while the database fails', async () => {
    const { stop, errors, until, ended } = await started({ fault: () => new StoreUnavailable('no') });
    await until(() => errors.length === 1);
    stop.abort();
    await until(ended);
  });
});
