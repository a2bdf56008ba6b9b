import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { progressText } from '../../src/cli/progress.ts';
import type { OpsContext } from '../../src/ops/context.ts';
import { csvLine, recordsCsv } from '../../src/ops/csv.ts';

const plain = { spreadsheet: false };

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
    const cell = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('"', ',', '\r\n', '', '=1'),
      fc.constant(null),
    );
    fc.assert(
      fc.property(fc.array(cell, { minLength: 1 }), (cells) => {
        expect(readLine(csvLine(cells, plain))).toEqual(cells);
      }),
    );
  });

  it.each([
    [[1, true, null, ''], '1,true,,""\r\n'],
    [[{ a: [1, 'x'] }], '"{""a"":[1,""x""]}"\r\n'],
    [['a;=1+1', 'a\t=1+1', 'a b'], '"a;=1+1","a\t=1+1",a b\r\n'],
    [['=1+1', '-2', '@x'], '=1+1,-2,@x\r\n'],
  ])('of %j is %j', (cells, line) => {
    expect(csvLine(cells as unknown[], plain)).toBe(line);
  });

  it('for a spreadsheet begins with nothing that it would run', () => {
    const cells = ['=1+1', '+x', '-2', '@x', '\tx', '\rx', 'fine', -2];
    const line = csvLine(cells, { spreadsheet: true });
    expect(line).toBe(`'=1+1,'+x,'-2,'@x,"'\tx","'\rx",fine,-2\r\n`);
    expect(csvLine(['\nx', '＝1'], { spreadsheet: true })).toBe(`"'\nx",'＝1\r\n`);
  });
});

describe('the progress of an export', () => {
  it.each([
    ['with a bar on a terminal', 50, 100, true, 'Rows: [##########..........] 50 %, 50 rows'],
    ['without one elsewhere', 50, 100, false, 'Rows: 50 %, 50 rows'],
    ['as a count where no total is known', 1234, null, true, 'Rows: 1,234 rows'],
    ['never past its end', 150, 100, false, 'Rows: 100 %, 150 rows'],
  ] as const)('is shown %s', (_, done, total, bar, text) => {
    expect(progressText('Rows', done, total, bar)).toBe(text);
  });
});

it('a download has few rows in memory at a time, so that many that are read slowly take little', async () => {
  const limits: number[] = [];
  const store = {
    listRecords: async (_: unknown, __: unknown, { limit }: { limit: number }) => {
      limits.push(limit);
      return { items: [], next: limits.length < 3 ? 'more' : null };
    },
  };
  const context = { store, signal: new AbortController().signal } as unknown as OpsContext;
  for await (const _ of recordsCsv(context, 'vendor', {}, undefined));
  expect(limits).toEqual([50, 50, 50]);
});
