import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS } from '../scene.ts';

const HOUR_MS = 3_600_000;
const named = (count: number) => Array.from({ length: count }, (_, n) => `ven_${n}`);

async function showAll(scene: Scene, kind: Kind, ids: readonly string[]) {
  await scene.apply(
    kind,
    ids.map((id) => ({ id, data: { id, name: id } })),
  );
}

/** Two 404 answers SETTLE apart. */
async function prove(scene: Scene, kind: Kind, ids: readonly string[]) {
  for (const id of ids) expect(await scene.missing(kind, id)).toBe('first');
  scene.pass(SETTLE_MS);
  for (const id of ids) expect(await scene.missing(kind, id)).toBe('proven');
}

const live = async (scene: Scene, kind: Kind) =>
  (await scene.store.listRecords(kind, { deleted: false }, { limit: 500 })).items.map((row) => row.id);
const pending = async (scene: Scene) =>
  (await scene.store.listPendingDeletions({}, { limit: 500 }))
    .filter(({ approved_until: at }) => at === null || Date.parse(at) <= scene.now().wall)
    .map(({ id }) => id);

export function describeAbsences(open: OpenEngine): void {
  describe('a record that the API does not find', () => {
    it(
      'is unresolved, and no deletion, if the API never returned it',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'risk_7' }));
        await scene.work();
        for (let round = 0; round < 3; round += 1) {
          scene.pass(2 * SETTLE_MS);
          expect(await scene.missing('risk_assessment', 'risk_7')).toBe('unresolved_event');
        }
        await scene.store.makeKnown('risk_assessment', ['risk_8'], scene.now());
        scene.pass(2 * SETTLE_MS);
        expect(await scene.missing('risk_assessment', 'risk_8')).toBe('unresolved');
        expect(await scene.conclude('risk_assessment')).toEqual({ deleted: [], pending: [] });
      }),
    );

    it(
      'is not deleted when an event has been shown since its absence was proven',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { name: 'Late' } }));
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
        expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
      }),
    );

    it(
      'is asked for again after SETTLE before anything is concluded',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({ deleted_at: null });
        expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
        expect(await scene.store.nextDueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
        expect(await scene.store.countProofs('vendor')).toEqual({ awaiting: 1, proven: 0 });

        scene.pass(SETTLE_MS - 1);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        scene.pass(1);
        const due = await scene.store.dueRecords('vendor', scene.now(), { settleMs: SETTLE_MS }, 10);
        expect(due).toMatchObject([{ id: 'ven_1', attempts: 0, asked: false }]);
        expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
        expect(await scene.store.countProofs('vendor')).toEqual({ awaiting: 0, proven: 1 });
        expect(await live(scene, 'vendor')).toContain('ven_1');

        expect(await scene.conclude('vendor')).toEqual({
          deleted: [{ id: 'ven_1', cause: 'absence' }],
          pending: [],
        });
        const at = isoOf(scene.now().wall);
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({
          deleted_at: at,
          verified_at: at,
          unverified_since: null,
          name: 'ven_1',
          cause: 'sync:1',
        });
        expect(await scene.missing('vendor', 'ven_1')).toBe('known');
      }),
    );

    it(
      'is not proven gone when an event came between the two answers',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1']);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      }),
    );

    it(
      'is not proven gone when a read found it between the two answers',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1']);
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
        scene.pass(SETTLE_MS);
        await showAll(scene, 'vendor', ['ven_1']);
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      }),
    );

    it(
      'is not concluded gone when an event came after the proof',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await prove(scene, 'vendor', ['ven_1']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
        expect(await live(scene, 'vendor')).toContain('ven_1');
      }),
    );

    it(
      'is not concluded gone when a payload that had waited was shown after the proof',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { name: 'Late' } }));
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', ['ven_1']);
        await scene.work();
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
      }),
    );

    it(
      'is read again when a payload that had waited was shown after the proof, or while its deletion is pending',
      inScene(open, async (scene) => {
        const ids = ['ven_1', 'ven_2', 'ven_3'];
        const due = async () =>
          (await scene.store.dueRecords('vendor', scene.now(), { settleMs: SETTLE_MS }, 10)).map(
            ({ id }) => id,
          );
        const removed = (id: string) =>
          scene.event({ kind: 'vendor', type: 'vendor.removed', recordId: id, shows: {} });
        await showAll(scene, 'vendor', [...ids, 'ven_4']);
        scene.pass(SETTLE_MS);
        await scene.accept(removed('ven_4'));
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', ['ven_4']);
        await scene.work();
        expect(await due()).toEqual(['ven_4']);
        await prove(scene, 'vendor', ['ven_4']);
        expect((await scene.conclude('vendor')).deleted).toEqual([{ id: 'ven_4', cause: 'event' }]);

        await scene.accept(...ids.map(removed));
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', ids);
        expect((await scene.conclude('vendor')).pending).toEqual(ids);
        await scene.work();
        expect(await due()).toEqual(ids);
        await prove(scene, 'vendor', ids);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(3);
        expect(await pending(scene)).toEqual([]);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it.each([
      { witness: 'nothing was read meanwhile', since: null, outcome: 'unwitnessed' },
      { witness: 'what was read, was read before', since: -1, outcome: 'unwitnessed' },
      { witness: 'nothing is read after', since: 0, outcome: 'witnessed_before' },
    ])(
      'is not proven gone while $witness: the credentials may see nothing any more',
      async ({ since, outcome }) => {
        await inScene(open, async (scene) => {
          await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
          const from = scene.now().steady;
          expect(await scene.missing('vendor', 'ven_1')).toBe('first');
          scene.pass(SETTLE_MS);
          const witnessedAt = since === null ? null : since === 0 ? scene.now().steady : from + since;
          const seen = { witnessedAt, witnessedAfter: false };
          expect(await scene.missing('vendor', 'ven_1', seen)).toBe(outcome);
          expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
          expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
        })();
      },
    );

    it(
      'needs no witness once a delete event has announced it',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1']);
        scene.pass(SETTLE_MS);
        await scene.accept(
          scene.event({ kind: 'vendor', type: 'vendor.removed', recordId: 'ven_1', shows: {} }),
        );
        await scene.work();
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1', { witnessedAt: null })).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ven_1', { witnessedAt: null })).toBe('proven');
        const deletedAt = (await scene.row('vendor', 'ven_1'))?.deleted_at;
        expect(await scene.conclude('vendor')).toEqual({
          deleted: [{ id: 'ven_1', cause: 'event' }],
          pending: [],
        });
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({
          deleted_at: deletedAt,
          unverified_since: null,
        });
      }),
    );

    it(
      'that no read ever showed is proven gone when a complete list scan misses it, and leaves no row',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ghost', shows: { name: 'Shown' } }));
        await scene.work();
        scene.pass(SETTLE_MS);
        // It may be about another vendor, which a list begun so early did not show as it is.
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('unresolved_event');
        const through = await scene.store.currentNumber();
        await scene.store.noteSearched(
          'vendor',
          'ghost',
          { through, event: through, named: [] },
          scene.now(),
          { settleMs: SETTLE_MS },
        );
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('proven');
        expect((await scene.conclude('vendor')).deleted).toEqual([{ id: 'ghost', cause: 'absence' }]);
        expect(await live(scene, 'vendor')).toEqual(['ven_1', 'ven_2']);
        expect(await scene.missing('vendor', 'ghost')).toBe('known');
        // No tombstone is a sign that the API has ever shown it: what a later event says by that id is news again.
        expect(await scene.store.shownIds('vendor', ['ghost', 'ven_1'])).toEqual(['ven_1']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ghost' }));
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ghost')).toBe('unresolved_event');
      }),
    );

    it(
      'is not absent from a list because a late page of an earlier full sync shows it too',
      inScene(open, async (scene) => {
        await showAll(scene, 'policy', ['pol_1', 'pol_2']);
        const page = [{ id: 'pol_1', data: { id: 'pol_1', name: 'pol_1' } }];
        for (const [settled, shown] of [
          [true, page],
          [false, [{ id: 'pol_1', data: { id: 'pol_1', name: 'Two' } }]],
        ] as const) {
          scene.pass(2 * SETTLE_MS);
          const replaced = await scene.store.startSyncRun('policy', 'timer', scene.now());
          const late = await scene.beginRead();
          const { id, number } = await scene.store.startSyncRun('policy', 'takeover', scene.now());
          await scene.apply('policy', [...page, ...page], { syncRunId: id });
          expect(await scene.store.unseenBy('policy', id, number), `${settled}`).toEqual(['pol_2']);
          await scene.apply('policy', shown, { began: late, syncRunId: replaced.id });
          expect(await scene.store.unseenBy('policy', id, number), `${settled}`).toEqual(['pol_2']);
        }
      }),
    );

    it(
      'comes back to life when a later read shows it',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await prove(scene, 'vendor', ['ven_1']);
        await scene.conclude('vendor');
        scene.pass(SETTLE_MS);
        expect(await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'Back' })).toMatchObject({
          outcome: 'revived',
        });
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({ deleted_at: null, name: 'Back' });
      }),
    );
  });

  describe('many deletions at once', () => {
    it.each([
      { live: 3, gone: 1, holds: false, rule: 'one is deleted' },
      { live: 1, gone: 1, holds: true, rule: 'the only one waits' },
      { live: 3, gone: 2, holds: false, rule: 'two of three are deleted' },
      { live: 2, gone: 2, holds: true, rule: 'both of two wait' },
      { live: 15, gone: 3, holds: false, rule: 'three that are exactly a fifth are deleted' },
      { live: 14, gone: 3, holds: true, rule: 'three that are more than a fifth wait' },
      { live: 30, gone: 6, holds: false, rule: 'six of thirty are deleted' },
      { live: 30, gone: 7, holds: true, rule: 'seven of thirty wait' },
      { live: 4, gone: 4, holds: true, rule: 'all of four wait' },
    ])('$rule', async (example) => {
      await inScene(open, async (scene) => {
        await showAll(scene, 'vendor', named(example.live));
        const gone = named(example.gone);
        await prove(scene, 'vendor', gone);
        const conclusion = await scene.conclude('vendor');
        expect(conclusion.pending).toEqual(example.holds ? gone : []);
        expect(conclusion.deleted.map((one) => one.id).sort()).toEqual(example.holds ? [] : gone);
        expect(await live(scene, 'vendor')).toHaveLength(
          example.holds ? example.live : example.live - example.gone,
        );
        expect(await pending(scene)).toEqual(example.holds ? gone : []);
      })();
    });

    it(
      'does not hold what delivered events have announced, however many they are',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', named(4));
        scene.pass(SETTLE_MS);
        for (const recordId of named(4)) {
          await scene.accept(scene.event({ kind: 'vendor', type: 'vendor.removed', recordId, shows: {} }));
        }
        await scene.work();
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', named(4));
        const { deleted, pending } = await scene.conclude('vendor');
        expect(deleted.map((one) => one.cause)).toEqual(['event', 'event', 'event', 'event']);
        expect(pending).toEqual([]);
      }),
    );

    it(
      'lets the announced go while the others wait to be judged together',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', named(9));
        scene.pass(SETTLE_MS);
        await scene.accept(
          scene.event({ kind: 'vendor', type: 'vendor.removed', recordId: 'ven_0', shows: {} }),
        );
        await scene.work();
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', ['ven_0', 'ven_1']);
        expect(await scene.conclude('vendor', { unannounced: [] })).toEqual({
          deleted: [{ id: 'ven_0', cause: 'event' }],
          pending: [],
        });
        expect(await scene.store.countProofs('vendor')).toEqual({ awaiting: 0, proven: 1 });
        expect((await scene.conclude('vendor')).deleted).toEqual([{ id: 'ven_1', cause: 'absence' }]);
      }),
    );

    it(
      'waits for approval of exactly the pending ids, and for an hour only',
      inScene(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(4));
        expect((await scene.conclude('vendor', { syncRunId: fullSync.id })).pending).toEqual(named(4));
        const until = scene.now().wall + HOUR_MS;
        const approve = (kind: Kind, syncRunId: number) =>
          scene.store.approveDeletions(kind, named(10), syncRunId, until);
        expect(await approve('vendor', fullSync.id + 1)).toEqual([]);
        expect(await approve('policy', fullSync.id)).toEqual([]);
        expect(await approve('vendor', fullSync.id)).toEqual(named(4));
        expect(await live(scene, 'vendor')).toHaveLength(10);
        // Agreed to is not yet done.
        expect(await pending(scene)).toEqual([]);
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });

        // The next proof deletes; three more that nobody approved wait by themselves.
        await prove(scene, 'vendor', named(7));
        const next = await scene.conclude('vendor', { syncRunId: fullSync.id });
        expect(next.deleted.map((one) => one.id).sort()).toEqual(named(4));
        expect(next.pending).toEqual(['ven_4', 'ven_5', 'ven_6']);
        expect(await pending(scene)).toEqual(['ven_4', 'ven_5', 'ven_6']);
      }),
    );

    it(
      'takes an approval for those of them alone that it names',
      inScene(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(4));
        await scene.conclude('vendor', { syncRunId: fullSync.id });
        const until = scene.now().wall + HOUR_MS;
        const approve = (ids: string[]) => scene.store.approveDeletions('vendor', ids, fullSync.id, until);
        expect(await approve(['ven_1', "'", 'ven_9', 'ven_3'])).toEqual(['ven_1', 'ven_3']);
        expect(await pending(scene)).toEqual(['ven_0', 'ven_2']);
        expect(await approve([])).toEqual([]);
      }),
    );

    it(
      'goes once it is approved and proven, even if the full sync that proves it goes on for longer than the approval holds',
      inScene(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(4));
        await scene.conclude('vendor', { syncRunId: fullSync.id });
        await scene.store.approveDeletions('vendor', named(3), fullSync.id, scene.now().wall + HOUR_MS);
        await prove(scene, 'vendor', named(4));
        const early = await scene.conclude('vendor', { unannounced: [] });
        expect(early.deleted.map((one) => one.id).sort()).toEqual(named(3));
        expect(await pending(scene)).toEqual(['ven_3']);
      }),
    );

    it(
      'that nothing alive can witness waits for approval, and then goes without a witness',
      inScene(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', ['last']);
        scene.pass(SETTLE_MS);
        const blind = { witnessedAt: null };
        expect(await scene.missing('vendor', 'last', blind)).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'last', blind)).toBe('unwitnessed');
        await scene.store.addPendingDeletion('vendor', 'last', null, scene.now());
        expect(await scene.store.pendingDeletions(scene.now().wall)).toEqual([
          { kind: 'vendor', count: 1, sync_run_id: fullSync.id },
        ]);
        expect(await scene.missing('vendor', 'last', blind)).toBe('unwitnessed');
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });

        await scene.store.approveDeletions('vendor', ['last'], fullSync.id, scene.now().wall + HOUR_MS);
        expect(await scene.missing('vendor', 'last', blind)).toBe('proven');
        expect(await scene.conclude('vendor')).toEqual({
          deleted: [{ id: 'last', cause: 'absence' }],
          pending: [],
        });
      }),
    );

    it(
      'that nothing alive can witness asks a person in the same commit, and no more once its record is shown',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['last']);
        await scene.store.addPendingDeletion('vendor', 'last', null, scene.now());
        expect(await scene.openGaps()).toEqual(['deletion_pending vendor -']);
        scene.pass(SETTLE_MS);
        await showAll(scene, 'vendor', ['last']);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'waits for a person where only events have shown the record, and what is not shown alive does not',
      inScene(open, async (scene) => {
        const kind = 'risk_assessment';
        await scene.accept(scene.event({ kind, recordId: 'ra_1', shows: { name: 'Of events only' } }));
        await scene.work({ eventsOnly: true });
        scene.pass(SETTLE_MS);
        const through = await scene.store.currentNumber();
        const searched = { through, event: through, named: [] };
        await scene.store.noteSearched(kind, 'ra_1', searched, scene.now(), { settleMs: SETTLE_MS });
        const ask = (id: string) =>
          scene.store.askToDelete(kind, id, { why: 'never shown', syncRunId: null }, scene.now());
        expect(await ask('ra_2')).toBeNull();
        expect(await scene.missing(kind, 'ra_1')).toBe('unresolved_again');
        expect(await ask('ra_1')).toBe('pending');
        expect(await scene.openGaps()).toEqual(['deletion_pending risk_assessment -']);
        expect(await scene.missing(kind, 'ra_1')).toBe('unresolved_again');

        await scene.store.approveDeletions(kind, ['ra_1'], 0, scene.now().wall + HOUR_MS);
        expect(await ask('ra_1')).toBe('approved');
        await prove(scene, kind, ['ra_1']);
        expect(await scene.conclude(kind)).toEqual({
          deleted: [{ id: 'ra_1', cause: 'absence' }],
          pending: [],
        });
        expect(await ask('ra_1')).toBeNull();
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'says in its gap how many wait besides the last',
      inScene(open, async (scene) => {
        const kind = 'vendor';
        await showAll(scene, kind, named(3));
        const error = async (id: string) => {
          await scene.store.askToDelete(kind, id, { why: 'not listed', syncRunId: null }, scene.now());
          return await scene.query("SELECT error FROM gaps WHERE reason = 'deletion_pending'");
        };
        expect(await error('ven_0')).toEqual([{ error: 'ven_0: not listed' }]);
        expect(await error('ven_1')).toEqual([{ error: 'ven_1: not listed; 1 more waits' }]);
        expect(await error('ven_1')).toEqual([{ error: 'ven_1: not listed; 1 more waits' }]);
        await scene.store.addPendingDeletion(kind, 'ven_2', null, scene.now());
        expect(await error('ven_0')).toEqual([{ error: 'ven_0: not listed; 2 more wait' }]);
      }),
    );

    it(
      'of what only events have shown keeps the sync run that asked first, and once deleted it is settled like any unknown id',
      inScene(open, async (scene) => {
        const kind = 'risk_assessment';
        const searched = async () => {
          const through = await scene.store.currentNumber();
          const all = { through, event: through, named: [] };
          await scene.store.noteSearched(kind, 'ra_1', all, scene.now(), { settleMs: SETTLE_MS });
        };
        await scene.accept(scene.event({ kind, recordId: 'ra_1', shows: { name: 'Of events only' } }));
        await scene.work({ eventsOnly: true });
        scene.pass(SETTLE_MS);
        await searched();
        const asking = [];
        for (let syncs = 0; syncs < 2; syncs += 1) {
          const { id: syncRunId } = await scene.store.startSyncRun(kind, 'timer', scene.now());
          await scene.store.askToDelete(kind, 'ra_1', { why: 'never shown', syncRunId }, scene.now());
          asking.push(syncRunId);
        }
        expect(await scene.store.pendingDeletions(scene.now().wall)).toEqual([
          { kind, count: 1, sync_run_id: asking[0] },
        ]);
        await scene.store.approveDeletions(kind, ['ra_1'], asking[0]!, scene.now().wall + HOUR_MS);
        await prove(scene, kind, ['ra_1']);
        expect((await scene.conclude(kind)).deleted).toHaveLength(1);

        await scene.accept(scene.event({ kind, recordId: 'ra_1' }));
        await scene.work();
        scene.pass(SETTLE_MS);
        await searched();
        expect(await scene.missing(kind, 'ra_1')).toBe('unresolved_again');
        await scene.store.openGap({ reason: 'unresolved', kind, recordId: 'ra_1' }, null, scene.now());
        const [gap] = await scene.store.list('gaps', { open: true, limit: 1 });
        expect(await scene.store.settleGap(gap!.id, scene.now())).toBe(true);
        expect(await scene.missing(kind, 'ra_1')).toBe('known');
        expect(await scene.row(kind, 'ra_1')).toMatchObject({ unverified_since: null });
        expect((await scene.row(kind, 'ra_1'))?.deleted_at).not.toBeNull();
      }),
    );

    it(
      'takes no approval that has run out',
      inScene(open, async (scene) => {
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(4));
        await scene.conclude('vendor', { syncRunId: fullSync.id });
        await scene.store.approveDeletions('vendor', named(4), fullSync.id, scene.now().wall + HOUR_MS);
        expect(await scene.store.pendingDeletions(scene.now().wall)).toEqual([]);
        scene.pass(HOUR_MS - SETTLE_MS);
        await prove(scene, 'vendor', named(4));
        expect(await scene.store.pendingDeletions(scene.now().wall)).toEqual([
          { kind: 'vendor', count: 4, sync_run_id: fullSync.id },
        ]);
        expect((await scene.conclude('vendor', { syncRunId: fullSync.id })).pending).toEqual(named(4));
      }),
    );

    it(
      'are many as well when they come a few at a time',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(3));
        expect((await scene.conclude('vendor')).pending).toEqual(named(3));
        await prove(scene, 'vendor', ['ven_8']);
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: ['ven_8'] });
      }),
    );

    it(
      'keep the full sync that found them while a later one proves only some of them again',
      inScene(open, async (scene) => {
        const found = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(5));
        await scene.conclude('vendor', { syncRunId: found.id });
        const later = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await prove(scene, 'vendor', named(4));
        await scene.conclude('vendor', { syncRunId: later.id });
        expect(await scene.store.pendingDeletions(scene.now().wall)).toEqual([
          { kind: 'vendor', count: 5, sync_run_id: found.id },
        ]);
        const gaps = await scene.query("SELECT error FROM gaps WHERE reason = 'deletion_pending'");
        expect(gaps).toEqual([
          { error: '5 at once, without a delete event: ven_0, ven_1, ven_2, ven_3, ven_4' },
        ]);
      }),
    );

    it(
      'lets go of what shows itself alive again',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', named(4));
        await prove(scene, 'vendor', named(4));
        await scene.conclude('vendor');
        scene.pass(SETTLE_MS);
        await showAll(scene, 'vendor', ['ven_0']);
        expect(await pending(scene)).toEqual(['ven_1', 'ven_2', 'ven_3']);
        expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
        expect(await scene.openGaps()).toContain('deletion_pending vendor -');
        await showAll(scene, 'vendor', named(4));
        expect(await pending(scene)).toEqual([]);
        // Nothing is left to ask an operator.
        expect(await scene.openGaps()).toEqual([]);
      }),
    );
  });

  describe('what a pair of list scans proves', () => {
    it(
      'deletes the absentees that nothing touched since the first began',
      inScene(open, async (scene) => {
        await showAll(scene, 'policy', ['a', 'b', 'c', 'd', 'e', 'f']);
        const number = await scene.store.currentNumber();
        scene.pass(SETTLE_MS);
        await scene.accept(scene.event({ recordId: 'b' }));
        const conclusion = await scene.conclude('policy', { absent: ['a', 'b'], number });
        expect(conclusion).toEqual({ deleted: [{ id: 'a', cause: 'absence' }], pending: [] });
        expect(await live(scene, 'policy')).toEqual(['b', 'c', 'd', 'e', 'f']);
      }),
    );

    it(
      'leaves the absentees unverified while they wait for approval',
      inScene(open, async (scene) => {
        await showAll(scene, 'policy', ['a', 'b']);
        scene.pass(SETTLE_MS);
        expect((await scene.conclude('policy', { absent: ['a', 'b'] })).pending).toEqual(['a', 'b']);
        expect(await scene.row('policy', 'a')).toMatchObject({
          deleted_at: null,
          unverified_since: isoOf(scene.now().wall),
        });
      }),
    );

    it(
      'deletes nothing by settling an id that only a person asked for, nor one that is a tombstone already',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['a', 'b', 'c', 'd', 'e', 'f']);
        scene.pass(SETTLE_MS);
        await scene.conclude('vendor', { absent: ['a'] });
        await scene.store.makeDue('vendor', ['ghost', 'a'], scene.now());
        scene.pass(SETTLE_MS);
        const changes = await scene.changes();
        expect(await scene.conclude('vendor', { absent: ['a', 'b', 'ghost'] })).toEqual({
          deleted: [{ id: 'b', cause: 'absence' }],
          pending: [],
        });
        expect(await scene.row('vendor', 'ghost')).toBeNull();
        expect((await scene.changes()).length).toBe(changes.length + 1);
        expect(await scene.missing('vendor', 'ghost')).toBe('known');
        expect(await scene.missing('vendor', 'a')).toBe('known');
      }),
    );

    it(
      'tells what a full sync has not seen from what it has, and from what was touched since',
      inScene(open, async (scene) => {
        await showAll(scene, 'policy', ['a', 'b', 'c', 'd']);
        scene.pass(SETTLE_MS);
        // What an event has shown as deleted must be proven gone, too.
        await scene.accept(scene.event({ recordId: 'd', type: 'policy.deleted' }));
        await scene.work();
        const fullSync = await scene.store.startSyncRun('policy', 'timer', scene.now());
        await scene.apply('policy', [{ id: 'a', data: { id: 'a', name: 'a' } }], { syncRunId: fullSync.id });
        await scene.accept(scene.event({ recordId: 'b' }));
        await showAll(scene, 'policy', ['e']);
        expect(await scene.store.unseenBy('policy', fullSync.id, fullSync.number)).toEqual(['c', 'd']);
        expect(await scene.store.touchedSince('policy', fullSync.number)).toEqual(new Set(['b', 'e']));
        await scene.conclude('policy', { absent: ['c'], number: fullSync.number });
        const later = await scene.store.currentNumber();
        expect(await scene.store.unseenBy('policy', fullSync.id, later)).toEqual(['b', 'd', 'e']);
      }),
    );

    it(
      'tells whether a deletion was announced in a time, of one kind and by no other event',
      inScene(open, async (scene) => {
        const announced = async (kind: Kind, number?: number) =>
          await scene.store.hasAnnouncedDeletion(
            kind,
            number ?? (await scene.store.currentNumber()),
            scene.now().wall - 1_000,
          );
        const before = await scene.store.currentNumber();
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', type: 'vendor.added' }));
        expect(await announced('vendor')).toBe(false);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', type: 'vendor.removed' }));
        expect(await announced('vendor')).toBe(true);
        expect(await announced('policy')).toBe(false);
        scene.pass(2_000);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', type: 'vendor.updated' }));
        expect(await announced('vendor')).toBe(false);
        // By number, whatever the system's clock did meanwhile.
        expect(await announced('vendor', before)).toBe(true);
      }),
    );

    it(
      'tells what was written since, whether or not its changes are kept still',
      inScene(open, async (scene) => {
        await showAll(scene, 'vendor', ['a', 'b']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', shows: { name: 'New' } }));
        const number = await scene.store.currentNumber();
        expect(await scene.store.touchedSince('vendor', number)).toEqual(new Set());
        await scene.work();
        expect(await scene.store.touchedSince('vendor', number)).toEqual(new Set(['a']));
        expect(await scene.store.touchedSince('policy', number)).toEqual(new Set());
        scene.pass(1);
        await scene.store.trim('changes', {
          after: 0,
          before: scene.now().wall,
          now: scene.now().wall,
          limit: 500,
        });
        expect(await scene.changes()).toEqual([]);
        expect(await scene.store.touchedSince('vendor', number)).toEqual(new Set(['a']));
      }),
    );

    it(
      'counts a row as seen by a full sync also when the read came too late for it',
      inScene(open, async (scene) => {
        await showAll(scene, 'policy', ['a']);
        const fullSync = await scene.store.startSyncRun('policy', 'timer', scene.now());
        const began = await scene.beginRead();
        await scene.accept(scene.event({ recordId: 'a', shows: { name: 'New' } }));
        await scene.work();
        const [late] = await scene.apply('policy', [{ id: 'a', data: { id: 'a' } }], {
          began,
          syncRunId: fullSync.id,
        });
        expect(late?.outcome).toBe('refused');
        const later = await scene.store.currentNumber();
        expect(await scene.store.unseenBy('policy', fullSync.id, later)).toEqual([]);
      }),
    );

    it(
      'offers a verified live record as a witness, and never the one in question',
      inScene(open, async (scene) => {
        expect(await scene.store.someLiveRecord('vendor', ['ven_1'])).toBeNull();
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        expect(await scene.store.someLiveRecord('vendor', ['ven_1'])).toBe('ven_2');
        await prove(scene, 'vendor', ['ven_2']);
        await scene.conclude('vendor');
        expect(await scene.store.someLiveRecord('vendor', ['ven_1'])).toBeNull();
      }),
    );

    it(
      'offers a live record as a witness however many others were deleted since it was read',
      inScene(open, async (scene) => {
        const ids = named(110);
        await showAll(scene, 'vendor', ids);
        const gone = ids.slice(0, 22);
        await prove(scene, 'vendor', gone);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(gone.length);
        expect(await scene.store.someLiveRecord('vendor', [])).not.toBeNull();
      }),
    );
  });
}
