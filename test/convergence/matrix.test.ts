import { expect, it } from 'vitest';
import { type Cell, KINDS, runShape } from './matrix.ts';
import { SHAPES } from './matrix-shapes.ts';

/** Each is a service and an upstream in this process, both of them waiting most of the time. */
const AT_ONCE = 6;

it('no shape of the upstream is called in step over a loss, and what has to be set is named', async () => {
  const waiting = [...SHAPES];
  const results = new Map<string, Cell[]>();
  const work = async () => {
    for (let shape = waiting.shift(); shape !== undefined; shape = waiting.shift()) {
      results.set(shape.name, await runShape(shape));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));

  const rows = SHAPES.map(({ name }) => ({ name, cells: results.get(name)! }));
  console.log(tableOf(rows.map(({ name, cells }) => [name, ...cells.map(({ said }) => said)])));
  const wrong = rows.flatMap(({ name, cells }) => cells.map((cell) => ({ name, ...cell })));
  const open = new Set(SHAPES.filter((shape) => shape.open !== undefined).map(({ name }) => name));
  expect(wrong.filter(({ name, ok }) => !ok && !open.has(name))).toEqual([]);
  for (const name of open)
    expect(
      results.get(name)!.every(({ ok }) => ok),
      `${name} holds now`,
    ).toBe(false);
});

function tableOf(rows: readonly string[][]): string {
  const all = [['shape', ...KINDS], ...rows];
  const widths = all[0]!.map((_, column) => Math.max(...all.map((row) => row[column]!.length)));
  return all
    .map((row) =>
      row
        .map((text, column) => text.padEnd(widths[column]!))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
