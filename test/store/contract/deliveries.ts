import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import type { JsonObject } from '../../../src/compliance/pointers.ts';
import type { DeliveryReport, Filters } from '../../../src/store/reports.ts';
import type { IncomingEvent, Store } from '../../../src/store/store.ts';
import { IS_FULL } from '../../support/full.ts';
import { inScene, isoOf, type OpenEngine, type Scene, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

const step = fc.record({
  outcome: fc.constantFrom('accepted', 'accepted', 'quarantined', 'rejected'),
  kind: fc.constantFrom<Kind[]>('policy', 'vendor'),
  name: fc.constantFrom('a', 'b', 'c'),
  pauseMs: fc.constantFrom(0, 1_000),
});

type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

const UNFILTERED = {
  outcome: undefined,
  search: undefined,
  type: undefined,
  kind: undefined,
  sinceStep: undefined,
  untilStep: undefined,
};
const DELIVERED: Step = { outcome: 'accepted', kind: 'policy', name: 'b', pauseMs: 1_000 };
const OF_A: Step = { ...DELIVERED, name: 'a' };

/** What was delivered, as a list should tell it. */
interface Told {
  outcome: string;
  at: string;
  type: string;
  kind: string | null;
  /** By which it is found, besides its text. */
  ids: string[];
  text: string;
}

const SENDER = '192.0.2.1';
const recordOf = (id: string, { name }: { name?: string }) => `rec_${name ?? id}`;

const acceptable = (scene: Scene, id: string, body: object, kind: Kind): IncomingEvent => ({
  ...scene.event({ id, kind, recordId: recordOf(id, body), shows: body as JsonObject }),
  address: SENDER,
});

async function deliver(
  scene: Scene,
  outcome: string,
  id: string,
  body: object,
  kind: Kind = 'policy',
): Promise<void> {
  const text = Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body));
  if (outcome === 'accepted') {
    await scene.accept(acceptable(scene, id, body, kind));
  } else if (outcome === 'quarantined') {
    const about = { kind, recordId: 'v_1', address: SENDER } as const;
    const unusable = { reason: 'invalid_json', t: '1', body: text, ...about };
    await scene.store.accept({ events: [], unusable: [unusable] }, scene.now(), TIMING);
  } else {
    const rejection = { reason: 'no_match', t: '1', bytes: text.length, bodySha256: null, header: null };
    const about = { ...rejection, body: text, address: SENDER, times: 3, wall: scene.now().wall };
    await scene.store.recordRejections([about]);
  }
}

async function all(
  store: Store,
  filter: Filters['deliveries'],
  paging: { limit: number; lookAt?: number },
): Promise<DeliveryReport[]> {
  const { limit } = paging;
  const items: DeliveryReport[] = [];
  let reached = '9';
  for (let after: string | undefined; ; ) {
    const page = await store.list('deliveries', { ...filter, ...paging, after });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    expect(page.looked_back_to === null).toBe(page.items.length === limit || page.next === null);
    expect(page.items.filter(({ received_at }) => received_at > reached)).toEqual([]);
    reached = page.looked_back_to ?? reached;
    items.push(...page.items);
    if (page.next === null) return items;
    expect(page.next).not.toBe(after);
    after = page.next;
  }
}

async function tell(scene: Scene, steps: readonly Step[]): Promise<Told[]> {
  const told: Told[] = [];
  for (const [nth, { outcome, kind, name, pauseMs }] of steps.entries()) {
    // That of a record, too.
    const id = nth === 4 ? 'rec_b' : `e${nth}`;
    const at = isoOf(scene.now().wall);
    const body = { id, type: `${kind}.updated`, name, text: `is ${name}` };
    const about = { type: body.type, kind, text: JSON.stringify(body) };
    if (outcome === 'accepted') {
      await deliver(scene, outcome, id, body, kind);
      told.push({ outcome, at, ...about, ids: [id, recordOf(id, body)] });
    } else {
      await deliver(scene, outcome, id, body, kind);
      told.push({ outcome, at, ...about, kind: outcome === 'rejected' ? null : kind, ids: [id] });
    }
    scene.pass(pauseMs);
  }
  return told;
}

const placeOf = ({ outcome, number }: DeliveryReport) => `${outcome} ${number}`;

export function describeDeliveries(open: OpenEngine): void {
  const story = storyOn(open);
  describe('deliveries', () => {
    it('of every outcome are one list, each once, newest first, however it is paged and filtered, and however little a page looks at', async () => {
      // Most of them absent: all together leave nothing to be shown.
      const optional = <T>(arbitrary: fc.Arbitrary<T>) =>
        fc.oneof({ weight: 3, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });
      await fc.assert(
        fc.asyncProperty(
          fc.array(step, { maxLength: 12, size: 'max' }),
          fc.record(
            { limit: fc.integer({ min: 1, max: 5 }), lookAt: fc.integer({ min: 1, max: 4 }) },
            { requiredKeys: ['limit'] },
          ),
          fc.record({
            outcome: optional(fc.constantFrom('accepted', 'quarantined', 'rejected')),
            search: optional(fc.constantFrom('a', 'e3', 'rec_b')),
            type: optional(fc.constantFrom('policy.updated', 'vendor.updated')),
            kind: optional(fc.constantFrom('policy', 'vendor')),
            sinceStep: optional(fc.nat(12)),
            untilStep: optional(fc.nat(12)),
          }),
          async (steps, paging, { sinceStep, untilStep, ...filter }) =>
            inScene(open, async (scene) => {
              const told = await tell(scene, steps);
              const at = (nth: number | undefined) =>
                nth === undefined ? undefined : (told[nth]?.at ?? isoOf(scene.now().wall));
              const [since, until] = [at(sinceStep), at(untilStep)];
              const items = await all(
                scene.store,
                { ...filter, since, until } as Filters['deliveries'],
                paging,
              );
              expect(new Set(items.map(placeOf)).size).toBe(items.length);
              const times = items.map(({ received_at }) => received_at);
              expect(times).toEqual(times.toSorted().reverse());
              const { outcome, search, type, kind } = filter;
              // Where the search is the id of events, it shows exactly these, and no others that have it in their body.
              const areNamed = told.some(
                (one) => one.outcome === 'accepted' && one.ids.includes(search ?? ''),
              );
              const isNamed = (one: Told) => areNamed && one.outcome === 'accepted';
              const expected = told.filter(
                (one) =>
                  (outcome === undefined || one.outcome === outcome) &&
                  (type === undefined || one.type === type) &&
                  (kind === undefined || one.kind === kind) &&
                  (since === undefined || one.at >= since) &&
                  (until === undefined || one.at < until) &&
                  (search === undefined ||
                    one.ids.includes(search) ||
                    (!isNamed(one) && one.text.includes(search))),
              );
              const shown = items.map((item) => `${item.received_at} ${item.outcome} ${item.type}`).sort();
              expect(shown).toEqual(expected.map((one) => `${one.at} ${one.outcome} ${one.type}`).sort());
            })(),
        ),
        {
          numRuns: IS_FULL ? 25 : 8,
          examples: [
            // What the search names was left out of the second page.
            [[DELIVERED, DELIVERED], { limit: 1 }, { ...UNFILTERED, search: 'rec_b' }],
            // By the id of the event and by that of its record, of which the newest fill the page.
            [[OF_A, OF_A, OF_A, OF_A, OF_A, DELIVERED], { limit: 1 }, { ...UNFILTERED, search: 'rec_b' }],
            // The newest that the search names is of another kind, and older ones are left.
            [
              [DELIVERED, { ...DELIVERED, kind: 'vendor' }],
              { limit: 1 },
              { ...UNFILTERED, search: 'rec_b', kind: 'policy' },
            ],
            // One outcome was looked through only to where nothing fits, and has more before what another one shows.
            [
              [{ ...DELIVERED, outcome: 'quarantined' }, DELIVERED, { ...DELIVERED, kind: 'vendor' }],
              { limit: 2, lookAt: 1 },
              { ...UNFILTERED, kind: 'policy' },
            ],
          ],
        },
      );
    });

    story(
      'and events of a period are all on the first page, however many are newer or older',
      async (scene) => {
        const start = scene.now().wall;
        for (const id of ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i']) {
          await deliver(scene, 'accepted', id, { id });
          scene.pass(1_000);
        }
        const period = { since: isoOf(start + 3_000), until: isoOf(start + 6_000) };
        const paging = { limit: 4, lookAt: 4 };
        const over = { next: null, looked_back_to: null };
        const deliveries = await scene.store.list('deliveries', { ...period, ...paging });
        expect(deliveries).toMatchObject({ ...over, items: ['f', 'e', 'd'].map((id) => ({ event_id: id })) });
        // A full page has not looked in vain.
        const full = await scene.store.list('deliveries', { ...paging });
        expect(full).toMatchObject({ items: { length: 4 }, looked_back_to: null });
      },
    );

    story('count what came before with its event, and say whom they came from', async (scene) => {
      const event = { ...scene.event({ id: 'e1' }), address: SENDER };
      await scene.accept(event, event);
      const other = { ...event, body: event.body.replace('"name":"e1"', '"name":"other"') };
      await scene.accept({ ...event, address: null }, { ...other, address: '192.0.2.2' });
      const { items } = await scene.store.list('deliveries', { search: 'e1', limit: 9 });
      expect(items.map(({ outcome, address, deliveries }) => [outcome, address, deliveries]).sort()).toEqual([
        ['accepted', SENDER, 4],
        // With other content: its reason says so.
        ['quarantined', '192.0.2.2', 1],
      ]);
      expect(items.find(({ outcome }) => outcome === 'quarantined')?.reason).toBe('conflicting_content');
    });

    story('that were not accepted are found by the id that their body names, and say why', async (scene) => {
      await deliver(scene, 'rejected', '', { id: 'evt_lost', type: 'vendor.updated' });
      await deliver(scene, 'quarantined', '', { id: 'evt_odd', type: 'vendor.updated' }, 'vendor');
      await deliver(scene, 'accepted', 'evt_fine', {});
      const find = async (search: string) =>
        (await scene.store.list('deliveries', { search, limit: 5 })).items;
      expect(await find('evt_lost')).toMatchObject([
        {
          outcome: 'rejected',
          event_id: 'evt_lost',
          type: 'vendor.updated',
          reason: 'no_match',
          address: '192.0.2.1',
          deliveries: 3,
          state: null,
        },
      ]);
      expect(await find('evt_odd')).toMatchObject([{ outcome: 'quarantined', record_id: 'v_1' }]);
      expect(await find('evt_fine')).toMatchObject([{ outcome: 'accepted', state: 'pending' }]);
      const rows = await scene.query('SELECT outcome, event_id FROM deliveries');
      expect(rows.map((row) => row['event_id']).sort()).toEqual(['evt_fine', 'evt_lost', 'evt_odd']);
    });

    story(
      'that were not accepted are found by any text in their body, even one that no JSON has',
      async (scene) => {
        await deliver(scene, 'quarantined', '', Buffer.from('a\u0000b'));
        await deliver(scene, 'rejected', '', Buffer.from('b\u0001c'));
        const found = async (search: string) =>
          (await scene.store.list('deliveries', { search, limit: 5 })).items.map(({ outcome }) => outcome);
        expect(await found('a\u0000b')).toEqual(['quarantined']);
        expect(await found('\u0001c')).toEqual(['rejected']);
        expect(await found('a\u0000c')).toEqual([]);
      },
    );

    story('name nothing where the body is no JSON, or names no usable id', async (scene) => {
      await deliver(scene, 'rejected', '', [1]);
      await deliver(scene, 'rejected', '', { id: 'a\u0000b', type: 7 });
      const { items } = await scene.store.list('deliveries', { limit: 5 });
      expect(items.map(({ event_id, type }) => [event_id, type])).toEqual([
        [null, null],
        [null, null],
      ]);
    });
  });
}
