import { describe, expect, it } from 'vitest';
import { fullSyncsOf } from '../planner.ts';
import { inScene, isoOf, type OpenEngine, SETTLE_MS } from '../scene.ts';

export function describeReads(open: OpenEngine): void {
  describe('applying what the API shows', () => {
    it(
      'names, in a row that a read makes, the last event that spoke of the record without showing it',
      inScene(open, async (scene) => {
        const createdMs = scene.now().wall - 5_000;
        const about = { kind: 'risk_assessment', recordId: 'ra_1' } as const;
        await scene.accept(
          scene.event({ ...about, id: 'evt_first', createdMs: createdMs - 1_000 }),
          scene.event({ ...about, id: 'evt_last', createdMs }),
          scene.event({ kind: 'vendor', recordId: 'ra_1', id: 'evt_of_another_kind' }),
        );
        expect(await scene.work()).toMatchObject([
          { outcome: 'marked_dirty' },
          { outcome: 'marked_dirty' },
          {},
        ]);
        expect(await scene.row('risk_assessment', 'ra_1')).toBeNull();
        scene.pass(SETTLE_MS);
        await scene.show('risk_assessment', 'ra_1', { id: 'ra_1', name: 'Fire' });
        expect(await scene.row('risk_assessment', 'ra_1')).toMatchObject({
          last_event_id: 'evt_last',
          last_event_at: isoOf(createdMs),
          cause: 'refetch',
          cause_id: 'evt_last',
        });
        const change = (await scene.changes()).at(-1);
        expect(change).toMatchObject({ data: { id: 'ra_1', name: 'Fire' }, cause_id: 'evt_last' });
      }),
    );

    it(
      'inserts, leaves unchanged, updates, and says what differed',
      inScene(open, async (scene) => {
        const first = await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One', status: 'draft' });
        expect(first).toMatchObject({
          id: 'pol_1',
          outcome: 'inserted',
          verified: true,
          lagMs: null,
          witness: false,
          differences: [],
        });
        const at = isoOf(scene.now().wall);
        expect(await scene.row('policy', 'pol_1')).toEqual({
          id: 'pol_1',
          name: 'One',
          version: null,
          status: 'draft',
          data: { id: 'pol_1', name: 'One', status: 'draft' },
          first_seen_at: at,
          synced_at: at,
          verified_at: at,
          unverified_since: null,
          deleted_at: null,
          deletion_pending_since: null,
          last_event_id: null,
          last_event_at: null,
          cause: 'refetch',
          cause_id: null,
          read_error: null,
        });

        scene.pass(60_000);
        const same = await scene.show('policy', 'pol_1', { status: 'draft', name: 'One', id: 'pol_1' });
        expect(same).toMatchObject({ outcome: 'unchanged', differences: [], witness: true });
        const verified = isoOf(scene.now().wall);
        expect(await scene.row('policy', 'pol_1')).toMatchObject({ synced_at: at, verified_at: verified });
        expect(await scene.changes()).toHaveLength(1);

        scene.pass(60_000);
        const [changed] = await scene.apply('policy', [{ id: 'pol_1', data: { id: 'pol_1', name: 'Two' } }], {
          cause: { cause: 'sync', causeId: '7' },
        });
        expect(changed).toMatchObject({
          outcome: 'updated',
          differences: ['data.name', 'data.status', 'name', 'status'],
        });
        expect(await scene.row('policy', 'pol_1')).toMatchObject({
          name: 'Two',
          status: null,
          first_seen_at: at,
          cause: 'sync',
          cause_id: '7',
          data: { id: 'pol_1', name: 'Two' },
        });
        expect((await scene.changes()).at(-1)).toMatchObject({
          before: { name: 'One', status: 'draft', data: { name: 'One', status: 'draft' } },
          after: { name: 'Two', status: null, data: { name: 'Two' } },
        });
      }),
    );

    it(
      'puts right a column that somebody else has changed',
      inScene(open, async (scene) => {
        const named = (id: string) => ({ id, data: { id, name: id, version: '2', status: 'draft' } });
        const page = [named('pol_1'), named('pol_2'), named('pol_3'), named('pol_4')];
        await scene.apply('policy', page);
        scene.pass(60_000);
        for (const [at, change] of ["status = 'tampered'", 'name = NULL', "version = '3'"].entries())
          await scene.query(`UPDATE policies SET ${change} WHERE id = 'pol_${at + 1}'`);
        const applied = await scene.apply('policy', page);
        expect(applied.map(({ differences }) => differences)).toEqual([['status'], ['name'], ['version']]);
        expect(await scene.row('policy', 'pol_2')).toMatchObject({ name: 'pol_2' });
      }),
    );

    it(
      'keeps what an event has just shown, in all else follows a read that may be stale, and gives way to a later one',
      inScene(open, async (scene) => {
        const was = { id: 'pol_1', name: 'Old', status: 'draft', owner: 'Ann' };
        await scene.show('policy', 'pol_1', was);
        scene.pass(60_000);
        await scene.accept(scene.event({ id: 'evt_a', shows: { status: 'approved' } }));
        await scene.work();
        scene.pass(SETTLE_MS - 1);
        // Of what a process has in memory nothing outlives another's write.
        await scene.store.makeKnown('vendor', ['v'], scene.now());
        const early = await scene.show('policy', 'pol_1', { ...was, owner: 'Bob' });
        expect(early).toMatchObject({ outcome: 'updated', differences: ['data.owner'], verified: false });
        expect(await scene.row('policy', 'pol_1')).toMatchObject({
          status: 'approved',
          data: { ...was, status: 'approved', owner: 'Bob' },
        });
        scene.pass(SETTLE_MS);
        const late = await scene.show('policy', 'pol_1', { ...was, owner: 'Bob' });
        expect(late).toMatchObject({ outcome: 'updated', verified: true });
        expect(await scene.row('policy', 'pol_1')).toMatchObject({ status: 'draft', cause: 'refetch' });
      }),
    );

    it(
      'covers an event that is SETTLE older than the read, and says how long it had been open',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ shows: { name: 'New' } }));
        await scene.work();
        scene.pass(SETTLE_MS);
        const applied = await scene.show('policy', 'pol_1', { policyId: 'pol_1', name: 'New' });
        expect(applied).toMatchObject({ outcome: 'unchanged', verified: true, lagMs: SETTLE_MS });
        expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBeNull();
        expect(await scene.dueAt('policy')).toBeNull();
      }),
    );

    it(
      'refuses a read that began before the row was written, and stays due',
      inScene(open, async (scene) => {
        await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'Old' });
        const began = await scene.beginRead();
        await scene.accept(scene.event({ shows: { name: 'New' } }));
        await scene.work();
        scene.pass(SETTLE_MS);
        const applied = await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'Old' }, began);
        expect(applied).toMatchObject({
          outcome: 'refused',
          verified: false,
          differences: ['data.name', 'name'],
        });
        expect((await scene.row('policy', 'pol_1'))?.name).toBe('New');
        expect(await fullSyncsOf(scene.store, scene.now(), 'events')).toEqual(['policy']);
      }),
    );

    it(
      'gives way after three refusals but for what an event has just shown, and stays unverified',
      inScene(open, async (scene) => {
        await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'Read' });
        const outcomes: string[] = [];
        for (let round = 0; round < 4; round += 1) {
          const began = await scene.beginRead();
          scene.pass(2 * SETTLE_MS);
          await scene.accept(scene.event({ shows: { name: `Event ${round}` } }));
          await scene.work();
          const data = { id: 'pol_1', name: `Read ${round}`, owner: `Read ${round}` };
          const applied = await scene.show('policy', 'pol_1', data, {
            ...began,
            beganAt: scene.now().steady,
          });
          outcomes.push(applied.outcome);
          expect(applied.verified).toBe(false);
        }
        expect(outcomes).toEqual(['refused', 'refused', 'refused', 'updated']);
        const data = { id: 'pol_1', name: 'Event 3', owner: 'Read 3' };
        expect(await scene.row('policy', 'pol_1')).toMatchObject({ name: 'Event 3', data });
      }),
    );

    it(
      'reads once more what two reads show that were under way at once and differ, and remembers that',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'Old' });
        scene.pass(SETTLE_MS);
        const one = await scene.beginRead();
        const other = await scene.beginRead();
        const written = await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'New' }, one);
        expect(written).toMatchObject({ outcome: 'updated', verified: true });
        const changes = await scene.changes();

        const [refused] = await scene.apply(
          'vendor',
          [{ id: 'ven_1', data: { id: 'ven_1', name: 'Newer' } }],
          {
            began: other,
            syncRunId: 1,
          },
        );
        expect(refused).toMatchObject({ outcome: 'refused', verified: false, lagMs: null });
        const at = isoOf(scene.now().wall);
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({ name: 'New', unverified_since: at });
        expect(await scene.changes()).toEqual(changes);
        expect(await scene.dueAt('vendor')).toBe(scene.now().steady + SETTLE_MS);
        // Shown it has been, whatever became of that.
        expect(await scene.store.unseenBy('vendor', 1, await scene.store.currentNumber())).toEqual([]);

        if (scene.canReopen) await scene.reopen();
        scene.pass(SETTLE_MS);
        expect(await scene.due('vendor')).toHaveLength(1);
        const settled = await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'Newer' });
        expect(settled).toMatchObject({ outcome: 'updated', verified: true });
        expect(await scene.dueAt('vendor')).toBeNull();
      }),
    );

    it(
      'doubts a read that shows alive what an event has just said is gone, and believes it 18 SETTLE later',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' });
        scene.pass(2 * SETTLE_MS);
        await scene.accept(
          scene.event({ kind: 'vendor', type: 'vendor.removed', recordId: 'ven_1', shows: {} }),
        );
        await scene.work();
        scene.pass(SETTLE_MS - 1);
        expect(await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' })).toMatchObject({
          outcome: 'deferred',
        });
        expect((await scene.row('vendor', 'ven_1'))?.deleted_at).not.toBeNull();
        scene.pass(SETTLE_MS);
        expect(await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' })).toMatchObject({
          outcome: 'unchanged',
          verified: false,
        });
        scene.pass(18 * SETTLE_MS);
        const revived = await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' });
        expect(revived).toMatchObject({
          outcome: 'revived',
          verified: true,
          differences: ['deleted_at'],
          witness: false,
        });
        expect(await scene.row('vendor', 'ven_1')).toMatchObject({ deleted_at: null });
        expect((await scene.changes()).at(-1)).toMatchObject({
          operation: 'restore',
          after: { deleted_at: null },
        });
      }),
    );

    it(
      'judges each object of a page by itself, in one commit, and does not tell of one that it only confirms',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'b', { id: 'b', name: 'B' });
        scene.pass(SETTLE_MS);
        const page = ['a', 'b', 'c'].map((id) => ({ id, data: { id, name: id.toUpperCase() } }));
        const applied = await scene.apply('vendor', page);
        expect(applied.map((one) => `${one.id} ${one.outcome}`)).toEqual(['a inserted', 'c inserted']);
      }),
    );

    it(
      'makes known the assessments that a vendor names, and no other kind',
      inScene(open, async (scene) => {
        const data = { id: 'ven_1', riskAssessmentId: 'ra_1', policyId: 'pol_9' };
        await scene.show('vendor', 'ven_1', data);
        expect(await scene.store.countKnown('risk_assessment')).toBe(1);
        expect(await scene.store.countKnown('policy')).toBe(0);
      }),
    );

    it(
      'resolves what a verified record makes good, and leaves the problems of its kind',
      inScene(open, async (scene) => {
        for (const recordId of ['ven_1', null]) {
          await scene.store.openProblem(
            { reason: 'failed_event', kind: 'vendor', recordId },
            'x',
            scene.now(),
          );
        }
        await scene.store.openProblem(
          { reason: 'unknown_record', kind: 'vendor', recordId: 'ven_1' },
          'x',
          scene.now(),
        );
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        expect(await scene.openProblems()).toEqual(['failed_event vendor -']);
      }),
    );

    it(
      'remembers a read that told nothing and why, and tries again at its time',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: {} }));
        await scene.work();
        scene.pass(SETTLE_MS);
        const again = scene.now().steady + 7_000;
        await scene.store.recordReadFailure('vendor', 'ven_1', 'the API answered 503', again, {
          settleMs: SETTLE_MS,
          since: scene.now().steady,
        });
        expect(await scene.dueAt('vendor')).toBe(again);
        expect(await scene.due('vendor')).toEqual([]);
        expect((await scene.row('vendor', 'ven_1'))?.read_error).toBe('the API answered 503');
        scene.pass(7_000);
        const due = await scene.due('vendor', 10);
        expect(due).toMatchObject([{ id: 'ven_1', attempts: 1, asked: false }]);
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        expect(await scene.due('vendor')).toEqual([]);
        expect((await scene.row('vendor', 'ven_1'))?.read_error).toBeNull();
      }),
    );
  });
}
