import { expect, it } from 'vitest';
import { createReplicas } from '../../src/service/replicas.ts';
import type { Store } from '../../src/store/store.ts';
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
