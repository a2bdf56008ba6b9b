import { describe, expect } from 'vitest';
import { isoOf, type OpenEngine, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';

const ids = (outcomes: readonly { event: { id: string } }[]) => outcomes.map(({ event }) => event.id);

export function describeProcessing(open: OpenEngine): void {
  const story = storyOn(open);
  describe('processing pending events', () => {
    story(
      'takes them in the order of their numbers, up to the limit, and says whether more may be due',
      async (scene) => {
        const names = ['a', 'b', 'c', 'd', 'e'];
        for (const id of names) await scene.accept(scene.event({ id, recordId: `pol_${id}` }));
        const turn = { limit: 2, rules: scene.rules(), retryDelaysMs: [] };
        const done = [];
        for (let left = 3; left > 0; left -= 1) {
          const { outcomes, isFull } = await scene.store.processPending(turn, scene.now());
          done.push([...ids(outcomes), isFull]);
        }
        expect(done).toEqual([
          ['a', 'b', true],
          ['c', 'd', true],
          ['e', false],
        ]);
      },
    );

    story(
      'takes no more than one of the bodies goes beyond a bound of bytes, the others next',
      async (scene) => {
        for (const [id, megabytes] of [...'abcdefg'].map((each, n) => [each, n === 5 ? 5 : 1] as const)) {
          // About records that nobody knows, so that nothing of them is shown.
          const about = { id, kind: 'vendor', recordId: `ven_${id}`, type: 'vendor.removed' } as const;
          await scene.accept(scene.event({ ...about, shows: { notes: 'x'.repeat(megabytes * 1_000_000) } }));
        }
        expect(ids(await scene.work())).toEqual(['a', 'b', 'c', 'd', 'e']);
        expect(ids(await scene.work())).toEqual(['f']);
        expect(ids(await scene.work())).toEqual(['g']);
        expect(await scene.work()).toEqual([]);
      },
    );

    story('tells what it knows of each event, and nothing of its body', async (scene) => {
      const event = scene.event({ kind: 'vendor', recordId: 'ven_1' });
      await scene.accept(event);
      const [outcome] = await scene.work();
      const { id, kind, recordId } = event;
      expect(outcome?.event).toEqual({
        seq: expect.any(Number),
        id,
        kind,
        recordId,
        attempts: 0,
        receivedWall: scene.now().wall,
      });
    });

    story('goes on after a restart where it stopped', async (scene) => {
      if (!scene.canReopen) return;
      await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b' }));
      expect(ids(await scene.work({}, 1))).toEqual(['a']);
      await scene.reopen();
      expect(ids(await scene.work())).toEqual(['b']);
    });
  });

  describe('failures of ours', () => {
    story('find the events that break a batch, and show all others in their order', async (scene) => {
      const isBroken = (n: number) => n === 3 || n === 8 || n === 9;
      for (let n = 0; n < 12; n += 1) {
        const event = scene.event({ id: `${n}`, recordId: `pol_${n % 4}` });
        await scene.accept(isBroken(n) ? { ...event, body: 'not JSON' } : event);
      }
      const turn = { limit: 100, rules: scene.rules(), retryDelaysMs: [1_000, 2_000] };
      const turns = [await scene.store.processPending(turn, scene.now())];
      while (turns.at(-1)!.isFull) turns.push(await scene.store.processPending(turn, scene.now()));
      expect(turns.flatMap(({ outcomes }) => ids(outcomes))).toEqual([
        ...['0', '1', '2', '4', '5', '6', '7', '10', '11'],
      ]);
      const told = { error: expect.stringContaining('JSON'), delayMs: 1_000 };
      expect(turns.flatMap(({ deferred }) => deferred ?? [])).toMatchObject(
        ['3', '8', '9'].map((id) => ({ event: { id }, ...told })),
      );
    });

    story(
      'defer an event until its time, with its error, count the attempt, and wait longer each time until it fails',
      async (scene) => {
        await scene.accept({ ...scene.event({ id: 'a' }), body: 'not JSON' });
        const turn = { limit: 100, rules: scene.rules(), retryDelaysMs: [4_000, 8_000] };
        const tried = async () => (await scene.store.processPending(turn, scene.now())).deferred;
        for (const [nth, delayMs] of turn.retryDelaysMs.entries()) {
          expect(await tried()).toMatchObject({ event: { attempts: nth }, delayMs });
          expect(await scene.store.show('deliveries', 'a')).toMatchObject({
            state: 'pending',
            attempts: nth + 1,
            reason: expect.stringContaining('JSON'),
            next_attempt_at: isoOf(scene.now().wall + delayMs),
          });
          scene.pass(delayMs - 1);
          expect(await tried()).toBeNull();
          scene.pass(1);
        }
        expect(await tried()).toMatchObject({ delayMs: null });
        expect(await scene.store.show('deliveries', 'a')).toMatchObject({ state: 'failed', attempts: 3 });
      },
    );

    story('are forgotten once the event is done', async (scene) => {
      await scene.accept(scene.event({ id: 'a' }));
      await scene.fail({ delayMs: 0 });
      await scene.work();
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({
        state: 'processed',
        attempts: 2,
        reason: null,
        next_attempt_at: null,
        processed_at: isoOf(scene.now().wall),
      });
    });

    story(
      'count the attempt by which an event ends, be it done, overtaken or failed, and none of one that is set aside',
      async (scene) => {
        const at = scene.now().wall;
        await scene.accept(scene.event({ id: 'processed', createdMs: at }));
        await scene.accept(scene.event({ id: 'overtaken', createdMs: at - 1_000 }));
        await scene.accept(scene.event({ id: 'failed', recordId: null, data: { nothing: 'usable' } }));
        await scene.accept(scene.event({ id: 'unknown', type: 'ledger.closed', kind: null, known: false }));
        await scene.work();
        const shown = ['processed', 'overtaken', 'failed', 'unknown'].map(
          async (id) => await scene.store.show('deliveries', id),
        );
        expect((await Promise.all(shown)).map((event) => [event?.state, event?.attempts])).toEqual([
          ['processed', 1],
          ['processed', 1],
          ['failed', 1],
          ['ignored', 0],
        ]);
        await scene.store.retryEvent('failed', scene.rules(), scene.now());
        expect(await scene.store.show('deliveries', 'failed')).toMatchObject({
          state: 'failed',
          attempts: 2,
        });
      },
    );

    story('give an event up with its last error, and leave its record to the API', async (scene) => {
      await scene.show('policy', 'pol_1', { id: 'pol_1', name: 'One' });
      await scene.accept(scene.event({ id: 'a' }));
      await scene.fail();
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({
        state: 'failed',
        attempts: 1,
        reason: expect.any(String),
      });
      expect(await scene.openProblems()).toEqual(['failed_event policy pol_1']);
      expect((await scene.store.summary()).events).toMatchObject({ failed: 1, pending: 0 });
      expect((await scene.row('policy', 'pol_1'))?.unverified_since).not.toBeNull();
      expect(await scene.work()).toEqual([]);
    });
  });

  describe("an operator's say over events", () => {
    story('processes a failed event anew, and nothing else', async (scene) => {
      await scene.accept(scene.event({ id: 'a' }), scene.event({ id: 'b', recordId: 'pol_2' }));
      await scene.fail({ limit: 1 });
      const retry = (id: string) => scene.store.retryEvent(id, scene.rules(), scene.now());
      expect(await retry('a')).toEqual({ outcome: 'processed', kind: 'policy', recordId: 'pol_1' });
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({
        state: 'processed',
        attempts: 1,
        reason: null,
      });
      expect(await scene.row('policy', 'pol_1')).toMatchObject({ name: 'a', last_event_id: 'a' });
      expect(await scene.openProblems()).toEqual([]);
      expect(await retry('a')).toEqual({ outcome: 'other_state', state: 'processed' });
      expect(await retry('b')).toEqual({ outcome: 'other_state', state: 'pending' });
      await scene.work();
      expect(await retry('b')).toEqual({ outcome: 'other_state', state: 'processed' });
      expect(await retry('no such event')).toEqual({ outcome: 'unknown' });
      expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
    });

    story('dismisses a pending or a failed event', async (scene) => {
      await scene.accept(scene.event({ id: 'a' }));
      expect(await scene.store.dismissDelivery('a', scene.now(), TIMING)).toBe(true);
      expect(await scene.work()).toEqual([]);
      expect(await scene.row('policy', 'pol_1')).toBeNull();
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({ state: 'dismissed' });
      expect(await scene.store.dismissDelivery('a', scene.now(), TIMING)).toBe(false);
      expect(await scene.store.dismissDelivery('no such event', scene.now(), TIMING)).toBe(false);

      await scene.accept(scene.event({ id: 'b', data: { nothing: true } }));
      await scene.work();
      expect(await scene.store.dismissDelivery('b', scene.now(), TIMING)).toBe(true);
      expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
    });
  });
}
