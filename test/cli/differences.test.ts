import { expect, test } from 'vitest';
import { describeDifferences } from '../../src/cli/full-sync.ts';

const differences = { missing: 0, extra: 3, different: 0, repaired: 0, fields: {} };
const one = (id: string) => ({ id, what: 'extra' as const, fields: [], repaired: false });

test('records that differ and are not named are counted', () => {
  expect(describeDifferences('differences', { ...differences, examples: [one('v1')] })).toMatch(
    /v1 .*\n {2}and 2 more\n$/,
  );
  const all = ['v1', 'v2', 'v3'].map(one);
  expect(describeDifferences('differences', { ...differences, examples: all })).not.toContain('more');
});
