import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CLASSES, createLine, type VerbClass } from '../../src/store/sqlite/thread-worker.ts';

/** Whose turn it is while each of these classes always has an item that waits. */
function turnsAmong(classes: readonly VerbClass[], count: number): VerbClass[] {
  const line = createLine<VerbClass>();
  for (const each of classes) line.add(each, each);
  return Array.from({ length: count }, () => {
    const turn = line.next()!;
    line.add(turn, turn);
    return turn;
  });
}

describe('the next turn', () => {
  it('is nobody’s where nobody waits', () => {
    expect(createLine().next()).toBeUndefined();
  });

  it.each<[what: string, waiting: readonly VerbClass[], turns: string]>([
    ['is a delivery’s, and after three of what is processed', ['processing', 'deliveries'], 'dddpdddpdddp'],
    ['is of an operator after four deliveries', ['operators', 'deliveries'], 'ddddoddddodddd'],
    ['is of a page after seven deliveries', ['syncs', 'deliveries'], 'dddddddsddddddds'],
    ['is of a report after seven pages', ['reports', 'syncs'], 'sssssssrsssssssr'],
    [
      'is of what waits the longest beyond its patience, and of the first of those that wait as long',
      CLASSES,
      'dddpdodpsrdopdddposdrpdo',
    ],
  ])('%s', (_what, waiting, turns) => {
    expect(turnsAmong(waiting, turns.length).map(([initial]) => initial)).toEqual([...turns]);
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
