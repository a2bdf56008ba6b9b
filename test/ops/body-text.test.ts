import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  fieldChanges,
  hexDump,
  INDENTED_DEPTH,
  indentedJson,
  shortened,
  shownText,
  TEXT_SHOWN_CHARACTERS,
  utf8Text,
} from '../../src/ops/body-text.ts';
import { noticeOf } from '../../src/ops/pages/forms.ts';
import { reasonsOf, seriesOf, seriesStart } from '../../src/ops/traffic.ts';

test.each([
  ['{"a":1,"b":[true,null]}', '{\n  "a": 1,\n  "b": [\n    true,\n    null\n  ]\n}'],
  ['{}', '{}'],
  ['{ "a" : [ ] }', '{\n  "a": []\n}'],
  ['"{[,:]}"', '"{[,:]}"'],
  ['{"a":"\\"}{,"}', '{\n  "a": "\\"}{,"\n}'],
  // What printing anew would lose.
  ['{"n":12345678901234567890,"n":1.0}', '{\n  "n": 12345678901234567890,\n  "n": 1.0\n}'],
])('%s is indented without a change to anything but white space', (text, expected) => {
  expect(indentedJson(text)).toBe(expected);
});

test('any JSON means the same when it is indented, and what is none stays as it is', () => {
  fc.assert(
    fc.property(fc.json(), (text) => {
      expect(JSON.parse(indentedJson(text))).toEqual(JSON.parse(text));
      // As everybody else indents.
      expect(indentedJson(JSON.stringify(JSON.parse(text)))).toBe(JSON.stringify(JSON.parse(text), null, 2));
    }),
  );
  expect(shownText('{"a":')).toEqual({ text: '{"a":', isIndented: false, left: 0 });
});

/** Bodies of the size that is kept of a rejected delivery, each of what makes an indenter grow. */
const KEPT_BYTES = 16_384;
const GREEDY: readonly (readonly [string, string])[] = [
  ['brackets in brackets', '['.repeat(KEPT_BYTES / 2) + ']'.repeat(KEPT_BYTES / 2)],
  ['objects in objects', `${'{"":'.repeat(KEPT_BYTES / 5)}1${'}'.repeat(KEPT_BYTES / 5)}`],
  [
    'many values as deep as is indented',
    `${'['.repeat(INDENTED_DEPTH)}${'1,'.repeat(8000)}1${']'.repeat(INDENTED_DEPTH)}`,
  ],
  ['a step down for each step up', `[${'[[[[1]]]],'.repeat(KEPT_BYTES / 10)}1]`],
  ['white space', `[${'\r\n'.repeat(KEPT_BYTES / 2)}]`],
];

test.each(GREEDY)('%s make no page that is much longer than twice the bound', (_name, text) => {
  const shown = shownText(text);
  expect(shown.isIndented).toBe(true);
  expect(shown.text.length).toBeLessThan(2 * TEXT_SHOWN_CHARACTERS);
  expect(shown.text.replaceAll(/\s/g, '')).toBe(text.replaceAll(/\s/g, ''));
});

test('deeper than is indented stands on one line, and after the bound it stands as it came', () => {
  const deep = '['.repeat(INDENTED_DEPTH + 2) + ']'.repeat(INDENTED_DEPTH + 2);
  const lines = indentedJson(deep).split('\n');
  expect(lines).toHaveLength(2 * INDENTED_DEPTH + 1);
  expect(lines[INDENTED_DEPTH]!.trim()).toBe('[[]]');
  expect(indentedJson('[1,[2, 3]]', 4)).toBe('[\n  1,[2, 3]]');
});

test('a text beyond the bound is shown to it, and the rest is counted', () => {
  const text = JSON.stringify('x'.repeat(TEXT_SHOWN_CHARACTERS));
  expect(shownText(text)).toEqual({ text: text.slice(0, TEXT_SHOWN_CHARACTERS), isIndented: false, left: 2 });
  expect(shortened('abc', 3)).toBe('abc');
  expect(shortened('abcd', 3)).toBe('abc…');
});

test('bytes are shown in rows of sixteen, as hex and as text', () => {
  expect(hexDump(Buffer.from('{"id":"evt_1"}\u0000\u00e9'))).toBe(
    '0000  7b 22 69 64 22 3a 22 65 76 74 5f 31 22 7d 00 c3  {"id":"evt_1"}··\n' +
      `0010  a9${' '.repeat(45)}  ·`,
  );
  expect(utf8Text(Buffer.from([0xff]))).toBeNull();
  expect(utf8Text(Buffer.from('\ufeffä'))).toBe('\ufeffä');
});

test('a change is told field by field, within the data too, and what was absent is told from what was null', () => {
  expect(
    fieldChanges({ name: 'a', data: { x: null } }, { name: 'b', data: { x: 1, y: { z: 2 } }, status: null }),
  ).toEqual([
    { field: 'name', before: '"a"', after: '"b"' },
    { field: 'data.x', before: 'null', after: '1' },
    { field: 'data.y', before: null, after: '{"z":2}' },
    { field: 'status', before: null, after: 'null' },
  ]);
});

test('a field that a column is made of is told once, unless the two differ', () => {
  const before = { name: 'a', status: 'new', data: { name: 'a', status: 'old', owner: 'x' } };
  const after = { name: 'b', status: 'done', data: { name: 'b', status: 'done', owner: 'y' } };
  const names = fieldChanges(before, after).map(({ field }) => field);
  expect(names).toEqual(['name', 'status', 'data.status', 'data.owner']);
});

test('minutes are gathered into the bars of an hour and of a day, and those outside are left out', () => {
  const now = Date.parse('2026-11-20T12:07:30Z');
  const row = (minute: string, what: string, times: number, total_ms = 0, max_ms = 0) => ({
    minute,
    what,
    times,
    total_ms,
    max_ms,
  });
  const rows = [
    row('2026-11-20T12:07:00.000Z', 'accepted', 3),
    row('2026-11-20T12:00:00.000Z', 'accepted', 4),
    row('2026-11-20T12:00:00.000Z', 'duplicate', 1),
    row('2026-11-20T12:00:00.000Z', 'quarantined', 2),
    row('2026-11-20T11:59:00.000Z', 'rejected:bad_signature', 2),
    row('2026-11-20T12:01:00.000Z', 'rejected:late', 5),
    row('2026-11-20T12:02:00.000Z', 'lag:verification', 2, 3_000, 2_000),
    row('2026-11-20T12:03:00.000Z', 'lag:verification', 1, 9_000, 9_000),
    row('2026-11-18T12:00:00.000Z', 'accepted', 99),
  ];
  const hour = seriesOf(rows, 'hour', now);
  expect(hour.points).toHaveLength(60);
  expect(hour.points.at(-1)).toMatchObject({ at: Date.parse('2026-11-20T12:07:00Z'), accepted: 3 });
  expect(hour.points.at(-8)).toMatchObject({ accepted: 4, duplicate: 1, quarantined: 2 });
  const day = seriesOf(rows, 'day', now);
  expect(day.points).toHaveLength(96);
  expect(day.points.at(-1)).toMatchObject({
    at: Date.parse('2026-11-20T12:00:00Z'),
    accepted: 7,
    verification: { times: 3, totalMs: 12_000, maxMs: 9_000 },
  });
  expect(reasonsOf(day.total)).toEqual([
    ['late', 5],
    ['bad_signature', 2],
  ]);
  expect(seriesStart('day', now)).toBe(day.points[0]!.at);
});

test('what a form did is told with how many it could not be done to', () => {
  expect(noticeOf({ what: 'retried', done: 1, failed: 0 })).toEqual({
    text: '1 event processed.',
    isBad: false,
  });
  expect(noticeOf({ what: 'discarded', done: 12, failed: 2 })).toEqual({
    text: '12 events discarded. 2 could not be: the state had changed.',
    isBad: true,
  });
});
