import { expect, it, onTestFinished } from 'vitest';
import { createWorkerLease } from '../../src/service/worker-lease.ts';
import type { Lease, Notice, Store } from '../../src/store/store.ts';
import { HeldClock, settled } from '../compliance/held-clock.ts';

const PROLONGED_AFTER_MS = 2_500;

/** Work that lasts until it is stopped, under a lease of which each prolongation arrives when told to. */
function scene() {
  const clock = new HeldClock();
  const stopping = new AbortController();
  let owner = '';
  const underWay: (() => void)[] = [];
  const store = {
    engine: 'postgres',
    async takeLease(name, by) {
      if (owner !== '') await new Promise<void>((arrived) => underWay.push(arrived));
      owner = by;
      return { name, owner, fence: 1 };
    },
    async releaseLease() {
      owner = '';
    },
  } as Partial<Store> as Store;
  const own = createWorkerLease({
    store,
    clock,
    onError: (error) => expect.unreachable(String(error)),
  });
  const held = own.hold([async ({ signal }) => await clock.sleep(60_000, signal)], stopping.signal);
  return { clock, held, underWay, owner: () => owner, stop: () => stopping.abort() };
}

it('an orderly stop frees the lease also where a prolongation of it is under way', async () => {
  const { clock, held, underWay, owner, stop } = scene();
  await clock.advance(PROLONGED_AFTER_MS);
  expect(underWay).toHaveLength(1);
  stop();
  await settled();
  underWay[0]!();
  await held;
  expect(owner()).toBe('');
});

it('a prolongation whose answer is lost delays a stop no longer than the lease lasts', async () => {
  const { clock, held, underWay, stop } = scene();
  await clock.advance(PROLONGED_AFTER_MS);
  expect(underWay).toHaveLength(1);
  stop();
  await clock.advance(10_000 - PROLONGED_AFTER_MS);
  await held;
});

/** Work under a lease, each request for which gets the next of the answers, or none. */
function workUnder(answers: (Pick<Lease, 'fence'> | null | 'failure' | number)[]) {
  const clock = new HeldClock();
  const stopping = new AbortController();
  const seen = { isAtWork: false, released: 0, errors: 0 };
  const store = {
    engine: 'postgres',
    async takeLease(name, owner) {
      const answer = answers.shift();
      if (answer === undefined) return await new Promise<never>(() => undefined);
      if (answer === 'failure') throw new Error('the database is away');
      if (answer === null) return null;
      if (typeof answer === 'number') await clock.sleep(answer);
      const { fence } = typeof answer === 'number' ? { fence: 1 } : answer;
      return { name, owner, fence };
    },
    async releaseLease() {
      seen.released += 1;
    },
  } as Partial<Store> as Store;
  const onError = () => {
    seen.errors += 1;
  };
  const own = createWorkerLease({ store, clock, onError });
  const work = async ({ signal }: { signal: AbortSignal }) => {
    seen.isAtWork = true;
    await clock.sleep(60_000, signal);
    seen.isAtWork = false;
  };
  void own.hold([work], stopping.signal);
  onTestFinished(() => stopping.abort());
  return { clock, seen };
}

it.each([
  ['another process has taken it', null],
  ['another process has had it meanwhile', { fence: 2 }],
])('work ends at once where %s, and frees nobody else’s lease', async (_why, answer) => {
  // A database that gives no lease is asked again a second later.
  const { clock, seen } = workUnder(['failure', { fence: 1 }, { fence: 1 }, answer]);
  await clock.advance(1_000 + 2 * PROLONGED_AFTER_MS - 1);
  expect(seen).toEqual({ isAtWork: true, released: 0, errors: 1 });
  await clock.advance(1);
  expect(seen).toEqual({ isAtWork: false, released: 0, errors: 1 });
});

it.each<[string, (Pick<Lease, 'fence'> | 'failure' | number)[], number]>([
  ['when nothing is answered', [{ fence: 1 }], 9_000],
  ['while the database fails', [{ fence: 1 }, ...Array<'failure'>(9).fill('failure')], 9_000],
  ['counted from when the last answer was asked for', [{ fence: 1 }, 5_000], PROLONGED_AFTER_MS + 9_000],
])('work ends a second before its lease does, %s', async (_when, answers, endsAt) => {
  const { clock, seen } = workUnder(answers);
  await clock.advance(endsAt - 1);
  expect(seen.isAtWork).toBe(true);
  await clock.advance(1);
  expect([seen.isAtWork, seen.released]).toEqual([false, 0]);
});

it('a notice is sent at once, those that come meanwhile once more, and a failed look is notified again', async () => {
  const clock = new HeldClock();
  const stopping = new AbortController();
  const underWay: (() => void)[] = [];
  let hear: (notice: Notice) => void = () => undefined;
  const left: string[] = [];
  const store = {
    engine: 'postgres',
    async listen(heard) {
      hear = heard;
      return { stop: async () => void left.push('subscription') };
    },
    notify: async () => {
      await new Promise<void>((sent) => underWay.push(sent));
      throw new Error('nobody hears it');
    },
  } as Partial<Store> as Store;
  const own = createWorkerLease({ store, clock, onError: () => undefined });
  for (let time = 0; time < 3; time += 1) own.notify('work');
  expect(underWay).toHaveLength(1);
  for (const count of [2, 2]) {
    underWay.at(-1)!();
    await settled();
    expect(underWay).toHaveLength(count);
  }
  own.notify('work');
  expect(underWay).toHaveLength(3);

  const looks: (boolean | 'events')[] = [];
  const look = async (isNotified: boolean) => {
    looks.push(isNotified);
    if (looks.length === 2) throw new Error('the database is away');
  };
  const listening = own.listen({ onEvents: () => looks.push('events'), look }, stopping.signal);
  await settled();
  hear('work');
  await settled();
  hear('events');
  await clock.advance(2_000);
  expect(looks).toEqual([false, true, 'events', true, false]);
  stopping.abort();
  await listening;
  expect(left).toEqual(['subscription']);
});

it('if one of several works fails, the others have ended before anybody is told, and all begin again', async () => {
  const clock = new HeldClock();
  const stopping = new AbortController();
  const seen: string[] = [];
  const onError = (error: unknown) => void seen.push((error as Error).message);
  const alone = createWorkerLease({ store: { engine: 'sqlite' } as Store, clock, onError });
  const works = [
    async () => {
      throw new Error('it broke');
    },
    async ({ signal }: { signal: AbortSignal }) => {
      seen.push('began');
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
      seen.push('ended');
    },
  ];
  const held = alone.hold(works, stopping.signal);
  await settled();
  expect(seen.splice(0)).toEqual(['began', 'ended', 'it broke']);
  await clock.advance(1_000);
  expect(seen).toEqual(['began', 'ended', 'it broke']);
  stopping.abort();
  await held;
});
