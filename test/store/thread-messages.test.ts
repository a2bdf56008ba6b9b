import { describe, expect, it } from 'vitest';
import { MirrorError, NotMigrated, StoreUnavailable, UsageError } from '../../src/platform/errors.ts';
import {
  compactVerbs,
  errorFromMessage,
  errorToMessage,
  portVerbs,
} from '../../src/store/sqlite/thread-worker.ts';
import type {
  ClaimedEvent,
  InboxStore,
  IncomingEvent,
  ProvisionalOutcome,
  Store,
} from '../../src/store/store.ts';
import type { PendingEvent } from '../../src/store/units/processing.ts';

const across = (error: unknown) => errorFromMessage(structuredClone(errorToMessage(error)));

describe('an error that crosses between threads', () => {
  it.each([
    ['of a disk that fails', new StoreUnavailable('no trust', { fatal: true, remedy: 'check the disk' })],
    [
      'of a full disk',
      new StoreUnavailable('full', { remedy: 'free space', cause: new Error('SQLITE_FULL') }),
    ],
    ['of a usage', new UsageError('no such file', 'name another')],
    ['of a schema', new NotMigrated('an earlier one', 'migrate')],
    [
      'with a code of its own',
      new MirrorError('lease_lost', 'lost', { retryable: true, cause: new Error('why') }),
    ],
    ['of a bug', new TypeError('undefined is not a function')],
  ])('%s decides as it would have', (_what, error) => {
    const got = across(error);
    const { code, dirty, retryable, fatal } = error as unknown as Record<string, unknown>;
    expect(got).toMatchObject({ name: error.name, message: error.message, stack: error.stack });
    expect({ ...got }).toMatchObject(
      JSON.parse(JSON.stringify({ code, dirty, retryable, fatal })) as Record<string, unknown>,
    );
    for (const kind of [MirrorError, UsageError, NotMigrated, StoreUnavailable]) {
      expect(got instanceof kind, kind.name).toBe(error instanceof kind);
    }
    expect((got.cause as Error | undefined)?.message).toBe((error.cause as Error | undefined)?.message);
  });

  it('keeps the code of the driver’s own', () => {
    const error = Object.assign(new Error('UNIQUE constraint failed'), { code: 'SQLITE_CONSTRAINT_UNIQUE' });
    expect(across(error)).toMatchObject({ message: error.message, code: error.code });
  });

  it('is one, whatever was thrown', () => {
    expect(across('only words')).toMatchObject({ message: 'only words' });
    expect(across(null)).toBeInstanceOf(Error);
  });
});

const NOW = { wall: 1, steady: 2 };
const TIMING = { settleMs: 3 };
const RULES = {} as Parameters<InboxStore['applyEvents']>[1];

const claim = (seq: number): PendingEvent => ({
  seq,
  id: `evt ${seq} \ud800 \0 "é"`,
  type: 'vendor.updated',
  created: '2026-11-01T12:00:00Z',
  createdMs: 4.5,
  kind: 'vendor',
  recordId: null,
  receivedWall: 6,
  attempts: 7,
  body: '{"id": "\\ud800", "é": "💥"}',
  owner: 'me',
});

/** What of it is told to whoever works on it. */
const told = ({ type, created, createdMs, body, ...claimed }: PendingEvent): ClaimedEvent => claimed;

/** Over a store that answers so, with what each of its verbs was given. */
function verbsAcross(store: Partial<InboxStore>) {
  const verbs = compactVerbs(store as Store);
  const message =
    <Args extends unknown[], Value>(verb: (...args: Args) => Promise<Value>) =>
    async (...args: Args) =>
      structuredClone(await verb(...structuredClone(args)));
  return portVerbs({
    accept: message(verbs.accept),
    claimEvents: message(verbs.claimEvents),
    applyEvents: message(verbs.applyEvents),
    applyReads: message(verbs.applyReads),
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
  const verbs = verbsAcross({
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
  const anew = { recordId: 'told anew' };
  const outcomesOf = (claimOf: (seq: number) => ClaimedEvent): ProvisionalOutcome[] => [
    { event: { ...claimOf(3), ...anew }, outcome: 'provisional', error: null },
    { event: claimOf(1), outcome: 'failed', error: 'why' },
  ];
  const verbs = verbsAcross({
    claimEvents: async () => claimed,
    async applyEvents(events) {
      given.push(events);
      return outcomesOf(claim);
    },
  });
  const got = await verbs.claimEvents('me', 3, 1, NOW);
  expect(got).toEqual(claimed.map(told));
  const [one, , three] = got;
  expect(await verbs.applyEvents([one!, three!], RULES, NOW)).toEqual(outcomesOf((seq) => told(claim(seq))));
  expect(given).toEqual([[1, 3].map((seq) => ({ seq, owner: 'me' }))]);
});
