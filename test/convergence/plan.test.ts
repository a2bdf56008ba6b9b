import { describe, expect, it } from 'vitest';
import { lookEveryMs } from '../../src/backfill/upstream.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import { wayToVerify } from '../../src/mirror/next-work.ts';

const TIMING = { settleMs: 1_000 };
/** Three requests: two pages and the empty one. */
const TWO_PAGES = { total: 200, pageSize: 100, isReadable: true };

describe('the cheaper way to verify', () => {
  const cases: [
    what: string,
    kind: Kind,
    now: number,
    withinSettle: number,
    longestMs: number,
    way: string,
  ][] = [
    ['nothing is due', 'vendor', 0, 9, 0, 'none'],
    ['a policy has no address', 'policy', 1, 1, 0, 'scan'],
    ['an assessment has no list', 'risk_assessment', 500, 500, 0, 'refetch'],
    ['fewer than a scan costs', 'vendor', 3, 3, 0, 'refetch'],
    ['more than a scan costs', 'vendor', 4, 4, 0, 'scan'],
    ['a few more are to come, and all together are few', 'vendor', 1, 3, 0, 'refetch'],
    ['many more are to come', 'vendor', 1, 200, 0, 'wait'],
    ['many are due and more to come', 'vendor', 100, 200, 499, 'wait'],
    ['many are to come for long enough', 'vendor', 100, 200, 500, 'scan'],
    ['a few have waited long enough', 'vendor', 2, 200, 500, 'refetch'],
  ];
  it.each(cases)('%s', (_, kind, now, withinSettle, longestMs, way) => {
    expect(wayToVerify(kind, { now, withinSettle, longestMs }, TWO_PAGES, TIMING)).toBe(way);
  });

  it('is to ask for each record where the list cannot be read, unless only the list shows it', () => {
    const unreadable = { ...TWO_PAGES, isReadable: false };
    const due = { now: 100, withinSettle: 100, longestMs: 0 };
    expect(wayToVerify('vendor', due, unreadable, TIMING)).toBe('refetch');
    expect(wayToVerify('policy', due, unreadable, TIMING)).toBe('scan');
  });
});

it('the API is looked at every six seconds while there is nothing to read, with no more than a sixth of a small budget', () => {
  expect([600, 60, 6].map(lookEveryMs)).toEqual([6_000, 6_000, 60_000]);
});
