import { expect, it } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createDeliveryWatch, noteDowntime } from '../../src/service/missed-deliveries.ts';

const MINUTE_MS = 60_000;

function scene(fullSyncMs: number, { eventsOnly = false, silenceMs = 0 } = {}) {
  let last: { wall: number | null } = { wall: null };
  let addresses: string[] = [];
  let hasSecret = true;
  let nowMs = Date.UTC(2026, 0, 1);
  const open = new Map<string, string | null>();
  const notes: string[] = [];
  const failures: unknown[] = [];
  const dirty: string[] = [];
  let isBroken = false;
  const keep = async <T>(note: () => T): Promise<T> => {
    if (isBroken) throw new Error('the disk is full');
    return note();
  };
  const watch = createDeliveryWatch({
    store: {
      lastDelivery: async () => ({ ...last, addresses }),
      markDirty: (records) => keep(() => void dirty.push(...records.map(({ kind, id }) => `${kind} ${id}`))),
      openProblem: ({ reason }, error) =>
        keep(() => {
          notes.push(reason);
          open.set(reason, error);
        }),
      endProblem: ({ reason }, _, error) =>
        keep(() => (error === undefined || open.get(reason) === error) && open.delete(reason)),
    },
    timing: { settleMs: 10_000 },
    backfill: eventsOnly ? null : { wake: () => undefined },
    hasSecret: () => hasSecret,
    clock: { wall: () => nowMs, steady: () => nowMs, sleep: async () => undefined },
    startedAt: nowMs,
    silenceMs,
    fullSyncMs,
    onError: (error) => failures.push(error),
  });
  return {
    watch,
    open: () => [...open.keys()].sort(),
    close: (reason: string) => void open.delete(reason),
    leave: (reason: string, error: string) => void open.set(reason, error),
    /** The reason of each problem that was opened, as often as it was. */
    notes,
    failures,
    dirty,
    lastDelivery: (to: typeof last, from: string[] = []) => {
      last = to;
      addresses = from;
    },
    secret: (isKnown: boolean) => {
      hasSecret = isKnown;
    },
    late: (kind: Kind | null, recordId: string | null, address: string | null = null) => {
      watch.onRejectedTimestamp({ kind, recordId });
      watch.onDelivery('rejected', 'timestamp_too_old', address);
    },
    breakDatabase: (to: boolean) => {
      isBroken = to;
    },
    /** What a stranger can do at will, and then an honest delivery. */
    forgeAndDeliver() {
      this.forge();
      this.deliver();
    },
    forge(address: string | null = null) {
      for (let count = 0; count < 5; count += 1) watch.onDelivery('rejected', 'bad_signature', address);
    },
    deliver: (address: string | null = null) => watch.onDelivery('accepted', '', address),
    /** A delivery that the database does not take. */
    lose(kind: Kind | null, recordId: string | null) {
      watch.onUnkept({ kind, recordId });
      watch.onDelivery('unavailable', 'store_unavailable', null);
    },
    now: () => nowMs,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

const SENDER = '192.0.2.1';
const STRANGER = '198.51.100.7';
const REJECTED = 'rejected_deliveries';

/** The sender is known: by an accepted delivery, or by the newest events of an earlier process. */
async function sceneWithSender(how: 'accepted' | 'stored' = 'accepted') {
  const here = scene(MINUTE_MS);
  if (how === 'accepted') here.deliver(SENDER);
  else here.lastDelivery({ wall: here.now() }, [SENDER]);
  await here.watch.check();
  return here;
}

it.each([
  { from: SENDER, known: 'accepted', opened: [REJECTED] },
  { from: SENDER, known: 'stored', opened: [REJECTED] },
  { from: STRANGER, known: 'accepted', opened: [] },
  { from: STRANGER, known: 'stored', opened: [] },
] as const)(
  'several wrong signatures in a row from $from open $opened where $known deliveries are of the sender',
  async ({ from, known, opened }) => {
    const here = await sceneWithSender(known);
    here.forge(from);
    here.forge(from);
    await here.watch.check();
    expect(here.open()).toEqual(opened);
    // Once.
    expect(here.notes).toEqual(opened);
  },
);

it('where nothing was ever accepted, whoever sends may be the sender', async () => {
  const here = scene(MINUTE_MS);
  here.forge(STRANGER);
  // What was accepted before this process is not known yet.
  expect(here.open()).toEqual([]);
  await here.watch.check();
  expect(here.open()).toEqual([REJECTED]);
});

it('fewer than five rejected ones in a row are nobody’s trouble', async () => {
  const here = await sceneWithSender();
  for (let round = 0; round < 2; round += 1) {
    for (let count = 1; count < 5; count += 1) here.watch.onDelivery('rejected', 'bad_signature', SENDER);
    here.watch.onDelivery('rejected', 'missing_header', SENDER);
    expect(here.open()).toEqual([]);
    here.deliver(SENDER);
  }
});

it('the next accepted delivery resolves it, and what was rejected is read by full syncs, not too often', async () => {
  const here = await sceneWithSender();
  here.forge(SENDER);
  here.deliver(SENDER);
  await expect.poll(here.open).toEqual(['downtime']);
  here.close('downtime');
  here.forge(SENDER);
  here.deliver(SENDER);
  await here.watch.check();
  // The full syncs may not begin yet: until then it stays open.
  expect(here.open()).toEqual([REJECTED]);
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect(here.open()).toEqual(['downtime']);
  expect(here.failures).toEqual([]);
});

it('one that the last process left open is resolved by the first delivery', async () => {
  const here = scene(MINUTE_MS);
  here.leave(REJECTED, 'x');
  await here.watch.check();
  expect(here.open()).toEqual([REJECTED]);
  here.deliver();
  await expect.poll(here.open).toEqual([]);
});

it('without a signing secret it is open from the start on, until one is known or a delivery is accepted', async () => {
  const here = scene(MINUTE_MS);
  here.secret(false);
  await here.watch.check();
  expect(here.open()).toEqual([REJECTED]);
  here.secret(true);
  await here.watch.check();
  expect(here.open()).toEqual([]);
});

it('a delivery before its secret is known opens it, and the next accepted one resolves it', async () => {
  const here = await sceneWithSender();
  here.watch.onDelivery('rejected', 'no_signing_secret', SENDER);
  here.watch.onDelivery('rejected', 'no_signing_secret', SENDER);
  expect(here.open()).toEqual([REJECTED]);
  here.deliver(SENDER);
  await expect.poll(here.open).toEqual(['downtime']);
});

it('what the database does not take is reported, and done by a later heartbeat', async () => {
  const here = await sceneWithSender();
  here.breakDatabase(true);
  here.forge(SENDER);
  await expect.poll(() => here.failures).not.toEqual([]);
  here.breakDatabase(false);
  await here.watch.check();
  expect(here.open()).toEqual([REJECTED]);
  here.breakDatabase(true);
  const before = here.failures.length;
  here.deliver(SENDER);
  await expect.poll(() => here.failures.length).toBeGreaterThan(before);
  here.breakDatabase(false);
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect(here.open()).toEqual(['downtime']);
});

it('a correctly signed delivery at a wrong time has its record read, now or once strangers could have had it so often', async () => {
  const here = await sceneWithSender();
  here.late('vendor', 'ven_1', STRANGER);
  await expect.poll(() => here.dirty).toEqual(['vendor ven_1']);
  here.late('vendor', 'ven_2', STRANGER);
  here.late('vendor', null, STRANGER);
  await here.watch.check();
  expect({ dirty: here.dirty, open: here.open() }).toEqual({ dirty: ['vendor ven_1'], open: [] });
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  // One that names no record may be about any.
  expect({ dirty: here.dirty, open: here.open() }).toEqual({
    dirty: ['vendor ven_1', 'vendor ven_2'],
    open: ['downtime'],
  });
});

it.each([
  { from: SENDER, opened: [REJECTED] },
  { from: STRANGER, opened: [] },
])('several in a row at a wrong time from $from open $opened', async ({ from, opened }) => {
  const here = await sceneWithSender();
  for (let count = 0; count < 4; count += 1) here.late('vendor', 'ven_1', from);
  expect(here.open()).toEqual([]);
  here.late('vendor', 'ven_1', from);
  expect(here.open()).toEqual(opened);
});

it('deliveries that the database does not take are told once they are no hiccup, and leave a problem like a downtime when they end', async () => {
  const here = scene(MINUTE_MS);
  const fail = (seconds: number) => {
    here.pass(seconds * 1000);
    here.watch.onDelivery('unavailable', 'store_unavailable', null);
  };
  const began = here.now() + 1000;
  fail(1);
  fail(5);
  expect(here.watch.unkeptSince()).toBeNull();
  fail(1);
  expect(here.watch.unkeptSince()).toBe(began);
  await here.watch.check();
  expect(here.open()).toEqual([]);
  for (let count = 0; count < 6; count += 1) fail(5);
  await here.watch.check();
  expect(here.open()).toEqual(['downtime']);
  here.close('downtime');
  fail(5);
  await here.watch.check();
  expect(here.open()).toEqual([]);
  // What was sent between the full sync and the end may have been given up as well.
  here.deliver();
  expect(here.watch.unkeptSince()).toBeNull();
  expect(here.open()).toEqual(['downtime']);
  expect(here.failures).toEqual([]);
});

it('what a delivery was about that the database did not take is read again once it takes something, without a full sync', async () => {
  const here = scene(MINUTE_MS);
  here.lose('vendor', 'ven_1');
  here.lose('vendor', 'ven_1');
  here.lose('policy', 'pol_1');
  here.breakDatabase(true);
  await expect(here.watch.check()).rejects.toThrow('the disk is full');
  expect(here.dirty).toEqual([]);
  here.breakDatabase(false);
  await here.watch.check();
  here.lose('vendor', 'ven_2');
  here.deliver();
  await expect.poll(() => here.dirty).toEqual(['vendor ven_1', 'policy pol_1', 'vendor ven_2']);
  await here.watch.check();
  expect({ dirty: here.dirty.length, notes: here.notes }).toEqual({ dirty: 3, notes: [] });
});

it.each([
  ['are too many to read one by one', 101, 'vendor', (nth: number) => `ven_${nth}`],
  ['include one that does not say its record', 1, 'vendor', () => null],
  ['include one that is no event and of no kind', 1, null, () => null],
] as const)(
  'deliveries that the database did not take leave a problem like a downtime if they %s',
  async (_what, count, kind, idOf) => {
    const here = scene(MINUTE_MS);
    // Several about one record are one to read.
    for (const _ of ['first', 'again']) for (let nth = 1; nth < count; nth += 1) here.lose(kind, idOf(nth));
    await here.watch.check();
    expect(here.notes).toEqual([]);
    for (let nth = 1; nth <= count; nth += 1) here.lose(kind, idOf(nth));
    here.deliver();
    await expect.poll(() => here.notes).toEqual(['downtime']);
    here.lose('vendor', 'ven_1');
    here.deliver();
    await here.watch.check();
    expect(here.notes).toEqual(['downtime']);
  },
);

it('without the API no problem is opened that only a full sync could resolve', async () => {
  const here = scene(MINUTE_MS, { eventsOnly: true });
  here.late('vendor', 'ven_1', STRANGER);
  here.lose('vendor', 'ven_1');
  here.pass(MINUTE_MS);
  here.watch.onDelivery('unavailable', 'store_unavailable', null);
  await here.watch.check();
  here.forgeAndDeliver();
  await here.watch.check();
  expect(here.open()).toEqual([]);
  expect(here.failures).toEqual([]);
});

it.each([
  { agoMs: 29_000, opened: [] },
  { agoMs: 31_000, opened: ['the service stood still for 31 s'] },
  { agoMs: -29_000, opened: [] },
  { agoMs: -3_600_000, opened: ['the clock was set back by 3600 s'] },
  { agoMs: null, opened: [] },
  { agoMs: 31_000, opened: [], eventsOnly: true },
])(
  'after a heartbeat $agoMs ms ago the downtime is $opened',
  async ({ agoMs, opened, eventsOnly = false }) => {
    const wall = Date.UTC(2026, 0, 1);
    const told: (string | null)[] = [];
    await noteDowntime(
      {
        store: {
          readFact: async () => (agoMs === null ? null : new Date(wall - agoMs).toISOString()),
          openProblem: async (_, error) => void told.push(error),
        },
        clock: { wall: () => wall, steady: () => wall, sleep: async () => undefined },
        eventsOnly,
      },
      'the service stood still',
    );
    expect(told).toEqual(opened);
  },
);

const DAY_MS = 24 * 60 * MINUTE_MS;

it.each([
  ['since the last one', true],
  ['at all', false],
])(
  'no delivery %s for as long as configured opens a problem, once, and one resolves it',
  async (_, isFirst) => {
    const here = scene(0, { silenceMs: DAY_MS });
    here.lastDelivery({ wall: isFirst ? here.now() : null });
    here.pass(DAY_MS - 1);
    await here.watch.check();
    expect(here.open()).toEqual([]);
    here.pass(1);
    await here.watch.check();
    expect(here.open()).toEqual(['silence']);
    here.close('silence');
    await here.watch.check();
    expect(here.open()).toEqual([]);
    here.leave('silence', 'x');
    here.lastDelivery({ wall: here.now() });
    await here.watch.check();
    expect(here.open()).toEqual([]);
  },
);
