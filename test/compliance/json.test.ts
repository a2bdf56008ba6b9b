import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseJson, wholeNumber } from '../../src/compliance/json.ts';

/** What a reviver makes of it, which is slower and recurses. */
function revived(text: string): unknown {
  const reviver = (_key: string, value: unknown, { source = '' }: { source?: string } = {}) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d{1,254}$/.test(source)
      ? BigInt(source)
      : value;
  return JSON.parse(text, reviver);
}

const outcome = (parse: (text: string) => unknown, text: string) => {
  try {
    return { value: parse(text) };
  } catch (error) {
    return { error: String(error) };
  }
};

const LARGE = ['1234567890123456789', '-9007199254740993', '9007199254740992', `1${'0'.repeat(253)}`];
const NUMBERS = [
  ...[...LARGE, '9007199254740991', '-0', '0', '7', '1234567890123456', `-1${'0'.repeat(254)}`],
  ...['0.1234567890123456789', '1234567890123456789.0', '1234567890123456789e1', '1E+1234567890123456'],
];
const space = fc.constantFrom('', '', ' ', '\n\t ');
const written = fc
  .array(
    fc.constantFrom(...LARGE, ':', ',', ' ', '[', ']', '\\"', '\\\\', '\\u0022', '\\ud800', 'é', '\ud800'),
  )
  .map((parts) => `"x${parts.join('')}"`);
// No name of only one escape: the V8 of Node 26 reads some of them as a backslash.
const name = fc.oneof(fc.constantFrom('"ab"', '"\\u0061b"', '"1"', '"__proto__"', '"toString"'), written);
const { json } = fc.letrec<{ json: string }>((tie) => {
  const value = fc.tuple(space, tie('json'), space).map((parts) => parts.join(''));
  const field = fc.tuple(space, name, space, value).map(([a, key, b, each]) => `${a}${key}${b}:${each}`);
  return {
    json: fc.oneof(
      { maxDepth: 4 },
      fc.constantFrom(...NUMBERS, ...LARGE, 'null', 'true', '[]', '{}'),
      written,
      fc.array(value, { maxLength: 5 }).map((values) => `[${values.join(',')}]`),
      fc.array(field, { maxLength: 5 }).map((fields) => `{${fields.join(',')}}`),
    ),
  };
});
/** The text with some characters in the place of others. */
const damaged = fc
  .tuple(
    json,
    fc.nat(),
    fc.nat(3),
    fc.constantFrom('', '"', ':', ',', '0', '-', ...LARGE, '\u00a0', '\ufeff'),
  )
  .map(([text, place, left, put]) => {
    const at = place % (text.length + 1);
    return text.slice(0, at) + put + text.slice(at + left);
  });

describe('JSON of records', () => {
  it.each([
    ['documents', json],
    ['damaged documents', damaged],
  ])(
    'is what a reviver makes of it, its errors, repeated fields and their order included: %s',
    (_what, texts) => {
      fc.assert(
        fc.property(texts, (text) => {
          const expected = outcome(revived, text);
          const found = outcome(parseJson, text);
          expect(isDeepStrictEqual(found, expected)).toBe(true);
          expect(JSON.stringify(found)).toBe(JSON.stringify(expected));
        }),
        { numRuns: 2_000 },
      );
    },
  );

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
    expect(value).toBe(1234567890123456789n);
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
