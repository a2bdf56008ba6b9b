import { describe, expect } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import type { SyncRunOutcome } from '../../../src/store/store.ts';
import { isoOf, type OpenEngine, type Scene, SETTLE_MS } from '../scene.ts';
import { storyOn } from './story.ts';

const progress = { pages: 2, seen: 5, inserted: 1, updated: 1, deleted: 0, unchanged: 3 };

export async function fullSyncOnce(scene: Scene, kind: Kind, outcome: SyncRunOutcome = 'complete') {
  const fullSync = await scene.store.startSyncRun(kind, 'timer', scene.now());
  await scene.store.finishSyncRun(
    fullSync.id,
    { outcome, error: null, progress, differences: {}, listed: kind !== 'risk_assessment' },
    scene.now(),
  );
}

export function describeSyncRuns(open: OpenEngine): void {
  const story = storyOn(open);
  describe('sync-runs', () => {
    story(
      'are told as they begin whether anything is open that names no record and that their list would make good',
      async (scene) => {
        const begin = async (kind: 'vendor' | 'risk_assessment') =>
          (await scene.store.startSyncRun(kind, 'timer', scene.now())).hasUnnamed;
        const openProblem = (reason: 'unknown_record' | 'downtime', recordId: string | null = null) =>
          scene.store.openProblem({ reason, kind: 'vendor', recordId }, null, scene.now());
        await openProblem('downtime');
        await openProblem('unknown_record', 'ven_1');
        expect(await begin('vendor')).toBe(false);
        await openProblem('unknown_record');
        expect(await begin('vendor')).toBe(true);
        expect(await begin('risk_assessment')).toBe(false);
        await scene.store.endProblem(
          { reason: 'unknown_record', kind: 'vendor', recordId: null },
          scene.now(),
        );
        expect(await begin('vendor')).toBe(false);
      },
    );

    story('are written down as they begin, go on and end', async (scene) => {
      const { id } = await scene.store.startSyncRun('policy', 'demand', scene.now());
      const started_at = isoOf(scene.now().wall);
      const begun = { id, kind: 'policy', reason: 'demand', started_at, finished_at: null, outcome: null };
      expect(await scene.store.show('sync_runs', id)).toMatchObject({ ...begun, pages: 0, seen: 0 });
      await scene.store.progressSyncRun(id, progress);
      expect(await scene.store.show('sync_runs', id)).toMatchObject({ ...begun, ...progress });
      scene.pass(5_000);
      const result = {
        outcome: 'incomplete',
        error: 'page 3: 503',
        progress: { ...progress, pages: 3 },
        differences: {},
      } as const;
      await scene.store.finishSyncRun(id, result, scene.now());
      expect(await scene.store.show('sync_runs', id)).toMatchObject({
        pages: 3,
        outcome: 'incomplete',
        error: 'page 3: 503',
        finished_at: isoOf(scene.now().wall),
      });
      expect(await scene.store.show('sync_runs', id + 1)).toBeNull();
    });

    story(
      'that were interrupted stay so, whatever a replica that stood still says of them later',
      async (scene) => {
        const { id } = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await scene.store.interruptSyncRuns(scene.now());
        const finished_at = isoOf(scene.now().wall);
        scene.pass(60_000);
        const result = { outcome: 'complete', error: null, progress, differences: {} } as const;
        await scene.store.finishSyncRun(id, result, scene.now());
        expect(await scene.store.show('sync_runs', id)).toMatchObject({
          outcome: 'interrupted',
          finished_at,
        });
      },
    );

    story(
      'whose end could not be written down are interrupted as the next of their kind begins',
      async (scene) => {
        const lost = await scene.store.startSyncRun('policy', 'timer', scene.now());
        const other = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        scene.pass(5_000);
        const next = await scene.store.startSyncRun('policy', 'again', scene.now());
        expect(await scene.store.show('sync_runs', lost.id)).toMatchObject({
          outcome: 'interrupted',
          finished_at: isoOf(scene.now().wall),
        });
        for (const { id } of [other, next]) {
          expect(await scene.store.show('sync_runs', id)).toMatchObject({ outcome: null, finished_at: null });
        }
      },
    );

    story('of an earlier process are interrupted, finished ones are not', async (scene) => {
      await fullSyncOnce(scene, 'vendor');
      const { id } = await scene.store.startSyncRun('policy', 'start', scene.now());
      await scene.store.progressSyncRun(id, progress);
      await scene.store.interruptSyncRuns(scene.now());
      expect(await scene.store.show('sync_runs', id)).toMatchObject({ outcome: 'interrupted' });
      expect((await scene.store.show('sync_runs', id))?.finished_at).not.toBeNull();
      const outcomes = (await scene.store.list('sync_runs', { limit: 10 })).items.map(
        (fullSync) => fullSync.outcome,
      );
      expect(outcomes).toEqual(['interrupted', 'complete']);
    });

    story(
      'over assessments try unverified ones first, then the longest unread, tombstones too, each once',
      async (scene) => {
        for (const id of ['old', 'failed', 'new']) {
          await scene.show('risk_assessment', id, { id });
          scene.pass(2 * SETTLE_MS);
          // Any write moves the counter, and with it the order of reads.
          await scene.show('policy', `after ${id}`, { id });
        }
        await scene.conclude('risk_assessment', { absent: ['failed'] });
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'marked_dirty' }));
        const fullSync = await scene.store.startSyncRun('risk_assessment', 'timer', scene.now());
        const untried = (limit: number) => scene.store.untriedRecords('risk_assessment', fullSync.id, limit);
        expect(await untried(10)).toEqual(['marked_dirty', 'old', 'failed', 'new']);
        expect(await untried(2)).toEqual(['marked_dirty', 'old']);
        await scene.store.markSynced('risk_assessment', 'marked_dirty', fullSync.id);
        await scene.apply('risk_assessment', [{ id: 'old', data: { id: 'old' } }], {
          syncRunId: fullSync.id,
        });
        expect(await untried(10)).toEqual(['failed', 'new']);
        const next = await scene.store.startSyncRun('risk_assessment', 'timer', scene.now());
        expect(await scene.store.untriedRecords('risk_assessment', next.id, 10)).toHaveLength(4);
      },
    );
  });

  describe('small durable facts', () => {
    story('are there after they are written, beats and registrations too', async (scene) => {
      expect(await scene.store.readFact('heartbeat')).toBeNull();
      expect(await scene.store.readFact('paused')).toBeNull();
      const facts = {
        eventsOnly: false,
        settleMs: SETTLE_MS,
        fullSyncMs: 3_600_000,
        unreachable: false as const,
        access: 'key',
      };
      await scene.store.beat(scene.now(), facts);
      scene.pass(1_234);
      await scene.store.beat(scene.now(), facts);
      await scene.store.writeFact('paused', 'yes');
      await scene.store.writeFact('paused', 'no');
      const registration = {
        upstreamId: 'wh_1',
        url: 'https://mirror.example/webhooks',
        events: ['policy.*', 'vendor.added'],
        description: 'ours',
        sealedSecret: 'sealed',
        sealedAnswer: 'answer',
        createdAt: isoOf(scene.now().wall),
        delivers: ['policy.*'],
      };
      await scene.store.saveRegistration(registration);
      // An answer without a secret takes none away.
      await scene.store.saveRegistration({
        ...registration,
        sealedSecret: null,
        sealedAnswer: null,
        description: 'still ours',
      });
      if (scene.canReopen) await scene.reopen();
      expect(await scene.store.readFact('heartbeat')).toBe(new Date(scene.now().wall).toISOString());
      expect(await scene.store.readFact('paused')).toBe('no');
      expect(await scene.store.listRegistrations()).toEqual([{ ...registration, description: 'still ours' }]);
      await expect(scene.store.checkWritable()).resolves.toBeUndefined();
    });
  });
}
