import { describe, expect, it } from 'vitest';
import type { Difference } from '../../sandbox/demo/compare.ts';
import { DifferenceLog, differenceRows, resolverOf, tally } from '../../sandbox/demo/differences.ts';
import type { Change } from '../../sandbox/demo/tables.ts';

function differs(id: string, field = 'status'): Difference {
  return { kind: 'vendor', id, fields: [{ field, mirror: 'a', upstream: 'b' }] };
}

function change(seq: number, recordId: string, cause: string): Change {
  return { seq, kind: 'vendor', recordId, cause };
}

describe('the log of differences', () => {
  it('names the change that ended a difference, not an earlier one', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [change(1, 'v1', 'event')] });
    log.note({ atMs: 200, differences: [differs('v1', 'name')], changes: [change(2, 'v1', 'event')] });
    log.note({
      atMs: 400,
      differences: [],
      changes: [change(3, 'v1', 'refetch'), change(4, 'v2', 'event')],
    });
    const [observation] = log.since(0);
    expect(observation).toMatchObject({ id: 'v1', resolvedBy: 'refetch', firstSeenMs: 0, resolvedMs: 400 });
    expect([...observation!.fields]).toEqual(['status', 'name']);
  });

  it('keeps apart two differences of one record, one after the other', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [] });
    log.note({ atMs: 1, differences: [], changes: [change(1, 'v1', 'event')] });
    log.note({ atMs: 2, differences: [differs('v1')], changes: [] });
    log.note({ atMs: 3, differences: [], changes: [change(1, 'v1', 'sync')] });
    expect(log.since(0).map(({ resolvedBy }) => resolvedBy)).toEqual(['event', 'sync']);
    expect(log.since(1)).toHaveLength(1);
  });

  it('says so when upstream itself came back', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [change(1, 'v1', 'event')] });
    log.note({ atMs: 1, differences: [], changes: [] });
    expect(resolverOf(log.since(0)[0]!)).toBe('upstream');
  });

  it('leaves open what still differs', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [] });
    expect(log.since(0).map(resolverOf)).toEqual([null]);
  });
});

describe('the table of differences', () => {
  it('has what the faults of deliveries made, and counts what was only on its way or is in no event', () => {
    const log = new DifferenceLog();
    const all = ['late', 'slow', 'unshown'];
    log.note({ atMs: 5_000, differences: all.map((id) => differs(id)), changes: [] });
    log.note({
      atMs: 7_000,
      differences: [],
      changes: [change(1, 'late', 'refetch'), change(2, 'slow', 'event'), change(3, 'unshown', 'sync')],
    });
    const dropped = {
      kind: 'vendor' as const,
      recordId: 'late',
      created: new Date(4_900).toISOString(),
      faults: ['drop'],
    };
    const observations = log.since(0);
    expect(differenceRows(observations, [dropped])).toEqual({
      rows: [['late', 'vendor', 'delivery dropped', 2, 'refetch', 'status']],
      left: 0,
      inTransit: 1,
      unshown: 1,
    });
    expect(tally(observations)).toBe('1 by refetch, 1 by event, 1 by sync');
  });
});
