import { expect, test } from 'vitest';
import { describeDrift } from '../../src/cli/drift.ts';

const drift = { missing: 0, extra: 3, different: 0, repaired: 0, fields: {} };
const one = (id: string) => ({ id, what: 'extra' as const, fields: [], repaired: false });

test('records that differ and are not named are counted', () => {
  expect(describeDrift('drift', { ...drift, examples: [one('v1')] })).toMatch(/v1 .*\n {2}and 2 more\n$/);
  const all = ['v1', 'v2', 'v3'].map(one);
  expect(describeDrift('drift', { ...drift, examples: all })).not.toContain('more');
});
