import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { DeliveryFilter, DeliveryReport } from '../../../src/store/reports.ts';
import type { Store } from '../../../src/store/store.ts';
import { inScene, isoOf, type OpenEngine, type Scene, TIMING } from '../scene.ts';

const step = fc.record({
  outcome: fc.constantFrom('accepted', 'accepted', 'quarantined', 'rejected'),
  name: fc.constantFrom('a', 'b', 'c'),
  pauseMs: fc.constantFrom(0, 1_000),
});

async function deliver(scene: Scene, outcome: string, id: string, body: object): Promise<void> {
  const text = Buffer.from(JSON.stringify(body));
  if (outcome === 'accepted') {
    const { name } = body as { name?: string };
    await scene.accept(
      scene.event({ id, recordId: `pol_${name ?? id}`, shows: body as Record<string, unknown> }),
    );
  } else if (outcome === 'quarantined') {
    const unusable = { reason: 'invalid_json', t: '1', body: text, kind: 'vendor', recordId: 'v_1' } as const;
    await scene.store.accept({ events: [], unusable: [unusable] }, scene.now(), TIMING);
  } else {
    const rejection = { reason: 'no_match', t: '1', bytes: text.length, bodySha256: null, header: null };
    const about = { ...rejection, body: text, address: '192.0.2.1', times: 3, wall: scene.now().wall };
    await scene.store.recordRejections([about]);
  }
}

async function all(store: Store, filter: DeliveryFilter, limit: number): Promise<DeliveryReport[]> {
  const items: DeliveryReport[] = [];
  for (let after: string | undefined; ; ) {
    const page = await store.listDeliveries(filter, { limit, after });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    items.push(...page.items);
    if (page.next === null) return items;
    expect(page.next).not.toBe(after);
    after = page.next;
  }
}

const placeOf = ({ outcome, number }: DeliveryReport) => `${outcome} ${number}`;

export function describeDeliveries(open: OpenEngine): void {
  describe('deliveries', () => {
    it('of every outcome are one list, each once, newest first, however it is paged and filtered', async () => {
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 12 }),
          fc.integer({ min: 1, max: 5 }),
          fc.constantFrom(undefined, 'accepted', 'quarantined', 'rejected'),
          fc.constantFrom(undefined, 'a', 'e3', 'pol_b'),
          fc.option(fc.nat(12), { nil: undefined }),
          async (steps, limit, outcome, search, untilStep) =>
            inScene(open, async (scene) => {
              const told: { outcome: string; at: string; text: string; ids: string[] }[] = [];
              for (const [nth, each] of steps.entries()) {
                const id = `e${nth}`;
                const body = { id, type: 'policy.updated', name: each.name, text: `is ${each.name}` };
                await deliver(scene, each.outcome, id, body);
                const ids = each.outcome === 'accepted' ? [id, `pol_${each.name}`] : [id];
                const text = JSON.stringify(body);
                told.push({ outcome: each.outcome, at: isoOf(scene.now().wall), text, ids });
                scene.pass(each.pauseMs);
              }
              const until = untilStep === undefined ? undefined : (told[untilStep]?.at ?? isoOf(0));
              const items = await all(scene.store, { outcome, search, until } as DeliveryFilter, limit);
              expect(new Set(items.map(placeOf)).size).toBe(items.length);
              const times = items.map(({ received_at }) => received_at);
              expect(times).toEqual(times.toSorted().reverse());
              const expected = told.filter(
                (one) =>
                  (outcome === undefined || one.outcome === outcome) &&
                  (until === undefined || one.at < until) &&
                  (search === undefined || one.ids.includes(search) || one.text.includes(search)),
              );
              const shown = items.map((item) => `${item.received_at} ${item.outcome}`).sort();
              expect(shown).toEqual(expected.map(({ at, outcome: of }) => `${at} ${of}`).sort());
            })(),
        ),
        { numRuns: 25 },
      );
    });

    it(
      'that were not accepted are found by the id that their body names, and say why',
      inScene(open, async (scene) => {
        await deliver(scene, 'rejected', '', { id: 'evt_lost', type: 'vendor.updated' });
        await deliver(scene, 'quarantined', '', { id: 'evt_odd', type: 'vendor.updated' });
        await deliver(scene, 'accepted', 'evt_fine', {});
        const find = async (search: string) =>
          (await scene.store.listDeliveries({ search }, { limit: 5 })).items;
        expect(await find('evt_lost')).toMatchObject([
          {
            ...{ outcome: 'rejected', event_id: 'evt_lost', type: 'vendor.updated', reason: 'no_match' },
            ...{ address: '192.0.2.1', deliveries: 3, state: null },
          },
        ]);
        expect(await find('evt_odd')).toMatchObject([{ outcome: 'quarantined', record_id: 'v_1' }]);
        expect(await find('evt_fine')).toMatchObject([{ outcome: 'accepted', state: 'pending' }]);
        const rows = await scene.query('SELECT outcome, event_id FROM deliveries');
        expect(rows.map((row) => row['event_id']).sort()).toEqual(['evt_fine', 'evt_lost', 'evt_odd']);
      }),
    );

    it(
      'name nothing where the body is no JSON, or names no usable id',
      inScene(open, async (scene) => {
        await deliver(scene, 'rejected', '', [1]);
        await deliver(scene, 'rejected', '', { id: 'a\u0000b', type: 7 });
        const { items } = await scene.store.listDeliveries({}, { limit: 5 });
        expect(items.map(({ event_id, type }) => [event_id, type])).toEqual([
          [null, null],
          [null, null],
        ]);
      }),
    );
  });
}
