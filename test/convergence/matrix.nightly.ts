import { expect, it } from 'vitest';
import { type Cell, KINDS, runShape, type Shape } from './matrix.ts';
import { SHAPES } from './matrix-shapes.ts';

/** Each is a service and an upstream in this process, both of them waiting most of the time. */
const AT_ONCE = 8;

/** `MATRIX`: only shapes with this in their name. */
const WORDS = process.env['MATRIX'];
const ASKED = SHAPES.filter(({ name }) => WORDS === undefined || name.includes(WORDS));

it('no shape of the upstream is called in sync over a loss, and what has to be set is named', {
  timeout: 900_000,
}, async () => {
  expect(ASKED).not.toEqual([]);
  const waiting = [...ASKED];
  const results = new Map<Shape, Cell[]>();
  const work = async () => {
    for (let shape = waiting.shift(); shape !== undefined; shape = waiting.shift()) {
      results.set(shape, await runShape(shape));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));

  const rows = ASKED.map((shape) => ({ ...shape, cells: results.get(shape)! }));
  console.log(tableOf(rows.map(({ name, cells }) => [name, ...cells.map(({ said }) => said)])));
  const all = rows.flatMap(({ name, cells }) => cells.map((cell) => ({ name, ...cell })));
  expect(all.filter(({ ok }) => !ok)).toEqual([]);
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
