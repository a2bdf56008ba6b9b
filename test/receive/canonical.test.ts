import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, isDeeperThan } from '../../src/receive/canonical.ts';

const json = fc.jsonValue().map((value) => JSON.parse(JSON.stringify(value)) as unknown);

/** The same document with its fields in another order. */
function turned(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) return value.map(turned);
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, child]) => [name, turned(child)]),
  );
}

describe('canonical JSON', () => {
  it('parses back to the same document', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(JSON.parse(canonicalJson(value))).toEqual(value);
      }),
    );
  });

  it('does not depend on the order of fields', () => {
    fc.assert(
      fc.property(json, (value) => {
        expect(canonicalJson(turned(value))).toBe(canonicalJson(value));
      }),
    );
  });

  it('differs where the documents do', () => {
    fc.assert(
      fc.property(json, json, (a, b) => {
        expect(canonicalJson(a) === canonicalJson(b)).toBe(isDeepStrictEqual(a, b));
      }),
    );
  });

  it.each([
    ['{"b":1,"a":[{"d":null,"c":"x"}],"":{}}', '{"":{},"a":[{"c":"x","d":null}],"b":1}'],
    ['{"10":1,"9":2,"é":3,"z":4}', '{"10":1,"9":2,"z":4,"é":3}'],
    ['{"a": 1.0, "b": -0, "c": 1e2}', '{"a":1,"b":0,"c":100}'],
    ['{"__proto__":{"a":1},"a":2}', '{"__proto__":{"a":1},"a":2}'],
    ['"\\ud800"', '"\\ud800"'],
    ['[]', '[]'],
  ])('of %s is %s', (text, canonical) => {
    expect(canonicalJson(JSON.parse(text))).toBe(canonical);
  });
});

describe('depth', () => {
  const nested = (depth: number, open: string, close: string) =>
    JSON.parse(open.repeat(depth - 1) + (open === '[' ? '[]' : '{}') + close.repeat(depth - 1)) as unknown;

  it.each([
    ['arrays', '[', ']'],
    ['objects', '{"a":', '}'],
    ['objects under __proto__', '{"__proto__":', '}'],
    ['both', '[{"a":', '}]'],
  ])('counts %s, the outermost as one', (_what, open, close) => {
    const levels = open.startsWith('[{') ? 2 : 1;
    const value = nested(10, open, close);
    const depth = 9 * levels + 1;
    expect(isDeeperThan(value, depth)).toBe(false);
    expect(isDeeperThan(value, depth - 1)).toBe(true);
  });

  it('of 200,000 levels does not end the stack', () => {
    expect(isDeeperThan(nested(200_000, '[', ']'), 64)).toBe(true);
    expect(isDeeperThan(nested(200_000, '[', ']'), 200_000)).toBe(false);
  });

  it('of a scalar is none', () => {
    expect(isDeeperThan('text', 0)).toBe(false);
    expect(isDeeperThan(null, 0)).toBe(false);
  });
});
