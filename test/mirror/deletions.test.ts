import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideDeletions, decideKept, decideMissing, type Leaving } from '../../src/mirror/deletions.ts';
import { state, TIMING, VERIFIED } from './states.ts';

const guarded = (live: number, over: { percent?: number; recent?: number; waiting?: number } = {}) => ({
  percent: 20,
  live,
  recent: 0,
  waiting: 0,
  ...over,
});

describe('how many may go at once', () => {
  const some = (count: number, over: Partial<Leaving> = {}, name = 'd') =>
    Array.from({ length: count }, (_, n) => ({
      id: `${name}${n}`,
      announced: false,
      approved: false,
      kept: false,
      ...over,
    }));

  it.each([
    { gone: 0, live: 0, pending: 0 },
    { gone: 1, live: 2, pending: 0 },
    { gone: 2, live: 2, pending: 2 },
    { gone: 2, live: 3, pending: 0 },
    { gone: 3, live: 3, pending: 3 },
    { gone: 3, live: 14, pending: 3 },
    { gone: 3, live: 15, pending: 0 },
    { gone: 20, live: 100, pending: 0 },
    { gone: 21, live: 100, pending: 21 },
    { gone: 21, live: 100, percent: 50, pending: 0 },
    { gone: 3, live: 1_000, percent: 0, pending: 3 },
    { gone: 2, live: 1_000, percent: 0, pending: 0 },
    { gone: 9, live: 10, percent: 100, pending: 0 },
    { gone: 10, live: 10, percent: 100, pending: 10 },
  ])(
    'of $gone among $live living ones, announced or not, $pending wait',
    ({ gone, live, percent = 20, pending }) => {
      for (const announced of [true, false]) {
        const verdict = decideDeletions(some(gone, { announced }), guarded(live, { percent }));
        expect(verdict.pending).toHaveLength(pending);
        expect(verdict.deleted).toHaveLength(gone - pending);
      }
    },
  );

  it('lets the last one go if an event has announced that, and asks if none has', () => {
    expect(decideDeletions(some(1, { announced: true }), guarded(1)).pending).toEqual([]);
    expect(decideDeletions(some(1), guarded(1)).pending).toEqual(['d0']);
    expect(decideDeletions(some(1, { announced: true }), guarded(1, { recent: 1 })).pending).toEqual(['d0']);
  });

  it.each([
    { gone: 1, waiting: 1, recent: 0, live: 10, pending: 0 },
    { gone: 1, waiting: 2, recent: 0, live: 15, pending: 0 },
    { gone: 1, waiting: 2, recent: 0, live: 14, pending: 1 },
    { gone: 2, waiting: 1, recent: 0, live: 14, pending: 2 },
    { gone: 1, waiting: 1, recent: 0, live: 2, pending: 1 },
    { gone: 1, waiting: 0, recent: 1, live: 7, pending: 0 },
    { gone: 1, waiting: 0, recent: 2, live: 6, pending: 1 },
    { gone: 1, waiting: 0, recent: 2, live: 13, pending: 0 },
    { gone: 1, waiting: 1, recent: 1, live: 7, pending: 1 },
  ])(
    'counts $waiting that wait and $recent that went a moment ago: of $gone more among $live, $pending wait',
    ({ gone, live, pending, ...before }) => {
      expect(decideDeletions(some(gone, { announced: true }), guarded(live, before)).pending).toHaveLength(
        pending,
      );
    },
  );

  it('lets the approved go, and does not count them', () => {
    const leaving = [...some(50, { approved: true }, 'a'), ...some(2)];
    expect(decideDeletions(leaving, guarded(102)).pending).toEqual([]);
    const more = [...some(5, { approved: true }, 'a'), ...some(9)];
    expect(decideDeletions(more, guarded(14)).pending).toEqual(some(9).map(({ id }) => id));
  });

  it('asks again about a kept one, however few they are, unless an event has announced it anew', () => {
    expect(decideDeletions(some(1, { kept: true }), guarded(100)).pending).toEqual(['d0']);
    expect(decideDeletions(some(1, { kept: true, announced: true }), guarded(100)).pending).toEqual([]);
  });

  it('deletes each or lets it wait, once, the pending in order, and never lets wait what is approved', () => {
    const leaving = fc.record({
      id: fc.string(),
      announced: fc.boolean(),
      approved: fc.boolean(),
      kept: fc.boolean(),
    });
    fc.assert(
      fc.property(
        fc.uniqueArray(leaving, { selector: (one) => one.id }),
        fc.record({ percent: fc.nat(100), live: fc.nat(30), recent: fc.nat(5), waiting: fc.nat(5) }),
        (all, guard) => {
          const { deleted, pending } = decideDeletions(all, guard);
          expect([...deleted, ...pending].sort()).toEqual(all.map((one) => one.id).sort());
          expect(pending).toEqual([...pending].sort());
          for (const one of all) if (one.approved) expect(deleted).toContain(one.id);
        },
      ),
    );
  });
});

describe('a record whose deletion a person has refused', () => {
  const refused = state({ returned: true, dueAt: null, deleteEvent: 5, missingSince: 90, missingNumber: 4 });

  it('has nothing outstanding, and no announced deletion', () => {
    expect(decideKept(refused)).toMatchObject({
      ...VERIFIED,
      missingSince: null,
      proven: false,
      deleteEvent: null,
    });
  });

  it('stays due for what else is to be read', () => {
    expect(decideKept({ ...refused, dueAt: 110 })).toMatchObject({
      deleteEvent: null,
      dueAt: 110,
      dirtyAt: 100,
    });
  });

  it.each([
    { what: 'is settled by the next 404', keptNumber: 7, outcome: 'known', unverifiedSince: null },
    {
      what: 'is looked at anew once an event has named it since',
      keptNumber: 4,
      outcome: 'first',
      unverifiedSince: 1_000,
    },
  ])('$what', ({ keptNumber, outcome, unverifiedSince }) => {
    const read = { number: 8, beganAt: 200, endedAt: 201, endedWall: 2_000 };
    const alone = { witnessedAt: null, witnessedAfter: false, absentFromList: true };
    const record = { state: state({ returned: true }), row: null };
    const decision = decideMissing(read, record, { ...alone, keptNumber }, TIMING);
    expect(decision.outcome).toBe(outcome);
    expect(decision.state.unverifiedSince).toBe(unverifiedSince);
  });
});
