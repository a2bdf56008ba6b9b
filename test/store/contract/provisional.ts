import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import { inScene, isoOf, type OpenEngine, SETTLE_MS } from '../scene.ts';
import { storyOn } from './story.ts';

export function describeProvisional(open: OpenEngine): void {
  const story = storyOn(open);
  describe('applying events', () => {
    story('shows a payload in a new row and names the event as its cause', async (scene) => {
      const shows = { name: 'Access', version: '1.0', status: 'draft', owner: { name: 'Ann' } };
      const event = scene.event({ id: 'evt_a', type: 'policy.created', shows });
      await scene.accept(event);
      const since = scene.now().wall;
      scene.pass(3_000);
      expect(await scene.work()).toMatchObject([{ outcome: 'provisional', error: null }]);
      const at = isoOf(scene.now().wall);
      expect(await scene.row('policy', 'pol_1')).toEqual({
        id: 'pol_1',
        name: 'Access',
        version: '1.0',
        status: 'draft',
        data: { policyId: 'pol_1', ...shows },
        first_seen_at: at,
        synced_at: at,
        verified_at: null,
        unverified_since: isoOf(since),
        deleted_at: null,
        deletion_pending_since: null,
        last_event_id: 'evt_a',
        last_event_at: isoOf(since),
        cause: 'event',
        cause_id: 'evt_a',
        read_error: null,
      });
      expect(await scene.changes()).toMatchObject([
        { kind: 'policy', record_id: 'pol_1', operation: 'insert', cause: 'event', cause_id: 'evt_a', at },
      ]);
    });

    story('lays a payload over what the API has shown, and takes nothing away', async (scene) => {
      await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'Old', status: 'draft', owner: 'Ann' });
      await scene.accept(scene.event({ shows: { name: 'New', reviewer: 'Bob' } }));
      await scene.work();
      const row = await scene.row('policy', 'pol_1');
      expect(row?.data).toEqual({
        id: 'pol_1',
        name: 'New',
        status: 'draft',
        owner: 'Ann',
        reviewer: 'Bob',
      });
      expect(row).toMatchObject({ name: 'New', status: 'draft' });
      expect((await scene.changes()).at(-1)).toMatchObject({
        operation: 'update',
        before: { name: 'Old', data: { name: 'Old' } },
        after: { name: 'New', data: { name: 'New', reviewer: 'Bob' } },
      });
    });

    it.each([
      { what: 'a row', kind: 'policy', outcome: 'provisional' },
      { what: 'a record that has no row yet', kind: 'risk_assessment', outcome: 'marked_dirty' },
    ] as const)('remembers of $what what was shown last, in another batch too', async ({ kind, outcome }) => {
      await inScene(open, async (scene) => {
        const at = scene.now().wall;
        const told = (createdMs: number) => scene.accept(scene.event({ kind, recordId: 'r', createdMs }));
        await told(at);
        expect(await scene.work()).toMatchObject([{ outcome }]);
        // Of what a process has in memory nothing outlives another's write.
        await scene.store.makeKnown('vendor', ['v'], scene.now());
        await told(at - 1_000);
        expect(await scene.work()).toMatchObject([{ outcome: 'overtaken' }]);
      })();
    });

    it.each([
      { mode: 'lets the API decide between two of one second', eventsOnly: false, name: 'First' },
      {
        mode: 'takes the later arrival of two of one second without the API',
        eventsOnly: true,
        name: 'Second',
      },
    ])('$mode', async ({ eventsOnly, name }) => {
      await inScene(open, async (scene) => {
        const createdMs = scene.now().wall;
        await scene.accept(scene.event({ createdMs, shows: { name: 'First' } }));
        await scene.work({ eventsOnly });
        await scene.accept(scene.event({ createdMs, shows: { name: 'Second' } }));
        await scene.work({ eventsOnly });
        expect((await scene.row('policy', 'pol_1'))?.name).toBe(name);
      })();
    });

    story('leaves a verified row alone whatever a late event says', async (scene) => {
      await scene.accept(scene.event({ shows: { name: 'Late' } }));
      scene.pass(SETTLE_MS);
      expect((await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'As read' })).verified).toBe(true);
      expect(await scene.work()).toMatchObject([{ outcome: 'overtaken' }]);
      expect((await scene.row('policy', 'pol_1'))?.name).toBe('As read');
    });

    it.each([
      ['policy', 'policy.deleted'],
      ['vendor', 'vendor.removed'],
    ] as const)(
      'shows a deleted %s as deleted, keeps its content, and buries no second time',
      async (kind, type) => {
        await inScene(open, async (scene) => {
          await scene.show(kind, 'x', { id: 'x', name: 'One' });
          await scene.accept(scene.event({ kind, type, recordId: 'x', shows: {} }));
          expect(await scene.work()).toMatchObject([{ outcome: 'provisional' }]);
          const at = isoOf(scene.now().wall);
          expect(await scene.row(kind, 'x')).toMatchObject({
            deleted_at: at,
            name: 'One',
            unverified_since: at,
          });
          expect((await scene.changes()).at(-1)).toMatchObject({
            operation: 'delete',
            before: { deleted_at: null },
            after: { deleted_at: at },
          });
          scene.pass(1_000);
          await scene.accept(scene.event({ kind, type, recordId: 'x', shows: {} }));
          await scene.work();
          expect((await scene.row(kind, 'x'))?.deleted_at).toBe(at);
          expect(await scene.changes()).toHaveLength(2);
        })();
      },
    );

    it.each([
      { eventsOnly: false, alive: false, mode: 'only the API revives what is deleted' },
      { eventsOnly: true, alive: true, mode: 'a later payload revives what is deleted when there is no API' },
    ])('$mode', async ({ eventsOnly, alive }) => {
      await inScene(open, async (scene) => {
        await scene.accept(scene.event({ shows: { name: 'One' } }));
        await scene.work({ eventsOnly });
        scene.pass(1_000);
        await scene.accept(scene.event({ type: 'policy.deleted', shows: {} }));
        await scene.work({ eventsOnly });
        scene.pass(1_000);
        await scene.accept(scene.event({ shows: { name: 'Again' } }));
        await scene.work({ eventsOnly });
        expect((await scene.row('policy', 'pol_1'))?.deleted_at === null).toBe(alive);
      })();
    });

    it.each([
      { eventsOnly: false, outcome: 'marked_dirty', rows: 0 },
      { eventsOnly: true, outcome: 'provisional', rows: 1 },
    ])('makes $rows assessments of a risk payload when events only is $eventsOnly', async (example) => {
      await inScene(open, async (scene) => {
        await scene.accept(
          scene.event({ kind: 'risk_assessment', recordId: 'ra_1', shows: { severity: 'high' } }),
        );
        expect(await scene.work({ eventsOnly: example.eventsOnly })).toMatchObject([
          { outcome: example.outcome },
        ]);
        const rows = await scene.query('SELECT id FROM risk_assessments');
        expect(rows).toHaveLength(example.rows);
        expect(await scene.store.countKnown('risk_assessment')).toBe(1);
      })();
    });

    story('lays a risk payload over an assessment that the API has shown', async (scene) => {
      await scene.show('risk_assessment', 'ra_1', { id: 'ra_1', status: 'open' });
      await scene.accept(
        scene.event({ kind: 'risk_assessment', recordId: 'ra_1', shows: { status: 'mitigated' } }),
      );
      await scene.work();
      expect((await scene.row('risk_assessment', 'ra_1'))?.status).toBe('mitigated');
    });

    story('makes known the assessments that a payload of another kind names', async (scene) => {
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { assessmentId: 'ra_5' } }));
      await scene.work();
      scene.pass(SETTLE_MS);
      const due = await scene.due('risk_assessment', 10);
      expect(due).toMatchObject([{ id: 'ra_5', attempts: 0 }]);
      expect(await scene.row('risk_assessment', 'ra_5')).toBeNull();
      // Of one that is known nothing changes.
      await scene.show('risk_assessment', 'ra_5', { id: 'ra_5' });
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_1', shows: { assessmentId: 'ra_5' } }));
      await scene.work();
      expect((await scene.row('risk_assessment', 'ra_5'))?.unverified_since).toBeNull();
    });

    it.each([
      { recordId: 'pol_1', problem: 'failed_event policy pol_1' },
      { recordId: null, problem: 'unknown_record policy -' },
    ])('failed-letters unusable data and asks the API: $problem', async ({ recordId, problem }) => {
      await inScene(open, async (scene) => {
        await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One' });
        await scene.accept(scene.event({ id: 'bad', recordId, data: { name: 'whose?' } }));
        const [outcome] = await scene.work();
        expect(outcome).toMatchObject({ outcome: 'failed', error: expect.stringContaining('policyId') });
        expect(await scene.store.show('deliveries', 'bad')).toMatchObject({
          state: 'failed',
          reason: outcome!.error,
        });
        expect(await scene.openProblems()).toEqual([problem]);
        expect((await scene.row('policy', 'pol_1'))?.name).toBe('One');
        expect((await scene.row('policy', 'pol_1'))?.unverified_since !== null).toBe(recordId !== null);
      })();
    });

    story('marks an event done in the commit that holds its effect, or does neither', async (scene) => {
      const data = { riskAssessmentId: 'ra_1' };
      await scene.accept(scene.event({ id: 'a', kind: 'vendor', recordId: null, data }));
      const timing = {
        // Asked for after the assessment was saved.
        get settleMs(): number {
          throw new Error('late');
        },
      };
      const known = () => scene.query("SELECT id FROM record_state WHERE kind = 'risk_assessment'");
      await expect(scene.work({ timing })).rejects.toThrow('late');
      expect(await known()).toEqual([]);
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({ state: 'pending', attempts: 0 });
      await scene.work();
      expect(await known()).toEqual([{ id: 'ra_1' }]);
    });

    it.each(['policy', 'vendor', 'risk_assessment'] as Kind[])(
      'has the effect of each event of a %s once, however often it is delivered',
      async (kind) => {
        await inScene(open, async (scene) => {
          await scene.show(kind, 'x', { id: 'x', name: 'Old' });
          const event = scene.event({ kind, recordId: 'x', shows: { name: 'New' } });
          for (let delivery = 0; delivery < 4; delivery += 1) {
            await scene.accept(event);
            await scene.work();
            scene.pass(1_000);
          }
          expect(await scene.changes()).toHaveLength(2);
        })();
      },
    );
  });
}
