import { describe, expect, it } from 'vitest';
import { REJECTIONS_KEPT } from '../../../src/store/units/events.ts';
import { createScene, inScene, isoOf, type OpenEngine, type Scene, shownOf, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

export function describeAccepting(open: OpenEngine): void {
  const story = storyOn(open);
  describe('accepting deliveries', () => {
    story('takes an event once and counts its redeliveries', async (scene) => {
      const event = scene.event({ id: 'evt_a' });
      expect(await scene.accept(event)).toMatchObject([{ status: 'accepted' }]);
      const first = scene.now().wall;
      scene.pass(5_000);
      expect(await scene.accept(event)).toEqual([{ status: 'duplicate', conflicting: false }]);
      expect(await scene.store.show('deliveries', 'evt_a')).toMatchObject({
        deliveries: 2,
        state: 'pending',
        attempts: 0,
        body: event.body,
        received_at: isoOf(first),
        last_delivered_at: isoOf(first + 5_000),
      });
      expect(await scene.openProblems()).toEqual([]);
    });

    story(
      'writes the event’s own instant as all others are, in UTC and to the millisecond, whatever the sender’s form',
      async (scene) => {
        for (const created of [
          '2026-11-25T15:00:00+05:30',
          '2026-11-25T09:30Z',
          '2026-11-25T09:30:00,0004Z',
        ]) {
          const event = scene.event({ createdMs: Date.parse('2026-11-25T09:30:00Z') });
          await scene.accept({ ...event, created });
          expect(await scene.store.show('deliveries', event.id)).toMatchObject({
            created: '2026-11-25T09:30:00.000Z',
          });
        }
      },
    );

    story('answers each event of a group in its place, also when one comes twice in it', async (scene) => {
      const [a, b] = [scene.event({ id: 'a' }), scene.event({ id: 'b' })];
      const outcomes = await scene.accept(a, b, a);
      expect(outcomes.map((outcome) => outcome.status)).toEqual(['accepted', 'accepted', 'duplicate']);
      const numbers = outcomes.flatMap((outcome) => (outcome.status === 'accepted' ? [outcome.seq] : []));
      expect(numbers).toEqual([...numbers].sort((one, two) => one - two));
      expect(new Set(numbers).size).toBe(2);
    });

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

    it.each(['other content', 'no usable event', 'an unknown type'])(
      'makes known the assessments that a delivery names which nobody processes, for: %s',
      (what) =>
        inScene(open, async (scene) => {
          const vendor = { kind: 'vendor', recordId: 'ven_1' } as const;
          await scene.accept(scene.event({ id: 'evt_a', ...vendor }));
          const naming = scene.event({ id: 'evt_a', ...vendor, shows: { assessmentId: 'ra_5' } });
          const unusable = { ...vendor, reason: 'invalid_id', t: naming.t, body: Buffer.from(naming.body) };
          if (what === 'an unknown type')
            await scene.accept({ ...naming, id: 'evt_b', type: 'vendor.merged', known: false });
          else if (what === 'other content') await scene.accept(naming);
          else await scene.store.accept({ events: [], unusable: [unusable] }, scene.now(), TIMING);
          scene.pass(TIMING.settleMs);
          const due = await scene.due('risk_assessment', 10);
          expect(due).toMatchObject([{ id: 'ra_5', attempts: 0 }]);
        })(),
    );

    story(
      'keeps an id that comes again with other content, marks its record dirty and opens a problem',
      async (scene) => {
        await scene.show('policy', 'pol_2', { id: 'pol_2', name: 'Two' });
        await scene.accept(scene.event({ id: 'evt_a', recordId: 'pol_1' }));
        const other = scene.event({ id: 'evt_a', recordId: 'pol_2', shows: { name: 'Forged' } });
        scene.pass(1_000);
        expect(await scene.accept(other)).toEqual([{ status: 'duplicate', conflicting: true }]);

        const [kept] = await shownOf(scene.store, 'quarantined');
        expect(kept).toMatchObject({ t: other.t, dismissed_at: null, body: other.body });
        expect(await scene.openProblems()).toEqual(['conflicting_content policy pol_2']);
        expect((await scene.row('policy', 'pol_2'))?.unverified_since).toBe(isoOf(scene.now().wall));
        // What came first stays what it was.
        expect(await scene.store.show('deliveries', 'evt_a')).toMatchObject({
          record_id: 'pol_1',
          deliveries: 2,
        });
      },
    );

    story('stores an unknown type as ignored, and still marks its record dirty', async (scene) => {
      await scene.show('vendor', 'ven_1', { id: 'ven_1', name: 'One' });
      await scene.accept(
        scene.event({ id: 'odd', type: 'vendor.renamed', kind: 'vendor', recordId: 'ven_1', known: false }),
        scene.event({ id: 'alien', kind: null, recordId: null, known: false }),
      );
      for (const id of ['odd', 'alien']) {
        expect(await scene.store.show('deliveries', id)).toMatchObject({ state: 'ignored' });
      }
      expect(await scene.work()).toEqual([]);
      expect((await scene.row('vendor', 'ven_1'))?.unverified_since).not.toBeNull();
      expect((await scene.store.summary()).events).toEqual({ pending: 0, failed: 0 });
    });

    story('leaves a row unverified since the first outstanding event, not the latest', async (scene) => {
      await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One' });
      expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBeNull();
      const since = scene.now().wall;
      await scene.accept(scene.event());
      scene.pass(2_000);
      await scene.accept(scene.event());
      expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBe(isoOf(since));
      await scene.work();
      expect((await scene.row('policy', 'pol_1'))?.unverified_since).toBe(isoOf(since));
    });

    it.each([
      { told: 'its record', kind: 'vendor', recordId: 'ven_1', problem: ['quarantined vendor ven_1'] },
      { told: 'only its kind', kind: 'vendor', recordId: null, problem: ['quarantined vendor -'] },
      {
        told: 'nothing',
        kind: null,
        recordId: null,
        problem: ['quarantined vendor -', 'quarantined risk_assessment -', 'quarantined policy -'],
      },
    ] as const)('quarantines a signed delivery that tells $told, byte for byte', async (example) => {
      await inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        const body = Buffer.from('{"id": 1, \u0000 not an event');
        const delivery = { ...example, reason: 'invalid_event: id is not text', t: '1793534400', body };
        await scene.store.accept({ events: [], unusable: [delivery] }, scene.now(), TIMING);

        const [kept] = await shownOf(scene.store, 'quarantined');
        expect(kept).toMatchObject({ reason: delivery.reason, t: delivery.t, dismissed_at: null });
        expect(kept?.body).toBe(body.toString());
        expect(await scene.openProblems()).toEqual(example.problem);
        const markedDirty = (await scene.row('vendor', 'ven_1'))?.unverified_since !== null;
        expect(markedDirty).toBe(example.recordId !== null);
        expect((await scene.store.summary()).quarantined).toBe(1);
      })();
    });

    story('dismisses a quarantined delivery once, and asks the API about what it spoke of', async (scene) => {
      const keep = (kind: 'vendor' | null, recordId: string | null) => ({
        kind,
        recordId,
        reason: 'invalid_json',
        t: '1',
        body: Buffer.from('x'),
      });
      await scene.store.accept(
        { events: [], unusable: [keep('vendor', 'ven_9'), keep(null, null)] },
        scene.now(),
        TIMING,
      );
      const [alien, told] = await shownOf(scene.store, 'quarantined');
      expect(await scene.store.dismissDelivery(told!.id, scene.now(), TIMING)).toBe(true);
      expect(await scene.store.dismissDelivery(told!.id, scene.now(), TIMING)).toBe(false);
      expect(await scene.store.dismissDelivery(alien!.id, scene.now(), TIMING)).toBe(true);
      expect(await scene.store.dismissDelivery('rejection:999', scene.now(), TIMING)).toBe(false);
      expect((await scene.store.summary()).quarantined).toBe(0);
      scene.pass(TIMING.settleMs);
      const due = await scene.due('vendor', 10);
      expect(due.map((record) => record.id)).toEqual(['ven_9']);
      // Of assessments a person has settled it; a list shows whether it was about another kind.
      expect(await scene.openProblems()).toEqual([
        'quarantined vendor -',
        'quarantined policy -',
        'quarantined vendor ven_9',
      ]);
    });

    const rejection = (from: string, bytes: number, wall: number, reason = 'bad_signature') => ({
      reason,
      t: null,
      bytes,
      bodySha256: null,
      header: 'v1=00',
      body: null,
      address: from,
      wall,
      times: 1,
    });

    /** Newest first. */
    const keptOf = async (scene: Scene) =>
      (await scene.query(
        "SELECT reason, address, bytes FROM rejections WHERE outcome = 'rejected' ORDER BY id DESC",
      )) as { reason: string; address: string; bytes: number }[];

    story(
      'keeps the few rejections of one sender through the many of another, and the newest of those',
      async (scene) => {
        const { wall } = scene.now();
        const record = scene.store.recordRejections.bind(scene.store);
        await record([1, 2, 3].map((n) => rejection('192.0.2.1', n, wall)));
        await record([4, 5].map((n) => rejection('198.51.100.1', n, wall, 'missing_header')));
        for (let n = 0; n < REJECTIONS_KEPT * 2; n += 100) {
          await record(Array.from({ length: 100 }, (_, m) => rejection('203.0.113.1', 1000 + n + m, wall)));
        }
        const kept = await keptOf(scene);
        expect(kept.filter(({ reason }) => reason === 'missing_header')).toHaveLength(2);
        const ofReason = kept.filter(({ reason }) => reason === 'bad_signature');
        expect(ofReason).toHaveLength(REJECTIONS_KEPT);
        expect(ofReason.filter(({ address }) => address === '192.0.2.1').map(({ bytes }) => bytes)).toEqual([
          3, 2, 1,
        ]);
        expect(ofReason[0]!.bytes).toBe(1000 + REJECTIONS_KEPT * 2 - 1);
        expect(ofReason[REJECTIONS_KEPT - 4]!.bytes).toBe(1000 + REJECTIONS_KEPT + 3);
      },
    );

    story(
      'of more senders than there is room for keeps the newest of each, the latest ones',
      async (scene) => {
        const { wall } = scene.now();
        const many = Array.from({ length: REJECTIONS_KEPT + 20 }, (_, n) => `10.0.${n >> 8}.${n & 255}`);
        await scene.store.recordRejections(many.map((from) => rejection(from, 1, wall)));
        await scene.store.recordRejections(many.slice(0, 30).map((from) => rejection(from, 2, wall)));
        const kept = await keptOf(scene);
        expect(kept).toHaveLength(REJECTIONS_KEPT);
        expect(new Set(kept.map(({ address }) => address)).size).toBe(REJECTIONS_KEPT);
        expect(kept.filter(({ bytes }) => bytes === 2)).toHaveLength(30);
      },
    );

    story('takes an IPv6 network for one sender', async (scene) => {
      const { wall } = scene.now();
      const many = Array.from({ length: REJECTIONS_KEPT }, (_, n) =>
        rejection(`2001:db8:0:1::${n.toString(16)}`, 2, wall),
      );
      await scene.store.recordRejections([rejection('192.0.2.1', 3, wall), ...many]);
      const kept = await keptOf(scene);
      expect(kept.filter(({ bytes }) => bytes !== 2).map(({ bytes }) => bytes)).toEqual([3]);
      expect(kept).toHaveLength(REJECTIONS_KEPT);
    });
  });
}
