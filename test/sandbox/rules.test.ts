import { describe, expect, test } from 'vitest';
import { nextMutation } from '../../sandbox/changes.ts';
import { Deliveries } from '../../sandbox/deliveries.ts';
import { NO_FAULTS } from '../../sandbox/faults.ts';
import { isAllowed, MACHINES, nextVersion, operationNamed } from '../../sandbox/machines.ts';
import { resolveOptions } from '../../sandbox/options.ts';
import { Registrations } from '../../sandbox/registrations.ts';
import { builtinSeed } from '../../sandbox/seed.ts';
import { retryDelayMs } from '../../sandbox/send.ts';
import { RecordState } from '../../sandbox/state.ts';
import { ScaledTimers } from '../../sandbox/time.ts';
import { Upstream } from '../../sandbox/upstream.ts';
import { EVENT_TYPES, KINDS, kindOfType } from '../../src/compliance/kinds.ts';

describe('the status machines', () => {
  test.each([
    ['policy', 'submit', 'approved', false],
    ['policy', 'approve', 'in_review', true],
    ['policy', 'redraft', 'archived', true],
    ['policy', 'update', 'archived', false],
    ['policy', 'update', 'a status of its own', false],
    ['policy', 'delete', 'a status of its own', true],
    ['risk_assessment', 'mitigate', 'identified', false],
    ['risk_assessment', 'assess', 'mitigated', true],
    ['vendor', 'suspend', 'prospective', false],
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

  test.each([
    ['1.0', '2.0'],
    ['1.4.2', '2.0.0'],
    ['draft-2', 'draft-2.1'],
  ])('a new version after %s is %s', (version, next) => {
    expect(nextVersion(version)).toBe(next);
  });
});

test('a retry waits its schedule’s time, at most a fifth more or less', () => {
  expect(retryDelayMs(1000, 0)).toBe(800);
  expect(retryDelayMs(1000, 0.5)).toBe(1000);
  expect(retryDelayMs(1000, 1)).toBe(1200);
  expect(retryDelayMs(0, 0.9)).toBe(0);
});

test.each([0, 15])(
  'a scenario only ever proposes changes that can be made, and none above %i records',
  (most) => {
    const state = new RecordState();
    const builtin = builtinSeed(new Date());
    for (const record of resolveOptions({ seed: builtin }).seed.policies) state.seed('policy', record);
    const deliveries = new Deliveries({
      sending: resolveOptions({}),
      registrations: new Registrations(null),
      settings: { faults: NO_FAULTS },
      timers: new ScaledTimers(1),
    });
    const upstream = new Upstream(state, deliveries);
    for (let step = 0; step < 3_000; step += 1) {
      const mutation = nextMutation(upstream, most);
      if (mutation !== null) upstream.apply(mutation);
    }
    const seeded = builtin.policies.length;
    for (const kind of KINDS) expect(state.count(kind)).toBeLessThanOrEqual(Math.max(most, seeded));
    expect(state.count('policy')).toBeGreaterThanOrEqual(4);
  },
);
