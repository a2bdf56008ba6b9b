import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { canonicalJson, contentHashOf } from '../../src/compliance/json.ts';

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

describe('the content of a delivery', () => {
  const of = (over: object) =>
    contentHashOf(
      JSON.stringify({
        id: 'a',
        type: 'policy.updated',
        created: '2026-01-01T00:00:00Z',
        data: { n: 1 },
        ...over,
      }),
    );

  it('is told from another by what it says, and not by the form of it', () => {
    const turnedRound =
      '{"extra":1,"data":{"n":1.0},"id":"b","created":"2026-01-01T00:00:00Z", "type":"policy\\u002eupdated"}';
    expect(contentHashOf(turnedRound)).toBe(of({}));
    expect(of({ data: { n: 2 } })).not.toBe(of({}));
    expect(of({ type: 'policy.created' })).not.toBe(of({}));
    expect(of({ created: '2026-01-01T00:00:01Z' })).not.toBe(of({}));
  });

  it('is the text itself where that is no object', () => {
    expect(contentHashOf('x')).toMatch(/^[0-9a-f]{64}$/);
    expect(contentHashOf('x')).not.toBe(contentHashOf('y'));
    expect(contentHashOf('null')).not.toBe(contentHashOf('x'));
  });
});
