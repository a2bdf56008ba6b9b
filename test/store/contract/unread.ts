import { describe, expect, it } from 'vitest';
import type { Kind } from '../../../src/compliance/kinds.ts';
import type { Unknown } from '../../../src/store/store.ts';
import { inScene, isoOf, type OpenEngine, type Scene, SETTLE_MS, shownOf, TIMING } from '../scene.ts';
import { storyOn } from './story.ts';
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

/** Each with the id that is found in it now. */
const unknown = async (scene: Scene, about: Unknown | null, { before = Number.MAX_SAFE_INTEGER } = {}) =>
  (await scene.store.unknownEvents(about, { before, limit: 9 }, scene.rules().pointers)).map(
    ({ id, named }) => `${id}: ${named}`,
  );

async function knownAssessments(scene: Scene): Promise<unknown[]> {
  const rows = await scene.query("SELECT id FROM record_state WHERE kind = 'risk_assessment' ORDER BY id");
  return rows.map(({ id }) => id);
}

export function describeUnread(open: OpenEngine): void {
  const story = storyOn(open);
  describe('an event that names no record', () => {
    story('has what it refers to looked for all the same', async (scene) => {
      await unread(scene, 'a', { kind: 'vendor', data: { ref: 'v', riskAssessmentId: 'ra_9' } });
      expect(await scene.openProblems()).toEqual(['unknown_record vendor -']);
      expect(await knownAssessments(scene)).toEqual(['ra_9']);
    });

    story(
      'about an assessment keeps its kind blocked, whatever is fully synced, until a person has settled it',
      async (scene) => {
        await unread(scene, 'a');
        await unread(scene, 'b', { data: NOWHERE });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        expect(await scene.wanted()).toEqual([]);
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
      },
    );

    it.each(['policy', 'vendor'] as const)(
      'about a %s is made good by a whole list that was begun SETTLE later, and by no earlier one',
      (kind) =>
        inScene(open, async (scene) => {
          await unread(scene, 'a', { kind, data: NOWHERE });
          expect(await scene.wanted()).toEqual([]);
          scene.pass(SETTLE_MS - 1);
          await fullSyncOnce(scene, kind);
          expect(await scene.openProblems()).toEqual([`unknown_record ${kind} -`]);
          scene.pass(1);
          expect(await scene.wanted()).toEqual([kind]);
          await fullSyncOnce(scene, kind);
          expect(await scene.openProblems()).toEqual([]);
          expect(await scene.wanted()).toEqual([]);
        })(),
    );

    story(
      'about an id that was unknown before is not settled by a whole list before it was looked for itself',
      async (scene) => {
        const unknown = { reason: 'unknown_record', kind: 'vendor', recordId: 'v' } as const;
        const ask = () => scene.store.openProblem(unknown, '404', scene.now());
        await scene.store.makeDue('vendor', ['v'], scene.now());
        await ask();
        await scene.accept(scene.event({ kind: 'vendor', recordId: 'v' }));
        await scene.work();
        scene.pass(SETTLE_MS);
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openProblems()).toEqual(['unknown_record vendor v']);
        await ask();
        await fullSyncOnce(scene, 'vendor');
        expect(await scene.openProblems()).toEqual([]);
      },
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

    story('waits anew for its whole list after a restart, whose clock is another', async (scene) => {
      await unread(scene, 'a', { kind: 'vendor', data: NOWHERE });
      scene.pass(SETTLE_MS - 1);
      await scene.store.markUnverifiedDirty(scene.now(), TIMING);
      scene.pass(SETTLE_MS - 1);
      expect(await scene.wanted()).toEqual([]);
      scene.pass(1);
      expect(await scene.wanted()).toEqual(['vendor']);
    });

    story(
      'of an unknown type, and is understood by what was learned, has what it refers to looked for too',
      async (scene) => {
        const proven = { kind: 'vendor', path: 'ref', eventId: 'a', recordId: 'v', leads: false } as const;
        await scene.store.learnPointer(proven, scene.now());
        const data = { ref: 'v', riskAssessmentId: 'ra_9' };
        await unread(scene, 'b', { kind: 'vendor', data, type: 'vendor.merged' });
        expect(await scene.store.show('deliveries', 'b')).toMatchObject({ state: 'ignored', record_id: 'v' });
        expect(await knownAssessments(scene)).toEqual(['ra_9']);
      },
    );

    story(
      'of an unknown type is not ignored: nothing would say that it was not understood',
      async (scene) => {
        await unread(scene, 'a', { type: 'risk.closed' });
        expect(await scene.store.show('deliveries', 'a')).toMatchObject({ state: 'failed', record_id: null });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        const tried = await scene.store.retryEvent('a', withRef(scene), scene.now());
        expect(tried).toEqual({ outcome: 'processed', kind: 'risk_assessment', recordId: 'ra_1' });
        expect(await scene.store.show('deliveries', 'a')).toMatchObject({
          state: 'ignored',
          record_id: 'ra_1',
        });
        expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
        expect(await scene.openProblems()).toEqual([]);
        scene.pass(SETTLE_MS);
        expect(await scene.due('risk_assessment', 9)).toMatchObject([{ id: 'ra_1' }]);
      },
    );

    story('fails again, and says why, as long as the pointers find nothing', async (scene) => {
      await unread(scene, 'a');
      const tried = await scene.store.retryEvent('a', scene.rules(), scene.now());
      expect(tried).toEqual({
        outcome: 'failed',
        error: expect.stringContaining('no id of a risk_assessment'),
      });
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({ state: 'failed', attempts: 2 });
      expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
    });

    story(
      'is read by the pointers of its retry: its record is dirty and shown, and the problem ends with the last such event',
      async (scene) => {
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
        expect(await scene.store.show('deliveries', 'a')).toMatchObject({
          state: 'processed',
          record_id: 'ra_1',
          reason: null,
        });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment -']);
        expect(await retry('b')).toMatchObject({ outcome: 'processed' });
        expect(await scene.openProblems()).toEqual([]);
        expect(await verdictOf(scene, 'risk_assessment')).toBe('catching_up');
      },
    );

    story('that named another record by mistake belongs to the right one after its retry', async (scene) => {
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
      expect(await scene.store.show('deliveries', 'a')).toMatchObject({
        record_id: 'ra_1',
        state: 'processed',
      });
      expect(await scene.openProblems()).toEqual([]);
    });

    story('whose body is gone cannot be read again, and says so', async (scene) => {
      await failed(scene, 'not JSON');
      await scene.query("UPDATE events SET body = NULL WHERE id = 'a' RETURNING seq");
      expect(await scene.store.retryEvent('a', withRef(scene), scene.now())).toEqual({
        outcome: 'trimmed',
      });
    });
  });

  describe('the record of an event that names none', () => {
    story(
      'is known by what was learned: later events of that shape are understood as they come',
      async (scene) => {
        await unread(scene, 'a');
        const proven = {
          kind: 'risk_assessment',
          path: 'assessment.ref',
          eventId: 'a',
          recordId: 'ra_1',
          leads: false,
        } as const;
        await scene.store.learnPointer(proven, scene.now());
        expect((await scene.store.summary()).learned_pointers).toEqual([
          {
            kind: 'risk_assessment',
            path: 'assessment.ref',
            event_id: 'a',
            record_id: 'ra_1',
            learned_at: isoOf(scene.now().wall),
            leads: false,
          },
        ]);
        await scene.accept(scene.event({ id: 'c', kind: 'vendor', recordId: 'ven_1' }));
        await unread(scene, 'b', { data: { assessment: { ref: 'ra_2' } } });
        expect(await scene.store.show('deliveries', 'c')).toMatchObject({
          state: 'processed',
          record_id: 'ven_1',
        });
        expect(await scene.store.show('deliveries', 'b')).toMatchObject({
          state: 'processed',
          record_id: 'ra_2',
        });
        const left = () => unknown(scene, { kind: 'risk_assessment', recordId: null });
        expect(await left()).toEqual(['a: ra_1']);
        expect(await scene.store.retryEvent('a', scene.rules(), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await left()).toEqual([]);
        expect(await scene.openProblems()).toEqual([]);
      },
    );

    story(
      'is known by what was learned only where the settings find none, unless one of the defaults misled',
      async (scene) => {
        const learn = (leads: boolean) =>
          scene.store.learnPointer(
            { kind: 'risk_assessment', path: 'assessment.ref', eventId: 'a', recordId: 'ra_1', leads },
            scene.now(),
          );
        const data = { id: 'row_17', assessment: { ref: 'ra_1' } };
        const take = async (id: string, rules = scene.rules()) => {
          await scene.accept(scene.event({ id, kind: 'risk_assessment', recordId: 'row_17', data }));
          await scene.work(rules);
          return (await scene.store.show('deliveries', id))?.record_id;
        };
        await learn(false);
        expect(await take('a')).toBe('row_17');
        await learn(true);
        expect(await take('b')).toBe('ra_1');
        expect(await knownAssessments(scene)).toEqual(['ra_1', 'row_17']);
        expect(await scene.store.retryEvent('a', scene.rules(), scene.now())).toMatchObject({
          recordId: 'ra_1',
        });
        expect(await knownAssessments(scene)).toEqual(['ra_1']);
        await learn(false);
        expect(await take('c')).toBe('ra_1');
        expect(await knownAssessments(scene)).toEqual(['ra_1']);
        const { pointers } = scene.rules();
        const set = scene.rules({ pointers: { ...pointers, risk_assessment: ['id'] } });
        expect(await take('d', set)).toBe('row_17');
      },
    );

    story(
      'is looked for by a person, the newest event first, with what looks like an id in the text of its problem',
      async (scene) => {
        await unread(scene, 'a');
        await unread(scene, 'v', { kind: 'vendor' });
        await unread(scene, 'b', { data: NOWHERE });
        await scene.accept(scene.event({ id: 'c', kind: 'risk_assessment', recordId: 'never_shown' }));
        await scene.work();
        await scene.show('risk_assessment', 'ra_2', { id: 'ra_2' });
        await scene.accept(scene.event({ id: 'd', kind: 'risk_assessment', recordId: 'ra_2' }));
        await scene.work();
        expect(await unknown(scene, { kind: 'risk_assessment', recordId: null })).toEqual([
          'b: null',
          'a: null',
        ]);
        expect(await unknown(scene, { kind: 'risk_assessment', recordId: 'never_shown' })).toEqual([
          'c: never_shown',
        ]);
        expect(await unknown(scene, null)).toEqual(['c: never_shown', 'b: null', 'v: null', 'a: null']);
        const { seq } = (await scene.store.unknownEvents(null, { limit: 2 }, scene.rules().pointers))[1]!;
        expect(await unknown(scene, null, { before: seq })).toEqual(['v: null', 'a: null']);
        const errorOf = async () =>
          (await scene.store.list('problems', { open: true, limit: 9 })).items.find(
            ({ kind, record_id }) => kind === 'risk_assessment' && record_id === null,
          )?.error;
        expect(await errorOf()).toMatch(/^event b: .*nothing else in it looks like one$/);
        await scene.store.dismissDelivery('b', scene.now(), TIMING);
        expect(await errorOf()).toMatch(/^event a: .*what looks like one: assessment.ref = ra_1$/);
        await scene.store.dismissDelivery('c', scene.now(), TIMING);
        await scene.store.dismissDelivery('a', scene.now(), TIMING);
        expect(await unknown(scene, null)).toEqual(['c: never_shown', 'v: null']);
      },
    );

    story('knows which ids the API has shown, the deleted ones too', async (scene) => {
      await scene.show('vendor', 'ven_1', { id: 'ven_1' });
      await scene.accept(scene.event({ kind: 'vendor', recordId: 'ven_2' }));
      expect(await scene.store.shownIds('vendor', ['ven_1', 'ven_2', 'ven_3'])).toEqual(['ven_1']);
      expect(await scene.store.shownIds('policy', ['ven_1'])).toEqual([]);
    });
  });

  describe('events that name by mistake what the API has never shown', () => {
    const about = { kind: 'risk_assessment', recordId: 'row_17' } as const;
    const dataOf = (ref: string) => ({ id: 'row_17', assessment: { ref } });
    const namedBy = async (scene: Scene, ...refs: string[]) => {
      await scene.accept(...refs.map((ref) => scene.event({ ...about, id: ref, data: dataOf(ref) })));
      await scene.work();
    };
    const outcomeOf = async (scene: Scene) => {
      await scene.outwait('risk_assessment', 'row_17');
      return await scene.missing('risk_assessment', 'row_17');
    };

    story('open a problem, again for each new event, and then wait for a person', async (scene) => {
      const problem = { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'row_17' } as const;
      await namedBy(scene, 'ra_1', 'ra_2');
      scene.pass(SETTLE_MS);
      expect(await outcomeOf(scene)).toBe('unresolved_event');
      expect(await outcomeOf(scene)).toBe('unresolved_event');
      await scene.store.openProblem(problem, null, scene.now());
      expect(await outcomeOf(scene)).toBe('unresolved');
      await namedBy(scene, 'ra_3');
      scene.pass(SETTLE_MS);
      expect(await outcomeOf(scene)).toBe('unresolved_event');
      await scene.store.openProblem(problem, null, scene.now());
      expect(await outcomeOf(scene)).toBe('unresolved');
    });

    it.each(['at once', 'after they were trimmed'])('are settled by a person %s', async (when) => {
      await inScene(open, async (scene) => {
        await namedBy(scene, 'ra_1');
        scene.pass(SETTLE_MS);
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
          return (await scene.store.list('problems', { limit: 1 })).items[0]!.id;
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
    });

    it.each(['event_bodies', 'events'] as const)(
      'keep their problem though what they said is not kept any more (%s), whatever others turn out to be about',
      async (thing) => {
        await inScene(open, async (scene) => {
          await namedBy(scene, 'ra_1');
          await scene.accept(
            scene.event({ ...about, id: 'x', recordId: 'shown_later' }),
            scene.event({ kind: 'vendor', id: 'newest', recordId: 'ven_1' }),
          );
          await scene.work();
          await scene.show('risk_assessment', 'shown_later', { id: 'shown_later' });
          scene.pass(SETTLE_MS);
          const { wall } = scene.now();
          await scene.store.trim(thing, { before: wall, now: wall, after: 0, limit: 500 });
          expect(await scene.query("SELECT id FROM events WHERE id IN ('ra_1', 'x') ORDER BY id")).toEqual(
            thing === 'events' ? [{ id: 'ra_1' }] : [{ id: 'ra_1' }, { id: 'x' }],
          );
          await namedBy(scene, 'ra_2');
          const problem = { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'row_17' } as const;
          await scene.store.openProblem(problem, null, scene.now());
          expect(await scene.store.retryEvent('ra_2', withRef(scene), scene.now())).toMatchObject({
            recordId: 'ra_2',
          });
          expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment row_17']);
          expect(await outcomeOf(scene)).toBe('unresolved');
        })();
      },
    );

    story(
      'are read anew by other pointers though they were processed, and nothing is left of what there never was',
      async (scene) => {
        await namedBy(scene, 'ra_1', 'ra_2');
        await scene.accept(
          scene.event({ ...about, id: 'odd', data: dataOf('ra_3'), type: 'risk.closed', known: false }),
        );
        scene.pass(SETTLE_MS);
        const problem = { reason: 'unknown_record', kind: 'risk_assessment', recordId: 'row_17' } as const;
        await scene.store.openProblem(problem, 'never shown', scene.now());
        const retry = (id: string, rules = withRef(scene)) => scene.store.retryEvent(id, rules, scene.now());
        expect(await retry('ra_1', scene.rules())).toEqual({ outcome: 'other_state', state: 'processed' });

        expect(await retry('ra_1')).toMatchObject({ outcome: 'processed', recordId: 'ra_1' });
        expect(await scene.store.show('deliveries', 'ra_1')).toMatchObject({
          state: 'processed',
          record_id: 'ra_1',
        });
        expect(await retry('ra_1')).toEqual({ outcome: 'other_state', state: 'processed' });
        expect(await scene.openProblems()).toEqual(['unknown_record risk_assessment row_17']);
        await retry('ra_2');
        expect(await retry('odd')).toMatchObject({ outcome: 'processed', recordId: 'ra_3' });
        expect(await scene.store.show('deliveries', 'odd')).toMatchObject({
          state: 'ignored',
          record_id: 'ra_3',
        });
        expect(await scene.openProblems()).toEqual([]);
        // Somebody was still reading it.
        expect(await outcomeOf(scene)).toBe('known');
        expect(await knownAssessments(scene)).toEqual(['ra_1', 'ra_2', 'ra_3']);
        expect(await scene.store.countKnown('risk_assessment')).toBe(3);
        expect((await scene.store.summary()).events).toEqual({ failed: 0, pending: 0 });
      },
    );
  });

  describe('a delivery in quarantine that is about an assessment and names none', () => {
    story('keeps the kind blocked until a person dismisses it', async (scene) => {
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
    });
  });
}
