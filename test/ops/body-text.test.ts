import { expect, test } from 'vitest';
import { fieldChanges, shortened, shownText, TEXT_SHOWN_CHARACTERS } from '../../src/ops/body-text.ts';

test.each([
  ['{"a":1,"b":[true,null],"c":{}}', '{\n  "a": 1,\n  "b": [\n    true,\n    null\n  ],\n  "c": {}\n}'],
  ['{"n":12345678901234567890}', '{\n  "n": 12345678901234567890\n}'],
  ['{"__proto__":"\\"}{,"}', '{\n  "__proto__": "\\"}{,"\n}'],
])('%s is indented, every digit and every name in it', (text, expected) => {
  expect(shownText(text)).toEqual({ text: expected, isIndented: true, left: 0 });
});

/** Bodies of the size that is kept of a rejected delivery, each of what makes an indenter grow. */
const KEPT_BYTES = 16_384;
test.each([
  ['what is no JSON', '{"a":'],
  ['brackets in brackets', '['.repeat(KEPT_BYTES / 2) + ']'.repeat(KEPT_BYTES / 2)],
  ['objects in objects', `${'{"":'.repeat(KEPT_BYTES / 5)}1${'}'.repeat(KEPT_BYTES / 5)}`],
  ['many values, deep within', `${'['.repeat(24)}${'1,'.repeat(8000)}1${']'.repeat(24)}`],
])('%s stands as it came', (_, text) => {
  expect(shownText(text)).toEqual({ text, isIndented: false, left: 0 });
});

test('a text beyond the bound is shown to it, and the rest is counted', () => {
  const text = JSON.stringify('x'.repeat(TEXT_SHOWN_CHARACTERS));
  expect(shownText(text)).toEqual({ text: text.slice(0, TEXT_SHOWN_CHARACTERS), isIndented: false, left: 2 });
  expect(shortened('abc', 3)).toBe('abc');
  expect(shortened('abcd', 3)).toBe('abc…');
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
