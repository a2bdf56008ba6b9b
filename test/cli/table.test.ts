import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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
