import { describe, expect, it } from 'vitest';
import { KINDS } from '../../../src/compliance/kinds.ts';
import { isoOf, type OpenEngine, type Scene } from '../scene.ts';
import { beat, fullSyncAll, inPresent, presentOn } from './status.ts';

const SECOND_MS = 1_000;

const rowsOf = (scene: Scene, kind = 'policy') =>
  scene.query(`SELECT verdict, complete, since, until FROM sync_history WHERE kind = '${kind}' ORDER BY id`);

export function describeHistory(open: OpenEngine): void {
  const present = presentOn(open);
  describe('what sync_status said', () => {
    present(
      'is kept from one verdict to the next, and the view says since when the present one holds',
      async (scene) => {
        const at = () => isoOf(scene.now().wall);
        const began = at();
        await beat(scene);
        scene.pass(SECOND_MS);
        await beat(scene);
        const catching = { verdict: 'catching_up', since: began };
        for (const kind of KINDS)
          expect(await rowsOf(scene, kind)).toMatchObject([{ ...catching, until: null }]);

        await fullSyncAll(scene);
        scene.pass(SECOND_MS);
        await beat(scene);
        const synced = at();
        const inSync = { verdict: 'in_sync', since: synced };
        expect(await rowsOf(scene)).toMatchObject([
          { ...catching, until: synced },
          { ...inSync, until: null },
        ]);
        expect(await rowsOf(scene, 'risk_assessment')).toMatchObject([
          {},
          { verdict: 'known_only', since: synced },
        ]);
        expect(await scene.query("SELECT since FROM sync_status WHERE kind = 'policy'")).toEqual([
          { since: synced },
        ]);

        // A full sync that found what no event had announced: what was said before was not right.
        scene.pass(SECOND_MS);
        const { id } = await scene.store.startSyncRun('policy', 'timer', scene.now());
        const progress = { pages: 1, seen: 1, inserted: 0, updated: 1, deleted: 0, unchanged: 0 };
        const end = { outcome: 'complete' as const, error: null, progress, differences: {}, listed: true };
        await scene.store.finishSyncRun(id, { ...end, hasDifferences: true }, scene.now());
        const found = at();
        await beat(scene);
        expect(await rowsOf(scene)).toMatchObject([
          {},
          { ...inSync, until: found },
          { ...inSync, since: found, until: null },
        ]);
      },
    );

    it.each(['the worker', 'another process'])(
      'is stale for a time without heartbeats, which the first of %s after it notes',
      async (who) => {
        await inPresent(open, async (scene) => {
          const at = (seconds: number) => isoOf(scene.now().wall + seconds * SECOND_MS);
          await fullSyncAll(scene);
          await beat(scene);
          const synced = at(0);
          scene.pass(30 * SECOND_MS);
          // As if none had come for 70 s.
          await scene.store.writeFact('heartbeat', at(-70));
          if (who === 'another process') await scene.store.beat(scene.now(), null);
          await beat(scene);
          expect(await rowsOf(scene)).toMatchObject([
            { verdict: 'in_sync', since: synced, until: at(-10) },
            { verdict: 'stale', since: at(-10), until: at(0) },
            { verdict: 'in_sync', since: at(0), until: null },
          ]);
          expect((await rowsOf(scene)).map(({ complete }) => Boolean(complete))).toEqual([true, false, true]);
        })();
      },
    );

    present('is told of an instant, with the problems and the last full sync of then', async (scene) => {
      const then = () => scene.store.statusThen(isoOf(scene.now().wall));
      expect(await then()).toBeNull();
      await beat(scene);
      const before = isoOf(scene.now().wall);
      const problem = { reason: 'downtime', kind: null, recordId: null } as const;
      await scene.store.openProblem(problem, 'a crash', scene.now());
      scene.pass(SECOND_MS);
      await fullSyncAll(scene, SECOND_MS);
      await beat(scene);
      const ended = isoOf(scene.now().wall);
      expect(await then()).toMatchObject({
        kinds: [
          {
            kind: 'policy',
            verdict: 'in_sync',
            complete: true,
            since: ended,
            last_full_sync: { id: 1, finished_at: ended },
          },
          { kind: 'risk_assessment', verdict: 'known_only', complete: false, last_full_sync: { id: 2 } },
          { kind: 'vendor', verdict: 'in_sync', last_full_sync: { id: 3 } },
        ],
        problems: [],
        open_problems: 0,
      });
      const earlier = await scene.store.statusThen(before);
      expect(earlier).toMatchObject({
        kinds: KINDS.map((kind) => ({
          kind,
          verdict: 'catching_up',
          complete: false,
          since: before,
          last_full_sync: null,
        })),
        problems: [{ reason: 'downtime', error: 'a crash' }],
        open_problems: 1,
      });
      expect(await scene.store.statusThen(isoOf(Date.parse(before) - 1))).toBeNull();
    });

    present('is trimmed like the changes, but for what holds still', async (scene) => {
      await beat(scene);
      await fullSyncAll(scene);
      scene.pass(SECOND_MS);
      await beat(scene);
      const { wall } = scene.now();
      const trim = (before: number) =>
        scene.store.trim('sync_history', { before, now: wall, after: 0, limit: 100 });
      expect(await trim(wall)).toEqual({ trimmed: 0, next: null });
      expect(await trim(wall + 1)).toEqual({ trimmed: 3, next: null });
      expect(await rowsOf(scene)).toMatchObject([{ verdict: 'in_sync', until: null }]);
    });
  });
}
