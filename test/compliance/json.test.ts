import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson, wholeNumber } from '../../src/compliance/json.ts';

describe('JSON of records', () => {
  it.each([
    ['9007199254740991', 9007199254740991],
    ['9007199254740992', 9007199254740992n],
    ['-9007199254740993', -9007199254740993n],
    ['1234567890123456789.0', 1234567890123456800],
    [`-1${'0'.repeat(254)}`, -1e254],
    ['"x:1234567890123456789,"', 'x:1234567890123456789,'],
    ['"\\"[1234567890123456789"', '"[1234567890123456789'],
  ])('reads %s as what it is', (text, value) => {
    for (const around of [text, `[\n ${text}\t]`, `{"a":${text}}`]) {
      const read = parseJson(around);
      expect(typeof read === 'object' ? Object.values(read as object)[0] : read).toBe(value);
    }
  });

  it('keeps whole numbers of up to 254 digits to the last one, wherever they stand', () => {
    const limit = 10n ** 254n - 1n;
    fc.assert(
      fc.property(fc.bigInt({ min: -limit, max: limit }), fc.string(), (number, field) => {
        const text = `{${JSON.stringify(field)}:[${number},{"b":${number}}]}`;
        expect(JSON.stringify(parseJson(text))).toBe(text);
        const [read] = Object.values(parseJson(text) as Record<string, unknown[]>)[0]!;
        expect(wholeNumber(read)).toBe(String(number));
      }),
    );
  });

  it('is what JSON.parse makes of it otherwise, a field called __proto__ included', () => {
    fc.assert(
      fc.property(fc.json(), (text) => {
        const value = parseJson(text);
        fc.pre(!/\d{16}/.test(text));
        expect(value).toEqual(JSON.parse(text));
      }),
    );
    const text = '{"__proto__":{"polluted":1234567890123456789},"text":"1234567890123456789"}';
    expect(JSON.stringify(parseJson(text))).toBe(text);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it('is read however deep it nests, so that who asks for it can say that it is too deep', () => {
    const text = `${'['.repeat(100_000)}1234567890123456789${']'.repeat(100_000)}`;
    let value = parseJson(text);
    while (Array.isArray(value)) [value] = value as unknown[];
    expect(value).toBe(1234567890123456800);
    expect(() => parseJson('[1234567890123456789')).toThrow(SyntaxError);
  });

  it.each(['0.30000000000000004', '1e300', '1e999', '12345678901234567e3', `1${'0'.repeat(400)}`])(
    'has %s as a double, which is no whole number to tell records by',
    (text) => {
      expect(parseJson(text)).toBe(JSON.parse(text));
      expect(wholeNumber(parseJson(text))).toBeNull();
    },
  );
});
