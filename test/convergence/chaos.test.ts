import { expect, it } from 'vitest';
import { runChaos } from './chaos-run.ts';

/** The short form of chaos.ts: the same faults at the same rates, and it ends with the first equality. */
it('ends equal to an upstream it has never seen, through lost, doubled and late deliveries, failing reads and two kills', async () => {
  const result = await runChaos({
    seed: 7,
    counts: { policies: 60, assessments: 20, vendors: 60 },
    mutations: 120,
    durationMs: 6_000,
    kills: 2,
    longestDelayMs: 2_000,
    resolvingMs: 150_000,
    endsEarly: true,
    tell: () => undefined,
  });

  expect(result.differences).toEqual([]);
  expect(result.compared).toBeGreaterThan(140);
  // The run was what it says it is.
  expect(result.deliveries.dropped).toBeGreaterThan(10);
  expect(result.deliveries.duplicated).toBeGreaterThan(10);
  expect(result.deliveries.delayed).toBeGreaterThan(10);
  // A slow machine asks for lists in the place of single records, and so for less.
  expect(result.requests.failed).toBeGreaterThan(2);
}, 300_000);
