import { describe, expect, it } from 'vitest';
import type { Difference } from '../../sandbox/demo/compare.ts';
import { DifferenceLog } from '../../sandbox/demo/differences.ts';
import type { Change } from '../../sandbox/demo/mirror-tables.ts';
import { differenceRows, isInTransit, resolverOf, tally } from '../../sandbox/demo/report.ts';
import { STORIES, schedule } from '../../sandbox/demo/run.ts';

function differs(id: string, field = 'status'): Difference {
  return { kind: 'vendor', id, fields: [{ field, mirror: 'a', upstream: 'b' }] };
}

function change(seq: number, recordId: string, cause: string): Change {
  return { seq, kind: 'vendor', recordId, cause };
}

describe('the log of differences', () => {
  it('names the change that ended a difference, not an earlier one', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [change(1, 'v1', 'event:e0')] });
    log.note({ atMs: 200, differences: [differs('v1', 'name')], changes: [change(2, 'v1', 'event:e1')] });
    log.note({
      atMs: 400,
      differences: [],
      changes: [change(3, 'v1', 'refetch'), change(4, 'v2', 'event:e2')],
    });
    const [observation] = log.all;
    expect(observation).toMatchObject({ id: 'v1', resolvedBy: 'refetch', firstSeenMs: 0, resolvedMs: 400 });
    expect([...observation!.fields]).toEqual(['status', 'name']);
  });

  it('keeps apart two differences of one record, one after the other', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [] });
    log.note({ atMs: 1, differences: [], changes: [change(1, 'v1', 'event:e1')] });
    log.note({ atMs: 2, differences: [differs('v1')], changes: [] });
    log.note({ atMs: 3, differences: [], changes: [change(2, 'v1', 'sync:4')] });
    expect(log.all.map((observation) => observation.resolvedBy)).toEqual(['event:e1', 'sync:4']);
  });

  it('says so when upstream itself came back', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [change(1, 'v1', 'event:e0')] });
    log.note({ atMs: 1, differences: [], changes: [] });
    expect(resolverOf(log.all[0]!)).toBe('upstream');
  });

  it('leaves open what still differs', () => {
    const log = new DifferenceLog();
    log.note({ atMs: 0, differences: [differs('v1')], changes: [] });
    expect(log.isOpen('vendor', 'v1')).toBe(true);
    expect(log.open.map(resolverOf)).toEqual([null]);
  });
});

describe('the table of differences', () => {
  it('puts the staged stories first and leaves out what was only on its way', () => {
    const log = new DifferenceLog();
    log.attribute('vendor', 'staged', 'lost delete of a vendor');
    log.note({
      atMs: 5_000,
      differences: [differs('late'), differs('slow'), differs('staged')],
      changes: [],
    });
    log.note({
      atMs: 7_000,
      differences: [],
      changes: [change(1, 'late', 'refetch'), change(2, 'slow', 'event:e9'), change(3, 'staged', 'sync:2')],
    });
    const dropped = {
      kind: 'vendor' as const,
      recordId: 'late',
      created: new Date(4_900).toISOString(),
      outcome: 'dropped',
      faults: ['drop'],
    };
    expect(log.all.filter(isInTransit).map(({ id }) => id)).toEqual(['slow']);
    expect(differenceRows(log.all, [dropped]).rows).toEqual([
      ['staged', 'vendor', 'lost delete of a vendor', 2, 'sync:2', 'status'],
      ['late', 'vendor', 'delivery dropped', 2, 'refetch', 'status'],
    ]);
    expect(tally(log.all)).toBe('1 by refetch, 1 by event, 1 by sync');
  });
});

describe('the script', () => {
  it.each([4_000, 20_000])('tells every story, in order, within a run of %i ms', (runMs) => {
    const told = schedule(runMs);
    expect(told.map(({ story }) => story.name)).toEqual(STORIES.map((story) => story.name));
    expect(told.every(({ atMs }, index) => atMs > (told[index - 1]?.atMs ?? 0) && atMs < runMs)).toBe(true);
  });
});
