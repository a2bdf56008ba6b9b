import { describe, expect, it } from 'vitest';
import { isDeeper, MAX_DEPTH } from '../../src/compliance/pointers.ts';

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
    expect(isDeeper(value, depth)).toBe(false);
    expect(isDeeper(value, depth - 1)).toBe(true);
  });

  it('of 200,000 levels does not end the stack', () => {
    expect(isDeeper(nested(200_000, '[', ']'), MAX_DEPTH)).toBe(true);
  });

  it('of a scalar is none', () => {
    expect(isDeeper('text', 0)).toBe(false);
    expect(isDeeper(null, 0)).toBe(false);
  });
});
