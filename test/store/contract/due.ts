import { describe, expect, it } from 'vitest';
import { workNow } from '../planner.ts';
import { HOUR_MS, inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';
import { beat } from './status.ts';

const due = async (scene: Scene, kind: 'vendor' | 'risk_assessment' = 'vendor', limit = 10) =>
  (await scene.due(kind, limit)).map((record) => record.id);
const dirty = async (scene: Scene, recordId: string) =>
  scene.accept(scene.event({ kind: 'vendor', recordId, shows: {} }));

export function describeDue(open: OpenEngine): void {
  describe('what is due for a read', () => {
    it(
      'is a record SETTLE after its dirty mark, and no sooner',
      inScene(open, async (scene) => {
        await dirty(scene, 'ven_1');
        expect(await scene.dueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
        scene.pass(SETTLE_MS - 1);
        expect(await due(scene)).toEqual([]);
        scene.pass(1);
        expect(await due(scene)).toEqual(['ven_1']);
        expect(await scene.dueAt('policy')).toBeNull();
      }),
    );

    it(
      'is a record SETTLE after a delivery about it could not be stored, and until then it is unverified',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'before' });
        scene.pass(SETTLE_MS);
        const named = ['ven_1', 'ven_2'].map((id) => ({ kind: 'vendor', id }) as const);
        await scene.store.markDirty(named, scene.now(), TIMING);
        expect(await scene.query('SELECT id, unverified_since FROM vendors')).toEqual([
          { id: 'ven_1', unverified_since: isoOf(scene.now().wall) },
        ]);
        scene.pass(SETTLE_MS - 1);
        expect(await due(scene)).toEqual([]);
        expect((await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'before' })).verified).toBe(false);
        scene.pass(SETTLE_MS);
        expect((await due(scene)).sort()).toEqual(['ven_1', 'ven_2']);
        expect((await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'after' })).verified).toBe(true);
      }),
    );

    it(
      'comes longest due first, up to the limit',
      inScene(open, async (scene) => {
        for (const id of ['c', 'a', 'b']) {
          await dirty(scene, id);
          scene.pass(1_000);
        }
        scene.pass(SETTLE_MS);
        expect(await due(scene, 'vendor', 2)).toEqual(['c', 'a']);
      }),
    );

    it(
      'is soon again after a new event, however long failures had put it off, and counts from the first',
      inScene(open, async (scene) => {
        const since = isoOf(scene.now().wall);
        const again = async () => {
          await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
        };
        await again();
        await scene.store.recordReadFailure('vendor', 'ven_1', '503', scene.now().steady + 86_400_000, {
          settleMs: SETTLE_MS,
          since: scene.now().steady,
        });
        await scene.store.recordReadFailure('vendor', 'ven_1', '503', scene.now().steady + 86_400_000, {
          settleMs: SETTLE_MS,
          since: scene.now().steady,
        });
        scene.pass(5.5 * SETTLE_MS);
        await again();
        expect(await scene.dueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
        await scene.work();
        expect((await scene.row('vendor', 'ven_1'))?.unverified_since).toBe(since);
        scene.pass(0.9 * SETTLE_MS);
        await again();
        scene.pass(0.1 * SETTLE_MS);
        expect(await due(scene)).toEqual(['ven_1']);
      }),
    );

    it.each([{ isProvisional: false }, { isProvisional: true }])(
      'counts from the latest dirty mark, though one that has waited longer is written after it (provisional: $isProvisional)',
      async ({ isProvisional }) => {
        await inScene(open, async (scene) => {
          await dirty(scene, 'ven_1');
          if (isProvisional) await scene.work();
          const waited = scene.now();
          scene.pass(600);
          await dirty(scene, 'ven_1');
          const late = scene.event({ kind: 'vendor', recordId: 'ven_1', shows: {} });
          await scene.store.accept({ events: [late], unusable: [] }, waited, TIMING);
          if (isProvisional) await scene.work();
          scene.pass(SETTLE_MS - 300);
          await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'As it was' });
          // Such a read may be older than the dirty mark before it.
          expect(await due(scene)).toEqual([]);
          scene.pass(300);
          expect(await due(scene)).toEqual(['ven_1']);
        })();
      },
    );

    it(
      'is put off when it comes to a record that was marked dirty since',
      inScene(open, async (scene) => {
        await dirty(scene, 'ven_1');
        scene.pass(SETTLE_MS - 1);
        await dirty(scene, 'ven_1');
        scene.pass(1);
        expect(await due(scene)).toEqual([]);
        const until = scene.now().steady + SETTLE_MS - 1;
        expect((await workNow(scene.store, scene.now(), { timing: TIMING })).at(-1)).toEqual({
          what: 'rest',
          until,
        });
      }),
    );

    it(
      'is what something named and nobody knew, soon; and nothing that is known',
      inScene(open, async (scene) => {
        await scene.show('risk_assessment', 'ra_1', { id: 'ra_1' });
        expect(
          await scene.store.makeKnown('risk_assessment', ['ra_1', 'ra_2', 'ra_3', 'ra_2'], scene.now()),
        ).toBe(2);
        expect(await scene.store.makeKnown('risk_assessment', ['ra_2'], scene.now())).toBe(0);
        expect(await scene.store.countKnown('risk_assessment')).toBe(3);
        scene.pass(SETTLE_MS);
        expect((await due(scene, 'risk_assessment')).sort()).toEqual(['ra_2', 'ra_3']);
      }),
    );

    it(
      'leaves what is known by its id alone to a full sync that runs, and nothing else',
      inScene(open, async (scene) => {
        const { store } = scene;
        await scene.show('risk_assessment', 'shown', { id: 'shown' });
        await store.makeKnown('risk_assessment', ['announced', 'failed', 'named'], scene.now());
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'announced', shows: {} }));
        const since = { since: scene.now().steady, settleMs: SETTLE_MS };
        await store.recordReadFailure('risk_assessment', 'failed', 'answered 500', scene.now().steady, since);
        await store.makeDue('risk_assessment', ['shown'], scene.now());
        scene.pass(SETTLE_MS);
        const left = await scene.due('risk_assessment', 10, true);
        expect(left.map(({ id }) => id).sort()).toEqual(['announced', 'failed', 'shown']);
        expect(await due(scene, 'risk_assessment')).toContain('named');
        // Also if the process ended before the full sync had read it.
        await store.markUnverifiedDirty(scene.now(), TIMING);
        scene.pass(SETTLE_MS);
        const later = await scene.due('risk_assessment', 10, true);
        expect(later.map(({ id }) => id).sort()).toEqual(['announced', 'failed', 'shown']);
      }),
    );

    it(
      'is what a person asked for, verified or not, known or not',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await scene.store.makeDue('vendor', ['ven_1', 'ven_2'], scene.now());
        expect(await due(scene)).toContain('ven_1');
        expect((await scene.row('vendor', 'ven_1'))?.unverified_since).toBeNull();
        scene.pass(SETTLE_MS);
        expect((await due(scene)).sort()).toEqual(['ven_1', 'ven_2']);
      }),
    );

    it(
      'is laid anew after a restart, when no clock of before can be compared',
      inScene(open, async (scene) => {
        if (!scene.canReopen) return;
        await scene.show('vendor', 'calm', { id: 'calm' });
        await dirty(scene, 'ven_1');
        await scene.work();
        await scene.store.recordReadFailure('vendor', 'ven_1', '503', scene.now().steady + 86_400_000, {
          settleMs: SETTLE_MS,
          since: scene.now().steady,
        });
        await scene.reopen();
        expect(await scene.store.markUnverifiedDirty(scene.now(), TIMING)).toBe(1);
        expect(await scene.dueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
        scene.pass(SETTLE_MS - 1);
        expect((await scene.show('vendor', 'ven_1', { id: 'ven_1' })).verified).toBe(false);
        scene.pass(SETTLE_MS);
        expect((await scene.show('vendor', 'ven_1', { id: 'ven_1' })).verified).toBe(true);
      }),
    );

    it.each([0, HOUR_MS])(
      'is after a restart what a list shows otherwise, if its own address had just shown a change, whose clock is %i ms ahead',
      (aheadMs) =>
        inScene(open, async (scene) => {
          await scene.show('vendor', 'old', { id: 'old', name: 'before' });
          scene.pass(18 * SETTLE_MS);
          await scene.show('vendor', 'new', { id: 'new', name: 'before' });
          await beat(scene);
          const { steady, wall } = scene.now();
          await scene.store.markUnverifiedDirty({ steady, wall: wall + aheadMs }, TIMING);
          scene.pass(SETTLE_MS);
          const rows = ['old', 'new'].map((id) => ({ id, data: { id, name: 'after' } }));
          const applied = await scene.apply('vendor', rows, { isOfList: true });
          // The list repairs the rest.
          expect(applied.map(({ outcome }) => outcome)).toEqual(['updated', 'deferred']);
          scene.pass(SETTLE_MS);
          expect(await due(scene)).toEqual(['new']);
        })(),
    );

    it(
      'forgets at a restart the first of two 404 answers',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        scene.pass(2 * SETTLE_MS);
        await scene.store.markUnverifiedDirty(scene.now(), TIMING);
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      }),
    );
  });
}
