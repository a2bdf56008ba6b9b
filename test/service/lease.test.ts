import { expect, it, onTestFinished } from 'vitest';
import { createReplicas } from '../../src/service/replicas.ts';
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
  const replicas = createReplicas({
    store,
    clock,
    onError: (error) => expect.unreachable(String(error)),
  });
  const held = replicas.hold(
    'work',
    async ({ signal }) => await clock.sleep(60_000, signal),
    stopping.signal,
  );
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
  const replicas = createReplicas({ store, clock, onError });
  const work = async ({ signal }: { signal: AbortSignal }) => {
    seen.isAtWork = true;
    await clock.sleep(60_000, signal);
    seen.isAtWork = false;
  };
  void replicas.hold('work', work, stopping.signal);
  onTestFinished(() => stopping.abort());
  return { clock, seen };
}

it.each([
  ['another replica has taken it', null],
  ['another replica has had it meanwhile', { fence: 2 }],
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

it('equal notices are sent once in a while, never lost for later ones, and a failed look is notified again', async () => {
  const clock = new HeldClock();
  const stopping = new AbortController();
  const sent: Notice[] = [];
  let hear: (notice: Notice) => void = () => undefined;
  const left: string[] = [];
  const store = {
    engine: 'postgres',
    async listen(heard) {
      hear = heard;
      return { stop: async () => void left.push('subscription') };
    },
    notify: async (notice) => {
      sent.push(notice);
      throw new Error('nobody hears it');
    },
    leaveReplicas: async () => void left.push('replicas'),
  } as Partial<Store> as Store;
  const replicas = createReplicas({ store, clock, onError: () => undefined });
  for (let time = 0; time < 3; time += 1) replicas.notify('work');
  await clock.advance(100);
  replicas.notify('work');
  const leaving = replicas.leave();
  await settled();
  expect([sent, left]).toEqual([['work'], []]);
  await clock.advance(100);
  await leaving;
  expect([sent, left]).toEqual([['work', 'work'], ['replicas']]);

  const looks: (boolean | 'events')[] = [];
  const look = async (isNotified: boolean) => {
    looks.push(isNotified);
    if (looks.length === 2) throw new Error('the database is away');
  };
  const listening = replicas.listen({ onEvents: () => looks.push('events'), look }, stopping.signal);
  await settled();
  hear('work');
  await settled();
  hear('events');
  await clock.advance(2_000);
  expect(looks).toEqual([false, true, 'events', true, false]);
  stopping.abort();
  await listening;
  expect(left).toEqual(['replicas', 'subscription']);
});

it('a turn is taken by one replica once, who may not take it again either; a process that is alone asks nobody', async () => {
  const clock = new HeldClock();
  let owner = '';
  const takeLease: Store['takeLease'] = async (name, by) => {
    if (owner !== '' && owner !== by) return null;
    owner = by;
    return { name, owner, fence: 1 };
  };
  const replicasOn = (engine: Store['engine']) =>
    createReplicas({ store: { engine, takeLease } as Store, clock, onError: () => undefined });
  const one = replicasOn('postgres');
  const other = replicasOn('postgres');
  expect([await one.takeTurn('x', 1), await one.takeTurn('x', 1)]).toEqual([true, false]);
  expect(await other.takeTurn('x', 1)).toBe(false);
  const alone = replicasOn('sqlite');
  expect(await alone.takeTurn('x', 1)).toBe(true);
  let lease: Lease | null | undefined;
  await alone.hold(
    'work',
    async (held) => {
      lease = held.lease;
    },
    new AbortController().signal,
  );
  expect(lease).toBeNull();
});
