import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  CLASSES,
  createLine,
  nextTurn,
  type VerbClass,
  type Waiting,
} from '../../src/store/sqlite/thread-worker.ts';

describe('the next turn', () => {
  it.each<[what: string, waiting: Waiting, turn: VerbClass | null]>([
    ['is nobody’s where nobody waits', {}, null],
    [
      'is a delivery’s before all others',
      { syncs: 0, processing: 0, deliveries: 0, operators: 0 },
      'deliveries',
    ],
    [
      'is in this order where there is none',
      { reports: 0, syncs: 0, operators: 0, processing: 0 },
      'processing',
    ],
    [
      'is still a delivery’s while the others have patience',
      { deliveries: 0, processing: 2, syncs: 6 },
      'deliveries',
    ],
    ['is of what has waited for three deliveries', { deliveries: 0, processing: 3 }, 'processing'],
    ['is of a page that has waited for seven', { deliveries: 0, processing: 2, syncs: 7 }, 'syncs'],
    [
      'is of what waits the longest beyond its patience',
      { processing: 4, operators: 6, syncs: 8 },
      'operators',
    ],
    ['is of the first of those that wait as long beyond it', { processing: 3, syncs: 7 }, 'processing'],
    [
      'is a delivery’s again after one of another class',
      { deliveries: 1, processing: 3, syncs: 7 },
      'deliveries',
    ],
  ])('%s', (_what, waiting, turn) => {
    expect(nextTurn(waiting)).toBe(turn);
  });

  it('comes to every class that waits within its patience and a turn of each other, and within a class to the first', () => {
    const arrivals = fc.array(fc.subarray([...CLASSES]), { minLength: 1, maxLength: 200 });
    // Turns of others. A delivery has patience with nobody.
    const most = { deliveries: 4, processing: 3 + 4, operators: 4 + 4, syncs: 7 + 4, reports: 7 + 4 };
    fc.assert(
      fc.property(arrivals, (steps) => {
        const line = createLine<{ ofClass: VerbClass; number: number }>();
        const waiting = new Map<VerbClass, { numbers: number[]; passed: number }>(
          CLASSES.map((ofClass) => [ofClass, { numbers: [], passed: 0 }]),
        );
        const isWaiting = () => [...waiting.values()].some(({ numbers }) => numbers.length > 0);
        for (let step = 0; step < steps.length || isWaiting(); step += 1) {
          for (const ofClass of steps[step] ?? []) {
            line.add(ofClass, { ofClass, number: step });
            waiting.get(ofClass)!.numbers.push(step);
          }
          const next = line.next();
          expect(next !== undefined).toBe(isWaiting());
          if (next === undefined) continue;
          const own = waiting.get(next.ofClass)!;
          expect(next.number).toBe(own.numbers.shift());
          for (const [ofClass, each] of waiting) {
            each.passed = each === own || each.numbers.length === 0 ? 0 : each.passed + 1;
            expect(each.passed, ofClass).toBeLessThanOrEqual(most[ofClass]);
          }
        }
      }),
      { numRuns: 500 },
    );
  });
});
