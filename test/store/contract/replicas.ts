import { describe, expect, it } from 'vitest';
import type { Lease } from '../../../src/store/store.ts';
import { createScene, type OpenEngine } from '../scene.ts';

const LEASE_MS = 10_000;
const LIFE_MS = 15_000;

export function describeReplicas(open: OpenEngine): void {
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
        const take = (owner: string) => store.takeLease('backfill', owner, LEASE_MS, now());
        expect(await take('a')).toEqual({ name: 'backfill', owner: 'a', fence: 1 });
        expect(await take('b')).toBeNull();
        pass(LEASE_MS - 1);
        expect(await take('b')).toBeNull();
        expect(await take('a')).toMatchObject({ owner: 'a', fence: 1 });
        pass(LEASE_MS - 1);
        expect(await take('b')).toBeNull();
        pass(1);
        expect(await take('b')).toEqual({ name: 'backfill', owner: 'b', fence: 2 });
      });
    });

    it('that was let go is taken at once', async () => {
      await inScene(async ({ store, now }) => {
        const first = (await store.takeLease('backfill', 'a', LEASE_MS, now()))!;
        await store.releaseLease({ ...first, owner: 'b' });
        expect(await store.takeLease('backfill', 'b', LEASE_MS, now())).toBeNull();
        await store.releaseLease(first);
        expect(await store.takeLease('backfill', 'b', LEASE_MS, now())).toMatchObject({ fence: 2 });
        await store.releaseLease(first);
        expect(await store.takeLease('backfill', 'a', LEASE_MS, now())).toBeNull();
      });
    });

    it('that ran out and was taken again by its owner is another one: what it did meanwhile is not known', async () => {
      await inScene(async ({ store, now, pass }) => {
        await store.takeLease('backfill', 'a', LEASE_MS, now());
        pass(LEASE_MS);
        expect(await store.takeLease('backfill', 'a', LEASE_MS, now())).toMatchObject({ fence: 2 });
      });
    });

    it('is needed to conclude deletions, where one is named', async () => {
      await inScene(async ({ store, now, pass }) => {
        const context = { cause: 'sync:1', syncRunId: null, unannounced: null };
        const conclude = (lease: Lease) =>
          store.concludeDeletions('policy', { absent: [], number: 0 }, { ...context, lease }, now());
        const lost = (await store.takeLease('backfill', 'a', LEASE_MS, now()))!;
        expect(await conclude(lost)).toMatchObject({ deleted: [], pending: [] });
        pass(LEASE_MS);
        const held = (await store.takeLease('backfill', 'b', LEASE_MS, now()))!;
        await expect(conclude(lost)).rejects.toMatchObject({ code: 'lease_lost' });
        expect(await conclude(held)).toMatchObject({ deleted: [], pending: [] });
      });
    });

    it('is needed to end the sync runs of the one that held it before', async () => {
      await inScene(async ({ store, query, now, pass }) => {
        const lost = (await store.takeLease('backfill', 'a', LEASE_MS, now()))!;
        pass(LEASE_MS);
        const held = (await store.takeLease('backfill', 'b', LEASE_MS, now()))!;
        await store.startSyncRun('policy', 'takeover', now(), held);
        await expect(store.interruptSyncRuns(now(), lost)).rejects.toMatchObject({ code: 'lease_lost' });
        expect(await query('SELECT outcome FROM sync_runs')).toEqual([{ outcome: null }]);
        expect(await store.interruptSyncRuns(now(), held)).toEqual([{ kind: 'policy', pages: 0 }]);
      });
    });
  });

  describe('processes over one database', () => {
    it('know of each other while they live', async () => {
      await inScene(async ({ store, now, pass }) => {
        expect(await store.beatReplica('a', LIFE_MS, now())).toEqual({ others: 0 });
        expect(await store.beatReplica('b', LIFE_MS, now())).toEqual({ others: 1 });
        pass(LIFE_MS - 1);
        expect(await store.beatReplica('b', LIFE_MS, now())).toEqual({ others: 1 });
        pass(1);
        expect(await store.beatReplica('b', LIFE_MS, now())).toEqual({ others: 0 });
        expect(await store.countReplicas(LIFE_MS, now())).toBe(1);
        await store.leaveReplicas('b');
        expect(await store.countReplicas(LIFE_MS, now())).toBe(0);
      });
    });

    it('write how the API is read only where no other reads it, and are told what of that differs', async () => {
      await inScene(async ({ store, now, pass }) => {
        const reading = { eventsOnly: false, settleMs: 1, fullSyncMs: 1, unreachable: false };
        const beat = (replica: string, access: string) =>
          store.beat(now(), { ...reading, access, reader: { lease: 'backfill', replica } });
        const alike = { differing: [], otherAccess: false };
        await store.takeLease('backfill', 'a', LEASE_MS, now());
        expect(await beat('a', 'one')).toEqual(alike);
        expect(await beat('a', 'two')).toEqual({ differing: [], otherAccess: true });
        expect(await beat('b', 'three')).toEqual({ differing: ['access'], otherAccess: false });
        expect(await beat('a', 'two')).toEqual(alike);
        pass(LEASE_MS);
        expect(await beat('b', 'three')).toEqual({ differing: [], otherAccess: true });
      });
    });

    it('find what was asked of any of them, once, and only the one that holds the lease', async () => {
      await inScene(async ({ store, now, pass }) => {
        const lost = (await store.takeLease('backfill', 'a', LEASE_MS, now()))!;
        pass(LEASE_MS);
        const held = (await store.takeLease('backfill', 'b', LEASE_MS, now()))!;
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

    it('share out the request budget, and never more than all of it', async () => {
      await inScene(async ({ store, now, pass }) => {
        const ask = (replica: string, takes: number, wants = takes) =>
          store.sharePlaces({ replica, limit: 10, takes, wants, leaseMs: LEASE_MS, goodForMs: 10 }, now());
        expect(await ask('a', 8)).toEqual({
          places: 8,
          free: 2,
          othersWanting: 0,
          pausedUntil: null,
          lost: [],
        });
        expect(await ask('b', 5)).toMatchObject({ places: 2, free: 0, othersWanting: 0 });
        // It gives back what it does not take, and learns that another would like more.
        expect(await ask('a', 3)).toMatchObject({ places: 3, othersWanting: 1, free: 5 });
        expect(await ask('b', 2, 5)).toMatchObject({ places: 2 });
        expect(await ask('a', 3)).toMatchObject({ othersWanting: 1 });
        expect(await ask('b', 5)).toMatchObject({ places: 5 });
        pass(LEASE_MS);
        expect(await ask('b', 10)).toMatchObject({ places: 10 });
        expect(await ask('a', 3)).toMatchObject({ places: 0 });
      });
    });

    it('name those that are gone, and until when nobody else may have what they had', async () => {
      await inScene(async ({ store, now, pass }) => {
        const ask = (replica: string, takes: number) =>
          store.sharePlaces(
            { replica, limit: 10, takes, wants: takes, leaseMs: LEASE_MS, goodForMs: LEASE_MS / 2 },
            now(),
          );
        await ask('a', 4);
        await ask('idle', 0);
        const until = now().steady + LEASE_MS;
        pass(LEASE_MS / 2 - 1);
        expect((await ask('b', 1)).lost).toEqual([]);
        pass(1);
        expect(await ask('b', 1)).toMatchObject({ free: 5, lost: [{ replica: 'a', places: 4, until }] });
        pass(LEASE_MS / 2);
        expect(await ask('b', 1)).toMatchObject({ free: 9, lost: [] });
      });
    });

    it('all wait as long as the upstream asked any of them to', async () => {
      await inScene(async ({ store, now }) => {
        const pausedUntil = async () =>
          (
            await store.sharePlaces(
              { replica: 'a', limit: 1, takes: 0, wants: 0, leaseMs: 1, goodForMs: 1 },
              now(),
            )
          ).pausedUntil;
        expect(await pausedUntil()).toBeNull();
        await store.pausePlaces(now().steady + 5_000);
        await store.pausePlaces(now().steady + 1_000);
        expect(await pausedUntil()).toBe(now().steady + 5_000);
      });
    });

    it('keep sessions until they are closed, unused, or too many', async () => {
      await inScene(async ({ store }) => {
        const keep = { usedSince: 0, atMost: 2 };
        const session = (hash: string, openedAt: number) => ({
          hash,
          sealed: `sealed ${hash}`,
          openedAt,
          usedAt: openedAt,
        });
        const there = async () => {
          const found = await Promise.all(['a', 'b', 'c', 'd'].map((hash) => store.findSession(hash)));
          return found.flatMap((each) => (each === null ? [] : [each.hash]));
        };
        await store.openSession(session('a', 1_000), keep);
        await store.openSession(session('b', 2_000), keep);
        await store.touchSession('a', 5_000);
        expect(await store.findSession('a')).toEqual({ ...session('a', 1_000), usedAt: 5_000 });
        await store.openSession(session('c', 3_000), keep);
        expect(await there()).toEqual(['b', 'c']);
        await store.openSession(session('d', 4_000), { ...keep, usedSince: 2_000 });
        expect(await there()).toEqual(['c', 'd']);
        await store.closeSession('c');
        expect(await there()).toEqual(['d']);
      });
    });
  });
}
