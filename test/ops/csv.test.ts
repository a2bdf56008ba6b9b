import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { csvLine } from '../../src/ops/csv.ts';
import { anyText } from '../support/texts.ts';

/** A reader of RFC 4180 that tells an empty field from an empty text. */
function readLine(line: string): (string | null)[] {
  const cells: (string | null)[] = [];
  let at = 0;
  while (at <= line.length) {
    if (line[at] === '"') {
      let text = '';
      at += 1;
      while (line[at] !== '"' || line[at + 1] === '"') {
        text += line[at];
        at += line[at] === '"' ? 2 : 1;
      }
      cells.push(text);
      at += 2;
    } else {
      const end = /[,\r]|$/.exec(line.slice(at))!.index + at;
      cells.push(end === at ? null : line.slice(at, end));
      at = end + 1;
    }
    if (line.slice(at - 1) === '\r\n') return cells;
  }
  throw new Error('the line has no end');
}

describe('a line of CSV', () => {
  it('comes back as it was, whatever is in it', () => {
    const cell = fc.oneof(anyText(), fc.constantFrom('"', ',', '\r\n', '', '=1'), fc.constant(null));
    fc.assert(
      fc.property(fc.array(cell, { minLength: 1 }), (cells) => {
        expect(readLine(csvLine(cells))).toEqual(cells);
      }),
    );
  });

  it.each([
    [[1, true, null, ''], '1,true,,""\r\n'],
    [[{ a: [1, 'x'] }], '"{""a"":[1,""x""]}"\r\n'],
    [['a;=1+1', 'a\t=1+1', 'a b'], '"a;=1+1","a\t=1+1",a b\r\n'],
    [['=1+1', '-2', '@x'], '=1+1,-2,@x\r\n'],
  ])('of %j is %j', (cells, line) => {
    expect(csvLine(cells as unknown[])).toBe(line);
  });
});
