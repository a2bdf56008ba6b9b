import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import { HOUR_MS, inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

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
  (await scene.store.list('records', { kind, deleted: false, limit: 500 })).items.map((row) => row.id);
/** The living rows that wait for a person, as everybody sees them. */
const pending = async (scene: Scene) =>
  (
    await scene.store.list('records', { kind: 'vendor', deletion_pending: true, deleted: false, limit: 500 })
  ).items.map(({ id }) => id);
const removed = (scene: Scene, ...ids: readonly string[]) =>
  ids.map((recordId) => scene.event({ kind: 'vendor', type: 'vendor.removed', recordId, shows: {} }));

export function describeAbsences(open: OpenEngine): void {
  const story = storyOn(open);
  describe('a record that the API does not find', () => {
    story('is unresolved, and no deletion, if the API never returned it', async (scene) => {
      await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'risk_7' }));
      await scene.work();
      await scene.outwait('risk_assessment', 'risk_7');
      for (let round = 0; round < 3; round += 1) {
        scene.pass(2 * SETTLE_MS);
        expect(await scene.missing('risk_assessment', 'risk_7')).toBe('unresolved_event');
      }
      await scene.store.makeKnown('risk_assessment', ['risk_8'], scene.now());
      scene.pass(2 * SETTLE_MS);
      expect(await scene.missing('risk_assessment', 'risk_8')).toBe('unresolved');
      expect(await scene.conclude('risk_assessment')).toEqual({ deleted: [], pending: [] });
    });

    story('is not deleted when an event has been shown since its absence was proven', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { name: 'Late' } }));
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
      expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
      expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
    });

    story('is not proven gone by an answer from before one that nobody understands', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      scene.pass(SETTLE_MS);
      const read = scene.endRead(await scene.beginRead());
      const answer = { reason: 'unreadable_answer', kind: 'vendor', recordId: 'ven_1' } as const;
      await scene.store.openProblem(answer, 'a web page', scene.now());
      const how = { timing: TIMING, absentFromList: false, witnessedAt: read.beganAt, witnessedAfter: true };
      expect(await scene.store.recordMissing('vendor', 'ven_1', read, how)).toBe('first');
      expect(await scene.openProblems()).toEqual(['unreadable_answer vendor ven_1']);
      expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
      expect(await scene.openProblems()).toEqual([]);
    });

    story('is asked for again after SETTLE before anything is concluded', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      expect(await scene.row('vendor', 'ven_1')).toMatchObject({ deleted_at: null });
      expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
      expect(await scene.dueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
      expect(await scene.proofs('vendor')).toEqual({ awaiting: 1, proven: 0 });

      scene.pass(SETTLE_MS - 1);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      scene.pass(1);
      const due = await scene.due('vendor', 10);
      expect(due).toMatchObject([{ id: 'ven_1', attempts: 0, asked: false }]);
      expect(await scene.missing('vendor', 'ven_1')).toBe('proven');
      expect(await scene.proofs('vendor')).toEqual({ awaiting: 0, proven: 1 });
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
        cause: 'sync',
        cause_id: '1',
      });
      expect(await scene.missing('vendor', 'ven_1')).toBe('known');
    });

    story('is not proven gone when an event came between the two answers', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1']);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
    });

    story('is not proven gone when a read found it between the two answers', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1']);
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
      scene.pass(SETTLE_MS);
      await showAll(scene, 'vendor', ['ven_1']);
      scene.pass(SETTLE_MS);
      expect(await scene.missing('vendor', 'ven_1')).toBe('first');
    });

    story('is not concluded gone when an event came after the proof', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      await prove(scene, 'vendor', ['ven_1']);
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1' }));
      expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
      expect(await live(scene, 'vendor')).toContain('ven_1');
    });

    story('is not concluded gone when a payload that had waited was shown after the proof', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { name: 'Late' } }));
      scene.pass(SETTLE_MS);
      await prove(scene, 'vendor', ['ven_1']);
      await scene.work();
      expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
    });

    story(
      'is read again when a payload that had waited was shown after the proof, or while its deletion is pending',
      async (scene) => {
        const ids = ['ven_1', 'ven_2', 'ven_3'];
        const due = async () => (await scene.due('vendor', 10)).map(({ id }) => id);
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
        expect(await scene.work()).toMatchObject(ids.map(() => ({ outcome: 'deletion_pending' })));
        expect(await due()).toEqual(ids);
        await scene.decide('vendor', 'approve');
        await prove(scene, 'vendor', ids);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(3);
        expect(await pending(scene)).toEqual([]);
        expect(await scene.openProblems()).toEqual([]);
      },
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

    story('needs no witness once a delete event has announced it', async (scene) => {
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
    });

    story(
      'that no read ever showed is proven gone when a complete list scan misses it, and leaves no row',
      async (scene) => {
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ghost', shows: { name: 'Shown' } }));
        await scene.work();
        await scene.outwait('vendor', 'ghost');
        // It may be about another vendor, which a list begun so early did not show as it is.
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('unresolved_event');
        const problem = { reason: 'unknown_record', kind: 'vendor', recordId: 'ghost' } as const;
        await scene.store.openProblem(problem, null, scene.now());
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'ghost', { absentFromList: true })).toBe('proven');
        expect((await scene.conclude('vendor')).deleted).toEqual([{ id: 'ghost', cause: 'absence' }]);
        expect(await live(scene, 'vendor')).toEqual(['ven_1', 'ven_2']);
        expect(await scene.missing('vendor', 'ghost')).toBe('known');
        // No tombstone is a sign that the API has ever shown it: what a later event says by that id is news again.
        expect(await scene.store.shownIds('vendor', ['ghost', 'ven_1'])).toEqual(['ven_1']);
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ghost' }));
        await scene.outwait('vendor', 'ghost');
        expect(await scene.missing('vendor', 'ghost')).toBe('unresolved_event');
      },
    );

    story(
      'is not absent from a list because a late page of an earlier full sync shows it too',
      async (scene) => {
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
      },
    );

    story('comes back to life when a later read shows it', async (scene) => {
      await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
      await prove(scene, 'vendor', ['ven_1']);
      await scene.conclude('vendor');
      scene.pass(SETTLE_MS);
      expect(await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'Back' })).toMatchObject({
        outcome: 'revived',
      });
      expect(await scene.row('vendor', 'ven_1')).toMatchObject({ deleted_at: null, name: 'Back' });
    });
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

    story(
      'waits when events announce it as when nothing does: of six of eight, one by one, two are gone',
      async (scene) => {
        await showAll(scene, 'vendor', named(8));
        scene.pass(SETTLE_MS);
        const outcomes: string[] = [];
        for (const event of removed(scene, ...named(6))) {
          await scene.accept(event);
          outcomes.push(...(await scene.work()).map(({ outcome }) => outcome));
          scene.pass(1_000);
        }
        expect(outcomes).toEqual([...Array(2).fill('provisional'), ...Array(4).fill('deletion_pending')]);
        expect(await pending(scene)).toEqual(named(6).slice(2));
        expect(await live(scene, 'vendor')).toEqual(named(8).slice(2));
        const since = isoOf(scene.now().wall - 4_000);
        const row = { deleted_at: null, deletion_pending_since: since, cause: 'refetch' };
        expect(await scene.row('vendor', 'ven_2')).toMatchObject(row);
        for (const view of ['current_vendors', 'vendors_flat'])
          expect(await scene.query(`SELECT count(deletion_pending_since) AS n FROM ${view}`)).toMatchObject([
            { n: 4 },
          ]);
        expect(await scene.openProblems()).toEqual(['pending_deletions vendor -']);

        // The proof is no approval.
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', named(6));
        const first = await scene.conclude('vendor');
        expect(first.deleted.map(({ id }) => id)).toEqual(named(2));
        expect(first.pending).toEqual(named(6).slice(2));
        await scene.decide('vendor', 'approve');
        await prove(scene, 'vendor', named(6).slice(2));
        expect((await scene.conclude('vendor')).deleted).toHaveLength(4);
        expect(await scene.row('vendor', 'ven_2')).toMatchObject({
          deletion_pending_since: null,
          cause: 'person',
          cause_id: null,
        });
        expect(await scene.openProblems()).toEqual([]);
        // The first two still count, for ten minutes.
        await scene.accept(...removed(scene, 'ven_6'));
        expect(await scene.work()).toMatchObject([{ outcome: 'deletion_pending' }]);
        scene.pass(11 * 60_000);
        await showAll(scene, 'vendor', named(20));
        scene.pass(SETTLE_MS);
        await scene.accept(...removed(scene, 'ven_7'));
        expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
      },
    );

    story(
      'is judged together where events announce it together, and without an API the approval deletes',
      async (scene) => {
        const eventsOnly = { eventsOnly: true };
        for (const recordId of named(4)) await scene.accept(scene.event({ kind: 'vendor', recordId }));
        await scene.work(eventsOnly);
        scene.pass(1_000);
        await scene.accept(...removed(scene, ...named(3)));
        expect(await scene.work(eventsOnly)).toMatchObject(
          named(3).map(() => ({ outcome: 'deletion_pending' })),
        );
        expect(await live(scene, 'vendor')).toEqual(named(4));
        expect(await scene.decide('vendor', 'approve', eventsOnly)).toEqual(named(3));
        expect(await live(scene, 'vendor')).toEqual(['ven_3']);
        expect(await pending(scene)).toEqual([]);
        expect((await scene.changes()).at(-1)).toMatchObject({
          operation: 'delete',
          cause: 'person',
          cause_id: null,
        });
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'is over for a record that the API shows again, even if an event announced its deletion',
      async (scene) => {
        await showAll(scene, 'vendor', named(4));
        scene.pass(SETTLE_MS);
        await scene.accept(...removed(scene, ...named(3)));
        await scene.work();
        scene.pass(SETTLE_MS);
        // The API may not have their deletions yet.
        await showAll(scene, 'vendor', named(3));
        expect(await pending(scene)).toEqual(named(3));
        scene.pass(18 * SETTLE_MS);
        await showAll(scene, 'vendor', named(2));
        expect(await pending(scene)).toEqual(['ven_2']);
        expect(await scene.row('vendor', 'ven_0')).toMatchObject({
          deletion_pending_since: null,
          unverified_since: null,
        });
        await showAll(scene, 'vendor', named(3));
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'leaves the records alive once it is refused, until an event announces it anew or the API shows them',
      async (scene) => {
        await showAll(scene, 'vendor', named(8));
        await prove(scene, 'vendor', named(6));
        await scene.conclude('vendor');
        expect(await scene.decide('vendor', 'keep')).toEqual(named(6));
        expect(await scene.openProblems()).toEqual([]);
        const kept = { deleted_at: null, deletion_pending_since: null, unverified_since: null };
        expect(await scene.row('vendor', 'ven_0')).toMatchObject(kept);

        // However often the API does not show them: nobody is asked again, and nothing is outstanding.
        for (let reads = 0; reads < 3; reads += 1) {
          scene.pass(2 * SETTLE_MS);
          for (const id of named(6)) expect(await scene.missing('vendor', id)).toBe('known');
          expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });
        }
        expect(await scene.row('vendor', 'ven_0')).toMatchObject(kept);
        expect(await scene.dueAt('vendor')).toBeNull();

        // Another event is a reason to ask again, and never to delete without a question.
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_0' }));
        await scene.work();
        scene.pass(SETTLE_MS);
        await prove(scene, 'vendor', ['ven_0']);
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: ['ven_0'] });
        expect(await pending(scene)).toEqual(['ven_0']);
        expect(await scene.decide('vendor', 'keep')).toEqual(['ven_0']);
        scene.pass(1_000);
        await scene.accept(...removed(scene, 'ven_0'));
        expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
        expect(await live(scene, 'vendor')).toEqual(named(8).slice(1));
        scene.pass(SETTLE_MS);
        await showAll(scene, 'vendor', ['ven_1']);
        expect(await scene.query('SELECT id FROM pending_deletions ORDER BY id')).toMatchObject(
          named(6)
            .slice(2)
            .map((id) => ({ id })),
        );
      },
    );

    story('of policies is refused as well, though only lists show them', async (scene) => {
      await showAll(scene, 'policy', ['a', 'b']);
      scene.pass(SETTLE_MS);
      expect((await scene.conclude('policy', { absent: ['a', 'b'] })).pending).toEqual(['a', 'b']);
      expect(await scene.decide('policy', 'keep')).toEqual(['a', 'b']);
      // As after a restart, when all that is unverified is due again.
      await scene.store.makeDue('policy', ['a'], scene.now());
      expect(await scene.conclude('policy', { absent: ['a', 'b'] })).toEqual({ deleted: [], pending: [] });
      expect(await scene.dueAt('policy')).toBeNull();
      expect(await live(scene, 'policy')).toEqual(['a', 'b']);
      expect(await scene.openProblems()).toEqual([]);
    });

    story('lets the announced go while the others wait to be judged together', async (scene) => {
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
      expect(await scene.proofs('vendor')).toEqual({ awaiting: 0, proven: 1 });
      expect((await scene.conclude('vendor')).deleted).toEqual([{ id: 'ven_1', cause: 'absence' }]);
    });

    story('waits for approval of exactly the pending ids, and for an hour only', async (scene) => {
      await showAll(scene, 'vendor', named(10));
      await prove(scene, 'vendor', named(3));
      expect((await scene.conclude('vendor')).pending).toEqual(named(3));
      const shown = await scene.store.pendingOf('vendor', scene.now().wall);
      expect(shown).toMatchObject({ count: 3, approvedUntil: null });
      await prove(scene, 'vendor', ['ven_3']);
      expect((await scene.conclude('vendor')).pending).toEqual(['ven_3']);
      // What was shown is not what waits now.
      const how = { untilWall: scene.now().wall + HOUR_MS, eventsOnly: false };
      expect(await scene.store.decideDeletions('vendor', shown.digest, how, scene.now())).toBeNull();
      expect(await scene.store.decideDeletions('vendor', shown.digest, 'keep', scene.now())).toBeNull();
      expect(await scene.decide('policy', 'approve')).toBeNull();
      expect(await scene.decide('vendor', 'approve')).toEqual(named(4));
      expect(await scene.pending()).toEqual([]);
      // Agreed to is not yet done.
      expect(await live(scene, 'vendor')).toHaveLength(10);
      expect(await pending(scene)).toEqual(named(4));
      expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });

      // The next proof deletes; three more that nobody approved wait by themselves.
      await prove(scene, 'vendor', named(7));
      const next = await scene.conclude('vendor');
      expect(next.deleted.map((one) => one.id).sort()).toEqual(named(4));
      expect(next.pending).toEqual(['ven_4', 'ven_5', 'ven_6']);
      expect(await pending(scene)).toEqual(['ven_4', 'ven_5', 'ven_6']);
    });

    story(
      'goes once it is approved and proven, even if the full sync that proves it goes on for longer than the approval holds',
      async (scene) => {
        await showAll(scene, 'vendor', named(10));
        await prove(scene, 'vendor', named(3));
        await scene.conclude('vendor');
        await scene.decide('vendor', 'approve');
        await prove(scene, 'vendor', named(4));
        const early = await scene.conclude('vendor', { unannounced: [] });
        expect(early.deleted.map((one) => one.id).sort()).toEqual(named(3));
        expect(await live(scene, 'vendor')).toContain('ven_3');
        // What a person approved does not count among what went a moment ago.
        await scene.accept(...removed(scene, 'ven_4'));
        expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
      },
    );

    story(
      'that nothing alive can witness waits for approval, and then goes without a witness',
      async (scene) => {
        await showAll(scene, 'vendor', ['last']);
        scene.pass(SETTLE_MS);
        const blind = { witnessedAt: null };
        expect(await scene.missing('vendor', 'last', blind)).toBe('first');
        scene.pass(SETTLE_MS);
        expect(await scene.missing('vendor', 'last', blind)).toBe('unwitnessed');
        await scene.store.askToDelete('vendor', 'last', 'nothing to compare with', scene.now());
        expect(await scene.pending()).toEqual(['vendor']);
        expect(await scene.missing('vendor', 'last', blind)).toBe('unwitnessed');
        expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: [] });

        await scene.decide('vendor', 'approve');
        expect(await scene.missing('vendor', 'last', blind)).toBe('proven');
        expect(await scene.conclude('vendor')).toEqual({
          deleted: [{ id: 'last', cause: 'absence' }],
          pending: [],
        });
      },
    );

    story(
      'that nothing alive can witness asks a person in the same commit, and no more once its record is shown',
      async (scene) => {
        await showAll(scene, 'vendor', ['last']);
        await scene.store.askToDelete('vendor', 'last', 'nothing to compare with', scene.now());
        expect(await scene.openProblems()).toEqual(['pending_deletions vendor -']);
        scene.pass(SETTLE_MS);
        await showAll(scene, 'vendor', ['last']);
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'waits for a person where only events have shown the record, and what is not shown alive does not',
      async (scene) => {
        const kind = 'risk_assessment';
        await scene.accept(scene.event({ kind, recordId: 'ra_1', shows: { name: 'Of events only' } }));
        await scene.work({ eventsOnly: true });
        scene.pass(SETTLE_MS);
        const problem = { reason: 'unknown_record', kind, recordId: 'ra_1' } as const;
        await scene.store.openProblem(problem, null, scene.now());
        const ask = (id: string) => scene.store.askToDelete(kind, id, 'never shown', scene.now());
        expect(await ask('ra_2')).toBeNull();
        await scene.outwait(kind, 'ra_1');
        expect(await scene.missing(kind, 'ra_1')).toBe('unresolved');
        expect(await ask('ra_1')).toBe('pending');
        expect(await scene.openProblems()).toEqual([
          'pending_deletions risk_assessment -',
          'unknown_record risk_assessment ra_1',
        ]);
        expect(await scene.missing(kind, 'ra_1')).toBe('unresolved');

        await scene.decide(kind, 'approve');
        expect(await ask('ra_1')).toBe('approved');
        await prove(scene, kind, ['ra_1']);
        expect(await scene.conclude(kind)).toEqual({
          deleted: [{ id: 'ra_1', cause: 'absence' }],
          pending: [],
        });
        expect(await ask('ra_1')).toBeNull();
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story('says in its problem how many wait besides the last', async (scene) => {
      const kind = 'vendor';
      await showAll(scene, kind, named(3));
      const error = async (id: string) => {
        await scene.store.askToDelete(kind, id, 'not listed', scene.now());
        return await scene.query("SELECT error FROM problems WHERE reason = 'pending_deletions'");
      };
      expect(await error('ven_0')).toEqual([{ error: 'ven_0: not listed' }]);
      expect(await error('ven_1')).toEqual([{ error: 'ven_1: not listed; 1 more waits' }]);
      expect(await error('ven_1')).toEqual([{ error: 'ven_1: not listed; 1 more waits' }]);
      await scene.store.askToDelete('vendor', 'ven_2', 'nothing to compare with', scene.now());
      expect(await error('ven_0')).toEqual([{ error: 'ven_0: not listed; 2 more wait' }]);
    });

    story('of what only events have shown, once deleted, is settled like any unknown id', async (scene) => {
      const kind = 'risk_assessment';
      const askAbout = () =>
        scene.store.openProblem({ reason: 'unknown_record', kind, recordId: 'ra_1' }, null, scene.now());
      await scene.accept(scene.event({ kind, recordId: 'ra_1', shows: { name: 'Of events only' } }));
      await scene.work({ eventsOnly: true });
      scene.pass(SETTLE_MS);
      await askAbout();
      for (let asked = 0; asked < 2; asked += 1)
        await scene.store.askToDelete(kind, 'ra_1', 'never shown', scene.now());
      expect(await scene.pending()).toEqual([kind]);
      await scene.decide(kind, 'approve');
      await prove(scene, kind, ['ra_1']);
      expect((await scene.conclude(kind)).deleted).toHaveLength(1);

      await scene.accept(scene.event({ kind, recordId: 'ra_1' }));
      await scene.work();
      await scene.outwait(kind, 'ra_1');
      await askAbout();
      expect(await scene.missing(kind, 'ra_1')).toBe('unresolved');
      const [problem] = (await scene.store.list('problems', { open: true, limit: 1 })).items;
      expect(await scene.resolve(problem!.id)).toBe('resolved');
      expect(await scene.missing(kind, 'ra_1')).toBe('known');
      expect(await scene.row(kind, 'ra_1')).toMatchObject({ unverified_since: null });
      expect((await scene.row(kind, 'ra_1'))?.deleted_at).not.toBeNull();
    });

    story('takes no approval that has run out', async (scene) => {
      await showAll(scene, 'vendor', named(10));
      await prove(scene, 'vendor', named(4));
      await scene.conclude('vendor');
      await scene.decide('vendor', 'approve');
      expect(await scene.pending()).toEqual([]);
      scene.pass(HOUR_MS - SETTLE_MS);
      await prove(scene, 'vendor', named(4));
      expect(await scene.pending()).toEqual(['vendor']);
      expect((await scene.conclude('vendor')).pending).toEqual(named(4));
    });

    story('are many as well when they come a few at a time', async (scene) => {
      await showAll(scene, 'vendor', named(10));
      await prove(scene, 'vendor', named(3));
      expect((await scene.conclude('vendor')).pending).toEqual(named(3));
      await prove(scene, 'vendor', ['ven_8']);
      expect(await scene.conclude('vendor')).toEqual({ deleted: [], pending: ['ven_8'] });
    });

    story('are told whole, also when a later proof finds only some of them again', async (scene) => {
      await showAll(scene, 'vendor', named(10));
      await prove(scene, 'vendor', named(5));
      await scene.conclude('vendor');
      await prove(scene, 'vendor', named(4));
      await scene.conclude('vendor');
      const problems = await scene.query("SELECT error FROM problems WHERE reason = 'pending_deletions'");
      expect(problems).toEqual([{ error: '5 within a short time: ven_0, ven_1, ven_2, ven_3, ven_4' }]);
    });

    story('lets go of what shows itself alive again', async (scene) => {
      await showAll(scene, 'vendor', named(4));
      await prove(scene, 'vendor', named(4));
      await scene.conclude('vendor');
      scene.pass(SETTLE_MS);
      await showAll(scene, 'vendor', ['ven_0']);
      expect(await pending(scene)).toEqual(['ven_1', 'ven_2', 'ven_3']);
      expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
      expect(await scene.openProblems()).toContain('pending_deletions vendor -');
      await showAll(scene, 'vendor', named(4));
      expect(await pending(scene)).toEqual([]);
      // Nothing is left to ask an operator.
      expect(await scene.openProblems()).toEqual([]);
    });
  });

  describe('what a pair of list scans proves', () => {
    story('deletes the absentees that nothing touched since the first began', async (scene) => {
      await showAll(scene, 'policy', ['a', 'b', 'c', 'd', 'e', 'f']);
      const number = await scene.store.currentNumber();
      scene.pass(SETTLE_MS);
      await scene.accept(scene.event({ recordId: 'b' }));
      const conclusion = await scene.conclude('policy', { absent: ['a', 'b'], number });
      expect(conclusion).toEqual({ deleted: [{ id: 'a', cause: 'absence' }], pending: [] });
      expect(await live(scene, 'policy')).toEqual(['b', 'c', 'd', 'e', 'f']);
    });

    story('leaves the absentees unverified while they wait for approval', async (scene) => {
      await showAll(scene, 'policy', ['a', 'b']);
      scene.pass(SETTLE_MS);
      expect((await scene.conclude('policy', { absent: ['a', 'b'] })).pending).toEqual(['a', 'b']);
      expect(await scene.row('policy', 'a')).toMatchObject({
        deleted_at: null,
        unverified_since: isoOf(scene.now().wall),
      });
    });

    story(
      'deletes nothing by settling an id that only a person asked for, nor one that is a tombstone already',
      async (scene) => {
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
      },
    );

    story(
      'tells what a full sync has not seen from what it has, and from what was touched since',
      async (scene) => {
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
      },
    );

    story(
      'tells whether a deletion was announced in a time, of one kind and by no other event',
      async (scene) => {
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
      },
    );

    story('tells what was written since', async (scene) => {
      await showAll(scene, 'vendor', ['a', 'b']);
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'a', shows: { name: 'New' } }));
      const number = await scene.store.currentNumber();
      expect(await scene.store.touchedSince('vendor', number)).toEqual(new Set());
      await scene.work();
      expect(await scene.store.touchedSince('vendor', number)).toEqual(new Set(['a']));
      expect(await scene.store.touchedSince('policy', number)).toEqual(new Set());
    });

    story('counts a row as seen by a full sync also when the read came too late for it', async (scene) => {
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
    });

    story(
      'offers a live record as a witness, a verified one first, and never the one in question',
      async (scene) => {
        const offered = (how?: { verified?: boolean; shownBy?: number }) =>
          scene.store.someLiveRecord('vendor', ['ven_1'], how);
        expect(await offered()).toBeNull();
        await showAll(scene, 'vendor', ['ven_1', 'ven_2']);
        expect(await offered()).toEqual({ id: 'ven_2', attempts: 0 });
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_2' }));
        await scene.store.recordReadFailure('vendor', 'ven_2', 'status 503', 0, { ...TIMING, since: 0 });
        // Alive all the same, so that its answer counts.
        expect(await offered()).toEqual({ id: 'ven_2', attempts: 1 });
        expect(await offered({ verified: true })).toBeNull();
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        expect(await offered({ shownBy: fullSync.id })).toBeNull();
        await scene.show('vendor', 'ven_3', {});
        expect(await offered()).toEqual({ id: 'ven_3', attempts: 0 });
        await prove(scene, 'vendor', ['ven_2', 'ven_3']);
        await scene.conclude('vendor');
        expect(await offered()).toBeNull();
      },
    );

    story(
      'offers a live record as a witness however many others were deleted since it was read',
      async (scene) => {
        const ids = named(110);
        await showAll(scene, 'vendor', ids);
        const gone = ids.slice(0, 22);
        await prove(scene, 'vendor', gone);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(gone.length);
        expect(await scene.store.someLiveRecord('vendor', [])).not.toBeNull();
      },
    );
  });
}
