import type { Operation, Plan } from './plan.ts';

/** Runs spent on making one failing plan smaller, at most. */
const RUNS_MAX = 150;

/**
 * The fewest operations that still fail, as far as leaving some out finds them: halves first, then ever smaller
 * pieces, and at last each by itself. `fails` plays a plan.
 */
export async function shrink(plan: Plan, fails: (smaller: Plan) => Promise<boolean>): Promise<Plan> {
  let kept: readonly Operation[] = plan.operations;
  let runs = 0;
  for (let size = Math.ceil(kept.length / 2); size >= 1 && kept.length > 0; ) {
    let found = false;
    for (let from = 0; from < kept.length && runs < RUNS_MAX; ) {
      const without = [...kept.slice(0, from), ...kept.slice(from + size)];
      runs += 1;
      if (await fails({ ...plan, operations: without })) {
        kept = without;
        found = true;
      } else from += size;
    }
    if (runs >= RUNS_MAX) break;
    if (size > 1) size = Math.ceil(size / 2);
    else if (!found) break;
  }
  return { ...plan, operations: kept };
}
