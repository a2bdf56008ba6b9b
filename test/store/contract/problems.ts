import { describe, expect, it } from 'vitest';
import { KINDS } from '../../../src/compliance/kinds.ts';
import type { UnusableDelivery } from '../../../src/store/store.ts';
import { RESOLVED_BY_READ } from '../../../src/store/units/problems.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, shownOf, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';
import { fullSyncOnce } from './sync-runs.ts';

const progress = { pages: 1, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

async function finish(scene: Scene, syncRunId: number) {
  const end = { outcome: 'complete', error: null, progress, differences: {}, listed: true } as const;
  await scene.store.finishSyncRun(syncRunId, end, scene.now());
}

const unusable = (over: Partial<UnusableDelivery> = {}): UnusableDelivery => ({
  reason: 'no id',
  t: '1',
  body: Buffer.from('{}'),
  kind: 'vendor',
  recordId: 'ven_1',
  ...over,
});
const keep = (scene: Scene, ...deliveries: UnusableDelivery[]) =>
  scene.store.accept({ events: [], unusable: deliveries }, scene.now(), TIMING);

/** Two 404 answers SETTLE apart, for each of them. */
async function proveGone(scene: Scene, ids: readonly string[]) {
  for (const id of ids) await scene.missing('vendor', id);
  scene.pass(SETTLE_MS);
  for (const id of ids) await scene.missing('vendor', id);
}

const vendors = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: `ven_${n}`, data: { id: `ven_${n}` } }));

export function describeProblems(open: OpenEngine): void {
  const story = storyOn(open);
  describe('problems', () => {
    const problem = { reason: 'downtime', kind: null, recordId: null } as const;

    story('are opened once, and count how often they occur again', async (scene) => {
      await scene.store.openProblem(problem, 'down for 90 s', scene.now());
      expect(scene.toldOfProblems()).toEqual(['opened downtime - -: down for 90 s']);
      const opened_at = isoOf(scene.now().wall);
      scene.pass(1_000);
      await scene.store.openProblem(problem, 'down again', scene.now());
      await scene.store.openProblem(problem, null, scene.now());
      expect(scene.toldOfProblems()).toEqual([]);
      await scene.store.openProblem({ ...problem, kind: 'policy' }, null, scene.now());
      expect(scene.toldOfProblems()).toEqual(['opened downtime policy -']);
      const [, first] = (await scene.store.list('problems', { limit: 10 })).items;
      expect(first).toMatchObject({
        reason: 'downtime',
        kind: null,
        record_id: null,
        opened_at,
        resolved_at: null,
        times: 3,
        error: 'down again',
      });
    });

    story('are resolved once, and can open again; they are listed by state and by reason', async (scene) => {
      await scene.store.openProblem(problem, 'first', scene.now());
      scene.toldOfProblems();
      await scene.store.endProblem({ ...problem, kind: 'policy' }, scene.now());
      expect(scene.toldOfProblems()).toEqual([]);
      scene.pass(3_000);
      await scene.store.endProblem(problem, scene.now());
      await scene.store.endProblem(problem, scene.now());
      expect(scene.toldOfProblems()).toEqual(['resolved downtime - - after 3 s']);
      await scene.store.openProblem(problem, 'second', scene.now());
      expect(scene.toldOfProblems()).toEqual(['opened downtime - -: second']);
      expect((await scene.store.list('problems', { limit: 10 })).items).toHaveLength(2);
      expect((await scene.store.list('problems', { open: true, limit: 10 })).items).toMatchObject([
        { error: 'second' },
      ]);
      expect((await scene.store.list('problems', { open: false, limit: 10 })).items).toMatchObject([
        { error: 'first' },
      ]);
      const unanswered = { reason: 'silence', kind: null, recordId: null } as const;
      await scene.store.openProblem(unanswered, 'quiet', scene.now());
      expect(
        (await scene.store.list('problems', { reasons: ['silence', 'restored'], limit: 10 })).items,
      ).toMatchObject([{ error: 'quiet' }]);
    });

    story(
      'of a kind are resolved by a complete full sync that began after them, and by no other',
      async (scene) => {
        const lost = { reason: 'downtime', kind: 'vendor', recordId: null } as const;
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await scene.store.openProblem(lost, 'x', scene.now());
        scene.toldOfProblems();
        await finish(scene, fullSync.id);
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'vendor', 'incomplete');
        expect(scene.toldOfProblems()).toEqual([]);
        expect(await scene.openProblems()).toEqual(['downtime vendor -']);
        scene.pass(60_000);
        await fullSyncOnce(scene, 'vendor');
        expect(scene.toldOfProblems()).toEqual(['resolved downtime vendor - after 60 s']);
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story('that occurred again during a full sync wait for the next', async (scene) => {
      const lost = { reason: 'downtime', kind: 'vendor', recordId: null } as const;
      await scene.store.openProblem(lost, 'x', scene.now());
      const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
      await scene.store.openProblem(lost, 'x', scene.now());
      await finish(scene, fullSync.id);
      expect(await scene.openProblems()).toEqual(['downtime vendor -']);
    });

    story(
      'of the whole mirror are resolved once every kind has been read completely since',
      async (scene) => {
        await fullSyncOnce(scene, 'vendor');
        await scene.store.openProblem(problem, 'x', scene.now());
        expect(await scene.wanted()).toEqual([...KINDS]);
        const silence = { reason: 'silence', kind: null, recordId: null } as const;
        await scene.store.openProblem(silence, 'x', scene.now());
        scene.toldOfProblems();
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'vendor', 'incomplete');
        await fullSyncOnce(scene, 'risk_assessment');
        expect(scene.toldOfProblems()).toEqual([]);
        expect(await scene.wanted()).toEqual(['vendor']);
        scene.pass(1_500);
        await fullSyncOnce(scene, 'vendor');
        expect(scene.toldOfProblems()).toEqual(['resolved downtime - - after 1.5 s']);
        expect(await scene.wanted()).toEqual([]);
        expect(await scene.openProblems()).toEqual(['silence - -']);
      },
    );

    story(
      'of a restore end with a list that is read whole; without one, by the number that a person names',
      async (scene) => {
        for (const kind of KINDS) {
          await scene.store.openProblem({ reason: 'restored', kind, recordId: null }, 'x', scene.now());
        }
        expect(await scene.wanted()).toEqual(['policy', 'vendor']);
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openProblems()).toEqual(['restored risk_assessment -']);
        scene.toldOfProblems();
        const [problem] = (await scene.store.list('problems', { open: true, limit: 10 })).items;
        scene.pass(2_000);
        expect(await scene.store.resolveProblem(problem!.id + 100, problem!.digest, scene.now())).toBe(
          'not_open',
        );
        expect(await scene.resolve(problem!.id)).toBe('resolved');
        expect(await scene.resolve(problem!.id)).toBe('not_open');
        expect(scene.toldOfProblems()).toEqual(['resolved restored risk_assessment - after 2 s']);
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story('that a reading cannot make good are left to whatever can', async (scene) => {
      const pending = { reason: 'pending_deletions', kind: 'policy', recordId: null } as const;
      await scene.store.openProblem(pending, 'x', scene.now());
      expect(await scene.wanted()).toEqual([]);
      await fullSyncOnce(scene, 'policy');
      expect(await scene.openProblems()).toEqual(['pending_deletions policy -']);
    });
  });

  describe('a problem that another verb opens', () => {
    story('is told once, as the unusable delivery is kept that opened it', async (scene) => {
      await keep(scene, unusable(), unusable({ reason: 'not_json', kind: null, recordId: null }), unusable());
      expect(scene.toldOfProblems()).toEqual([
        'opened quarantined vendor ven_1: a signed delivery is in quarantine: no id',
        ...KINDS.map((kind) => `opened quarantined ${kind} -: a signed delivery is in quarantine: not json`),
      ]);
      await keep(scene, unusable());
      expect(scene.toldOfProblems()).toEqual([]);
    });

    story('is told once, as an id comes again with other content', async (scene) => {
      const first = scene.event({ id: 'evt_a' });
      const other = { ...first, body: first.body.replace('"name"', '"title"') };
      await scene.accept(first, scene.event());
      await scene.accept(first);
      expect(scene.toldOfProblems()).toEqual([]);
      await scene.accept(other, scene.event());
      await scene.accept(other);
      expect(scene.toldOfProblems()).toEqual([
        'opened conflicting_content policy pol_1: the id evt_a was received before with other content; this one is in quarantine',
      ]);
    });

    story('is told once, as an event turns out to be unusable', async (scene) => {
      await scene.accept(
        scene.event({ id: 'evt_a', recordId: null, data: { x: 1 } }),
        scene.event({ recordId: 'pol_2' }),
      );
      await scene.work();
      expect(scene.toldOfProblems()).toEqual([
        expect.stringMatching(/^opened unknown_record policy -: event evt_a: ./),
      ]);
      await scene.accept(scene.event({ recordId: null, data: { x: 2 } }));
      await scene.work();
      expect(scene.toldOfProblems()).toEqual([]);
    });

    story('is told once, as an event is given up', async (scene) => {
      await scene.accept(scene.event({ id: 'evt_a' }), scene.event({ id: 'evt_b', recordId: 'pol_2' }));
      await scene.fail({ limit: 1 });
      await scene.fail({ delayMs: 1 });
      expect(scene.toldOfProblems()).toEqual([
        expect.stringMatching(/^opened failed_event policy pol_1: event evt_a: ./),
      ]);
    });

    story(
      'of a failed event is resolved by its retry, while a delivery in quarantine names no record of the kind',
      async (scene) => {
        await keep(scene, unusable({ kind: 'policy', recordId: null }));
        await scene.accept(scene.event({ id: 'evt_a' }));
        await scene.fail();
        await scene.store.retryEvent('evt_a', scene.rules(), scene.now());
        expect(await scene.openProblems()).toEqual(['quarantined policy -']);
      },
    );

    story(
      'of an event that names no record waits for its read delay, also if it opens again for another reason',
      async (scene) => {
        await scene.accept(scene.event({ kind: 'vendor', recordId: null, data: { note: 'whose?' } }));
        await scene.work();
        const problem = { reason: 'unknown_record', kind: 'vendor', recordId: null } as const;
        await scene.store.openProblem(problem, 'an event names ven_9, and the API answers 404', scene.now());
        expect(await scene.wanted()).toEqual([]);
        // Its list may be from before what the event reported.
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openProblems()).toEqual(['unknown_record vendor -']);
        scene.pass(SETTLE_MS);
        expect(await scene.wanted()).toEqual(['vendor']);
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'of an event that names no record is settled with the last of its kind, whatever is left of others',
      async (scene) => {
        const unread = { recordId: null, data: { note: 'whose?' } };
        await scene.accept(
          scene.event({ ...unread, id: 'a', kind: 'vendor' }),
          scene.event({ ...unread, id: 'b', kind: 'policy' }),
        );
        await scene.work();
        await keep(scene, unusable({ kind: 'risk_assessment', recordId: null }));
        const unknown = { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_1' } as const;
        await scene.store.openProblem(unknown, 'x', scene.now());
        await scene.store.endProblem(unknown, scene.now());
        await scene.store.dismissDelivery('a', scene.now(), TIMING);
        expect((await scene.openProblems()).sort()).toEqual([
          'quarantined risk_assessment -',
          'unknown_record policy -',
        ]);
      },
    );

    story(
      'of a delivery that names no kind waits for lists begun after its read delay, and of assessments for a person',
      async (scene) => {
        await keep(scene, unusable({ kind: null, recordId: null }));
        expect(await scene.wanted()).toEqual([]);
        // What they read may be from before what the delivery reported.
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openProblems()).toHaveLength(3);
        scene.pass(SETTLE_MS);
        expect(await scene.wanted()).toEqual(['policy', 'vendor']);
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openProblems()).toEqual(['quarantined risk_assessment -']);
        const [kept] = await shownOf(scene.store, 'quarantined');
        await scene.store.dismissDelivery(kept!.id, scene.now(), TIMING);
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'of an assessment that the API may not know is settled as the last delivery about it is dismissed, and the record asked for',
      async (scene) => {
        const about = { kind: 'risk_assessment', recordId: 'ra_1' } as const;
        const event = scene.event({ ...about, id: 'evt_a' });
        await scene.accept(event, { ...event, body: event.body.replace('"name"', '"title"') });
        await keep(scene, unusable(about));
        const [one, other] = await shownOf(scene.store, 'quarantined');
        await scene.store.dismissDelivery(one!.id, scene.now(), TIMING);
        expect((await scene.openProblems()).sort()).toEqual([
          'conflicting_content risk_assessment ra_1',
          'quarantined risk_assessment ra_1',
        ]);
        await scene.store.dismissDelivery(other!.id, scene.now(), TIMING);
        expect(await scene.openProblems()).toEqual([]);
        scene.pass(SETTLE_MS);
        const due = await scene.due('risk_assessment', 10);
        expect(due.map((record) => record.id)).toEqual(['ra_1']);
      },
    );

    story('is not told where the verb fails after all', async (scene) => {
      // Only a mistake of ours fails this late: a text that can be kept with the delivery, and not with its problem.
      const toPostgres = () => {
        throw new Error('no text');
      };
      const reason = { toJSON: () => 'x', toPostgres } as unknown as string;
      const deliveries = [unusable(), unusable({ reason, recordId: 'ven_2' })];
      await expect(keep(scene, ...deliveries)).rejects.toThrow();
      expect(await scene.openProblems()).toEqual([]);
      expect(scene.toldOfProblems()).toEqual([]);
      await keep(scene, unusable({ recordId: 'ven_3' }));
      expect(scene.toldOfProblems()).toEqual([
        'opened quarantined vendor ven_3: a signed delivery is in quarantine: no id',
      ]);
    });
  });

  describe('a problem that another verb resolves', () => {
    it.each(RESOLVED_BY_READ)('is told once, as its record is read: %s', async (reason) => {
      await inScene(open, async (scene) => {
        for (const recordId of ['ven_0', 'ven_1', 'ven_9', null]) {
          await scene.store.openProblem({ reason, kind: 'vendor', recordId }, null, scene.now());
        }
        await scene.store.openProblem({ reason, kind: 'policy', recordId: 'ven_0' }, null, scene.now());
        const answer = { reason: 'unreadable_answer', kind: 'vendor', recordId: 'ven_0' } as const;
        await scene.store.openProblem(answer, null, scene.now());
        scene.toldOfProblems();
        scene.pass(2_000);
        await scene.apply('vendor', vendors(3));
        await scene.apply('vendor', vendors(3));
        expect(scene.toldOfProblems().sort()).toEqual([
          `resolved ${reason} vendor ven_0 after 2 s`,
          `resolved ${reason} vendor ven_1 after 2 s`,
          'resolved unreadable_answer vendor ven_0 after 2 s',
        ]);
      })();
    });

    story('is told once, as its record is proven gone', async (scene) => {
      await scene.apply('vendor', vendors(9));
      await scene.store.openProblem(
        { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_0' },
        'x',
        scene.now(),
      );
      await proveGone(scene, ['ven_0']);
      scene.toldOfProblems();
      await scene.conclude('vendor');
      expect(scene.toldOfProblems()).toEqual(['resolved unknown_record vendor ven_0 after 10 s']);
    });

    story(
      'is told once, as nothing waits any more, since all of it is shown again or gone with approval',
      async (scene) => {
        await scene.apply('vendor', vendors(2));
        await proveGone(scene, ['ven_0', 'ven_1']);
        expect((await scene.conclude('vendor')).pending).toHaveLength(2);
        expect(scene.toldOfProblems()).toEqual([
          'opened pending_deletions vendor -: 2 within a short time: ven_0, ven_1',
        ]);
        await scene.apply('vendor', vendors(1));
        expect(scene.toldOfProblems()).toEqual([]);
        await scene.decide('vendor', 'approve');
        await proveGone(scene, ['ven_1']);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(1);
        expect(scene.toldOfProblems()).toEqual(['resolved pending_deletions vendor - after 10 s']);
      },
    );
  });
}
