import { describe, expect, it } from 'vitest';
import { isDeeperThan } from '../../src/receive/envelope.ts';

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
