import { expect, it } from 'vitest';
import { crossingVerbs, hotVerbs } from '../../src/store/sqlite/thread-hot-path.ts';
import type { ClaimedEvent, InboxStore, IncomingEvent, ProvisionalOutcome } from '../../src/store/store.ts';
import type { PendingEvent } from '../../src/store/units/provisional.ts';

const NOW = { wall: 1, steady: 2 };
const TIMING = { settleMs: 3 };
const RULES = {} as Parameters<InboxStore['applyEvents']>[1];

const claim = (seq: number): PendingEvent => ({
  ...{
    seq,
    id: `evt ${seq} \ud800 \0 "é"`,
    type: 'vendor.updated',
    created: '2026-11-01T12:00:00Z',
    createdMs: 4.5,
  },
  ...{
    kind: 'vendor',
    recordId: null,
    receivedWall: 6,
    attempts: 7,
    body: '{"id": "\\ud800", "é": "💥"}',
    owner: 'me',
  },
});

/** What of it is told to whoever works on it. */
const told = ({ type, created, createdMs, body, ...claimed }: PendingEvent): ClaimedEvent => claimed;

/** Over a store that answers so, with what each of its verbs was given. */
function across(store: Partial<InboxStore>) {
  const verbs = crossingVerbs(store as InboxStore);
  const message =
    <Args extends unknown[], Value>(verb: (...args: Args) => Promise<Value>) =>
    async (...args: Args) =>
      structuredClone(await verb(...structuredClone(args)));
  return hotVerbs({
    accept: message(verbs.accept),
    claimEvents: message(verbs.claimEvents),
    applyEvents: message(verbs.applyEvents),
    releaseEvents: message(verbs.releaseEvents),
  });
}

it('deliveries cross as they are, but for what their bodies say', async () => {
  const { seq, receivedWall, attempts, owner, ...own } = claim(1);
  const event: IncomingEvent = { ...own, known: true, t: '9', address: '192.0.2.1' };
  const unusable = [{ reason: 'no', t: '1', body: new Uint8Array([0, 255]), kind: null, recordId: null }];
  const outcomes = [
    ...[
      { status: 'accepted' as const, seq: 41 },
      { status: 'duplicate' as const, conflicting: false },
    ],
    { status: 'duplicate' as const, conflicting: true },
  ];
  const verbs = across({
    async accept(...given) {
      expect(given).toEqual([{ events: [event, event, event], unusable }, NOW, TIMING]);
      return outcomes;
    },
  });
  const events = [event, { ...event, data: { id: 'x' } }, event];
  expect(await verbs.accept({ events, unusable }, NOW, TIMING)).toEqual(outcomes);
  expect([seq, receivedWall, attempts, owner]).toEqual([1, 6, 7, 'me']);
});

it('claimed events stay where they are, but for who holds them, and outcomes cross with what was told anew', async () => {
  const claimed = [claim(1), claim(2), claim(3)];
  const given: unknown[] = [];
  const anew = { kind: 'policy', recordId: 'told anew' } as const;
  const outcomesOf = (claimOf: (seq: number) => ClaimedEvent): ProvisionalOutcome[] => [
    { event: { ...claimOf(3), ...anew }, outcome: 'provisional', error: null },
    { event: claimOf(1), outcome: 'failed', error: 'why' },
  ];
  const verbs = across({
    claimEvents: async () => claimed,
    async applyEvents(events) {
      given.push(events);
      return outcomesOf(claim);
    },
    async releaseEvents(events) {
      given.push(events);
    },
  });
  const got = await verbs.claimEvents('me', 3, 1, NOW);
  expect(got).toEqual(claimed.map(told));
  expect(await verbs.applyEvents(got, RULES, NOW)).toEqual(outcomesOf((seq) => told(claim(seq))));
  // What was worked on is nobody's any more, and another's claim is not ours.
  await verbs.releaseEvents([...got, { ...claim(2), owner: 'another' }]);
  expect(given).toEqual([claimed, [claim(2)]]);
});
