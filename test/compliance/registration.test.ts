import { describe, expect, test } from 'vitest';
import { EVENT_TYPES } from '../../src/compliance/kinds.ts';
import { coverageOf, EVERY_FAMILY, patternSelects } from '../../src/compliance/registration.ts';

describe('what a registration covers', () => {
  test('the default covers all twelve types', () => {
    expect(coverageOf(EVERY_FAMILY)).toEqual({
      covered: [...EVENT_TYPES],
      missing: [],
      unmatched: [],
    });
  });

  test('one family and one type of another leave the other seven out', () => {
    const coverage = coverageOf(['policy.*', 'risk.assessed', 'policy.created']);
    expect(coverage.missing).toHaveLength(7);
    expect(coverage.missing).not.toContain('risk.assessed');
  });

  test('patterns that match no known type are named', () => {
    expect(coverageOf(['polices.*', 'vendor.added', 'vendor.merged']).unmatched).toEqual([
      'polices.*',
      'vendor.merged',
    ]);
  });
});

test.each([
  ['policy.*', 'policy.created', true],
  ['policy.*', 'policy.', true],
  ['policy.*', 'policyholder.created', false],
  ['policy.*', 'policy', false],
  ['policy.created', 'policy.created', true],
  ['policy.created', 'policy.created.again', false],
  ['*', 'policy.created', false],
  ['*.created', 'policy.created', false],
])('the pattern %s selects %s: %s', (pattern, type, expected) => {
  expect(patternSelects(pattern, type)).toBe(expected);
});
