import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, shownOf, TIMING } from '../scene.ts';
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
  await scene.fail();
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
      unreachable: false as const,
      access: 'key',
    },
  );
  return (await scene.store.summary()).kinds.find((one) => one.kind === kind)?.verdict;
};

async function knownAssessments(scene: Scene): Promise<unknown[]> {
  const rows = await scene.query("SELECT id FROM record_state WHERE kind = 'risk_assessment' ORDER BY id");
  return rows.map(({ id }) => id);
}

export function describeUnread(open: OpenEngine): void {
  describe('an event that names no record', () => {
    it(
      'has what it refers to looked for all the same',
      inScene(open, async (scene) => {
        await unread(scene, 'a', { kind: 'vendor', data: { ref: 'v', riskAssessmentId: 'ra_9' } });
        expect(await scene.openProblems()).toEqual(['unknown_record vendor -']);
        expect(await knownAssessments(scene)).toEqual(['ra_9']);
      }),
    );

    it(
      'about an assessment keeps its kind blocked, whatever is fully synced, until a person has settled it',
      inScene(open, async (scene) => {
        await unread(scene, 'a');
        await unread(scene, 'b', { data: NOWHERE });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        for (const kind of ['policy', 'risk_assessment', 'vendor'] as const) {
          scene.pass(SETTLE_MS);
          await fullSyncOnce(scene, kind);
        }
        expect(await verdictOf(scene, 'risk_assessment')).toBe('action_required');
        expect(await verdictOf(scene, 'vendor')).toBe('in_sync');
        expect(await scene.store.dismissDelivery('a', scene.now(), TIMING)).toBe(true);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('action_required');
        expect(await scene.store.dismissDelivery('b', scene.now(), TIMING)).toBe(true);
        expect(await scene.openProblems()).toEqual([]);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('known_only');
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
          expect(await scene.openProblems()).toEqual([`unknown_record ${kind} -`]);
          scene.pass(1);
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([kind]);
          await fullSyncOnce(scene, kind);
          expect(await scene.openProblems()).toEqual([]);
          expect(await scene.store.kindsWantingFullSync(scene.now())).toEqual([]);
        })(),
    );

    it.each(['vendor', 'risk_assessment'] as const)(
      'and is dismissed leaves the problem of an id that is looked for as well: %s',
      (kind) =>
        inScene(open, async (scene) => {
          await unread(scene, 'a', { kind, data: NOWHERE });
          await scene.store.openProblem({ reason: 'unknown_record', kind, recordId: 'v' }, null, scene.now());
          await scene.store.dismissDelivery('a', scene.now(), TIMING);
          expect(await scene.openProblems()).toEqual([`unknown_record ${kind} v`]);
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
        expect(await scene.store.showDelivery('b')).toMatchObject({ state: 'ignored', record_id: 'v' });
        expect(await knownAssessments(scene)).toEqual(['ra_9']);
      }),
    );

    it(
      'of an unknown type is not ignored: nothing would say that it was not understood',
      inScene(open, async (scene) => {
        await unread(scene, 'a', { type: 'risk.closed' });
        expect(await scene.store.showDelivery('a')).toMatchObject({ state: 'failed', record_id: null });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        const tried = await scene.store.retryEvent('a', withRef(scene), scene.now());
        expect(tried).toEqual({ outcome: 'processed', kind: 'risk_assessment', recordId: 'ra_1' });
        expect(await scene.store.showDelivery('a')).toMatchObject({ state: 'ignored', record_id: 'ra_1' });
        expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
        expect(await scene.openProblems()).toEqual([]);
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
        expect(await scene.store.showDelivery('a')).toMatchObject({ state: 'failed', attempts: 2 });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
      }),
    );

    it(
      'is read by the pointers of its retry: its record is dirty and shown, and the problem ends with the last such event',
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
        expect(await scene.store.showDelivery('a')).toMatchObject({
          state: 'processed',
          record_id: 'ra_1',
          reason: null,
        });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        expect(await retry('b')).toMatchObject({ outcome: 'processed' });
        expect(await scene.openProblems()).toEqual([]);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('catching_up');
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
        await scene.fail();
        expect(await scene.openProblems()).toEqual(['failed_event risk_assessment row_17']);
        expect(await scene.store.retryEvent('a', withRef(scene), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await scene.store.showDelivery('a')).toMatchObject({ record_id: 'ra_1', state: 'processed' });
        expect(await scene.openProblems()).toEqual([]);
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
        expect(await scene.store.showDelivery('a')).toMatchObject({
          reason: 'asked for x, y: nothing',
          attempts: 2,
        });
        expect(await scene.store.list('problems', { open: true, limit: 1 })).toMatchObject([
          { reason: 'unknown_record', error: 'event a: asked for x, y: nothing', times: 1 },
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
        await scene.store.dismissDelivery('a', scene.now(), TIMING);
        // Whoever was still searching for it.
        const dismissed = await scene.store.showDelivery('a');
        await scene.store.putOffUnread(event!, 'late', wall, scene.now());
        expect(await scene.store.showDelivery('a')).toEqual(dismissed);
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
        const { processed_at } = (await scene.store.showDelivery('a'))!;
        await scene.store.seekAnew(scene.now());
        expect(await due()).toMatchObject([{ id: 'a' }]);
        expect(await scene.store.showDelivery('a')).toMatchObject({ processed_at });
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
        await scene.store.processPending({ limit: 1, rules: scene.rules(), retryDelaysMs: [] }, ahead);
        scene.pass(SETTLE_MS);
        await scene.store.seekAnew(scene.now());
        const due = () => scene.store.unreadEvents(scene.now(), 10, { settleMs: SETTLE_MS });
        expect(await due()).toEqual([]);
        expect(await scene.openProblems()).toEqual(['unknown_record policy -']);
        await fullSyncOnce(scene, 'policy');
        expect(await scene.openProblems()).toEqual([]);
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
        expect(await scene.store.showDelivery('c')).toMatchObject({ state: 'processed', record_id: 'ven_1' });
        expect(await scene.store.showDelivery('b')).toMatchObject({ state: 'processed', record_id: 'ra_2' });
        expect(await scene.store.failedWithoutRecord(0, 9)).toMatchObject([{ id: 'a' }]);
        expect(await scene.store.retryEvent('a', scene.rules(), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await scene.store.failedWithoutRecord(0, 9)).toEqual([]);
        expect(await scene.openProblems()).toEqual([]);
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
    const numberOf = async (scene: Scene, id: string) => (await scene.store.showDelivery(id))!.number;
    const naming = async (scene: Scene, which: { after?: number; through?: number } = {}) =>
      (await scene.store.eventsNaming('risk_assessment', 'row_17', { ...which, limit: 2 })).map(
        ({ id }) => id,
      );
    const outcomeOf = async (scene: Scene) => {
      await scene.outwait('risk_assessment', 'row_17');
      return await scene.missing('risk_assessment', 'row_17');
    };

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
        await scene.show('risk_assessment', 'ra_1', { id: 'ra_1', name: 'Found' });
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

    it.each(['before they were searched', 'once they were searched', 'after they were trimmed'])(
      'are settled by a person %s',
      async (when) => {
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
          const problem = { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'row_17' } as const;
          const openOne = async () => {
            await scene.store.openProblem(problem, null, scene.now());
            return (await scene.store.list('problems', { limit: 1 }))[0]!.id;
          };
          const unverified = async () =>
            (await scene.store.summary()).kinds.find(({ kind }) => kind === 'risk_assessment')?.unverified;
          const first = await openOne();
          expect(await scene.resolve(first)).toBe('resolved');
          expect(await scene.resolve(first)).toBe('not_open');
          expect(await outcomeOf(scene)).toBe('known');
          expect(await unverified()).toBe(0);
          await namedBy(scene, 'ra_2');
          const second = await openOne();
          // An event that came after the problem is another question.
          await namedBy(scene, 'ra_3');
          scene.pass(SETTLE_MS);
          expect(await scene.resolve(second)).toBe('resolved');
          expect(await outcomeOf(scene)).toBe('unresolved_event');
          expect(await unverified()).toBe(1);
        })();
      },
    );

    it.each(['event_bodies', 'events'] as const)(
      'are known as unread if they were trimmed before the search (%s), unless the API shows the id after all',
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
          await scene.store.dismissDelivery('given_up', scene.now(), TIMING);
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
          expect(await scene.openProblems()).toEqual([]);
          expect(await outcomeOf(scene)).toBe('unresolved_event');
          const noteAll = async () => {
            const through = await scene.store.currentNumber();
            const all = { through, event: through, named: [] };
            await scene.store.noteSearched('risk_assessment', 'row_17', all, scene.now(), TIMING);
          };
          await noteAll();
          expect(await outcomeOf(scene)).toBe('unresolved_again');
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
        const problem = { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'row_17' } as const;
        await scene.store.openProblem(problem, 'never shown', scene.now());
        expect(await scene.store.neverShown('risk_assessment', '', 9)).toEqual(['row_17']);
        expect(await scene.store.neverShown('risk_assessment', 'row_17', 9)).toEqual([]);
        const retry = (id: string, rules = withRef(scene)) => scene.store.retryEvent(id, rules, scene.now());
        expect(await retry('ra_1', scene.rules())).toEqual({ outcome: 'other_state', state: 'processed' });

        expect(await retry('ra_1')).toMatchObject({ outcome: 'processed', recordId: 'ra_1' });
        expect(await scene.store.showDelivery('ra_1')).toMatchObject({
          state: 'processed',
          record_id: 'ra_1',
        });
        expect(await retry('ra_1')).toEqual({ outcome: 'other_state', state: 'processed' });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment row_17']);
        await retry('ra_2');
        expect(await retry('odd')).toMatchObject({ outcome: 'processed', recordId: 'ra_3' });
        expect(await scene.store.showDelivery('odd')).toMatchObject({ state: 'ignored', record_id: 'ra_3' });
        expect(await scene.openProblems()).toEqual([]);
        // Somebody was still reading it.
        expect(await outcomeOf(scene)).toBe('known');
        expect(await knownAssessments(scene)).toEqual(['ra_1', 'ra_2', 'ra_3']);
        expect(await scene.store.countKnown('risk_assessment')).toBe(3);
        expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
      }),
    );
  });

  describe('a delivery in quarantine that is about an assessment and names none', () => {
    it(
      'keeps the kind blocked until a person dismisses it',
      inScene(open, async (scene) => {
        const body = Buffer.from('{"type":"risk.assessed"}');
        const delivery = { reason: 'no id', t: '1', body, kind: 'risk_assessment', recordId: null } as const;
        await scene.store.accept({ events: [], unusable: [delivery] }, scene.now(), TIMING);
        await unread(scene, 'a');
        scene.pass(SETTLE_MS);
        await fullSyncOnce(scene, 'risk_assessment');
        await scene.store.dismissDelivery('a', scene.now(), TIMING);
        expect(await scene.openProblems()).toEqual(['quarantined risk_assessment -']);
        const [kept] = await shownOf(scene.store, 'quarantined');
        expect(await scene.store.dismissDelivery(kept!.id, scene.now(), TIMING)).toBe(true);
        expect(await scene.openProblems()).toEqual([]);
      }),
    );
  });
}
