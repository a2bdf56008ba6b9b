import { expect, it } from 'vitest';
import { createUnnamedEvents } from '../../src/backfill/unnamed-events.ts';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import type { RepairStore, UnreadEvent } from '../../src/store/store.ts';
import { HeldClock } from '../compliance/held-clock.ts';

it('failed events that the present settings understand are read again also if the database failed at the first attempt', async () => {
  const body = JSON.stringify({ data: { riskAssessmentId: 'ra_7' } });
  const event: UnreadEvent = {
    seq: 3,
    id: 'evt_1',
    type: 'risk.assessed',
    kind: 'risk_assessment',
    attempts: 1,
    body,
  };
  const failures = [new StoreUnavailable('the disk is full')];
  const retried: string[] = [];
  const store = {
    seekAnew: async () => undefined,
    learnedPointers: async () => [],
    failedWithoutRecord: async () => {
      const failure = failures.pop();
      if (failure !== undefined) throw failure;
      return [event];
    },
    retryEvent: async (id) => {
      retried.push(id);
      return { outcome: 'processed', kind: 'risk_assessment', recordId: 'ra_7' };
    },
    unreadEvents: async () => [],
  } as Partial<RepairStore> as RepairStore;
  const events = createUnnamedEvents({
    store,
    clock: new HeldClock(),
    random: () => 0,
    signal: new AbortController().signal,
    rules: {
      pointers: DEFAULT_ID_POINTERS,
      timing: { settleMs: 10 },
      toleranceMs: 0,
      eventsOnly: false,
    },
    proof: { left: () => 1 } as never,
    onFound: () => undefined,
  });
  await expect(events.look()).rejects.toThrow(StoreUnavailable);
  expect(await events.look()).toBe(false);
  expect(await events.look()).toBe(false);
  expect(retried).toEqual(['evt_1']);
});
