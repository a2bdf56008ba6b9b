import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { screenOf } from '../../src/cli/cli.ts';
import { renderPairs, renderTable } from '../../src/cli/table.ts';
import { printable, printableJson } from '../../src/cli/text.ts';

describe('a table', () => {
  it('aligns texts to the left, numbers to the right and shows nothing as a dash', () => {
    const table = renderTable(
      ['ID', 'SEEN', 'ERROR'],
      [
        ['policy-1', 7, null],
        ['p2', 1200, 'no answer'],
        ['p3', null, undefined],
      ],
    );
    expect(table).toBe(
      [
        'ID        SEEN  ERROR',
        'policy-1     7  -',
        'p2        1200  no answer',
        'p3           -  -',
        '',
      ].join('\n'),
    );
  });

  it('cuts the widest columns to the width of a terminal, and only there', () => {
    const row = ['risk-0001', 'a very long name that does not fit into any narrow terminal'];
    const fitted = renderTable(['ID', 'NAME'], [row], { width: 40 });
    expect(fitted.split('\n').every((line) => line.length <= 40)).toBe(true);
    expect(fitted).toContain('risk-0001  a very long name that does n…');
    expect(renderTable(['ID', 'NAME'], [row])).toContain(row[1]);
  });

  it('never cuts what people copy on a terminal: what does not fit stands in lines of its own', () => {
    const heads = ['ID', 'RECEIVED', 'ERROR'];
    const row = [
      'evt-j4fj6jcx21aa',
      '2026-11-20T22:36:26.623Z',
      'the compliance service did not answer in time',
    ];
    expect(renderTable(heads, [row], { width: 60 })).toBe(
      [
        'ID                RECEIVED              ERROR',
        'evt-j4fj6jcx21aa  2026-11-20T22:36:26Z  the compliance serv…',
        '',
      ].join('\n'),
    );
    expect(renderTable(heads, [row, row], { width: 50 })).toBe(
      [
        ...['ID        evt-j4fj6jcx21aa', 'RECEIVED  2026-11-20T22:36:26Z'],
        ...['ERROR     the compliance service did not answer i…', ''],
        ...['ID        evt-j4fj6jcx21aa', 'RECEIVED  2026-11-20T22:36:26Z'],
        ...['ERROR     the compliance service did not answer i…', ''],
      ].join('\n'),
    );
    expect(renderTable(heads, [row])).toContain('.623Z  the compliance service did not answer in time');
  });

  it('is not cut on a terminal that does not know how wide it is', () => {
    const stream = { write: () => true, isTTY: true } as unknown as NodeJS.WriteStream;
    expect(screenOf({ ...stream, columns: 0 } as NodeJS.WriteStream).columns).toBeUndefined();
    expect(screenOf({ ...stream, columns: 80 } as NodeJS.WriteStream).columns).toBe(80);
  });

  it('counts what a person sees as one character as one', () => {
    const table = renderTable(
      ['A', 'B'],
      [
        ['👩‍👩‍👧!', 'x'],
        ['e\u0301e', 'x'],
      ],
    );
    expect(table).toBe('A   B\n👩‍👩‍👧!  x\ne\u0301e  x\n');
  });

  it('never passes a character on that a terminal would obey', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const out = renderTable(['H'], [[text]], { width: 30 }) + renderPairs([['name', text]]);
        expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069\u2028\u2029]/u);
        expect(out.split('\n')).toHaveLength(4);
      }),
    );
  });
});

describe('printable text', () => {
  it.each([
    ['\u001b]0;owned\u0007', '\\u001b]0;owned\\u0007'],
    ['line\nline\ttab', 'line\\u000aline\\u0009tab'],
    ['\u009b31m', '\\u009b31m'],
    ['user\u202egpj.exe', 'user\\u202egpj.exe'],
    ['\ud800 alone', '\\ud800 alone'],
    ['Grüße, 你好 😀', 'Grüße, 你好 😀'],
  ])('%j is shown as %j', (text, shown) => {
    expect(printable(text)).toBe(shown);
  });

  it('as JSON still says the same to a program', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = printableJson({ value });
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ value })));
        expect(text.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202e]/u);
      }),
    );
  });
});
