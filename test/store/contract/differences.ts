import { describe, expect } from 'vitest';
import { type OpenEngine, SETTLE_MS } from '../scene.ts';
import { storyOn } from './story.ts';

const progress = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

export function describeDifferences(open: OpenEngine): void {
  const story = storyOn(open);
  describe('what differs from the API', () => {
    story('was announced by an event, or by nothing', async (scene) => {
      await scene.show('vendor', 'a', { id: 'a', name: 'Old' });
      await scene.show('vendor', 'b', { id: 'b', name: 'Old' });
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', shows: {} }));
      scene.pass(SETTLE_MS);
      const page = ['a', 'b'].map((id) => ({ id, data: { id, name: 'New' } }));
      const applied = await scene.apply('vendor', page);
      expect(applied.map((one) => [one.outcome, one.announced])).toEqual([
        ['updated', true],
        ['updated', false],
      ]);
    });

    story('stays with the full sync that found it', async (scene) => {
      const { id } = await scene.store.startSyncRun('vendor', 'timer', scene.now());
      expect(await scene.store.show('sync_runs', id)).toMatchObject({ differences: null });
      const differences = { lost: 2, ids: ['a', '__proto__'] };
      await scene.store.finishSyncRun(
        id,
        { outcome: 'complete', error: null, progress, differences },
        scene.now(),
      );
      expect(await scene.store.show('sync_runs', id)).toMatchObject({ differences });
      expect((await scene.store.list('sync_runs', { limit: 1 })).items[0]).toMatchObject({ differences });
    });
  });

  describe('what lives and what is known', () => {
    story('is counted', async (scene) => {
      await scene.apply(
        'vendor',
        ['d', 'b', 'a', 'c', 'e'].map((id) => ({ id, data: { id } })),
      );
      await scene.show('policy', 'b', { id: 'b' });
      await scene.conclude('vendor', { absent: ['c'] });
      const { kinds } = await scene.store.summary();
      expect(kinds.map(({ kind, records }) => [kind, records])).toEqual(
        expect.arrayContaining([
          ['vendor', 4],
          ['policy', 1],
        ]),
      );
      await scene.store.makeKnown('vendor', ['named'], scene.now());
      expect(await scene.store.countKnown('vendor')).toBe(6);
    });
  });

  describe('silence', () => {
    story('is broken by a redelivery as well', async (scene) => {
      const event = scene.event();
      await scene.accept(event);
      scene.pass(60_000);
      await scene.accept(event);
      expect(await scene.store.lastDelivery(100)).toMatchObject({ wall: scene.now().wall });
    });
  });
}
