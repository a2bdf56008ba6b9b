import { describe, expect, it } from 'vitest';
import { createScene, inScene, isoOf, type OpenEngine, TIMING } from '../scene.ts';

export function describeAccepting(open: OpenEngine): void {
  describe('accepting deliveries', () => {
    it(
      'takes an event once and counts its redeliveries',
      inScene(open, async (scene) => {
        const event = scene.event({ id: 'evt_a' });
        expect(await scene.accept(event)).toMatchObject([{ status: 'accepted' }]);
        const first = scene.now().wall;
        scene.pass(5_000);
        expect(await scene.accept(event)).toEqual([{ status: 'duplicate', conflicting: false }]);
        expect(await scene.store.showEvent('evt_a')).toMatchObject({
          ...{ deliveries: 2, state: 'pending', attempts: 0, body: event.body },
          ...{ received_at: isoOf(first), last_delivered_at: isoOf(first + 5_000) },
        });
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'answers each event of a group in its place, also when one comes twice in it',
      inScene(open, async (scene) => {
        const [a, b] = [scene.event({ id: 'a' }), scene.event({ id: 'b' })];
        const outcomes = await scene.accept(a, b, a);
        expect(outcomes.map((outcome) => outcome.status)).toEqual(['accepted', 'accepted', 'duplicate']);
        const numbers = outcomes.flatMap((outcome) => (outcome.status === 'accepted' ? [outcome.seq] : []));
        expect(numbers).toEqual([...numbers].sort((one, two) => one - two));
        expect(new Set(numbers).size).toBe(2);
      }),
    );

    it('still knows an event after a restart', async () => {
      const scene = await createScene(open);
      try {
        if (!scene.canReopen) return;
        const event = scene.event();
        await scene.accept(event);
        await scene.reopen();
        expect(await scene.accept(event)).toEqual([{ status: 'duplicate', conflicting: false }]);
      } finally {
        await scene.close();
      }
    });

    it(
      'keeps an id that comes again with other content, hints its record and opens a gap',
      inScene(open, async (scene) => {
        await scene.show('policy', 'pol_2', { id: 'pol_2', name: 'Two' });
        await scene.accept(scene.event({ id: 'evt_a', recordId: 'pol_1' }));
        const other = scene.event({ id: 'evt_a', recordId: 'pol_2', shows: { name: 'Forged' } });
        scene.pass(1_000);
        expect(await scene.accept(other)).toEqual([{ status: 'duplicate', conflicting: true }]);

        const [kept] = await scene.store.listQuarantine({ limit: 10 });
        expect(kept).toMatchObject({ t: other.t, released_at: null, body: null });
        expect(await scene.store.showQuarantined(kept!.id)).toMatchObject({ body: other.body });
        expect(await scene.openGaps()).toEqual(['conflicting_content policy pol_2']);
        expect((await scene.row('policy', 'pol_2'))?.unverified_since).toBe(isoOf(scene.now().wall));
        // What came first stays what it was.
        expect(await scene.store.showEvent('evt_a')).toMatchObject({ record_id: 'pol_1', deliveries: 2 });
      }),
    );

    it(
      'stores an unknown type as ignored, and still hints its record',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' });
        await scene.accept(
          scene.event({ id: 'odd', type: 'vendor.renamed', kind: 'vendor', recordId: 'ven_1', known: false }),
          scene.event({ id: 'alien', kind: null, recordId: null, known: false }),
        );
        for (const id of ['odd', 'alien']) {
          expect(await scene.store.showEvent(id)).toMatchObject({ state: 'ignored' });
        }
        expect(await scene.claim()).toEqual([]);
        expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
        expect((await scene.store.summary()).events).toMatchObject({ ignored: 2, pending: 0 });
      }),
    );

    it(
      'leaves a row unverified since the first outstanding event, not the latest',
      inScene(open, async (scene) => {
        await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One' });
        expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBeNull();
        const since = scene.now().wall;
        await scene.accept(scene.event());
        scene.pass(2_000);
        await scene.accept(scene.event());
        expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBe(isoOf(since));
        await scene.work();
        expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBe(isoOf(since));
      }),
    );

    it.each([
      { told: 'its record', kind: 'vendor', recordId: 'ven_1', gap: 'unusable_delivery vendor ven_1' },
      { told: 'only its kind', kind: 'vendor', recordId: null, gap: 'unusable_delivery vendor -' },
      { told: 'nothing', kind: null, recordId: null, gap: 'unusable_delivery - -' },
    ] as const)('quarantines a signed delivery that tells $told, byte for byte', async (example) => {
      await inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        const body = Buffer.from('{"id": 1, \u0000 not an event');
        const delivery = { ...example, reason: 'invalid_event: id is not text', t: '1793534400', body };
        await scene.store.accept({ events: [], unusable: [delivery] }, scene.now(), TIMING);

        const [kept] = await scene.store.listQuarantine({ limit: 10 });
        expect(kept).toMatchObject({ reason: delivery.reason, t: delivery.t, released_at: null });
        expect((await scene.store.showQuarantined(kept!.id))?.body).toBe(body.toString());
        expect(await scene.openGaps()).toEqual([example.gap]);
        const hinted = (await scene.row('vendor', 'ven_1'))?.unverified_since !== null;
        expect(hinted).toBe(example.recordId !== null);
        expect((await scene.store.summary()).quarantined).toBe(1);
      })();
    });

    it(
      'releases a quarantined delivery once, and asks the API about what it spoke of',
      inScene(open, async (scene) => {
        const keep = (kind: 'vendor' | null, recordId: string | null) => ({
          ...{ kind, recordId, reason: 'invalid_json', t: '1', body: Buffer.from('x') },
        });
        await scene.store.accept(
          { events: [], unusable: [keep('vendor', 'ven_9'), keep(null, null)] },
          scene.now(),
          TIMING,
        );
        const [alien, told] = await scene.store.listQuarantine({ limit: 10 });
        expect(await scene.store.releaseQuarantined(told!.id, scene.now(), TIMING)).toBe(true);
        expect(await scene.store.releaseQuarantined(told!.id, scene.now(), TIMING)).toBe(false);
        expect(await scene.store.releaseQuarantined(alien!.id, scene.now(), TIMING)).toBe(true);
        expect(await scene.store.releaseQuarantined(999, scene.now(), TIMING)).toBe(false);
        expect((await scene.store.summary()).quarantined).toBe(0);
        scene.pass(TIMING.settleMs);
        const due = await scene.store.dueRecords('vendor', scene.now(), TIMING, 10);
        expect(due.map((record) => record.id)).toEqual(['ven_9']);
        expect(await scene.openGaps()).toContain('unusable_delivery - -');
      }),
    );

    it(
      'keeps the newest hundred refusals, also when more come at once',
      inScene(open, async (scene) => {
        const refusal = (n: number) => ({
          ...{ reason: `no_match ${n}`, t: null, bytes: n, bodySha256: null, header: 'v1=00', body: null },
          wall: scene.now().wall,
        });
        await scene.store.recordRefusals(Array.from({ length: 60 }, (_, n) => refusal(n)));
        await scene.store.recordRefusals(Array.from({ length: 90 }, (_, n) => refusal(60 + n)));
        const kept = await scene.store.listRefusals({ limit: 500 });
        expect(kept.map((one) => one.bytes)).toEqual(Array.from({ length: 100 }, (_, n) => 149 - n));
      }),
    );
  });
}
