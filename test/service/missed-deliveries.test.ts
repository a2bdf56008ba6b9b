import { expect, it } from 'vitest';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createDeliveryWatch, noteDowntime, recover } from '../../src/service/missed-deliveries.ts';

const MINUTE_MS = 60_000;

function scene(
  fullSyncMs: number,
  takeTurn = async () => true,
  eventsOnly = false,
  silenceMs = 0,
  others = 0,
) {
  let last: { wall: number | null; longestPauseMs: number | null } = { wall: null, longestPauseMs: null };
  let nowMs = Date.UTC(2026, 0, 1);
  const syncRuns: string[] = [];
  const open = new Set<string>();
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
      lastDelivery: async () => last,
      markDirty: (records) => keep(() => void dirty.push(...records.map(({ kind, id }) => `${kind} ${id}`))),
      openGap: ({ reason }) =>
        keep(() => {
          notes.push(reason);
          open.add(reason);
        }),
      resolveGap: ({ reason }) => keep(() => open.delete(reason)),
    },
    timing: { settleMs: 10_000 },
    backfill: eventsOnly
      ? null
      : { requestFullSync: (_, reason) => void syncRuns.push(reason), wake: () => undefined },
    clock: { wall: () => nowMs, steady: () => nowMs, sleep: async () => undefined },
    startedAt: nowMs,
    takeTurn,
    others: () => others,
    silenceMs,
    fullSyncMs,
    onError: (error) => failures.push(error),
  });
  return {
    watch,
    syncRuns,
    open,
    /** The reason of each gap that was opened, as often as it was. */
    notes,
    failures,
    dirty,
    lastDelivery: (to: typeof last) => {
      last = to;
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
    beside: (count: number) => {
      others = count;
      return watch.check();
    },
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

it('a burst of wrong signatures that is over is followed by one full sync, and its gap is mended', () => {
  const here = scene(MINUTE_MS);
  here.forgeAndDeliver();
  here.deliver();
  here.pass(10 * MINUTE_MS);
  here.deliver();
  expect(here.syncRuns).toEqual(['rejected deliveries']);
  expect([...here.open]).toEqual([]);
});

it('a gap that is over, and that the database does not resolve at first, is resolved by a later heartbeat', async () => {
  const here = scene(MINUTE_MS);
  here.watch.onDelivery('rejected', 'no_signing_secret', null);
  here.forge();
  here.breakDatabase(true);
  here.deliver();
  await expect.poll(() => here.failures).not.toEqual([]);
  await here.watch.check();
  here.breakDatabase(false);
  expect([...here.open].sort()).toEqual(['no_signing_secret', 'rejected_signatures']);
  await here.watch.check();
  expect([...here.open]).toEqual([]);
});

it('fewer than five wrong signatures in a row are nobody’s trouble', () => {
  const here = scene(MINUTE_MS);
  for (let round = 0; round < 2; round += 1) {
    for (let count = 1; count < 5; count += 1) here.watch.onDelivery('rejected', 'bad_signature', null);
    here.watch.onDelivery('rejected', 'missing_header', null);
    expect([...here.open]).toEqual([]);
    here.deliver();
  }
  expect(here.syncRuns).toEqual([]);
});

it('a stranger has each gap written once, however many deliveries he sends', () => {
  const here = scene(MINUTE_MS);
  for (let count = 0; count < 4; count += 1) {
    here.forge();
    here.watch.onDelivery('rejected', 'no_signing_secret', null);
  }
  expect(here.notes).toEqual(['rejected_signatures', 'no_signing_secret']);
});

it.each([
  [undefined, ['full syncs', 'dirty marks']],
  [0, ['dirty marks']],
  [1, []],
])('a start beside %s other replicas that are alive leaves them their work', async (others, taken) => {
  const began: string[] = [];
  await recover({
    store: {
      interruptSyncRuns: async () => {
        began.push('full syncs');
        return [];
      },
      markUnverifiedDirty: async () => began.push('dirty marks'),
      readFact: async () => null,
    } as never,
    clock: { wall: () => 0, steady: () => 0, sleep: async () => undefined },
    eventsOnly: false,
    timing: { settleMs: 10 },
    others,
  });
  expect(began).toEqual(taken);
});

it('a gap that the database does not take is reported, and those of lost deliveries are opened later', async () => {
  const here = scene(0);
  here.breakDatabase(true);
  here.watch.onDelivery('rejected', 'no_signing_secret', null);
  here.watch.onDelivery('unavailable', 'store_unavailable', null);
  here.pass(MINUTE_MS);
  here.watch.onDelivery('unavailable', 'store_unavailable', null);
  here.deliver();
  here.watch.onRejectedTimestamp('timestamp_too_old');
  // The gaps of the secret, opened and resolved, that of wrong signatures, the downtime, and the wrong time.
  await expect.poll(() => here.failures).toHaveLength(5);
  here.breakDatabase(false);
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect([...here.open]).toEqual(['rejected_timestamp', 'downtime']);
});

it.each([
  { fullSyncMinutes: 1, distanceMinutes: 10 },
  { fullSyncMinutes: 60, distanceMinutes: 60 },
])(
  'made-up signatures cause one full sync in $distanceMinutes minutes where the timer says $fullSyncMinutes, and the gap stays open until the next',
  ({ fullSyncMinutes, distanceMinutes }) => {
    const here = scene(fullSyncMinutes * MINUTE_MS);
    for (let round = 0; round < 4; round += 1) here.forgeAndDeliver();
    expect(here.syncRuns).toHaveLength(1);
    expect([...here.open]).toEqual(['rejected_signatures']);

    here.pass(distanceMinutes * MINUTE_MS - 1);
    here.deliver();
    expect(here.syncRuns).toHaveLength(1);
    here.pass(1);
    here.deliver();
    expect(here.syncRuns).toHaveLength(2);
    expect([...here.open]).toEqual([]);
    expect(here.failures).toEqual([]);
  },
);

it('after a burst that is over nobody waits for a delivery: its full sync begins when it may, unless another burst is on', async () => {
  const here = scene(MINUTE_MS);
  here.forgeAndDeliver();
  here.forgeAndDeliver();
  expect(here.watch.isRejecting()).toBe(false);
  await here.watch.check();
  expect(here.syncRuns).toHaveLength(1);
  here.forge();
  expect(here.watch.isRejecting()).toBe(true);
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect([...here.open]).toEqual(['rejected_signatures']);
  here.forgeAndDeliver();
  expect(here.syncRuns).toHaveLength(2);
  here.forgeAndDeliver();
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect(here.syncRuns).toHaveLength(3);
  expect([...here.open]).toEqual([]);
});

it('a burst of wrong signatures from where no delivery was ever accepted is over with the next accepted one, each time', async () => {
  const here = scene(MINUTE_MS);
  here.deliver('192.0.2.1');
  for (let burst = 0; burst < 3; burst += 1) {
    here.forge('198.51.100.7');
    expect([...here.open]).toEqual(['rejected_signatures']);
    here.deliver('192.0.2.1');
    expect([...here.open]).toEqual([]);
    expect(here.syncRuns).toHaveLength(1);
  }
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect(here.syncRuns).toHaveLength(2);
  // These may be the sender’s, whose secret is another one for a part of them.
  for (const [rejected, accepted] of [
    ['192.0.2.1', '192.0.2.2'],
    ['203.0.113.9', '203.0.113.9'],
  ] as const) {
    here.forge(rejected);
    here.deliver(accepted);
    here.forge('198.51.100.7');
    here.deliver('192.0.2.1');
    expect([...here.open]).toEqual(['rejected_signatures']);
    here.pass(10 * MINUTE_MS);
    await here.watch.check();
    expect([...here.open]).toEqual([]);
  }
});

it('gaps of signatures that the last process left open are mended by the first delivery', () => {
  const here = scene(MINUTE_MS);
  here.open.add('rejected_signatures').add('no_signing_secret');
  here.deliver();
  expect([...here.open]).toEqual([]);
});

it('a gap of wrong signatures that a replica left open is mended by the next delivery, with a full sync', async () => {
  const here = scene(MINUTE_MS, undefined, false, 0, 1);
  here.deliver();
  here.open.add('rejected_signatures');
  here.deliver();
  await here.beside(1);
  here.deliver();
  expect([...here.open]).toEqual(['rejected_signatures']);
  // One goes while another stays, and some time passes until the next delivery.
  await here.beside(2);
  await here.beside(1);
  await here.beside(1);
  here.deliver();
  await expect.poll(() => here.syncRuns).toEqual(['rejected deliveries']);
  expect([...here.open]).toEqual([]);
  // Another one goes, and has left nothing.
  await here.beside(1);
  await here.beside(0);
  here.deliver();
  await here.watch.check();
  expect(here.syncRuns).toHaveLength(1);
  // What one that lives leaves open is its own to resolve.
  here.open.add('rejected_signatures');
  here.deliver();
  await here.watch.check();
  expect([...here.open]).toEqual(['rejected_signatures']);
  expect(here.failures).toEqual([]);
});

it('a gap of an unknown secret that a replica left open is mended by the next delivery, with a full sync', async () => {
  const here = scene(MINUTE_MS, undefined, false, 0, 1);
  here.deliver();
  here.open.add('no_signing_secret');
  await here.beside(0);
  here.deliver();
  await expect.poll(() => here.syncRuns).toEqual(['rejected deliveries']);
  expect([...here.open]).toEqual([]);
});

it('a replica that goes gives nobody another full sync for made-up signatures', async () => {
  const here = scene(MINUTE_MS, undefined, false, 0, 1);
  here.forgeAndDeliver();
  here.forgeAndDeliver();
  await here.beside(0);
  here.deliver();
  await here.watch.check();
  expect(here.syncRuns).toHaveLength(1);
  expect([...here.open]).toEqual(['rejected_signatures']);
});

it('a delivery rejected for its time soon after another is put off, and not forgotten', async () => {
  const here = scene(0);
  here.watch.onRejectedTimestamp('timestamp_too_old');
  await here.watch.check();
  here.open.clear();
  here.pass(5 * MINUTE_MS);
  here.watch.onRejectedTimestamp('timestamp_too_old');
  await here.watch.check();
  expect([...here.open]).toEqual([]);
  here.pass(5 * MINUTE_MS);
  await here.watch.check();
  expect([...here.open]).toEqual(['rejected_timestamp']);
  here.open.clear();
  here.pass(10 * MINUTE_MS);
  await here.watch.check();
  expect([...here.open]).toEqual([]);
});

it('several deliveries in a row that are rejected for their time are told of, until one comes in time or none comes any more', () => {
  const here = scene(0);
  for (let count = 1; count < 5; count += 1) here.watch.onRejectedTimestamp('timestamp_too_new');
  expect(here.watch.untimelySince()).toBeNull();
  here.watch.onRejectedTimestamp('timestamp_too_new');
  expect(here.watch.untimelySince()).not.toBeNull();
  here.watch.onDelivery('rejected', 'bad_signature', null);
  expect(here.watch.untimelySince()).not.toBeNull();
  here.pass(9 * MINUTE_MS);
  here.watch.onRejectedTimestamp('timestamp_too_new');
  here.pass(9 * MINUTE_MS);
  expect(here.watch.untimelySince()).not.toBeNull();
  here.pass(MINUTE_MS);
  expect(here.watch.untimelySince()).toBeNull();
  for (const outcome of ['accepted', 'duplicate', 'quarantined'] as const) {
    for (let count = 0; count < 5; count += 1) here.watch.onRejectedTimestamp('timestamp_too_new');
    expect(here.watch.untimelySince()).not.toBeNull();
    here.watch.onDelivery(outcome, '', null);
    expect(here.watch.untimelySince()).toBeNull();
  }
});

it('a delivery rejected for its time waits while another replica has the turn of all', async () => {
  let isOurs = false;
  const here = scene(0, async () => isOurs);
  here.watch.onRejectedTimestamp('timestamp_too_old');
  await here.watch.check();
  expect([...here.open]).toEqual([]);
  isOurs = true;
  await here.watch.check();
  expect([...here.open]).toEqual(['rejected_timestamp']);
});

it('a delivery without a known secret opens a gap, which the next accepted one closes with a full sync', () => {
  const here = scene(MINUTE_MS);
  here.deliver();
  here.watch.onDelivery('rejected', 'no_signing_secret', null);
  here.watch.onDelivery('rejected', 'no_signing_secret', null);
  expect({ open: [...here.open], syncRuns: here.syncRuns }).toEqual({
    open: ['no_signing_secret'],
    syncRuns: [],
  });
  here.deliver();
  here.deliver();
  expect({ open: [...here.open], syncRuns: here.syncRuns }).toEqual({
    open: [],
    syncRuns: ['rejected deliveries'],
  });
});

it('deliveries that the database does not take are told once they are no hiccup, and leave a gap like a downtime when they end', async () => {
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
  expect([...here.open]).toEqual([]);
  for (let count = 0; count < 6; count += 1) fail(5);
  await here.watch.check();
  expect([...here.open]).toEqual(['downtime']);
  here.open.clear();
  fail(5);
  await here.watch.check();
  expect([...here.open]).toEqual([]);
  // What was sent between the full sync and the end may have been given up as well.
  here.deliver();
  expect(here.watch.unkeptSince()).toBeNull();
  expect([...here.open]).toEqual(['downtime']);
  expect(here.failures).toEqual([]);
});

it('a delivery that the database did not take is no lasting trouble where the next is taken, or none comes', async () => {
  const here = scene(MINUTE_MS);
  here.watch.onDelivery('unavailable', 'store_unavailable', null);
  here.pass(20_000);
  here.deliver();
  here.watch.onDelivery('failed', 'internal_error', null);
  here.pass(10_000);
  here.watch.onDelivery('failed', 'internal_error', null);
  expect(here.watch.unkeptSince()).not.toBeNull();
  here.pass(MINUTE_MS);
  expect(here.watch.unkeptSince()).toBeNull();
  // Turned away for other reasons than the database.
  here.watch.onDelivery('unavailable', 'bodies_in_flight', null);
  expect(here.watch.unkeptSince()).toBeNull();
  await here.watch.check();
  expect([...here.open]).toEqual([]);
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
  expect({ dirty: here.dirty.length, notes: here.notes, syncRuns: here.syncRuns }).toEqual({
    dirty: 3,
    notes: [],
    syncRuns: [],
  });
});

it.each([
  ['are too many to read one by one', 101, 'vendor', (nth: number) => `ven_${nth}`],
  ['include one that does not say its record', 1, 'vendor', () => null],
  ['include one that is no event and of no kind', 1, null, () => null],
] as const)(
  'deliveries that the database did not take leave a gap like a downtime if they %s',
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

it('a gap about deliveries that the database did not take is opened once it takes that too', async () => {
  const here = scene(MINUTE_MS);
  here.deliver();
  here.lose('vendor', null);
  here.breakDatabase(true);
  here.deliver();
  await expect.poll(() => here.failures).toHaveLength(1);
  here.breakDatabase(false);
  await here.watch.check();
  await here.watch.check();
  expect(here.notes).toEqual(['downtime']);
});

it('without the API no gap is opened that only a full sync could resolve', async () => {
  const here = scene(MINUTE_MS, undefined, true);
  here.watch.onRejectedTimestamp('timestamp_too_old');
  here.lose('vendor', 'ven_1');
  here.pass(MINUTE_MS);
  here.watch.onDelivery('unavailable', 'store_unavailable', null);
  await here.watch.check();
  here.forgeAndDeliver();
  await here.watch.check();
  expect([...here.open]).toEqual([]);
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
          openGap: async (_, error) => void told.push(error),
        },
        clock: { wall: () => wall, steady: () => wall, sleep: async () => undefined },
        eventsOnly,
      },
      'the service stood still',
    );
    expect(told).toEqual(opened);
  },
);

const HOUR_MS = 60 * MINUTE_MS;

it.each([
  { usual: 'nothing was delivered yet', longestPauseMs: null, silentAfterHours: 24 },
  { usual: 'deliveries come each minute', longestPauseMs: MINUTE_MS, silentAfterHours: 1 },
  { usual: 'the longest pause was two hours', longestPauseMs: 2 * HOUR_MS, silentAfterHours: 8 },
  { usual: 'the longest pause was a week', longestPauseMs: 168 * HOUR_MS, silentAfterHours: 24 },
])(
  'where $usual, silence opens a gap after $silentAfterHours hours, once, and a delivery resolves it',
  async ({ longestPauseMs, silentAfterHours }) => {
    const here = scene(0, undefined, false, 24 * HOUR_MS);
    here.lastDelivery({ wall: longestPauseMs === null ? null : here.now(), longestPauseMs });
    here.pass(silentAfterHours * HOUR_MS - 1);
    await here.watch.check();
    expect([...here.open]).toEqual([]);
    here.pass(1);
    await here.watch.check();
    expect([...here.open]).toEqual(['silence']);
    here.open.clear();
    await here.watch.check();
    expect([...here.open]).toEqual([]);
    here.open.add('silence');
    here.lastDelivery({ wall: here.now(), longestPauseMs });
    await here.watch.check();
    expect([...here.open]).toEqual([]);
  },
);
