import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { decideDeletions } from '../../src/mirror/deletions.ts';

describe('how many may go at once', () => {
  const some = (count: number, over: { announced?: boolean; approved?: boolean } = {}) =>
    Array.from({ length: count }, (_, n) => ({
      id: `${over.announced ? 'a' : over.approved ? 'c' : 'd'}${n}`,
      announced: false,
      approved: false,
      ...over,
    }));

  it.each([
    { gone: 0, live: 0, pending: 0 },
    { gone: 1, live: 1, pending: 1 },
    { gone: 2, live: 2, pending: 2 },
    { gone: 2, live: 3, pending: 0 },
    { gone: 3, live: 3, pending: 3 },
    { gone: 3, live: 14, pending: 3 },
    { gone: 3, live: 15, pending: 0 },
    { gone: 20, live: 100, pending: 0 },
    { gone: 21, live: 100, pending: 21 },
  ])('of $gone among $live live ones $pending wait', ({ gone, live, pending }) => {
    const verdict = decideDeletions(some(gone), live);
    expect(verdict.pending).toHaveLength(pending);
    expect(verdict.deleted).toHaveLength(gone - pending);
  });

  it.each([
    { gone: 1, before: 1, live: 10, pending: 0 },
    { gone: 1, before: 2, live: 15, pending: 0 },
    { gone: 1, before: 2, live: 14, pending: 1 },
    { gone: 2, before: 1, live: 14, pending: 2 },
    { gone: 1, before: 1, live: 2, pending: 1 },
  ])(
    'counts $before pending from before: of $gone more among $live, $pending wait',
    ({ gone, before, live, pending }) => {
      expect(decideDeletions(some(gone), live, before).pending).toHaveLength(pending);
    },
  );

  it('lets the announced and the approved go, and counts neither among the doubtful', () => {
    const candidates = [...some(50, { announced: true }), ...some(50, { approved: true }), ...some(2)];
    expect(decideDeletions(candidates, 102).pending).toEqual([]);
    const more = [...some(5, { announced: true }), ...some(9)];
    expect(decideDeletions(more, 14).pending).toEqual(some(9).map((one) => one.id));
    expect(decideDeletions(more, 14).deleted).toEqual(some(5, { announced: true }).map((one) => one.id));
  });

  it('deletes each or lets it wait, once, the pending in order, and never lets wait what needs no approval', () => {
    const candidate = fc.record({ id: fc.string(), announced: fc.boolean(), approved: fc.boolean() });
    fc.assert(
      fc.property(
        fc.uniqueArray(candidate, { selector: (one) => one.id }),
        fc.nat(30),
        (candidates, live) => {
          const { deleted, pending } = decideDeletions(candidates, live);
          expect([...deleted, ...pending].sort()).toEqual(candidates.map((one) => one.id).sort());
          expect(pending).toEqual([...pending].sort());
          for (const one of candidates) if (one.announced || one.approved) expect(deleted).toContain(one.id);
        },
      ),
    );
  });
});
