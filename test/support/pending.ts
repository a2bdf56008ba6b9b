import { DEFAULT_ID_POINTERS, type IdPointers } from '../../src/compliance/pointers.ts';
import type { Now, ProvisionalRules, Store } from '../../src/store/store.ts';

/** What the worker does with pending events, for tests that need no worker. */

const RULES: ProvisionalRules = {
  pointers: DEFAULT_ID_POINTERS,
  eventsOnly: false,
  toleranceMs: 300_000,
  guardPercent: 20,
  timing: { settleMs: 1 },
};

/** Rules on which our own code breaks with this error, whatever the event says. */
export function brokenRules(rules: ProvisionalRules, error: string): ProvisionalRules {
  const broken = {
    get: (): never => {
      throw new Error(error);
    },
  };
  const pointers = Object.defineProperties({} as IdPointers, {
    policy: broken,
    risk_assessment: broken,
    vendor: broken,
  });
  return { ...rules, pointers };
}

/** The next pending events are shown. */
export async function showPending(
  store: Store,
  now: Now,
  { limit = 500, ...rules }: Partial<ProvisionalRules> & { limit?: number } = {},
): Promise<void> {
  await store.processPending({ limit, rules: { ...RULES, ...rules }, retryDelaysMs: [] }, now);
}

/** The next pending events fail, since our own code breaks on them with this error. */
export async function failPending(store: Store, now: Now, error = 'it broke', limit = 500): Promise<void> {
  await store.processPending({ limit, rules: brokenRules(RULES, error), retryDelaysMs: [] }, now);
}
