import { describe, expect, it } from 'vitest';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import { decideWork, type KindWork, wayToVerify } from '../../src/mirror/next-work.ts';
import type { DueRecord, InHand } from '../../src/store/store.ts';

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

describe('what the planner does next', () => {
  const NONE: KindWork = {
    wantsFullSync: false,
    hasPending: false,
    due: [],
    count: { now: 0, withinSettle: 0, longestMs: 0 },
    total: 0,
    awaiting: 0,
    proven: 0,
    nextDueAt: null,
  };
  const NOW = 50_000;
  const due = (id: string, dueAt: number, asked = false): DueRecord => ({ id, attempts: 0, dueAt, asked });

  function decided(found: Partial<Record<Kind, Partial<KindWork>>>, over: Partial<InHand> = {}) {
    const of = { isRunning: false, isReadable: true, total: null, busy: [] };
    const kinds = { policy: of, risk_assessment: of, vendor: of };
    const hand = { timing: TIMING, pageSize: 100, slots: 4, isOneAsked: false, kinds, ...over };
    const all = Object.fromEntries(KINDS.map((kind) => [kind, { ...NONE, ...found[kind] }]));
    return decideWork(all as Record<Kind, KindWork>, hand, NOW).filter(
      (work) => work.what !== 'refetch' || work.records.length > 0,
    );
  }
  const some = (...records: DueRecord[]) => ({
    due: records,
    total: 1_000,
    count: { now: records.length, withinSettle: records.length, longestMs: 0 },
  });

  it('is nothing until the first record is due, of whatever kind', () => {
    expect(decided({})).toEqual([{ what: 'rest', until: null }]);
    const later = { policy: { nextDueAt: 60_000 }, vendor: { nextDueAt: 55_000 } };
    expect(decided(later)).toEqual([{ what: 'rest', until: 55_000 }]);
  });

  it('is a full sync where a problem or a pending deletion wants one, and of policies where one is due', () => {
    const found = { vendor: { wantsFullSync: true, hasPending: true }, policy: some(due('p', NOW)) };
    expect(decided(found).slice(0, -1)).toEqual([
      { what: 'full_sync', kind: 'vendor', why: 'problem' },
      { what: 'full_sync', kind: 'vendor', why: 'pending' },
      { what: 'full_sync', kind: 'policy', why: 'events' },
    ]);
  });

  it('is to read the longest due of all kinds, but always one that was asked for, and the kinds take turns with these', () => {
    const found = {
      risk_assessment: some(due('a1', 1, true), due('a2', 1, true), due('r', NOW - 2)),
      vendor: some(due('b1', 1, true), due('v', NOW - 3)),
    };
    const read = (over: Partial<InHand>) =>
      decided(found, over).flatMap((work) =>
        work.what === 'refetch' ? work.records.map(({ id }) => id) : [],
      );
    expect(read({ slots: 9 })).toEqual(['a1', 'v', 'r', 'b1', 'a2']);
    expect(read({ slots: 2 })).toEqual(['a1', 'v']);
    expect(read({ slots: 2, isOneAsked: true })).toEqual(['v', 'r']);
  });

  it('deletes what is proven gone: of assessments all, once none waits for its proof, and of vendors what was announced', () => {
    const concluded = (found: Parameters<typeof decided>[0]) =>
      decided(found).flatMap((work) => (work.what === 'conclude' ? `${work.kind} ${work.all}` : []));
    expect(concluded({ risk_assessment: { proven: 1 }, vendor: { proven: 1 } })).toEqual([
      'risk_assessment true',
      'vendor false',
    ]);
    expect(concluded({ risk_assessment: { proven: 1, awaiting: 1 } })).toEqual(['risk_assessment false']);
  });

  it('waits with a burst of vendors for as long as its patience is', () => {
    const burst = { due: [due('v', NOW)], total: 200, count: { now: 1, withinSettle: 99, longestMs: 100 } };
    expect(decided({ vendor: burst })).toEqual([{ what: 'rest', until: NOW + 400 }]);
  });
});
