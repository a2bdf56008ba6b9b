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

test('the names of fields that differ cannot command a terminal', () => {
  const fields = { 'data.\u001b]0;owned\u0007': 1 };
  expect(describeDifferences('differences', { ...differences, fields, examples: [] })).not.toMatch(
    /[\u001b\u0007]/,
  );
});
