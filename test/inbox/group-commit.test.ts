import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { DEFAULT_ID_POINTERS } from '../../src/compliance/pointers.ts';
import { createInbox } from '../../src/inbox/group-commit.ts';
import { StoreUnavailable } from '../../src/platform/errors.ts';
import { openStore } from '../../src/store/open.ts';
import type { IncomingEvent, Rejection, Store, UnusableDelivery } from '../../src/store/store.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';

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
      (await store.list('rejections', { limit: 500 })).map((row) => `${row.address} ${row.times}`).reverse(),
  };
}

const repeat = (times: number, what: string) => Array.from({ length: times }, () => what);

describe('the inbox', () => {
  it('commits together what arrives together', async () => {
    const { inbox, commits, accepted, store } = await opened();
    const answers = await Promise.all(Array.from({ length: 50 }, (_, n) => inbox.accept(event(`evt_${n}`))));
    expect(answers.every((answer) => answer.status === 'accepted')).toBe(true);
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
    const accepted = inbox.accept(event('evt_1'));
    await settled();
    expect(commits).toEqual([]);
    answered();
    expect(await accepted).toMatchObject({ status: 'accepted' });
  });

  it('answers no delivery before the commit that holds it', async () => {
    const { inbox, store, hold } = await opened();
    const letGo = hold();
    let answered = false;
    const answer = inbox.accept(event('a')).then((outcome) => {
      answered = true;
      return outcome;
    });
    for (let turn = 0; turn < 5; turn += 1) await settled();
    expect(answered).toBe(false);
    expect(await store.showEvent('a')).toBeNull();
    letGo();
    expect(await answer).toMatchObject({ status: 'accepted' });
    expect(await store.showEvent('a')).not.toBeNull();
  });

  it('tells how long the commit of a group took, what it waited for included', async () => {
    const { inbox, took, hold } = await opened();
    let now = 1_000;
    const time = vi.spyOn(performance, 'now').mockImplementation(() => now);
    onTestFinished(() => time.mockRestore());
    const letGo = hold();
    const answers = [inbox.accept(event('a')), inbox.accept(event('b'))];
    await settled();
    now += 250;
    letGo();
    await Promise.all(answers);
    expect(took).toEqual([250]);
  });

  it('has the next group on its way before it answers the last one', async () => {
    const { inbox, commits, hold } = await opened();
    const letGo = hold();
    const first = inbox.accept(event('a')).then(() => [...commits]);
    await settled();
    const second = Array.from({ length: 16 }, (_, n) => inbox.accept(event(`evt_${n}`)));
    await settled();
    expect(commits).toEqual([1]);
    letGo();
    expect(await first).toEqual([1, 16]);
    await Promise.all(second);
  });

  it('begins a small group four milliseconds after the one that it came behind, and answers that one meanwhile', async () => {
    const { clock, inbox, commits, hold } = await opened();
    const letGo = hold();
    const first = inbox.accept(event('a'));
    await settled();
    const second = inbox.accept(event('b'));
    await settled();
    letGo();
    await first;
    const third = inbox.accept(event('c'));
    await clock.advance(3);
    expect(commits).toEqual([1]);
    await clock.advance(1);
    expect(commits).toEqual([1, 2]);
    await Promise.all([second, third]);
  });

  it('waits after a slow commit for the senders that it answers, and no longer than four milliseconds', async () => {
    const { clock, inbox, commits, hold } = await opened();
    const crowd = (name: string) => Array.from({ length: 20 }, (_, n) => ({ id: `${name}${n}`, sender: {} }));
    const [a, b] = [crowd('a'), crowd('b')];
    const send = (senders: typeof a, round: number) =>
      senders.map(({ id, sender }) => inbox.accept(event(`${id}-${round}`), sender));
    const letGo = hold();
    const first = send(a, 1);
    await settled();
    const second = send(b, 1);
    await settled();
    await clock.advance(4);
    letGo();
    await Promise.all(first);
    await settled();
    expect(commits).toEqual([20]);
    // All of them share the next commit, and the one that follows waits for nobody.
    await Promise.all([...second, ...send(a, 2)]);
    expect(commits).toEqual([20, 40]);
  });

  it('waits four milliseconds after a slow commit for a sender that does not come back', async () => {
    const { clock, inbox, commits, hold } = await opened();
    const letGo = hold();
    const answers = [inbox.accept(event('a'))];
    await settled();
    answers.push(inbox.accept(event('b')));
    await clock.advance(4);
    letGo();
    await answers[0];
    await clock.advance(3);
    expect(commits).toEqual([1]);
    await clock.advance(1);
    await Promise.all(answers);
    expect(commits).toEqual([1, 1]);
  });

  it('gathers after a group of several, and no longer than until all its senders wait again', async () => {
    const { clock, inbox, commits } = await opened();
    const [a, b] = [{}, {}];
    await Promise.all([inbox.accept(event('a1'), a), inbox.accept(event('b1'), b)]);
    const second = [inbox.accept(event('a2'), a)];
    await settled();
    expect(commits).toEqual([2]);
    second.push(inbox.accept(event('b2'), b));
    await Promise.all(second);
    expect(commits).toEqual([2, 2]);
    const third = [inbox.accept(event('a3'), a), inbox.accept(event('c'))];
    await settled();
    expect(commits).toEqual([2, 2]);
    await clock.advance(4);
    await Promise.all(third);
    expect(commits).toEqual([2, 2, 2]);
  });

  it('gathers after a group that came in several turns of the event loop too', async () => {
    const { clock, inbox, commits, hold } = await opened();
    const [a, b] = [{}, {}];
    const letGo = hold();
    const first = [inbox.accept(event('first'))];
    await settled();
    for (const [id, sender] of [['a1', a] as const, ['b1', b] as const]) {
      first.push(inbox.accept(event(id), sender));
      await settled();
    }
    letGo();
    await clock.advance(4);
    await Promise.all(first);
    const second = [inbox.accept(event('a2'), a)];
    await settled();
    expect(commits).toEqual([1, 2]);
    second.push(inbox.accept(event('b2'), b));
    await Promise.all(second);
    expect(commits).toEqual([1, 2, 2]);
  });

  it('gathers nothing where all senders of the last group wait again already, or as many others as it is worth', async () => {
    const { inbox, commits } = await opened();
    const [a, b] = [{}, {}];
    const both = (round: number) => [
      inbox.accept(event(`a${round}`), a),
      inbox.accept(event(`b${round}`), b),
    ];
    await Promise.all(both(1));
    const second = both(2);
    await expect.poll(() => commits.length).toBe(2);
    await Promise.all(second);
    const third = [inbox.accept(event('a3'), a)];
    await settled();
    expect(commits).toEqual([2, 2]);
    third.push(...Array.from({ length: 15 }, (_, n) => inbox.accept(event(`evt_${n}`))));
    await expect.poll(() => commits.length).toBe(3);
    await Promise.all(third);
    expect(commits).toEqual([2, 2, 16]);
  });

  it('lets nobody wait who sends one after the other', async () => {
    const { inbox, commits } = await opened();
    for (const id of ['a', 'b', 'c']) await inbox.accept(event(id));
    expect(commits).toEqual([1, 1, 1]);
  });

  it('gathers what arrives during a commit for the next one', async () => {
    const { clock, inbox, commits, hold } = await opened();
    const letGo = hold();
    const first = inbox.accept(event('a'));
    await settled();
    const others: Promise<unknown>[] = [];
    for (const id of ['b', 'c', 'd']) {
      others.push(inbox.accept(event(id)));
      await settled();
    }
    expect(commits).toEqual([1]);
    letGo();
    await first;
    await clock.advance(4);
    await Promise.all(others);
    expect(commits).toEqual([1, 3]);
  });

  it('waits a turn more behind a crowd, and for nobody else', async () => {
    const { clock, inbox, commits } = await opened();
    const oneTurnApart = async (...ids: string[]) => {
      const answers: Promise<unknown>[] = [];
      for (const id of ids) {
        answers.push(inbox.accept(event(id)));
        await new Promise((resolve) => setImmediate(resolve));
      }
      await Promise.all(answers);
    };
    await oneTurnApart('a', 'b');
    expect(commits).toEqual([1, 1]);
    await Promise.all(Array.from({ length: 50 }, (_, n) => inbox.accept(event(`evt_${n}`))));
    await clock.advance(4);
    await oneTurnApart('c', 'd');
    expect(commits).toEqual([1, 1, 50, 2]);
    await clock.advance(4);
    await oneTurnApart('e', 'f');
    expect(commits).toEqual([1, 1, 50, 2, 1, 1]);
  });

  it('keeps a group small enough that nobody waits long for it', async () => {
    const { inbox, commits } = await opened();
    await Promise.all(Array.from({ length: 1_100 }, (_, n) => inbox.accept(event(`evt_${n}`))));
    expect(commits).toEqual([512, 512, 76]);
    await Promise.all(Array.from({ length: 600 }, () => inbox.quarantine(unusable)));
    expect(commits.slice(3)).toEqual([512, 88]);
  });

  it('answers each delivery with its own outcome, also within one group', async () => {
    const { inbox, commits } = await opened();
    const outcomes = await Promise.all([
      ...['a', 'a', 'b'].map((id) => inbox.accept(event(id))),
      ...[inbox.accept(event('a', 'other content')), inbox.quarantine(unusable)],
    ]);
    expect(outcomes).toMatchObject([
      ...[{ status: 'accepted' }, { status: 'duplicate', conflicting: false }, { status: 'accepted' }],
      ...[{ status: 'duplicate', conflicting: true }, undefined],
    ] as object[]);
    expect(commits).toEqual([5]);
  });

  it('on a shared clock counts a delivery as accepted at the latest that it may be now, so that no read from before covers it', async () => {
    const { clock, inbox, store } = await opened();
    Object.assign(clock, { marginMs: () => 700 });
    await inbox.accept(event('a'));
    expect(await store.nextDueAt('policy')).toBe(clock.steady() + 700 + TIMING.settleMs);
  });

  it('acknowledges nothing of a group whose commit failed, and takes the next one', async () => {
    const { clock, inbox, store, errors, fail, accepted } = await opened();
    const full = new StoreUnavailable('the disk is full');
    fail(full);
    const results = await Promise.allSettled([
      inbox.accept(event('a')),
      inbox.accept(event('b')),
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
    await clock.advance(4);
    expect(await inbox.accept(event('a'))).toMatchObject({ status: 'accepted' });
  });

  it('has a delivery come again before its sender gives up, however many commits wait for a lock before its own', async () => {
    const { inbox, store, clock, hold } = await opened();
    const release = hold();
    const said: string[] = [];
    const deliver = (id: string) =>
      void inbox.accept(event(id)).then(
        ({ status }) => said.push(`${id} ${status}`),
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
    const later = async () => {
      await clock.advance(4);
      return said.length;
    };
    await expect.poll(later).toBe(4);
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
      return await inbox.accept(event(`e${n}`));
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
    await inbox.accept(event('a'));
    await clock.advance(laterMs);
    hold();
    let isAnswered = false;
    void inbox.accept(event('b')).catch(() => {
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

  it('notes what the minute still holds when it is drained', async () => {
    const { inbox, clock, reject, rejections } = await opened();
    reject(5);
    await inbox.drain();
    expect(await rejections()).toEqual(['192.0.2.1 1', '192.0.2.1 1', '192.0.2.1 3']);
    expect(clock.sleepers).toBe(0);
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

  it('keeps only some of the rejections of a flood while the database does not answer', async () => {
    const { inbox, noted, hold, reject } = await opened();
    const letGo = hold();
    void inbox.accept(event('a'));
    await settled();
    for (let n = 0; n < 20; n += 1)
      for (let sender = 0; sender < 32; sender += 1) reject(1, `192.0.2.${sender}`, `reason ${n}`);
    letGo();
    await inbox.drain();
    expect(noted).toEqual([500]);
  });

  it.each([
    ['what is in a commit already', 0, 0],
    ['what fills more than one group', 600, 0],
    ['what is no event', 0, 600],
  ])('is drained once all is committed, %s too', async (_which, eventsBehind, unusableBehind) => {
    const { clock, inbox, store, hold } = await opened();
    const letGo = hold();
    const answers: Promise<unknown>[] = [inbox.accept(event('first'))];
    await settled();
    for (let n = 0; n < eventsBehind; n += 1) answers.push(inbox.accept(event(`evt_${n}`)));
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
    const [newest] = await store.list('quarantine', { limit: 1 });
    expect(newest?.id ?? 0).toBe(unusableBehind);
    await Promise.all(answers);
    expect(clock.sleepers).toBe(0);
  });
});
