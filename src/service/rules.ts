import type { Config } from '../platform/config.ts';
import type { ProvisionalRules } from '../store/store.ts';

/** How events are processed, by the settings. */
export function rulesOf(config: Config): ProvisionalRules {
  return {
    pointers: config.idPointers,
    eventsOnly: config.compliance === null,
    toleranceMs: config.webhook.toleranceSeconds * 1000,
    timing: { settleMs: config.sync.settleMs },
  };
}
