import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import { screenOf } from '../../src/cli/cli.ts';
import { fullPage } from '../../src/cli/lists.ts';
import { renderPairs, renderTable } from '../../src/cli/table.ts';
import { linesForTerminal, printable, printableJson } from '../../src/cli/text.ts';

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

  it('never cuts what people copy on a terminal: what finds no room is left out and named', () => {
    const heads = ['ID', 'RECEIVED', 'ERROR', 'ANSWERED', 'TIMES'];
    const error = 'the compliance service did not answer in time';
    const row = ['evt-j4fj6jcx21aa', '2026-11-20T22:36:26.623Z', error, null, 7];
    expect(renderTable(heads, [row], { width: 70 }).split('\n')).toEqual([
      'ID                RECEIVED        ERROR                          TIMES',
      'evt-j4fj6jcx21aa  11-20 22:36:26  the compliance service did n…      7',
      '',
    ]);
    expect(renderTable(heads, [row, row], { width: 50 }).split('\n')).toEqual([
      'ID                RECEIVED        ERROR',
      'evt-j4fj6jcx21aa  11-20 22:36:26  the compliance …',
      'evt-j4fj6jcx21aa  11-20 22:36:26  the compliance …',
      '(a wider terminal shows TIMES, too)',
      '',
    ]);
    expect(renderTable(heads, [row])).toContain('.623Z  the compliance service did not answer in time  -');
  });

  it('cuts a very long id to the room of the longest usual one, and no other', () => {
    const ids = ['evt_7c9e6679-7425-40de-944b-e07fc1f90ae7', `evt_${'x'.repeat(200)}`];
    const rows = ids.map((id) => [
      '2026-11-20T22:36:26.623Z',
      id,
      'the compliance service did not answer',
      7,
    ]);
    expect(renderTable(['AT', 'ID', 'ERROR', 'TIMES'], rows, { width: 80 }).split('\n').slice(1, 3)).toEqual([
      `11-20 22:36:26  ${ids[0]}  the compliance…      7`,
      `11-20 22:36:26  ${ids[1]!.slice(0, 39)}…  the compliance…      7`,
    ]);
  });

  it('keeps the years of instants that are of several', () => {
    const rows = ['2025', '2026'].map((year) => [`${year}-12-31T10:00:00.000Z`, 'x'.repeat(30)]);
    expect(renderTable(['AT', 'WHAT'], rows, { width: 30 })).toContain('2025-12-31T10:00:00Z');
  });

  it('is not cut on a terminal that does not know how wide it is', () => {
    const stream = {
      write: () => true,
      isTTY: true,
      hasColors: () => false,
    } as unknown as NodeJS.WriteStream;
    expect(screenOf({ ...stream, columns: 0 } as NodeJS.WriteStream).columns).toBeUndefined();
    expect(screenOf({ ...stream, columns: 80 } as NodeJS.WriteStream).columns).toBe(80);
  });

  it('shows states in their colour where the terminal has some, and nothing else', () => {
    const rows = [
      ['failed', 'failed'],
      ['ignored', 'x'],
    ] as const;
    const table = renderTable(['STATE', 'NAME'], rows, { colours: true });
    expect(table).toBe('\u001b[1mSTATE    NAME\u001b[22m\n\u001b[31mfailed\u001b[39m   failed\nignored  x\n');
    expect(renderTable(['STATE', 'NAME'], rows)).toBe('STATE    NAME\nfailed   failed\nignored  x\n');
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
    expect(renderTable(['ID', 'NAME'], rows, { width: 24 })).toContain('policy-1  個人情報保護…\n');
    expect(
      renderPairs([
        ['方針', 1],
        ['name', 2],
      ]),
    ).toBe('方針  1\nname  2\n');
  });

  it('cuts a text of any length in a time that grows with its length alone', () => {
    const text = 'An endless name. '.repeat(4_000);
    const began = performance.now();
    const table = renderTable(['ID', 'NAME'], [['policy-1', text]], { width: 40 });
    expect(performance.now() - began).toBeLessThan(5_000);
    expect(table).toContain('policy-1  An endless name. An endless n…\n');
  });

  it('never passes a character on that a terminal would obey', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        const out = renderTable(['H'], [[text]], { width: 30 }) + renderPairs([[text, text]]);
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

it('a list that looks through many rows says how far it has come', async () => {
  const written: string[] = [];
  const screen = {
    ...screenOf(process.stderr),
    isTerminal: false,
    write: (text: string) => written.push(text),
  };
  let minutes = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => minutes * 60_000);
  const pages = [
    { items: [1], next: 'b', looked_back_to: '2026-11-01T00:00:00.000Z' },
    { items: [], next: 'c', searched_to: 'ven\u001b_7' },
    { items: [2], next: '0.4:Acmeven_8' },
    { items: [3, 4], next: 'd' },
  ];
  const page = await fullPage(screen, 4, undefined, async () => pages[minutes++]!);
  vi.restoreAllMocks();
  expect(page).toEqual({ items: [1, 2, 3, 4], next: 'd' });
  expect(written).toEqual([
    'Looked as far as 2026-11-01T00:00:00.000Z: 1 found\n',
    'Looked as far as ven\\u001b_7: 1 found\n',
    '2 found\n',
  ]);
});
