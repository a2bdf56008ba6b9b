import { expect, it } from 'vitest';
import { IS_FULL } from '../support/full.ts';
import { runReplicas } from './replicas-run.ts';

/** Three services and a database server on a machine that others may use too. */
const TIMEOUT_MS = 420_000;

/** The short form of run.ts. */
it(
  'three replicas lose nothing that was acknowledged, apply each event once and end equal, through kill -9 and restarts of the database',
  async () => {
    const result = await runReplicas({
      seed: 11,
      counts: { policies: 60, assessments: 0, vendors: 40 },
      // The shorter one has a kill, and a restart as a failing machine makes it.
      ...(IS_FULL
        ? { mutations: 300, durationMs: 12_000, kills: 2, restarts: 2 }
        : { mutations: 300, durationMs: 8_000, kills: 1, restarts: 1 }),
      resolvingMs: 240_000,
      tell: () => undefined,
    });

    expect(result).toMatchObject({
      differences: [],
      lost: [],
      appliedTwice: [],
      unfinished: [],
      overlapping: [],
      followed: { skipped: [], outOfOrder: [] },
    });
    // The run was what it says it is.
    expect(result.acknowledged).toBeGreaterThan(200);
    expect(result.answers.get(200)).toBeGreaterThan(10);
    expect(result.followed.seen).toBeGreaterThan(200);
  },
  TIMEOUT_MS,
);
