import { describe, expect } from 'vitest';
import type { Trimmed, TrimmedThing, TrimStep } from '../../../src/store/store.ts';
import { isoOf, type OpenEngine, type Scene, shownOf, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

const DAY_MS = 86_400_000;

/** Every step, few rows at a time. Returns how many were trimmed. */
async function whole(scene: Scene, thing: TrimmedThing, before: number, limit = 2): Promise<number> {
  let total = 0;
  const { wall: now } = scene.now();
  let step: TrimStep | null = { before, now, after: 0, limit };
  while (step !== null) {
    const { trimmed, next }: Trimmed = await scene.store.trim(thing, step);
    expect(trimmed).toBeLessThanOrEqual(limit);
    total += trimmed;
    step = next === null ? null : { before, now, after: next, limit };
  }
  return total;
}

const bodiesOf = (scene: Scene) => scene.query('SELECT id, body IS NULL AS trimmed FROM events ORDER BY seq');
const trimmedOnes = async (scene: Scene) =>
  (await bodiesOf(scene)).filter((row) => Boolean(row['trimmed'])).map((row) => row['id']);

/** Two events done on the first day, then a day, then a failed one, a pending one and one done. */
async function twoDays(scene: Scene): Promise<number> {
  await scene.accept(scene.event({ id: 'old_1' }), scene.event({ id: 'old_2', recordId: 'pol_2' }));
  await scene.accept(scene.event({ id: 'old_failed', recordId: 'pol_3', data: {} }));
  await scene.work();
  await scene.accept(scene.event({ id: 'old_pending', recordId: 'pol_4' }));
  await scene.accept(scene.event({ id: 'old_ignored', kind: null, recordId: null, known: false }));
  scene.pass(DAY_MS);
  const secondDay = scene.now().wall;
  await scene.accept(scene.event({ id: 'new_ignored', kind: null, recordId: null, known: false }));
  return secondDay;
}

export function describeRetention(open: OpenEngine): void {
  const story = storyOn(open);
  describe('trimming', () => {
    story(
      'empties the bodies of old events, not of those that still need theirs, nor of young ones',
      async (scene) => {
        const secondDay = await twoDays(scene);
        expect(await whole(scene, 'event_bodies', secondDay)).toBe(2);
        expect(await trimmedOnes(scene)).toEqual(['old_1', 'old_2']);
        expect((await scene.store.show('deliveries', 'old_1'))?.body).toBeNull();
        expect(await whole(scene, 'event_bodies', secondDay)).toBe(0);
      },
    );

    story('takes few large bodies apart in one step, and goes on with the next', async (scene) => {
      const large = { policyId: 'pol_1', note: 'x'.repeat(600_000) };
      await scene.accept(...['a', 'b', 'c'].map((id) => scene.event({ id, shows: large })));
      await scene.accept(scene.event({ id: 'larger than a step', shows: { note: 'x'.repeat(1_200_000) } }));
      await scene.work();
      scene.pass(DAY_MS);
      const step = { before: scene.now().wall, now: scene.now().wall, after: 0, limit: 200 };
      expect(await scene.store.trim('event_bodies', step)).toMatchObject({ trimmed: 1 });
      expect(await whole(scene, 'event_bodies', step.before)).toBe(3);
    });

    story('goes past a pending event once it is worked off, and past a failed one at once', async (scene) => {
      const secondDay = await twoDays(scene);
      await whole(scene, 'event_bodies', secondDay);
      await scene.work();
      expect(await whole(scene, 'event_bodies', secondDay)).toBe(2);
      expect(await trimmedOnes(scene)).toEqual(['old_1', 'old_2', 'old_pending', 'old_ignored']);
    });

    story('keeps an event known by its id, whose body and then whose row is gone', async (scene) => {
      const first = scene.event({ id: 'evt_kept' });
      const other = scene.event({ id: 'evt_kept', shows: { name: 'other' } });
      await scene.accept(first);
      await scene.work();
      scene.pass(DAY_MS);
      const before = scene.now().wall;
      await whole(scene, 'event_bodies', before);
      expect(await scene.accept(first)).toEqual([{ status: 'duplicate', conflicting: false }]);
      await scene.accept(scene.event({ id: 'evt_newest', known: false, recordId: null, kind: null }));
      expect(await whole(scene, 'events', before)).toBe(1);
      expect(await scene.store.show('deliveries', 'evt_kept')).toBeNull();
      expect(await scene.accept(first)).toEqual([{ status: 'duplicate', conflicting: false }]);
      expect(await scene.accept(other)).toEqual([{ status: 'duplicate', conflicting: true }]);
      expect(await scene.openProblems()).toContain('conflicting_content policy pol_1');
    });

    story('forgets an id at last, and takes the event for new again', async (scene) => {
      const first = scene.event({ id: 'evt_1' });
      await scene.accept(first, scene.event({ id: 'evt_2', recordId: 'pol_2' }));
      await scene.work();
      scene.pass(DAY_MS);
      const before = scene.now().wall;
      await scene.accept(scene.event({ id: 'evt_newest', recordId: 'pol_3' }));
      await whole(scene, 'events', before);
      expect(
        await scene.store.trim('event_ids', {
          before: before - 2 * DAY_MS,
          now: before,
          after: 0,
          limit: 1,
        }),
      ).toEqual({
        trimmed: 0,
        next: null,
      });
      expect(await scene.store.trim('event_ids', { before, now: before, after: 0, limit: 1 })).toEqual({
        trimmed: 1,
        next: 0,
      });
      expect(await scene.store.trim('event_ids', { before, now: before, after: 0, limit: 1 })).toEqual({
        trimmed: 1,
        next: 0,
      });
      expect(await scene.store.trim('event_ids', { before, now: before, after: 0, limit: 1 })).toEqual({
        trimmed: 0,
        next: null,
      });
      expect(await scene.accept(first)).toMatchObject([{ status: 'accepted' }]);
    });

    story('takes rows of events away, none that is pending or failed', async (scene) => {
      const secondDay = await twoDays(scene);
      expect(await whole(scene, 'events', secondDay)).toBe(3);
      expect((await bodiesOf(scene)).map((row) => row['id'])).toEqual([
        'old_failed',
        'old_pending',
        'new_ignored',
      ]);
      expect((await scene.store.summary()).events).toEqual({ pending: 1, failed: 1 });
    });

    story('keeps the newest event, so that a quiet mirror knows when a delivery last came', async (scene) => {
      await scene.accept(scene.event({ id: 'evt_1' }), scene.event({ id: 'evt_2', recordId: 'pol_2' }));
      await scene.work();
      const { last_delivery_at } = await scene.store.summary();
      scene.pass(DAY_MS);
      expect(await whole(scene, 'events', scene.now().wall)).toBe(1);
      expect(last_delivery_at).not.toBeNull();
      expect(await scene.store.summary()).toMatchObject({ last_delivery_at });
    });

    story('empties quarantined bodies and keeps their hashes', async (scene) => {
      const unusable = { reason: 'no id', t: '1', body: Buffer.from('{}'), kind: null, recordId: null };
      await scene.store.accept({ events: [], unusable: [unusable, unusable] }, scene.now(), TIMING);
      scene.pass(DAY_MS);
      await scene.store.accept({ events: [], unusable: [unusable] }, scene.now(), TIMING);
      expect(await whole(scene, 'quarantined_bodies', scene.now().wall, 1)).toBe(2);
      expect(await whole(scene, 'quarantined_bodies', scene.now().wall, 1)).toBe(0);
      const [young, old] = await shownOf(scene.store, 'quarantined');
      expect(young?.body).toBe('{}');
      expect(old).toMatchObject({ body: null, body_sha256: young!.body_sha256 });
    });

    story('takes addresses away with the bodies', async (scene) => {
      const address = '192.0.2.1';
      const event = { ...scene.event({ id: 'e1', known: false, recordId: null, kind: null }), address };
      const unusable = {
        reason: 'no id',
        t: '1',
        body: Buffer.from('{}'),
        kind: null,
        recordId: null,
        address,
      };
      await scene.store.accept({ events: [event, event], unusable: [unusable] }, scene.now(), TIMING);
      scene.pass(DAY_MS);
      const addresses = async () => {
        const { items } = await scene.store.list('deliveries', { limit: 5 });
        return items.map((item) => [item.outcome, item.address]).sort();
      };
      expect(await addresses()).toEqual([
        ['accepted', address],
        ['quarantined', address],
      ]);
      await scene.store.trim('event_bodies', {
        before: scene.now().wall,
        now: scene.now().wall,
        after: 0,
        limit: 9,
      });
      await whole(scene, 'quarantined_bodies', scene.now().wall);
      expect(await addresses()).toEqual([
        ['accepted', null],
        ['quarantined', null],
      ]);
    });

    story(
      'takes old rejections away with their bodies and addresses, though no other has come since',
      async (scene) => {
        const { wall } = scene.now();
        const body = Buffer.from('{}');
        const rejection = {
          reason: 'bad_signature',
          t: '1',
          bytes: 2,
          bodySha256: null,
          header: null,
          body,
          address: '192.0.2.1',
          times: 1,
        };
        await scene.store.recordRejections([0, 1, DAY_MS].map((ms) => ({ ...rejection, wall: wall + ms })));
        expect(await whole(scene, 'rejections', wall + DAY_MS, 1)).toBe(2);
        const kept = await shownOf(scene.store, 'rejected');
        expect(kept.map(({ received_at }) => received_at)).toEqual([isoOf(wall + DAY_MS)]);
      },
    );

    story(
      'leaves of each record the version that it had when the kept time begins, and says how far it went',
      async (scene) => {
        expect((await scene.store.feed()).trimmed).toBeNull();
        await scene.show('vendor', 'still', { id: 'still', name: 'x' });
        for (const name of ['a', 'b', 'c', 'd']) {
          await scene.show('vendor', 'v1', { id: 'v1', name });
          scene.pass(DAY_MS);
        }
        const [still, , second, third, fourth] = await scene.changes();
        expect(await whole(scene, 'changes', Date.parse(third!.at), 1)).toBe(1);
        expect(await scene.changes()).toEqual([still, second, third, fourth]);
        expect((await scene.store.feed()).trimmed).toEqual({ through: second!.seq, at: second!.at });
        // The next round begins behind that, and takes what it has left.
        expect(await whole(scene, 'changes', scene.now().wall, 1)).toBe(2);
        expect(await scene.changes()).toEqual([still, fourth]);
        const asOf = await scene.store.list('records', { kind: 'vendor', at: fourth!.at, limit: 9 });
        expect(asOf.items.map(({ id, name }) => [id, name])).toEqual([
          ['still', 'x'],
          ['v1', 'd'],
        ]);
      },
    );

    story('takes old audit entries away', async (scene) => {
      const entry = { actor: 'olga', action: 'pause', outcome: 'ok', target: null };
      await scene.store.audit(entry, scene.now());
      scene.pass(DAY_MS);
      await scene.store.audit({ ...entry, action: 'resume' }, scene.now());
      expect(await whole(scene, 'audit', scene.now().wall)).toBe(1);
      const kept = (await scene.store.list('audit', { limit: 5 })).items;
      expect(kept.map(({ action, at }) => ({ action, at }))).toEqual([
        { action: 'resume', at: isoOf(scene.now().wall) },
      ]);
    });
  });
}
