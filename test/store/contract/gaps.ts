import { describe, expect, it } from 'vitest';
import { KINDS } from '../../../src/compliance/kinds.ts';
import type { UnusableDelivery } from '../../../src/store/store.ts';
import { RESOLVED_BY_READ } from '../../../src/store/units/gaps.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';
import { fullSyncOnce } from './sync-runs.ts';

const progress = { pages: 1, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };

async function finish(scene: Scene, syncRunId: number) {
  const end = { outcome: 'complete', error: null, progress, differences: {} } as const;
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

export function describeGaps(open: OpenEngine): void {
  describe('gaps', () => {
    const gap = { reason: 'downtime', kind: null, recordId: null } as const;

    it(
      'are opened once, and count how often they occur again',
      inScene(open, async (scene) => {
        await scene.store.openGap(gap, 'down for 90 s', scene.now());
        expect(scene.toldOfGaps()).toEqual(['opened downtime - -: down for 90 s']);
        const opened_at = isoOf(scene.now().wall);
        scene.pass(1_000);
        await scene.store.openGap(gap, 'down again', scene.now());
        await scene.store.openGap(gap, null, scene.now());
        expect(scene.toldOfGaps()).toEqual([]);
        await scene.store.openGap({ ...gap, kind: 'policy' }, null, scene.now());
        expect(scene.toldOfGaps()).toEqual(['opened downtime policy -']);
        const [, first] = await scene.store.list('gaps', { limit: 10 });
        expect(first).toMatchObject({
          reason: 'downtime',
          kind: null,
          record_id: null,
          opened_at,
          resolved_at: null,
          attempts: 3,
          error: 'down again',
        });
      }),
    );

    it(
      'are resolved once, and can open again; they are listed by state and by reason',
      inScene(open, async (scene) => {
        await scene.store.openGap(gap, 'first', scene.now());
        scene.toldOfGaps();
        await scene.store.resolveGap({ ...gap, kind: 'policy' }, scene.now());
        expect(scene.toldOfGaps()).toEqual([]);
        scene.pass(3_000);
        await scene.store.resolveGap(gap, scene.now());
        await scene.store.resolveGap(gap, scene.now());
        expect(scene.toldOfGaps()).toEqual(['resolved downtime - - after 3 s']);
        await scene.store.openGap(gap, 'second', scene.now());
        expect(scene.toldOfGaps()).toEqual(['opened downtime - -: second']);
        expect(await scene.store.list('gaps', { limit: 10 })).toHaveLength(2);
        expect(await scene.store.list('gaps', { open: true, limit: 10 })).toMatchObject([
          { error: 'second' },
        ]);
        expect(await scene.store.list('gaps', { open: false, limit: 10 })).toMatchObject([
          { error: 'first' },
        ]);
        const unanswered = { reason: 'silence', kind: null, recordId: null } as const;
        await scene.store.openGap(unanswered, 'quiet', scene.now());
        expect(await scene.store.list('gaps', { reasons: ['silence', 'restored'], limit: 10 })).toMatchObject(
          [{ error: 'quiet' }],
        );
      }),
    );

    it(
      'of a kind are resolved by a complete full sync that began after them, and by no other',
      inScene(open, async (scene) => {
        const lost = { reason: 'rejected_timestamp', kind: 'vendor', recordId: null } as const;
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await scene.store.openGap(lost, 'x', scene.now());
        scene.toldOfGaps();
        await finish(scene, fullSync.id);
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'vendor', 'incomplete');
        expect(scene.toldOfGaps()).toEqual([]);
        expect(await scene.openGaps()).toEqual(['rejected_timestamp vendor -']);
        scene.pass(60_000);
        await fullSyncOnce(scene, 'vendor');
        expect(scene.toldOfGaps()).toEqual(['resolved rejected_timestamp vendor - after 60 s']);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'that occurred again during a full sync wait for the next',
      inScene(open, async (scene) => {
        const lost = { reason: 'rejected_timestamp', kind: 'vendor', recordId: null } as const;
        await scene.store.openGap(lost, 'x', scene.now());
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await scene.store.openGap(lost, 'x', scene.now());
        await finish(scene, fullSync.id);
        expect(await scene.openGaps()).toEqual(['rejected_timestamp vendor -']);
      }),
    );

    it(
      'of the whole mirror are resolved once every kind has been read completely since',
      inScene(open, async (scene) => {
        await fullSyncOnce(scene, 'vendor');
        await scene.store.openGap(gap, 'x', scene.now());
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([...KINDS]);
        const silence = { reason: 'silence', kind: null, recordId: null } as const;
        await scene.store.openGap(silence, 'x', scene.now());
        scene.toldOfGaps();
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'policy');
        await fullSyncOnce(scene, 'vendor', 'incomplete');
        await fullSyncOnce(scene, 'risk_assessment');
        expect(scene.toldOfGaps()).toEqual([]);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual(['vendor']);
        scene.pass(1_500);
        await fullSyncOnce(scene, 'vendor');
        expect(scene.toldOfGaps()).toEqual(['resolved downtime - - after 1.5 s']);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        expect(await scene.openGaps()).toEqual(['silence - -']);
      }),
    );

    it(
      'of a restore end with a list that is read whole; without one, by the number that a person names',
      inScene(open, async (scene) => {
        for (const kind of KINDS) {
          await scene.store.openGap({ reason: 'restored', kind, recordId: null }, 'x', scene.now());
        }
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual(['policy', 'vendor']);
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openGaps()).toEqual(['restored risk_assessment -']);
        scene.toldOfGaps();
        const [gap] = await scene.store.list('gaps', { open: true, limit: 10 });
        scene.pass(2_000);
        expect(await scene.store.settleGap(gap!.id + 100, scene.now())).toBe(false);
        expect(await scene.store.settleGap(gap!.id, scene.now())).toBe(true);
        expect(await scene.store.settleGap(gap!.id, scene.now())).toBe(false);
        expect(scene.toldOfGaps()).toEqual(['resolved restored risk_assessment - after 2 s']);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'that a reading cannot make good are left to whatever can',
      inScene(open, async (scene) => {
        const pending = { reason: 'deletion_pending', kind: 'policy', recordId: null } as const;
        await scene.store.openGap(pending, 'x', scene.now());
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        await fullSyncOnce(scene, 'policy');
        expect(await scene.openGaps()).toEqual(['deletion_pending policy -']);
      }),
    );
  });

  describe('a gap that another verb opens', () => {
    it(
      'is told once, as the unusable delivery is kept that opened it',
      inScene(open, async (scene) => {
        await keep(
          scene,
          unusable(),
          unusable({ reason: 'not_json', kind: null, recordId: null }),
          unusable(),
        );
        expect(scene.toldOfGaps()).toEqual([
          'opened unusable_delivery vendor ven_1: a signed delivery is in quarantine: no id',
          'opened unusable_delivery - -: a signed delivery is in quarantine: not json',
        ]);
        await keep(scene, unusable());
        expect(scene.toldOfGaps()).toEqual([]);
      }),
    );

    it(
      'is told once, as an id comes again with other content',
      inScene(open, async (scene) => {
        const first = scene.event({ id: 'evt_a' });
        const other = { ...first, body: first.body.replace('"name"', '"title"') };
        await scene.accept(first, scene.event());
        await scene.accept(first);
        expect(scene.toldOfGaps()).toEqual([]);
        await scene.accept(other, scene.event());
        await scene.accept(other);
        expect(scene.toldOfGaps()).toEqual([
          'opened conflicting_content policy pol_1: the id evt_a was received before with other content; this one is in quarantine',
        ]);
      }),
    );

    it(
      'is told once, as an event turns out to be unusable',
      inScene(open, async (scene) => {
        await scene.accept(
          scene.event({ id: 'evt_a', recordId: null, data: { x: 1 } }),
          scene.event({ recordId: 'pol_2' }),
        );
        await scene.work();
        expect(scene.toldOfGaps()).toEqual([
          expect.stringMatching(/^opened no_record_id policy -: event evt_a: ./),
        ]);
        await scene.accept(scene.event({ recordId: null, data: { x: 2 } }));
        await scene.work();
        expect(scene.toldOfGaps()).toEqual([]);
      }),
    );

    it(
      'is told once, as an event is given up',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'evt_a' }), scene.event({ id: 'evt_b', recordId: 'pol_2' }));
        const [given, deferred] = await scene.claim();
        const failures = [
          { event: given!, retryAtMs: null, error: 'ours' },
          { event: deferred!, retryAtMs: scene.now().steady + 1, error: 'ours' },
        ];
        for (const failure of failures) await scene.store.deferEvent(failure, scene.now(), TIMING);
        expect(scene.toldOfGaps()).toEqual(['opened failed_event policy pol_1: event evt_a: ours']);
      }),
    );

    it(
      'of a failed event is resolved by its retry, while a delivery in quarantine names no record of the kind',
      inScene(open, async (scene) => {
        await keep(scene, unusable({ kind: 'policy', recordId: null }));
        await scene.accept(scene.event({ id: 'evt_a' }));
        const [event] = await scene.claim();
        await scene.store.deferEvent({ event: event!, retryAtMs: null, error: 'ours' }, scene.now(), TIMING);
        await scene.store.retryEvent('evt_a', scene.rules(), scene.now());
        expect(await scene.openGaps()).toEqual(['no_record_id policy -']);
      }),
    );

    it(
      'of an event that names no record waits for its consistency window, also if it opens again for another reason',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ kind: 'vendor', recordId: null, data: { note: 'whose?' } }));
        await scene.work();
        const gap = { reason: 'no_record_id', kind: 'vendor', recordId: null } as const;
        await scene.store.openGap(gap, 'an event names ven_9, and the API answers 404', scene.now());
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        // Its list may be from before what the event reported.
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openGaps()).toEqual(['no_record_id vendor -']);
        scene.pass(SETTLE_MS);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual(['vendor']);
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'of an event that names no record is settled with the last of its kind, whatever is left of others',
      inScene(open, async (scene) => {
        const unread = { recordId: null, data: { note: 'whose?' } };
        await scene.accept(
          scene.event({ ...unread, id: 'a', kind: 'vendor' }),
          scene.event({ ...unread, id: 'b', kind: 'policy' }),
        );
        await scene.work();
        await keep(scene, unusable({ kind: 'risk_assessment', recordId: null }));
        const unresolved = { reason: 'unresolved', kind: 'vendor', recordId: 'ven_1' } as const;
        await scene.store.openGap(unresolved, 'x', scene.now());
        await scene.store.resolveGap(unresolved, scene.now());
        await scene.store.discardEvent('a', scene.now());
        expect((await scene.openGaps()).sort()).toEqual([
          'no_record_id policy -',
          'no_record_id risk_assessment -',
        ]);
      }),
    );

    it(
      'of a delivery that names no kind waits for full syncs begun after its consistency window',
      inScene(open, async (scene) => {
        await keep(scene, unusable({ kind: null, recordId: null }));
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        // What they read may be from before what the delivery reported.
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openGaps()).toEqual(['unusable_delivery - -']);
        scene.pass(SETTLE_MS);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([...KINDS]);
        for (const kind of KINDS) await fullSyncOnce(scene, kind);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'of a released delivery that names no record stays until a list is read, also if another event is settled meanwhile',
      inScene(open, async (scene) => {
        await scene.accept(
          scene.event({ id: 'a', kind: 'vendor', recordId: null, data: { note: 'whose?' } }),
        );
        await scene.work();
        await keep(scene, unusable({ recordId: null }));
        const id = (await scene.store.list('quarantine', { limit: 1 }))[0]!.id;
        await scene.store.releaseQuarantined(id, scene.now(), TIMING);
        scene.pass(1_000);
        await scene.store.discardEvent('a', scene.now());
        expect(await scene.openGaps()).toEqual(['no_record_id vendor -']);
        scene.pass(SETTLE_MS);
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openGaps()).toEqual([]);
        // A later one has a gap of its own.
        await scene.accept(
          scene.event({ id: 'b', kind: 'vendor', recordId: null, data: { note: 'whose?' } }),
        );
        await scene.work();
        await scene.store.discardEvent('b', scene.now());
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'of an assessment that the API may not know is settled as the last delivery about it is released, and the record asked for',
      inScene(open, async (scene) => {
        const about = { kind: 'risk_assessment', recordId: 'ra_1' } as const;
        const event = scene.event({ ...about, id: 'evt_a' });
        await scene.accept(event, { ...event, body: event.body.replace('"name"', '"title"') });
        await keep(scene, unusable(about));
        const [one, other] = await scene.store.list('quarantine', { limit: 2 });
        await scene.store.releaseQuarantined(one!.id, scene.now(), TIMING);
        expect((await scene.openGaps()).sort()).toEqual([
          'conflicting_content risk_assessment ra_1',
          'unusable_delivery risk_assessment ra_1',
        ]);
        await scene.store.releaseQuarantined(other!.id, scene.now(), TIMING);
        expect(await scene.openGaps()).toEqual([]);
        scene.pass(SETTLE_MS);
        const due = await scene.store.dueRecords('risk_assessment', scene.now(), TIMING, 10);
        expect(due.map((record) => record.id)).toEqual(['ra_1']);
      }),
    );

    it(
      'is told once, as a quarantined delivery is released',
      inScene(open, async (scene) => {
        await keep(scene, unusable({ recordId: null }));
        const id = (await scene.store.list('quarantine', { limit: 1 }))[0]!.id;
        scene.pass(SETTLE_MS);
        await fullSyncOnce(scene, 'vendor');
        expect(scene.toldOfGaps()).toEqual([
          'opened no_record_id vendor -: a signed delivery is in quarantine: no id',
          'resolved no_record_id vendor - after 10 s',
        ]);
        await scene.store.releaseQuarantined(id, scene.now(), TIMING);
        expect(scene.toldOfGaps()).toEqual([`opened no_record_id vendor -: quarantine ${id} released`]);
        // With a record, it is for the read of that to resolve it.
        await keep(scene, unusable());
        const [about] = await scene.store.list('quarantine', { limit: 1 });
        await scene.store.releaseQuarantined(about!.id, scene.now(), TIMING);
        expect(await scene.openGaps()).toContain('unusable_delivery vendor ven_1');
      }),
    );

    it(
      'is not told where the verb fails after all',
      inScene(open, async (scene) => {
        // Only a mistake of ours fails this late: a text that can be kept with the delivery, and not with its gap.
        const toPostgres = () => {
          throw new Error('no text');
        };
        const reason = { toJSON: () => 'x', toPostgres } as unknown as string;
        const deliveries = [unusable(), unusable({ reason, recordId: 'ven_2' })];
        await expect(keep(scene, ...deliveries)).rejects.toThrow();
        expect(await scene.openGaps()).toEqual([]);
        expect(scene.toldOfGaps()).toEqual([]);
        await keep(scene, unusable({ recordId: 'ven_3' }));
        expect(scene.toldOfGaps()).toEqual([
          'opened unusable_delivery vendor ven_3: a signed delivery is in quarantine: no id',
        ]);
      }),
    );
  });

  describe('a gap that another verb resolves', () => {
    it.each(RESOLVED_BY_READ)('is told once, as its record is read: %s', async (reason) => {
      await inScene(open, async (scene) => {
        for (const recordId of ['ven_0', 'ven_1', 'ven_9', null]) {
          await scene.store.openGap({ reason, kind: 'vendor', recordId }, null, scene.now());
        }
        await scene.store.openGap({ reason, kind: 'policy', recordId: 'ven_0' }, null, scene.now());
        await scene.store.openGap(
          { reason: 'unaddressable', kind: 'vendor', recordId: 'ven_0' },
          null,
          scene.now(),
        );
        scene.toldOfGaps();
        scene.pass(2_000);
        await scene.apply('vendor', vendors(3));
        await scene.apply('vendor', vendors(3));
        expect(scene.toldOfGaps().sort()).toEqual([
          `resolved ${reason} vendor ven_0 after 2 s`,
          `resolved ${reason} vendor ven_1 after 2 s`,
        ]);
      })();
    });

    it(
      'is told once, as its record is proven gone',
      inScene(open, async (scene) => {
        await scene.apply('vendor', vendors(9));
        await scene.store.openGap(
          { reason: 'unresolved', kind: 'vendor', recordId: 'ven_0' },
          'x',
          scene.now(),
        );
        await proveGone(scene, ['ven_0']);
        scene.toldOfGaps();
        await scene.conclude('vendor');
        expect(scene.toldOfGaps()).toEqual(['resolved unresolved vendor ven_0 after 10 s']);
      }),
    );

    it(
      'is told once, as nothing waits any more, since all of it is shown again or gone with approval',
      inScene(open, async (scene) => {
        await scene.apply('vendor', vendors(2));
        const fullSync = await scene.store.startSyncRun('vendor', 'timer', scene.now());
        await proveGone(scene, ['ven_0', 'ven_1']);
        expect((await scene.conclude('vendor', { syncRunId: fullSync.id })).pending).toHaveLength(2);
        expect(scene.toldOfGaps()).toEqual([
          'opened deletion_pending vendor -: 2 at once, without a delete event: ven_0, ven_1',
        ]);
        await scene.apply('vendor', vendors(1));
        expect(scene.toldOfGaps()).toEqual([]);
        await scene.store.approveDeletions('vendor', ['ven_1'], fullSync.id, scene.now().wall + 3_600_000);
        await proveGone(scene, ['ven_1']);
        expect((await scene.conclude('vendor')).deleted).toHaveLength(1);
        expect(scene.toldOfGaps()).toEqual(['resolved deletion_pending vendor - after 10 s']);
      }),
    );
  });
}
