import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { Deliveries } from '../../sandbox/deliveries.ts';
import { NO_FAULTS } from '../../sandbox/faults.ts';
import { nextMutation } from '../../sandbox/lively.ts';
import { isAllowed, MACHINES, nextVersion, operationNamed } from '../../sandbox/machines.ts';
import { resolveOptions } from '../../sandbox/options.ts';
import { seededRandom } from '../../sandbox/random.ts';
import { Registrations } from '../../sandbox/registrations.ts';
import { builtinSeed } from '../../sandbox/seed.ts';
import { retryDelayMs } from '../../sandbox/send.ts';
import { DEFAULT_SHAPES } from '../../sandbox/shapes.ts';
import { RecordState } from '../../sandbox/state.ts';
import { ScaledTimers } from '../../sandbox/time.ts';
import { Upstream } from '../../sandbox/upstream.ts';
import { EVENT_TYPES, KINDS, kindOfType } from '../../src/compliance/kinds.ts';

describe('the status machines', () => {
  test.each([
    ['policy', 'submit', 'draft', true],
    ['policy', 'submit', 'approved', false],
    ['policy', 'approve', 'in_review', true],
    ['policy', 'approve', 'draft', false],
    ['policy', 'archive', 'approved', true],
    ['policy', 'archive', 'draft', false],
    ['policy', 'redraft', 'archived', true],
    ['policy', 'redraft', 'draft', false],
    ['policy', 'update', 'archived', false],
    ['policy', 'update', 'a status of its own', false],
    ['policy', 'delete', 'a status of its own', true],
    ['risk_assessment', 'mitigate', 'identified', false],
    ['risk_assessment', 'mitigate', 'escalated', true],
    ['risk_assessment', 'escalate', 'mitigated', false],
    ['risk_assessment', 'assess', 'mitigated', true],
    ['vendor', 'suspend', 'prospective', false],
    ['vendor', 'suspend', 'approved', true],
    ['vendor', 'assess', 'suspended', false],
    ['vendor', 'review', 'suspended', true],
    ['vendor', 'update', undefined, true],
  ] as const)('%s: %s from %s: %s', (kind, op, status, allowed) => {
    expect(isAllowed(operationNamed(kind, op)!, status)).toBe(allowed);
  });

  test('announce with events of their own kind, all twelve among them', () => {
    const announced = KINDS.flatMap((kind) =>
      Object.values(MACHINES[kind]).flatMap(({ event }) => {
        if (event !== null) expect(kindOfType(event)).toBe(kind);
        return event ?? [];
      }),
    );
    expect([...new Set(announced)].toSorted()).toEqual([...EVENT_TYPES].toSorted());
  });

  test('know other words for create and delete, and nothing that objects inherit', () => {
    expect(operationNamed('vendor', 'add')).toBe(MACHINES.vendor.create);
    expect(operationNamed('vendor', 'remove')).toBe(MACHINES.vendor.delete);
    expect(operationNamed('vendor', 'toString')).toBeNull();
    expect(operationNamed('vendor', '__proto__')).toBeNull();
  });

  test.each([
    ['1.0', '2.0'],
    ['3', '4'],
    ['1.4.2', '2.0.0'],
    ['09.9', '10.0'],
    ['draft-2', 'draft-2.1'],
    ['', '.1'],
  ])('a new version after %s is %s', (version, next) => {
    expect(nextVersion(version)).toBe(next);
  });
});

describe('chance', () => {
  test('is the same for the same seed, and another in each fork', () => {
    const draws = (random: ReturnType<typeof seededRandom>) => Array.from({ length: 20 }, random.next);
    expect(draws(seededRandom(5))).toEqual(draws(seededRandom(5)));
    expect(draws(seededRandom(5).fork('a'))).toEqual(draws(seededRandom(5).fork('a')));
    expect(draws(seededRandom(5).fork('a'))).not.toEqual(draws(seededRandom(5).fork('b')));
    expect(draws(seededRandom(5))).not.toEqual(draws(seededRandom(6)));
  });

  test('stays within its bounds and spreads over them', () => {
    const random = seededRandom(1);
    const counts = Array.from({ length: 10 }, () => 0);
    for (let draw = 0; draw < 10_000; draw += 1) counts[random.integer(0, 9)]! += 1;
    for (const count of counts) expect(count).toBeGreaterThan(850);
    expect(counts.reduce((sum, count) => sum + count, 0)).toBe(10_000);
  });

  test('a retry waits its schedule’s time, at most a fifth more or less', () => {
    expect(retryDelayMs(1000, 0)).toBe(800);
    expect(retryDelayMs(1000, 0.5)).toBe(1000);
    expect(retryDelayMs(1000, 1)).toBe(1200);
    expect(retryDelayMs(0, 0.9)).toBe(0);
  });
});

describe('the state', () => {
  test('shows each moment as it was, and keeps count', () => {
    const operation = fc.record({ id: fc.constantFrom('a', 'b', 'c'), gone: fc.boolean() });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 30 }), (operations) => {
        const state = new ClockedState();
        const model = new Map<string, { id: string; edit: number }>();
        const moments = [[...model.values()]];
        operations.forEach(({ id, gone }, edit) => {
          state.clockMs += 1;
          if (gone) state.delete('vendor', id);
          else state.put('vendor', { id, edit });
          if (gone) model.delete(id);
          else model.set(id, { id, edit });
          moments.push([...model.values()]);
        });
        const byId = (rows: unknown[]) => rows.toSorted((a, b) => (String(a) < String(b) ? -1 : 1));
        moments.forEach((rows, atMs) => {
          expect(new Set(byId(state.list('vendor', atMs)))).toEqual(new Set(byId(rows)));
        });
        expect(state.count('vendor')).toBe(model.size);
        expect(state.list('policy')).toEqual([]);
      }),
    );
  });

  test('forgets what no stale read can see any more', () => {
    const state = new ClockedState();
    state.put('vendor', { id: 'a' });
    state.clockMs = 10;
    state.delete('vendor', 'a');
    expect(state.get('vendor', 'a', 5)).not.toBeNull();
    state.clockMs = 60_011;
    state.put('vendor', { id: 'b' });
    state.delete('vendor', 'b');
    expect(state.get('vendor', 'a', 5)).toBeNull();
    expect(state.list('vendor', 60_000)).toEqual([]);
  });
});

class ClockedState extends RecordState {
  clockMs = 0;
  override now(): number {
    return this.clockMs;
  }
}

test('the lively scenario only ever proposes changes that can be made, and keeps within its bounds', () => {
  fc.assert(
    fc.property(fc.nat(), fc.constantFrom(0, 15), (seed, maxRecords) => {
      const random = seededRandom(seed);
      const state = new RecordState();
      const builtin = builtinSeed(new Date());
      for (const record of resolveOptions({ seed: builtin }).seed.policies) state.seed('policy', record);
      const registrations = new Registrations(random, null);
      const settings = { faults: NO_FAULTS, shapes: DEFAULT_SHAPES };
      const deliveries = new Deliveries({
        sending: resolveOptions({ deliveryConcurrency: 1 }),
        registrations,
        settings,
        random,
        timers: new ScaledTimers(1),
      });
      const upstream = new Upstream({ state, deliveries, settings, random });
      const reserved = new Set(['policy/policy-0001']);
      const untouched = state.get('policy', 'policy-0001');
      for (let step = 0; step < 300; step += 1) {
        const mutation = nextMutation(upstream, random, maxRecords, reserved);
        if (mutation !== null) upstream.apply(mutation);
      }
      const seeded = builtin.policies.length;
      for (const kind of KINDS) expect(state.count(kind)).toBeLessThanOrEqual(Math.max(maxRecords, seeded));
      expect(state.count('policy')).toBeGreaterThanOrEqual(4);
      expect(state.get('policy', 'policy-0001')).toBe(untouched);
    }),
    { numRuns: 20 },
  );
});
