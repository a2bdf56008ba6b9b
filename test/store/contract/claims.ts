import { describe, expect, it } from 'vitest';
import { inScene, isoOf, LEASE_MS, type OpenEngine, TIMING } from '../scene.ts';

const ids = (events: readonly { id: string }[]) => events.map((event) => event.id);

export function describeClaims(open: OpenEngine): void {
  describe('claiming events', () => {
    it(
      'hands out pending events in the order of their numbers, up to the limit',
      inScene(open, async (scene) => {
        const names = ['a', 'b', 'c', 'd', 'e'];
        for (const id of names) await scene.accept(scene.event({ id, recordId: `pol_${id}` }));
        expect(ids(await scene.claim(2))).toEqual(['a', 'b']);
        expect(ids(await scene.claim(2))).toEqual(['c', 'd']);
        expect(ids(await scene.claim(2))).toEqual(['e']);
        expect(await scene.claim(2)).toEqual([]);
      }),
    );

    it(
      'hands out no more than one of the bodies goes beyond a bound of bytes, the others next',
      inScene(open, async (scene) => {
        for (const [id, megabytes] of [...'abcdefg'].map((each, n) => [each, n === 5 ? 5 : 1] as const)) {
          const shows = { notes: 'x'.repeat(megabytes * 1_000_000) };
          await scene.accept(scene.event({ id, recordId: `pol_${id}`, shows }));
        }
        expect(ids(await scene.claim())).toEqual(['a', 'b', 'c', 'd', 'e']);
        expect(ids(await scene.claim())).toEqual(['f']);
        expect(ids(await scene.claim())).toEqual(['g']);
        expect(await scene.claim()).toEqual([]);
      }),
    );

    it(
      'gives what it knows of the event to whoever claims it',
      inScene(open, async (scene) => {
        const event = scene.event({ kind: 'vendor', recordId: 'ven_1' });
        await scene.accept(event);
        const [claimed] = await scene.claim(1, 'me');
        const { id, kind, recordId } = event;
        expect(claimed).toMatchObject({
          id,
          kind,
          recordId,
          owner: 'me',
          attempts: 0,
          receivedWall: scene.now().wall,
        });
      }),
    );

    it(
      'leaves a record to the batch that holds any event of it, and goes on to others, up to the limit',
      inScene(open, async (scene) => {
        for (const [id, recordId] of [
          ['a1', 'pol_a'],
          ['a2', 'pol_a'],
          ['a3', 'pol_a'],
          ['b1', 'pol_b'],
          ['c1', 'pol_c'],
          ['d1', 'pol_d'],
        ] as const) {
          await scene.accept(scene.event({ id, recordId }));
        }
        const first = await scene.claim(2);
        expect(ids(first)).toEqual(['a1', 'a2']);
        expect(ids(await scene.claim(2))).toEqual(['b1', 'c1']);
        await scene.store.releaseEvents(first.slice(1));
        expect(ids(await scene.claim(10))).toEqual(['d1']);
        await scene.store.applyEvents(first.slice(0, 1), scene.rules(), scene.now());
        expect(ids(await scene.claim(10))).toEqual(['a2', 'a3']);
      }),
    );

    it(
      'takes the same id of another kind for another record',
      inScene(open, async (scene) => {
        await scene.accept(
          scene.event({ id: 'p', kind: 'policy', recordId: '7' }),
          scene.event({ id: 'v', kind: 'vendor', recordId: '7' }),
        );
        expect(ids(await scene.claim(1))).toEqual(['p']);
        expect(ids(await scene.claim(1))).toEqual(['v']);
      }),
    );

    it(
      'lets a claim lapse with its lease, and then ignores who held it',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a' }));
        const lost = await scene.claim();
        scene.pass(LEASE_MS - 1);
        expect(await scene.claim()).toEqual([]);
        scene.pass(1);
        const taken = await scene.claim();
        expect(ids(taken)).toEqual(['a']);

        expect(await scene.store.applyEvents(lost, scene.rules(), scene.now())).toEqual([]);
        await scene.store.deferEvent(
          { event: lost[0]!, retryAtMs: null, error: 'late' },
          scene.now(),
          TIMING,
        );
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'pending',
          attempts: 0,
          error: null,
        });
        await scene.store.releaseEvents(lost);
        expect(await scene.claim()).toEqual([]);
        expect(await scene.store.applyEvents(taken, scene.rules(), scene.now())).toMatchObject([
          { outcome: 'provisional' },
        ]);
      }),
    );

    it(
      'takes unfinished claims back when they are released, and all of them at a start',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a', recordId: 'x' }), scene.event({ id: 'b', recordId: 'y' }));
        await scene.store.releaseEvents(await scene.claim());
        expect(ids(await scene.claim())).toEqual(['a', 'b']);
        await scene.store.recoverClaims();
        expect(ids(await scene.claim())).toEqual(['a', 'b']);
      }),
    );

    it(
      'takes up after a restart what was claimed before it',
      inScene(open, async (scene) => {
        if (!scene.canReopen) return;
        await scene.accept(scene.event({ id: 'a' }));
        await scene.claim();
        await scene.reopen();
        await scene.store.recoverClaims();
        expect(ids(await scene.claim())).toEqual(['a']);
      }),
    );
  });

  describe('failures of ours', () => {
    it(
      'defers an event until its time, with its error, and counts the attempt',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a' }));
        const [event] = await scene.claim();
        const retryAtMs = scene.now().steady + 4_000;
        await scene.store.deferEvent({ event: event!, retryAtMs, error: 'boom' }, scene.now(), TIMING);
        const due = scene.now().wall + 4_000;
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'pending',
          attempts: 1,
          error: 'boom',
          next_attempt_at: isoOf(due),
        });
        expect(await scene.store.nextAttemptWall()).toBe(due);
        scene.pass(3_999);
        expect(await scene.claim()).toEqual([]);
        scene.pass(1);
        expect(await scene.claim()).toMatchObject([{ id: 'a', attempts: 1 }]);
      }),
    );

    it(
      'forgets error and waiting time once the event is done',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a' }));
        const [event] = await scene.claim();
        const failure = { event: event!, retryAtMs: scene.now().steady, error: 'boom' };
        await scene.store.deferEvent(failure, scene.now(), TIMING);
        await scene.work();
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'processed',
          attempts: 2,
          error: null,
          next_attempt_at: null,
          processed_at: isoOf(scene.now().wall),
        });
        expect(await scene.store.nextAttemptWall()).toBeNull();
      }),
    );

    it(
      'counts the attempt by which an event ends, be it done, overtaken or failed, and none of one that is set aside',
      inScene(open, async (scene) => {
        const at = scene.now().wall;
        await scene.accept(scene.event({ id: 'processed', createdMs: at }));
        await scene.accept(scene.event({ id: 'overtaken', createdMs: at - 1_000 }));
        await scene.accept(scene.event({ id: 'failed', recordId: null, data: { nothing: 'usable' } }));
        await scene.accept(scene.event({ id: 'unknown', type: 'ledger.closed', kind: null, known: false }));
        await scene.work();
        const shown = ['processed', 'overtaken', 'failed', 'unknown'].map(
          async (id) => await scene.store.showEvent(id),
        );
        expect((await Promise.all(shown)).map((event) => [event?.state, event?.attempts])).toEqual([
          ['processed', 1],
          ['processed', 1],
          ['failed', 1],
          ['ignored', 0],
        ]);
        await scene.store.retryEvent('failed', scene.rules(), scene.now());
        expect(await scene.store.showEvent('failed')).toMatchObject({ state: 'failed', attempts: 2 });
      }),
    );

    it(
      'gives an event up with its last error, and leaves its record to the API',
      inScene(open, async (scene) => {
        await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One' });
        await scene.accept(scene.event({ id: 'a' }));
        const [event] = await scene.claim();
        await scene.store.deferEvent({ event: event!, retryAtMs: null, error: 'boom' }, scene.now(), TIMING);
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'failed',
          attempts: 1,
          error: 'boom',
        });
        expect(await scene.openGaps()).toEqual(['failed_event policy pol_1']);
        expect((await scene.store.summary()).events).toMatchObject({ failed: 1, pending: 0 });
        expect((await scene.row('policy', 'pol_1'))?.unverified_since).not.toBeNull();
        expect(await scene.claim()).toEqual([]);
      }),
    );
  });

  describe("an operator's say over events", () => {
    it(
      'processes a failed event anew, and nothing else',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b', recordId: 'pol_2' }));
        const [event, other] = await scene.claim();
        await scene.store.deferEvent({ event: event!, retryAtMs: null, error: 'boom' }, scene.now(), TIMING);
        const retry = (id: string) => scene.store.retryEvent(id, scene.rules(), scene.now());
        expect(await retry('a')).toEqual({ outcome: 'processed', kind: 'policy', recordId: 'pol_1' });
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'processed',
          attempts: 1,
          error: null,
        });
        expect(await scene.row('policy', 'pol_1')).toMatchObject({ name: 'a', last_event_id: 'a' });
        expect(await scene.openGaps()).toEqual([]);
        expect(await retry('a')).toEqual({ outcome: 'other_state', state: 'processed' });
        expect(await retry('b')).toEqual({ outcome: 'other_state', state: 'pending' });
        await scene.store.applyEvents([other!], scene.rules(), scene.now());
        expect(await retry('b')).toEqual({ outcome: 'other_state', state: 'processed' });
        expect(await retry('no such event')).toEqual({ outcome: 'unknown' });
        expect((await scene.store.summary()).events).toMatchObject({ failed: 0, pending: 0, processed: 2 });
      }),
    );

    it(
      'discards a pending or a failed event, also under the hands of whoever works on it',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'a' }));
        const claimed = await scene.claim();
        expect(await scene.store.discardEvent('a', scene.now())).toBe(true);
        expect(await scene.store.applyEvents(claimed, scene.rules(), scene.now())).toEqual([]);
        expect(await scene.row('policy', 'pol_1')).toBeNull();
        expect(await scene.store.showEvent('a')).toMatchObject({ state: 'discarded' });
        expect(await scene.store.discardEvent('a', scene.now())).toBe(false);
        expect(await scene.store.discardEvent('no such event', scene.now())).toBe(false);

        await scene.accept(scene.event({ id: 'b', data: { nothing: true } }));
        await scene.work();
        expect(await scene.store.discardEvent('b', scene.now())).toBe(true);
        expect((await scene.store.summary()).events).toMatchObject({ discarded: 2, failed: 0, pending: 0 });
      }),
    );
  });
}
