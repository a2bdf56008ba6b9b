import fc from 'fast-check';
import { expect, test } from 'vitest';
import { DAY, HOUR, reasonsOf, seriesOf, seriesStart } from '../../src/ops/series.ts';
import { fieldChanges, hexDump, indentedJson, utf8Text } from '../../src/ops/texts.ts';
import { toldParam, toldText } from '../../src/ops/told.ts';

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
      expect(JSON.parse(indentedJson(text)!)).toEqual(JSON.parse(text));
    }),
  );
  expect(indentedJson('{"a":')).toBeNull();
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

test('minutes are gathered into the bars of an hour and of a day, and those outside are left out', () => {
  const now = Date.parse('2026-11-20T12:07:30Z');
  const row = (minute: string, what: string, times: number, total_ms = 0, max_ms = 0) => ({
    ...{ minute, what, times, total_ms, max_ms },
  });
  const rows = [
    row('2026-11-20T12:07:00.000Z', 'accepted', 3),
    row('2026-11-20T12:00:00.000Z', 'accepted', 4),
    row('2026-11-20T12:00:00.000Z', 'duplicate', 1),
    row('2026-11-20T11:59:00.000Z', 'refused:bad_signature', 2),
    row('2026-11-20T12:01:00.000Z', 'refused:late', 5),
    row('2026-11-20T12:02:00.000Z', 'lag:verification', 2, 3_000, 2_000),
    row('2026-11-20T12:03:00.000Z', 'lag:verification', 1, 9_000, 9_000),
    row('2026-11-18T12:00:00.000Z', 'accepted', 99),
  ];
  const hour = seriesOf(rows, HOUR, now);
  expect(hour.points).toHaveLength(60);
  expect(hour.points.at(-1)).toMatchObject({ at: Date.parse('2026-11-20T12:07:00Z'), accepted: 3 });
  expect(hour.points.at(-8)).toMatchObject({ accepted: 4, duplicate: 1 });
  const day = seriesOf(rows, DAY, now);
  expect(day.points).toHaveLength(96);
  expect(day.points.at(-1)).toMatchObject({
    at: Date.parse('2026-11-20T12:00:00Z'),
    accepted: 7,
    lag: { verification: { times: 3, totalMs: 12_000, maxMs: 9_000 } },
  });
  expect(reasonsOf(day)).toEqual([
    ['late', 5],
    ['bad_signature', 2],
  ]);
  expect(seriesStart(DAY, now)).toBe(day.points[0]!.at);
});

test('what a form did is told from numbers, and from nothing else', () => {
  expect(toldText(toldParam({ what: 'retried', done: 1, not: 0 }))).toBe('1 event will be tried again.');
  expect(toldText(toldParam({ what: 'discarded', done: 12, not: 2 }))).toBe(
    '12 events discarded. 2 others could not be: the state had changed.',
  );
  for (const param of [undefined, '', 'retried', 'toString.1.1', 'retried.1.1.1', 'retried.-1.0']) {
    expect(toldText(param)).toBeNull();
  }
});
