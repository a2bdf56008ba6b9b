import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson } from '../../src/compliance/json.ts';
import {
  escapedJson,
  escapeText,
  parseEscapedJson,
  TYPES,
  unescapeText,
} from '../../src/store/postgres/dialect.ts';

/** Any sequence of UTF-16 units, those that PostgreSQL refuses more often than chance would have it. */
const hostile = fc
  .array(fc.oneof(fc.constantFrom(0, 1, 2, 3, 0x5c, 0x75, 0x30, 0xd800, 0xdc00, 0xdfff), fc.nat(0xffff)), {
    maxLength: 20,
  })
  .map((units) => String.fromCharCode(...units));
const bytewise = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b));

describe('text as PostgreSQL can hold it', () => {
  it('comes back as it was, and holds nothing that PostgreSQL refuses', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        const kept = escapeText(text);
        expect(kept).not.toContain('\u0000');
        expect(kept.isWellFormed()).toBe(true);
        expect(unescapeText(kept)).toBe(text);
      }),
    );
  });

  it('sorts and begins as the text itself does', () => {
    const wellFormed = hostile.map((text) => text.toWellFormed());
    fc.assert(
      fc.property(wellFormed, wellFormed, (a, b) => {
        expect(Math.sign(bytewise(escapeText(a), escapeText(b)))).toBe(Math.sign(bytewise(a, b)));
        expect(escapeText(a + b).startsWith(escapeText(a))).toBe(true);
      }),
    );
  });

  it.each([
    ['plain text', 'Access Control', 'Access Control'],
    ['a NUL', 'a\u0000b', 'a\u0001\u0001b'],
    ['the escape itself', '\u0001', '\u0001\u0002'],
    ['half a pair', '\ud800!', '\u0001\u0003d800!'],
    ['a whole pair', '💥', '💥'],
  ])('writes %s', (_what, text, kept) => {
    expect(escapeText(text)).toBe(kept);
  });
});

describe('JSON as jsonb can hold it', () => {
  it('comes back as it was, names of fields included', () => {
    const json = fc.oneof(hostile, fc.jsonValue(), fc.dictionary(hostile, fc.oneof(hostile, fc.jsonValue())));
    fc.assert(
      fc.property(json, (value) => {
        const kept = escapedJson(value);
        expect(kept).not.toMatch(/(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/);
        expect(parseEscapedJson(kept)).toEqual(parseJson(JSON.stringify(value)));
      }),
    );
  });

  it('leaves an escaped backslash before what looks like an escape alone', () => {
    const value = { a: '\\u0000', b: '\\\\u0001', c: '\\ud800' };
    expect(escapedJson(value)).toBe(JSON.stringify(value));
    expect(parseEscapedJson(escapedJson(value))).toEqual(value);
  });
});

describe('instants', () => {
  const read = TYPES.getTypeParser(1184) as (text: string) => string;

  it.each([
    ['2026-11-01T12:00:00.123Z', '2026-11-01 12:00:00.123+00'],
    ['0000-02-29T00:00:00.000Z', '0001-02-29 00:00:00+00 BC'],
    ['-000001-12-31T23:00:00.000Z', '0002-12-31 23:00:00+00 BC'],
    ['+010000-01-01T00:00:00.000Z', '10000-01-01 00:00:00+00'],
  ])('%s is read from %s', (iso, asTheServerSays) => {
    expect(read(asTheServerSays)).toBe(iso);
  });

  it('are cut to milliseconds', () => {
    expect(read('2026-11-01 12:00:00.1239+00')).toBe('2026-11-01T12:00:00.123Z');
  });
});
