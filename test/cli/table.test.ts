import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { renderTable } from '../../src/cli/table.ts';
import { linesForTerminal, printable, printableJson } from '../../src/cli/text.ts';
import { anyText } from '../support/texts.ts';

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

  it('wraps the widest columns at words to the width of a terminal, and only there', () => {
    const row = ['risk-0001', 'a very long name that does not fit into any narrow terminal'];
    expect(renderTable(['ID', 'NAME'], [row], { width: 40 }).split('\n')).toEqual([
      'ID         NAME',
      'risk-0001  a very long name that does',
      '           not fit into any narrow',
      '           terminal',
      '',
    ]);
    expect(renderTable(['ID', 'NAME'], [row])).toContain(row[1]);
  });

  it('never breaks what people copy on a terminal, and never leaves out the column that says what to do', () => {
    const heads = ['ID', 'RECEIVED', 'TIMES', 'TYPE', 'WHAT TO DO'];
    const row = [
      'evt_7c9e6679-7425-40de-944b-e07fc1f90ae7',
      '2025-11-20T22:36:26.623Z',
      7,
      'policy.updated',
      'look at it',
    ];
    const kept = ['WHAT TO DO'];
    expect(renderTable(heads, [row], { width: 70, kept }).split('\n')).toEqual([
      'ID                                       RECEIVED     TIMES WHAT TO DO',
      'evt_7c9e6679-7425-40de-944b-e07fc1f90ae7 2025-11-20       7 look at it',
      '                                         22:36:26Z',
      '(a wider terminal shows TYPE, too)',
      '',
    ]);
    expect(renderTable(heads, [row])).toContain('.623Z      7  policy.updated  look at it');
  });

  it('shows instants of this year without it on a terminal, and all others whole', () => {
    const instant = `${new Date().getUTCFullYear()}-01-31T10:00:00.123Z`;
    const rows = [[instant], ['2025-12-31T10:00:00Z']];
    expect(renderTable(['AT'], rows, { width: 30 })).toBe('AT\n01-31 10:00:00Z\n2025-12-31 10:00:00Z\n');
    expect(renderTable(['AT'], rows)).toContain(instant);
  });

  it('counts what a person sees as one character as one, and what a terminal shows in two columns as two', () => {
    const table = renderTable(
      ['A', 'B'],
      [
        ['👩‍👩‍👧!', 'x'],
        ['e\u0301e', 'x'],
        ['方針', 'x'],
      ],
    );
    expect(table).toBe('A     B\n👩‍👩‍👧!   x\ne\u0301e    x\n方針  x\n');
    const rows = [['policy-1', '個人情報保護方針とその運用']];
    expect(renderTable(['ID', 'NAME'], rows, { width: 24 })).toContain(
      'policy-1  個人情報保護方\n          針とその運用\n',
    );
    const pairs = [
      ['方針', 1],
      ['name', 2],
    ] as const;
    expect(renderTable(null, pairs)).toBe('方針  1\nname  2\n');
  });

  it('never passes a character on that a terminal would obey', () => {
    fc.assert(
      fc.property(anyText(), (text) => {
        const out = renderTable(['H'], [[text]], { width: 30 }) + renderTable(null, [[text, text]]);
        expect(out.replaceAll('\n', '')).not.toMatch(/[\p{Cc}\u202a-\u202e\u2066-\u2069\u2028\u2029]/u);
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

  it('is what a terminal is shown of lines of CSV, too', () => {
    expect(linesForTerminal('1,\u001b]52;c;x\u0007\r\n2,"a\r\nb"\r\n')).toBe(
      '1,\\u001b]52;c;x\\u0007\n2,"a\nb"\n',
    );
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
