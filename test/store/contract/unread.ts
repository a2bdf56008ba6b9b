import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import { inScene, isoOf, LEASE_MS, type OpenEngine, type Scene, SETTLE_MS, TIMING } from '../scene.ts';
import { fullSyncOnce } from './sync-runs.ts';

const ELSEWHERE = { assessment: { ref: 'ra_1', name: 'One' } };
const NOWHERE = { note: 'it does not say whose' };

/** An event that is accepted, and fails because no pointer finds a record's id in it. */
async function unread(
  scene: Scene,
  id: string,
  {
    kind = 'risk_assessment' as Kind,
    data = ELSEWHERE as object,
    type = undefined as string | undefined,
  } = {},
) {
  const typed = type === undefined ? {} : { type, known: false };
  await scene.accept(scene.event({ id, kind, recordId: null, data, ...typed }));
  await scene.work();
}

/** An event with such a body, which failed. */
async function failed(scene: Scene, body: string) {
  const about = { kind: 'risk_assessment', recordId: null } as const;
  await scene.accept({ ...scene.event({ id: 'a', ...about }), body });
  const [event] = await scene.claim();
  await scene.store.deferEvent({ event: event!, retryAtMs: null, error: 'boom' }, scene.now(), TIMING);
}

const withRef = (scene: Scene) =>
  scene.rules({
    pointers: { ...scene.rules().pointers, risk_assessment: ['assessment.ref', 'riskAssessmentId'] },
  });

const verdictOf = async (scene: Scene, kind: Kind) => {
  await scene.store.noteAccess(kind, 'key', 'read', scene.now());
  await scene.store.beat(
    { ...scene.now(), wall: Date.now() },
    {
      eventsOnly: false,
      settleMs: SETTLE_MS,
      fullSyncMs: 0,
      unreachable: false,
      access: 'key',
    },
  );
  return (await scene.store.summary()).kinds.find((one) => one.kind === kind)?.verdict;
};

export function describeUnread(open: OpenEngine): void {
  describe('an event that names no record', () => {
    it(
      'has what it refers to looked for all the same',
      inScene(open, async (scene) => {
        await unread(scene, 'a', { kind: 'vendor', data: { ref: 'v', riskAssessmentId: 'ra_9' } });
        expect(await scene.openGaps()).toEqual(['no_record_id vendor -']);
        expect(await scene.store.knownIds('risk_assessment', '', 10)).toEqual([{ id: 'ra_9', alive: false }]);
      }),
    );

    it(
      'about an assessment keeps its kind blocked, whatever is fully synced, until a person has settled it',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        await unread(scene, 'b', { data: NOWHERE });
        expect(await scene.openGaps()).toEqual(['no_record_id risk_assessment -']);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        for (const kind of ['policy', 'risk_assessment', 'vendor'] as const) {
          scene.pass(SETTLE_MS);
          await fullSyncOnce(scene, kind);
        }
        expect(await verdictOf(scene, 'risk_assessment')).toBe('action_required');
        expect(await verdictOf(scene, 'vendor')).toBe('in_sync');
        expect(await scene.store.discardEvent('a', scene.now())).toBe(true);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('action_required');
        expect(await scene.store.discardEvent('b', scene.now())).toBe(true);
        expect(await scene.openGaps()).toEqual([]);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('in_sync');
      }),
    );

    it.each(['policy', 'vendor'] as const)(
      'about a %s is made good by a whole list that was begun SETTLE later, and by no earlier one',
      (kind) =>
        inScene(open, async (scene) => {
          await unread(scene, 'a', { kind, data: NOWHERE });
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
          scene.pass(SETTLE_MS - 1);
          await fullSyncOnce(scene, kind);
          expect(await scene.openGaps()).toEqual([`no_record_id ${kind} -`]);
          scene.pass(1);
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([kind]);
          await fullSyncOnce(scene, kind);
          expect(await scene.openGaps()).toEqual([]);
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        })(),
    );

    it.each(['vendor', 'risk_assessment'] as const)(
      'and is discarded leaves the gap of its kind to the list, where that has an id to look for as well: %s',
      (kind) =>
        inScene(open, async (scene) => {
          await unread(scene, 'a', { kind, data: NOWHERE });
          await scene.store.openGap({ reason: 'unresolved', kind, recordId: 'v' }, null, scene.now());
          await scene.store.discardEvent('a', scene.now());
          const left = kind === 'vendor' ? ['no_record_id vendor -'] : [];
          expect(await scene.openGaps()).toEqual([`unresolved ${kind} v`, ...left]);
        })(),
    );

    it(
      'waits anew for its whole list after a restart, whose clock is another',
      inScene(open, async (scene) => {
        await unread(scene, 'a', { kind: 'vendor', data: NOWHERE });
        scene.pass(SETTLE_MS - 1);
        await scene.store.markUnverifiedDirty(scene.now(), TIMING);
        scene.pass(SETTLE_MS - 1);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        scene.pass(1);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual(['vendor']);
      }),
    );

    it(
      'of an unknown type, and is understood by what was learned, has what it refers to looked for too',
      inScene(open, async (scene) => {
        const proven = { kind: 'vendor', path: 'ref', eventId: 'a', recordId: 'v', isUsed: true } as const;
        await scene.store.learnPointer(proven, scene.now());
        const data = { ref: 'v', riskAssessmentId: 'ra_9' };
        await unread(scene, 'b', { kind: 'vendor', data, type: 'vendor.merged' });
        expect(await scene.store.showEvent('b')).toMatchObject({ state: 'ignored', record_id: 'v' });
        expect(await scene.store.knownIds('risk_assessment', '', 10)).toEqual([{ id: 'ra_9', alive: false }]);
      }),
    );

    it(
      'of an unknown type is not ignored: nothing would say that it was not understood',
      inScene(open, async (scene) => {
        await unread(scene, 'a', { type: 'risk.closed' });
        expect(await scene.store.showEvent('a')).toMatchObject({ state: 'failed', record_id: null });
        expect(await scene.openGaps()).toEqual(['no_record_id risk_assessment -']);
        const tried = await scene.store.retryEvent('a', withRef(scene), scene.now());
        expect(tried).toEqual({ outcome: 'processed', kind: 'risk_assessment', recordId: 'ra_1' });
        expect(await scene.store.showEvent('a')).toMatchObject({ state: 'ignored', record_id: 'ra_1' });
        expect((await scene.store.summary()).events).toMatchObject({
          ignored: 1,
          processed: 0,
          failed: 0,
          pending: 0,
        });
        expect(await scene.openGaps()).toEqual([]);
        scene.pass(SETTLE_MS);
        expect(await scene.store.dueRecords('risk_assessment', scene.now(), TIMING, 9)).toMatchObject([
          { id: 'ra_1' },
        ]);
      }),
    );

    it(
      'fails again, and says why, as long as the pointers find nothing',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        const tried = await scene.store.retryEvent('a', scene.rules(), scene.now());
        expect(tried).toEqual({
          outcome: 'failed',
          error: expect.stringContaining('no id of a risk_assessment'),
        });
        expect(await scene.store.showEvent('a')).toMatchObject({ state: 'failed', attempts: 2 });
        expect(await scene.openGaps()).toEqual(['no_record_id risk_assessment -']);
      }),
    );

    it(
      'is read by the pointers of its retry: its record is dirty and shown, and the gap ends with the last such event',
      inScene(open, async (scene) => {
        await scene.show('risk_assessment', 'ra_1', { riskAssessmentId: 'ra_1', name: 'Zero' });
        scene.pass(SETTLE_MS);
        await unread(scene, 'a');
        await unread(scene, 'b');
        const retry = (id: string) => scene.store.retryEvent(id, withRef(scene), scene.now());
        expect(await retry('a')).toEqual({ outcome: 'processed', kind: 'risk_assessment', recordId: 'ra_1' });
        expect(await scene.row('risk_assessment', 'ra_1')).toMatchObject({
          name: 'One',
          last_event_id: 'a',
          unverified_since: isoOf(scene.now().wall),
        });
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'processed',
          record_id: 'ra_1',
          error: null,
        });
        expect(await scene.openGaps()).toEqual(['no_record_id risk_assessment -']);
        expect(await retry('b')).toMatchObject({ outcome: 'processed' });
        expect(await scene.openGaps()).toEqual([]);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('catching_up');
      }),
    );

    it(
      'is read anew where the pointers were set between its acceptance and its processing',
      inScene(open, async (scene) => {
        const about = { kind: 'risk_assessment', recordId: null, data: ELSEWHERE } as const;
        await scene.accept(scene.event({ id: 'a', ...about }), scene.event({ id: 'b', ...about }));
        const outcomes = await scene.work(withRef(scene));
        expect(outcomes.map(({ outcome, event }) => `${outcome} ${event.recordId}`)).toEqual([
          'marked_dirty ra_1',
          'overtaken ra_1',
        ]);
        expect(await scene.openGaps()).toEqual([]);
        scene.pass(SETTLE_MS);
        expect(await scene.store.countDue('risk_assessment', scene.now(), 9)).toBe(1);
      }),
    );

    it(
      'that named another record by mistake belongs to the right one after its retry',
      inScene(open, async (scene) => {
        await scene.accept(
          scene.event({
            id: 'a',
            kind: 'risk_assessment',
            recordId: 'row_17',
            data: { id: 'row_17', assessment: { ref: 'ra_1' } },
          }),
        );
        const [event] = await scene.claim();
        const failure = { event: event!, retryAtMs: null, error: 'boom' };
        await scene.store.deferEvent(failure, scene.now(), TIMING);
        expect(await scene.openGaps()).toEqual(['failed_event risk_assessment row_17']);
        expect(await scene.store.retryEvent('a', withRef(scene), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await scene.store.showEvent('a')).toMatchObject({ record_id: 'ra_1', state: 'processed' });
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'whose body is gone cannot be read again, and says so',
      inScene(open, async (scene) => {
        await failed(scene, 'not JSON');
        await scene.query("UPDATE events SET body = NULL WHERE id = 'a' RETURNING seq");
        expect(await scene.store.retryEvent('a', withRef(scene), scene.now())).toEqual({
          outcome: 'trimmed',
        });
      }),
    );

    it(
      'whose body breaks its processing fails again with that error',
      inScene(open, async (scene) => {
        await failed(scene, 'not JSON');
        expect(await scene.store.retryEvent('a', withRef(scene), scene.now())).toEqual({
          outcome: 'failed',
          error: expect.stringContaining('JSON'),
        });
        expect(await scene.store.showEvent('a')).toMatchObject({
          state: 'failed',
          attempts: 2,
          error: expect.stringContaining('JSON'),
        });
      }),
    );
  });

  describe('seeking the record of an event that names none', () => {
    it(
      'begins SETTLE after it failed, and is put off with what was found',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        const due = () => scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS });
        expect(await due()).toEqual([]);
        scene.pass(SETTLE_MS);
        const [event] = await due();
        expect(event).toMatchObject({ id: 'a', kind: 'risk_assessment', attempts: 1 });
        const { wall } = scene.now();
        await scene.store.putOffUnread(event!, 'asked for x, y: nothing', wall + 60_000, scene.now());
        await scene.store.seekAnew(scene.now());
        expect(await due()).toEqual([]);
        expect(await scene.store.showEvent('a')).toMatchObject({
          error: 'asked for x, y: nothing',
          attempts: 2,
        });
        expect(await scene.store.list('gaps', { open: true, limit: 1 })).toMatchObject([
          { reason: 'no_record_id', error: 'event a: asked for x, y: nothing', attempts: 1 },
        ]);
        scene.pass(60_000);
        expect(await due()).toMatchObject([{ id: 'a', attempts: 2 }]);
        await scene.store.putOffUnread(event!, 'nothing', scene.now().wall + 60_000, scene.now());
        scene.pass(-1_000);
        expect(await due()).toEqual([]);
        await scene.store.seekAnew(scene.now());
        expect(await due()).toMatchObject([{ id: 'a', attempts: 3 }]);
        await scene.store.putOffUnread(event!, 'answered 500', scene.now().wall + 1_000, scene.now(), 0);
        expect(await due()).toEqual([]);
        scene.pass(1_000);
        expect(await due()).toMatchObject([{ id: 'a', attempts: 3 }]);
        await scene.store.discardEvent('a', scene.now());
        // Whoever was still searching for it.
        const discarded = await scene.store.showEvent('a');
        await scene.store.putOffUnread(event!, 'late', wall, scene.now());
        expect(await scene.store.showEvent('a')).toEqual(discarded);
        expect(await due()).toEqual([]);
      }),
    );

    it(
      'begins with the first start that has credentials, if the event failed without them',
      inScene(open, async (scene) => {
        await scene.accept(
          scene.event({ id: 'a', kind: 'risk_assessment', recordId: null, data: ELSEWHERE }),
        );
        await scene.work({ eventsOnly: true });
        const due = () => scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS });
        scene.pass(SETTLE_MS);
        expect(await due()).toEqual([]);
        const { processed_at } = (await scene.store.showEvent('a'))!;
        await scene.store.seekAnew(scene.now());
        expect(await due()).toMatchObject([{ id: 'a' }]);
        expect(await scene.store.showEvent('a')).toMatchObject({ processed_at });
      }),
    );

    it(
      'waits, of a policy, for a complete list begun SETTLE after it was accepted',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ id: 'p', kind: 'policy', recordId: null, data: ELSEWHERE }));
        await scene.work();
        const due = () => scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS });
        const list = (outcome: 'complete' | 'incomplete') => fullSyncOnce(scene, 'policy', outcome);
        await list('complete');
        scene.pass(SETTLE_MS);
        expect(await due()).toEqual([]);
        await list('incomplete');
        expect(await due()).toEqual([]);
        await list('complete');
        expect(await due()).toMatchObject([{ id: 'p' }]);
      }),
    );

    it(
      'of a policy begins with the list that made it good, also where the clock was set back since it was accepted',
      inScene(open, async (scene) => {
        const ahead = { ...scene.now(), wall: scene.now().wall + 60_000 };
        const event = scene.event({ id: 'p', kind: 'policy', recordId: null, data: ELSEWHERE });
        await scene.store.accept({ events: [event], unusable: [] }, ahead, TIMING);
        const claimed = await scene.store.claimEvents('one', 1, LEASE_MS, ahead);
        await scene.store.applyEvents(claimed, scene.rules(), ahead);
        scene.pass(SETTLE_MS);
        await scene.store.seekAnew(scene.now());
        const due = () => scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS });
        expect(await due()).toEqual([]);
        expect(await scene.openGaps()).toEqual(['no_record_id policy -']);
        await fullSyncOnce(scene, 'policy');
        expect(await scene.openGaps()).toEqual([]);
        expect(await due()).toMatchObject([{ id: 'p' }]);
      }),
    );

    it(
      'is nobody’s task without the API',
      inScene(open, async (scene) => {
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: null, data: ELSEWHERE }));
        await scene.work({ eventsOnly: true });
        scene.pass(SETTLE_MS);
        expect(await scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS })).toEqual([]);
      }),
    );

    it(
      'is spared by what was learned: later events of that shape are understood as they come',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        const proven = {
          kind: 'risk_assessment',
          path: 'assessment.ref',
          eventId: 'a',
          recordId: 'ra_1',
        } as const;
        await scene.store.learnPointer({ ...proven, isUsed: false }, scene.now());
        expect(await scene.store.learnedPointers()).toEqual([]);
        await scene.store.learnPointer({ ...proven, isUsed: true }, scene.now());
        await scene.store.learnPointer({ ...proven, isUsed: false }, scene.now());
        expect(await scene.store.learnedPointers()).toEqual([
          { kind: 'risk_assessment', path: 'assessment.ref' },
        ]);
        expect((await scene.store.summary()).learned_pointers).toEqual([
          {
            kind: 'risk_assessment',
            path: 'assessment.ref',
            event_id: 'a',
            record_id: 'ra_1',
            learned_at: isoOf(scene.now().wall),
            used: true,
          },
        ]);
        await scene.accept(scene.event({ id: 'c', kind: 'vendor', recordId: 'ven_1' }));
        await unread(scene, 'b', { data: { assessment: { ref: 'ra_2' } } });
        expect(await scene.store.showEvent('c')).toMatchObject({ state: 'processed', record_id: 'ven_1' });
        expect(await scene.store.showEvent('b')).toMatchObject({ state: 'processed', record_id: 'ra_2' });
        expect(await scene.store.failedWithoutRecord(0, 9)).toMatchObject([{ id: 'a' }]);
        expect(await scene.store.retryEvent('a', scene.rules(), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await scene.store.failedWithoutRecord(0, 9)).toEqual([]);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );

    it(
      'knows which ids the API has shown, the deleted ones too',
      inScene(open, async (scene) => {
        await scene.show('vendor', 'ven_1', { id: 'ven_1' });
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_2' }));
        expect(await scene.store.shownIds('vendor', ['ven_1', 'ven_2', 'ven_3'])).toEqual(['ven_1']);
        expect(await scene.store.shownIds('policy', ['ven_1'])).toEqual([]);
      }),
    );
  });

  describe('events that name by mistake what the API has never shown', () => {
    const about = { kind: 'risk_assessment', recordId: 'row_17' } as const;
    const dataOf = (ref: string) => ({ id: 'row_17', assessment: { ref } });
    const namedBy = async (scene: Scene, ...refs: string[]) => {
      await scene.accept(...refs.map((ref) => scene.event({ ...about, id: ref, data: dataOf(ref) })));
      await scene.work();
    };
    const numberOf = async (scene: Scene, id: string) => (await scene.store.showEvent(id))!.seq;
    const naming = async (scene: Scene, which: { after?: number; through?: number } = {}) =>
      (await scene.store.eventsNaming('risk_assessment', 'row_17', { ...which, limit: 2 })).map(
        ({ id }) => id,
      );
    const outcomeOf = (scene: Scene) => scene.missing('risk_assessment', 'row_17');

    it(
      'are searched one after another, and what is found in them becomes dirty, once',
      inScene(open, async (scene) => {
        await scene.show('risk_assessment', 'ra_1', { id: 'ra_1' });
        await namedBy(scene, 'ra_1', 'ra_2', 'ra_3');
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'other', id: 'x' }));
        scene.pass(SETTLE_MS);
        expect(await outcomeOf(scene)).toBe('unresolved_event');
        expect(await naming(scene)).toEqual(['ra_1', 'ra_2']);
        const first = await numberOf(scene, 'ra_1');
        expect(await naming(scene, { through: first })).toEqual(['ra_1']);
        const note = (through: number, event: number, named: string[]) =>
          scene.store.noteSearched(
            'risk_assessment',
            'row_17',
            { through, event, named },
            scene.now(),
            TIMING,
          );
        await note(first, first, ['ra_1']);
        expect((await scene.row('risk_assessment', 'ra_1'))?.unverified_since).not.toBeNull();
        expect(await naming(scene)).toEqual(['ra_2', 'ra_3']);
        expect(await naming(scene, { after: 0 })).toEqual(['ra_1', 'ra_2']);
        expect(await outcomeOf(scene)).toBe('unresolved_event');

        scene.pass(SETTLE_MS);
        await scene.show('risk_assessment', 'ra_1', { id: 'ra_1' });
        // Found once more: it was read since, as an event that came later would have had it read.
        await note(0, first, ['ra_1', 'ra_2']);
        expect((await scene.row('risk_assessment', 'ra_1'))?.unverified_since).toBeNull();
        expect(await naming(scene)).toEqual(['ra_2', 'ra_3']);
        expect(await scene.store.countDue('risk_assessment', scene.now(), 9)).toBeLessThan(4);
        scene.pass(SETTLE_MS);
        expect(
          (await scene.store.dueRecords('risk_assessment', scene.now(), TIMING, 9)).map(({ id }) => id),
        ).toContain('ra_2');

        const through = await scene.store.currentNumber();
        await note(through, through, []);
        expect(await naming(scene)).toEqual([]);
        await scene.store.trim('event_bodies', {
          before: scene.now().wall,
          now: scene.now().wall,
          after: 0,
          limit: 500,
        });
        expect(await naming(scene, { after: 0 })).toEqual([]);
        expect(await outcomeOf(scene)).toBe('unresolved_again');
        await namedBy(scene, 'ra_4');
        scene.pass(SETTLE_MS);
        expect(await outcomeOf(scene)).toBe('unresolved_event');
        expect(await naming(scene)).toEqual(['ra_4']);
        await note(1, 1, []);
        expect(await naming(scene)).toEqual(['ra_4']);
      }),
    );

    it.each([
      ['unresolved', 'before they were searched', 'unresolved_event'],
      ['unresolved', 'once they were searched', 'known'],
      ['unproven_id', 'before they were searched', 'known'],
      ['unproven_id', 'after they were trimmed', 'known'],
    ] as const)('are settled by a person who ends the gap %s %s: %s', async (reason, when, outcome) => {
      await inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1');
        scene.pass(SETTLE_MS);
        const through = await scene.store.currentNumber();
        if (when === 'once they were searched')
          await scene.store.noteSearched(
            'risk_assessment',
            'row_17',
            { through, event: through, named: [] },
            scene.now(),
            TIMING,
          );
        if (when === 'after they were trimmed') {
          await scene.work();
          await scene.store.trim('event_bodies', {
            before: scene.now().wall,
            now: scene.now().wall,
            after: 0,
            limit: 500,
          });
        }
        const gap = { reason, kind: 'risk_assessment', recordId: 'row_17' } as const;
        const openOne = async () => {
          await scene.store.openGap(gap, null, scene.now());
          return (await scene.store.list('gaps', { limit: 1 }))[0]!.id;
        };
        const unverified = async () =>
          (await scene.store.summary()).kinds.find(({ kind }) => kind === 'risk_assessment')?.unverified;
        const first = await openOne();
        expect(await scene.store.settleGap(first, scene.now())).toBe(true);
        expect(await scene.store.settleGap(first, scene.now())).toBe(false);
        expect(await outcomeOf(scene)).toBe(outcome);
        expect(await unverified()).toBe(outcome === 'known' ? 0 : 1);
        if (outcome !== 'known') return;
        // An event that came after the gap is another question.
        const second = await openOne();
        await namedBy(scene, 'ra_2');
        scene.pass(SETTLE_MS);
        expect(await scene.store.settleGap(second, scene.now())).toBe(true);
        expect(await outcomeOf(scene)).toBe('unresolved_event');
        expect(await unverified()).toBe(1);
      })();
    });

    it.each(['event_bodies', 'events'] as const)(
      'leave a gap for a person if they were trimmed before the search (%s), unless the API shows the id after all',
      async (thing) => {
        await inScene(open, async (scene) => {
          await namedBy(scene, 'ra_1');
          await scene.accept(scene.event({ ...about, id: 'x', recordId: 'shown_later' }));
          await scene.accept(
            scene.event({ ...about, id: 'given_up', recordId: 'given_up', data: {} }),
            scene.event({ kind: 'vendor', recordId: 'row_17' }),
            scene.event({ ...about, id: 'newest', recordId: 'other' }),
          );
          await scene.work();
          await scene.store.discardEvent('given_up', scene.now());
          scene.pass(SETTLE_MS);
          await scene.store.trim(thing, {
            before: scene.now().wall,
            now: scene.now().wall,
            after: 0,
            limit: 500,
          });
          expect(await naming(scene)).toEqual([]);
          const isLost = "searched < 0 AND (id = 'row_17' OR id = 'given_up')";
          const lost = await scene.query(`SELECT kind, id FROM record_state WHERE ${isLost}`);
          expect(lost).toEqual([{ kind: 'risk_assessment', id: 'row_17' }]);
          await scene.show('risk_assessment', 'shown_later', { id: 'shown_later' });
          expect(await scene.openGaps()).toEqual([]);
          expect(await outcomeOf(scene)).toBe('unresolved_event');
          const noteAll = async () => {
            const through = await scene.store.currentNumber();
            const all = { through, event: through, named: [] };
            await scene.store.noteSearched('risk_assessment', 'row_17', all, scene.now(), TIMING);
          };
          await noteAll();
          expect(await scene.openGaps()).toEqual(['trimmed_event risk_assessment -']);
          expect(await outcomeOf(scene)).toBe('unresolved_again');
          const [gap] = await scene.store.list('gaps', { limit: 1 });
          expect(await scene.store.settleGap(gap!.id, scene.now())).toBe(true);
          await namedBy(scene, 'ra_2');
          await noteAll();
          expect(await scene.openGaps()).toEqual([]);
        })();
      },
    );

    it(
      'are read anew by other pointers though they were processed, and nothing is left of what there never was',
      inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1', 'ra_2');
        await scene.accept(
          scene.event({ ...about, id: 'odd', data: dataOf('ra_3'), type: 'risk.closed', known: false }),
        );
        scene.pass(SETTLE_MS);
        const gap = { reason: 'unresolved', kind: 'risk_assessment', recordId: 'row_17' } as const;
        await scene.store.openGap(gap, 'never shown', scene.now());
        expect(await scene.store.neverShown('risk_assessment', '', 9)).toEqual(['row_17']);
        expect(await scene.store.neverShown('risk_assessment', 'row_17', 9)).toEqual([]);
        const retry = (id: string, rules = withRef(scene)) => scene.store.retryEvent(id, rules, scene.now());
        expect(await retry('ra_1', scene.rules())).toEqual({ outcome: 'other_state', state: 'processed' });

        expect(await retry('ra_1')).toMatchObject({ outcome: 'processed', recordId: 'ra_1' });
        expect(await scene.store.showEvent('ra_1')).toMatchObject({ state: 'processed', record_id: 'ra_1' });
        expect(await retry('ra_1')).toEqual({ outcome: 'other_state', state: 'processed' });
        expect(await scene.openGaps()).toEqual(['unresolved risk_assessment row_17']);
        await retry('ra_2');
        expect(await retry('odd')).toMatchObject({ outcome: 'processed', recordId: 'ra_3' });
        expect(await scene.store.showEvent('odd')).toMatchObject({ state: 'ignored', record_id: 'ra_3' });
        expect(await scene.openGaps()).toEqual([]);
        // Somebody was still reading it.
        expect(await outcomeOf(scene)).toBe('known');
        expect((await scene.store.knownIds('risk_assessment', '', 9)).map(({ id }) => id)).toEqual([
          'ra_1',
          'ra_2',
          'ra_3',
        ]);
        expect(await scene.store.countKnown('risk_assessment')).toBe(3);
        expect(
          await scene.query('SELECT state, count FROM event_counts WHERE count <> 0 ORDER BY state'),
        ).toEqual([
          { state: 'ignored', count: 1 },
          { state: 'processed', count: 2 },
        ]);
      }),
    );

    it(
      'are read anew, and what there never was stays while a delivery in quarantine names it',
      inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1');
        const delivery = { ...about, reason: 'no type', t: '1', body: Buffer.from('{}') };
        await scene.store.accept({ events: [], unusable: [delivery] }, scene.now(), TIMING);
        await scene.store.retryEvent('ra_1', withRef(scene), scene.now());
        expect(await scene.openGaps()).toEqual(['unusable_delivery risk_assessment row_17']);
        expect(await scene.store.knownIds('risk_assessment', 'ra_1', 9)).toMatchObject([{ id: 'row_17' }]);
      }),
    );

    it(
      'are left as they are where the API has shown the record, or a row shows it',
      inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1');
        scene.pass(SETTLE_MS);
        await scene.show('risk_assessment', 'row_17', { id: 'row_17' });
        expect(await scene.store.neverShown('risk_assessment', '', 9)).toEqual([]);
        const data = { id: 'row_18', assessment: { ref: 'shown' } };
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'row_18', id: 'shown', data }));
        await scene.work({ eventsOnly: true });
        for (const id of ['ra_1', 'shown']) {
          const tried = await scene.store.retryEvent(id, withRef(scene), scene.now());
          expect(tried).toEqual({ outcome: 'other_state', state: 'processed' });
        }
      }),
    );

    it(
      'are read anew, and what there never was stays if others that named it were trimmed before they were searched',
      inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1');
        scene.pass(SETTLE_MS);
        await namedBy(scene, 'ra_2');
        await scene.store.trim('events', {
          before: scene.now().wall,
          now: scene.now().wall,
          after: 0,
          limit: 500,
        });
        expect(await scene.store.retryEvent('ra_2', withRef(scene), scene.now())).toMatchObject({
          recordId: 'ra_2',
        });
        expect(await scene.store.neverShown('risk_assessment', '', 9)).toContain('row_17');
      }),
    );

    it(
      'are searched although their record was searched before, once they turn out to be about it',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        await namedBy(scene, 'ra_9');
        scene.pass(SETTLE_MS);
        const through = await scene.store.currentNumber();
        const found = { through, event: through, named: [] };
        await scene.store.noteSearched('risk_assessment', 'row_17', found, scene.now(), TIMING);
        const pointers = { ...scene.rules().pointers, risk_assessment: ['assessment.name', 'id'] };
        await scene.store.noteSearched('risk_assessment', 'One', found, scene.now(), TIMING);
        await scene.accept(scene.event({ kind: 'risk_assessment', recordId: 'One', id: 'b' }));
        await scene.store.noteSearched('risk_assessment', 'One', found, scene.now(), TIMING);
        await scene.store.retryEvent('a', scene.rules({ pointers }), scene.now());
        const events = await scene.store.eventsNaming('risk_assessment', 'One', { limit: 9 });
        expect(events.map(({ id }) => id)).toEqual(['a', 'b']);
      }),
    );
  });

  describe('a delivery in quarantine that is about an assessment and names none', () => {
    it(
      'keeps the kind blocked until a person releases it',
      inScene(open, async (scene) => {
        const body = Buffer.from('{"type":"risk.assessed"}');
        const delivery = { reason: 'no id', t: '1', body, kind: 'risk_assessment', recordId: null } as const;
        await scene.store.accept({ events: [], unusable: [delivery] }, scene.now(), TIMING);
        await unread(scene, 'a');
        scene.pass(SETTLE_MS);
        await fullSyncOnce(scene, 'risk_assessment');
        await scene.store.discardEvent('a', scene.now());
        expect(await scene.openGaps()).toEqual(['no_record_id risk_assessment -']);
        const [kept] = await scene.store.list('quarantine', { limit: 1 });
        expect(await scene.store.releaseQuarantined(kept!.id, scene.now(), TIMING)).toBe(true);
        expect(await scene.openGaps()).toEqual([]);
      }),
    );
  });
}
