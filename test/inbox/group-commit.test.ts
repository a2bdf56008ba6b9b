import { describe, expect, it, onTestFinished } from 'vitest';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { createInbox } from '../../src/inbox/group-commit.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, Rejection, Store, UnusableDelivery } from '../../src/store/store.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';
import { workNow } from '../store/planner.ts';
import { shownOf } from '../store/scene.ts';

const TIMING = { settleMs: 10_000 };

function event(id: string, name = id): IncomingEvent {
  return {
    id,
    type: 'policy.updated',
    created: '2026-11-01T12:00:00Z',
    createdMs: 1_000,
    t: '1',
    kind: 'policy',
    recordId: 'pol_1',
    known: true,
    body: JSON.stringify({ data: { policyId: 'pol_1', name } }),
  };
}
const unusable: UnusableDelivery = {
  reason: 'invalid_json',
  t: '1',
  body: Buffer.from('x'),
  kind: null,
  recordId: null,
};

/** An inbox over a real store, with a gate before each commit. */
async function opened() {
  const store = await openStore(':memory:');
  onTestFinished(() => store.close());
  const clock = new HeldClock();
  const commits: number[] = [];
  const errors: unknown[] = [];
  const took: number[] = [];
  const noted: number[] = [];
  let gate: Promise<void> = Promise.resolve();
  let failure: Error | null = null;
  const gated: Pick<Store, 'accept' | 'recordRejections'> = {
    async accept(batch, now, timing) {
      commits.push(batch.events.length + batch.unusable.length);
      await gate;
      if (failure !== null) throw failure;
      return store.accept(batch, now, timing);
    },
    async recordRejections(rejections) {
      if (failure !== null) throw failure;
      noted.push(rejections.length);
      return store.recordRejections(rejections);
    },
  };
  const inbox = createInbox({
    rules: { timing: TIMING, pointers: DEFAULT_ID_POINTERS },
    store: gated,
    clock,
    onError: (error: unknown) => void errors.push(error),
    onAccepted: (commitMs) => took.push(commitMs),
  });
  return {
    store,
    clock,
    inbox,
    commits,
    took,
    noted,
    errors,
    accepted: () => took.length,
    /** Holds every commit from now on, until the returned function is called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return resolve;
    },
    fail(error: Error | null) {
      failure = error;
    },
    reject(count: number, address = '192.0.2.1', reason = 'bad_signature') {
      const rejection: Rejection = {
        reason,
        t: null,
        bytes: 1,
        bodySha256: null,
        header: null,
        body: null,
        address,
        wall: clock.wall(),
      };
      for (let n = 0; n < count; n += 1) inbox.reject(rejection);
    },
    rejections: async () =>
      (await shownOf(store, 'rejected')).map((row) => `${row.address} ${row.deliveries}`).reverse(),
  };
}

const repeat = (times: number, what: string) => Array.from({ length: times }, () => what);

describe('the inbox', () => {
  it('commits together what arrives together', async () => {
    const { inbox, commits, accepted, store } = await opened();
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => inbox.accept([event(`evt_${n}`)])),
    );
    expect(answers.flat().map(({ status }) => status)).toEqual(repeat(50, 'accepted'));
    expect(commits).toEqual([50]);
    expect(accepted()).toBe(1);
    expect((await store.summary()).events.pending).toBe(50);
  });

  it('asks for the shared time once the process may have stood still, and stores nothing by the old one', async () => {
    const { inbox, clock, commits } = await opened();
    let isSuspended = true;
    const { promise: answer, resolve: answered } = Promise.withResolvers<void>();
    Object.assign(clock, {
      hasJumped: () => isSuspended,
      measure: async () => {
        await answer;
        isSuspended = false;
      },
    });
    const accepted = inbox.accept([event('evt_1')]);
    await settled();
    expect(commits).toEqual([]);
    answered();
    expect(await accepted).toMatchObject([{ status: 'accepted' }]);
  });

  it('answers no delivery before the commit that holds it', async () => {
    const { inbox, store, hold } = await opened();
    const letGo = hold();
    let answered = false;
    const answer = inbox.accept([event('a')]).then((outcome) => {
      answered = true;
      return outcome;
    });
    for (let turn = 0; turn < 5; turn += 1) await settled();
    expect(answered).toBe(false);
    expect(await store.show('deliveries', 'a')).toBeNull();
    letGo();
    expect(await answer).toMatchObject([{ status: 'accepted' }]);
    expect(await store.show('deliveries', 'a')).not.toBeNull();
  });

  it('commits together what arrives during a commit, once that is made', async () => {
    const { inbox, commits, hold } = await opened();
    const letGo = hold();
    const first = inbox.accept([event('a')]);
    await settled();
    const others: Promise<unknown>[] = [];
    for (const id of ['b', 'c', 'd']) {
      others.push(inbox.accept([event(id)]));
      await settled();
    }
    expect(commits).toEqual([1]);
    letGo();
    await Promise.all([first, ...others]);
    expect(commits).toEqual([1, 3]);
  });

  it('keeps a group small enough that nobody waits long for it', async () => {
    const { inbox, commits } = await opened();
    await Promise.all(Array.from({ length: 1_100 }, (_, n) => inbox.accept([event(`evt_${n}`)])));
    expect(commits).toEqual([512, 512, 76]);
    await Promise.all(Array.from({ length: 600 }, () => inbox.quarantine(unusable)));
    expect(commits.slice(3)).toEqual([512, 88]);
  });

  it('answers each delivery with its own outcome, also within one group', async () => {
    const { inbox, commits } = await opened();
    const outcomes = await Promise.all([
      ...[['a'], ['a'], ['b', 'a']].map((ids) => inbox.accept(ids.map((id) => event(id)))),
      ...[inbox.accept([event('a', 'other content')]), inbox.quarantine(unusable)],
    ]);
    expect(outcomes).toMatchObject([
      [{ status: 'accepted' }],
      [{ status: 'duplicate', conflicting: false }],
      [{ status: 'accepted' }, { status: 'duplicate', conflicting: false }],
      [{ status: 'duplicate', conflicting: true }],
      undefined,
    ] as object[]);
    expect(commits).toEqual([6]);
  });

  it('on a shared clock counts a delivery as accepted at the latest that it may be now, so that no read from before covers it', async () => {
    const { clock, inbox, store } = await opened();
    Object.assign(clock, { marginMs: () => 700 });
    await inbox.accept([event('a')]);
    const now = { wall: clock.wall(), steady: clock.steady() };
    expect((await workNow(store, now)).at(-1)).toEqual({
      what: 'rest',
      until: now.steady + 700 + TIMING.settleMs,
    });
  });

  it('acknowledges nothing of a group whose commit failed, and takes the next one', async () => {
    const { inbox, store, errors, fail, accepted } = await opened();
    const full = new StoreUnavailable('the disk is full');
    fail(full);
    const results = await Promise.allSettled([
      inbox.accept([event('a')]),
      inbox.accept([event('b')]),
      inbox.quarantine(unusable),
    ]);
    expect(results.map((result) => (result.status === 'rejected' ? result.reason : 'acknowledged'))).toEqual([
      full,
      full,
      full,
    ]);
    expect(errors).toEqual([full]);
    expect(accepted()).toBe(0);
    expect((await store.summary()).events.pending).toBe(0);
    fail(null);
    expect(await inbox.accept([event('a')])).toMatchObject([{ status: 'accepted' }]);
  });

  it('has a delivery come again before its sender gives up, however many commits wait for a lock before its own', async () => {
    const { inbox, store, clock, hold } = await opened();
    const release = hold();
    const said: string[] = [];
    const deliver = (id: string) =>
      void inbox.accept([event(id)]).then(
        ([outcome]) => said.push(`${id} ${outcome?.status}`),
        (error: unknown) => said.push(`${id} ${error instanceof StoreUnavailable}`),
      );
    deliver('a');
    await clock.advance(6_000);
    deliver('b');
    await clock.advance(3_999);
    expect(said).toEqual([]);
    await clock.advance(1);
    expect(said).toEqual(['a true']);
    await clock.advance(6_000);
    expect(said).toEqual(['a true', 'b true']);
    // The commit of the first comes true after all, and what waited behind it is not committed any more.
    release();
    deliver('a');
    deliver('c');
    await expect.poll(() => said.length).toBe(4);
    expect(said.slice(2)).toEqual(['a duplicate', 'c accepted']);
    expect((await store.summary()).events.pending).toBe(2);
    await inbox.drain();
    expect(clock.sleepers).toBe(0);
  });

  it('answers each delivery that waits for too long, also where time goes on while it looks for them', async () => {
    const { inbox, clock, hold } = await opened();
    hold();
    const steady = clock.steady.bind(clock);
    const accepted = Array.from({ length: 8 }, async (_, n) => {
      await clock.sleep(5 * n);
      return await inbox.accept([event(`e${n}`)]);
    });
    const ended = Promise.allSettled(accepted);
    await clock.advance(9_000);
    let looks = 0;
    clock.steady = () => {
      looks += 1;
      return steady() + looks;
    };
    await clock.advance(2_000);
    expect((await ended).map(({ status }) => status)).toEqual(repeat(8, 'rejected'));
  });

  it.each([
    ['others were answered before it', 5_000],
    ['none was for a while', 60_000],
  ])('answers in time a delivery whose commit hangs where %s', async (_which, laterMs) => {
    const { inbox, clock, hold } = await opened();
    await inbox.accept([event('a')]);
    await clock.advance(laterMs);
    hold();
    let isAnswered = false;
    void inbox.accept([event('b')]).catch(() => {
      isAnswered = true;
    });
    await clock.advance(10_000);
    expect(isAnswered).toBe(true);
  });

  it('answers a delivery that is no event after its own commit too, and in time where that or the one before it hangs', async () => {
    const { inbox, clock, commits, hold } = await opened();
    await inbox.quarantine(unusable);
    expect(commits).toEqual([1]);
    hold();
    const committing = inbox.quarantine(unusable);
    await settled();
    const waiting = inbox.quarantine(unusable);
    const ended = Promise.allSettled([committing, waiting]);
    await clock.advance(10_000);
    expect((await ended).map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  });

  it('notes the first rejections of a sender at once, and the newest at the end of the minute for all others', async () => {
    const { clock, reject, rejections } = await opened();
    await clock.advance(60_000 - (clock.steady() % 60_000) + 15_000);
    reject(20_000, '203.0.113.1');
    reject(3, '192.0.2.1');
    await expect.poll(rejections).toHaveLength(4);
    await clock.advance(44_999);
    expect(await rejections()).toEqual([...repeat(2, '203.0.113.1 1'), ...repeat(2, '192.0.2.1 1')]);
    await clock.advance(1);
    await expect.poll(rejections).toHaveLength(6);
    expect((await rejections()).slice(4)).toEqual(['203.0.113.1 19998', '192.0.2.1 1']);
    reject(3, '203.0.113.1');
    await clock.advance(60_000);
    await expect.poll(rejections).toHaveLength(9);
  });

  it('lets no rejection fail, whatever becomes of the note', async () => {
    const { inbox, errors, fail, reject, rejections } = await opened();
    fail(new StoreUnavailable('the disk is full'));
    reject(2);
    await inbox.drain();
    expect(errors).toHaveLength(1);
    fail(null);
    reject(1);
    await inbox.drain();
    expect(await rejections()).toHaveLength(1);
  });

  it.each([
    ['what is in a commit already', 0, 0],
    ['what fills more than one group', 600, 0],
    ['what is no event', 0, 600],
  ])('is drained once all is committed, %s too', async (_which, eventsBehind, unusableBehind) => {
    const { clock, inbox, store, hold } = await opened();
    const letGo = hold();
    const answers: Promise<unknown>[] = [inbox.accept([event('first')])];
    await settled();
    for (let n = 0; n < eventsBehind; n += 1) answers.push(inbox.accept([event(`evt_${n}`)]));
    for (let n = 0; n < unusableBehind; n += 1) answers.push(inbox.quarantine(unusable));
    await settled();
    let drained = false;
    const done = inbox.drain().then(() => {
      drained = true;
    });
    for (let turn = 0; turn < 5; turn += 1) await settled();
    expect(drained).toBe(false);
    letGo();
    await done;
    expect((await store.summary()).events.pending).toBe(1 + eventsBehind);
    const [newest] = await shownOf(store, 'quarantined');
    expect(newest?.number ?? 0).toBe(unusableBehind);
    await Promise.all(answers);
    expect(clock.sleepers).toBe(0);
  });
});
