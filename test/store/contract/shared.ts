import { describe, expect, it } from 'vitest';
import { createScene, type OpenEngine } from '../scene.ts';

const LEASE_MS = 10_000;

export function describeShared(open: OpenEngine): void {
  async function inScene(work: (scene: Awaited<ReturnType<typeof createScene>>) => Promise<void>) {
    const scene = await createScene(open);
    try {
      await work(scene);
    } finally {
      await scene.close();
    }
  }

  describe('a lease', () => {
    it('has one owner at a time, who may prolong it, and another once its time is over', async () => {
      await inScene(async ({ store, now, pass }) => {
        const take = (owner: string) => store.takeLease('worker', owner, LEASE_MS, now().steady);
        expect(await take('a')).toEqual({ name: 'worker', owner: 'a', fence: 1 });
        expect(await take('b')).toBeNull();
        pass(LEASE_MS - 1);
        expect(await take('b')).toBeNull();
        expect(await take('a')).toMatchObject({ owner: 'a', fence: 1 });
        pass(LEASE_MS - 1);
        expect(await take('b')).toBeNull();
        pass(1);
        expect(await take('b')).toEqual({ name: 'worker', owner: 'b', fence: 2 });
      });
    });

    it('that was let go is taken at once', async () => {
      await inScene(async ({ store, now }) => {
        const first = (await store.takeLease('worker', 'a', LEASE_MS, now().steady))!;
        await store.releaseLease({ ...first, owner: 'b' });
        expect(await store.takeLease('worker', 'b', LEASE_MS, now().steady)).toBeNull();
        await store.releaseLease(first);
        expect(await store.takeLease('worker', 'b', LEASE_MS, now().steady)).toMatchObject({ fence: 2 });
        await store.releaseLease(first);
        expect(await store.takeLease('worker', 'a', LEASE_MS, now().steady)).toBeNull();
      });
    });

    it('that ends later than any can was taken before a clock was set back, and is over', async () => {
      await inScene(async ({ store }) => {
        await store.takeLease('worker', 'a', LEASE_MS, 2 * LEASE_MS);
        expect(await store.takeLease('worker', 'b', LEASE_MS, LEASE_MS)).toBeNull();
        expect(await store.takeLease('worker', 'b', LEASE_MS, LEASE_MS - 1)).toMatchObject({ fence: 2 });
      });
    });

    it('that ran out and was taken again by its owner is another one: what it did meanwhile is not known', async () => {
      await inScene(async ({ store, now, pass }) => {
        await store.takeLease('worker', 'a', LEASE_MS, now().steady);
        pass(LEASE_MS);
        expect(await store.takeLease('worker', 'a', LEASE_MS, now().steady)).toMatchObject({ fence: 2 });
      });
    });
  });

  describe('processes over one database', () => {
    it('beat, and only the worker says how the API is read', async () => {
      await inScene(async ({ store, now }) => {
        const reading = { eventsOnly: false, settleMs: 1, fullSyncMs: 1, unreachable: false as const };
        const beat = (access: string) => store.beat(now(), { ...reading, access });
        expect(await beat('one')).toEqual({ otherAccess: false });
        expect(await store.beat(now(), null)).toEqual({ otherAccess: false });
        expect(await store.readFact('access')).toBe('one');
        expect(await beat('two')).toEqual({ otherAccess: true });
        expect(await beat('two')).toEqual({ otherAccess: false });
      });
    });

    it('find what was asked of any of them, once, and only the one that holds the lease', async () => {
      await inScene(async ({ store, now, pass }) => {
        const lost = (await store.takeLease('worker', 'a', LEASE_MS, now().steady))!;
        pass(LEASE_MS);
        const held = (await store.takeLease('worker', 'b', LEASE_MS, now().steady))!;
        await store.requestSyncRuns(['policy', 'vendor'], 'operator:olga', now());
        await store.requestSyncRuns(['policy'], 'operator:olga', now());
        await store.requestSyncRuns(['policy'], 'rejected deliveries', now());
        expect(await store.takeSyncRequests(lost)).toEqual([]);
        const asked = await store.takeSyncRequests(held);
        expect(asked.map(({ kind, reason }) => `${kind} ${reason}`).sort()).toEqual([
          ...['policy operator:olga', 'policy rejected deliveries', 'vendor operator:olga'],
        ]);
        expect(await store.takeSyncRequests(held)).toEqual([]);
      });
    });

    it('keep sessions until they are closed, unused, or too many', async () => {
      await inScene(async ({ store }) => {
        const keep = { usedSince: 0, atMost: 2 };
        const session = (hash: string, openedAt: number) => ({
          hash,
          name: 'olga',
          sealed: `sealed ${hash}`,
          openedAt,
          usedAt: openedAt,
        });
        const there = async () => {
          const found = await Promise.all(['a', 'b', 'c', 'd'].map((hash) => store.useSession(hash, 0, 1)));
          return found.flatMap((each) => (each === null ? [] : [each.hash]));
        };
        await store.openSession(session('a', 1_000), keep);
        await store.openSession(session('b', 2_000), keep);
        expect(await store.useSession('a', 5_000, 4_001)).toEqual(session('a', 1_000));
        expect(await store.useSession('a', 5_000, 4_000)).toEqual(session('a', 1_000));
        expect(await store.useSession('a', 5_000, 1)).toEqual({ ...session('a', 1_000), usedAt: 5_000 });
        await store.openSession(session('c', 3_000), keep);
        expect(await there()).toEqual(['b', 'c']);
        await store.openSession(session('d', 4_000), { ...keep, usedSince: 2_000 });
        expect(await there()).toEqual(['c', 'd']);
        // Another token's sessions end none of these.
        await store.openSession({ ...session('e', 6_000), name: 'rita' }, { ...keep, atMost: 1 });
        expect(await there()).toEqual(['c', 'd']);
        await store.closeSession('c');
        expect(await there()).toEqual(['d']);
      });
    });
  });
}
