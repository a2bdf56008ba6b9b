import { initialIds, type Operation, type Plan, planOf } from './plan.ts';
import { createChance } from './random.ts';

/**
 * Around the end of the worker's lease (10 s, prolonged every 2.5 s): it has just gone to another, who has not yet processed the same
 * events, or come to the same conclusion. Milliseconds.
 */
const STALLS_MS = {
  any: [2_000, 12_000],
  processPending: [9_000, 14_000],
  applyReads: [2_000, 14_000],
  concludeDeletions: [9_000, 11_000],
} as const;

/** Virtual time costs real queries here: nothing lasts much longer than a lease. */
const LONGEST_DOWN_MS = 15_000;
const LONGEST_FAULT_IN_SETTLES = 15;

/**
 * A history of several replicas over one database: that of one mirror, and besides what only several can meet. The same
 * seed has the same plan; how its transactions interleave is the server's and the machine's.
 */
export function replicasPlanOf(seed: number): Plan {
  const base = planOf(seed);
  const chance = createChance(seed ^ 0x2545f491);
  const { settings } = base;
  const longestMs = LONGEST_FAULT_IN_SETTLES * settings.settleMs;
  // In some histories much happens at once, and reaches several replicas at the same moment.
  const burstMs = chance.pick('bursts', [1, settings.settleMs, 4 * settings.settleMs]);
  const inBursts = (ms: number) => Math.floor(ms / burstMs) * burstMs;
  const operations = base.operations.flatMap((operation): Operation[] => {
    switch (operation.do) {
      // The database's clock is the one that all go by, and its steps are not simulated.
      case 'step':
        return [];
      case 'crash':
        return [{ ...operation, stepMs: 0, downMs: Math.min(operation.downMs, LONGEST_DOWN_MS) }];
      case 'fault':
        return [{ ...operation, forMs: Math.min(operation.forMs, longestMs) }];
      case 'write':
      case 'delete': {
        const { message } = operation;
        if (message === null) return [operation];
        const copiesMs = message.copiesMs.map((ms) => inBursts(Math.min(ms, 2 * longestMs)));
        return [{ ...operation, at: inBursts(operation.at), message: { ...message, copiesMs } }];
      }
      default:
        return [operation];
    }
  });
  const endsAt = Math.max(...operations.map(({ at }) => at));
  const at = () => Math.floor(chance.draw('at') * endsAt);
  for (let left = chance.between('crashes', 0, 3); left > 0; left -= 1) {
    operations.push({
      at: at(),
      do: 'crash',
      commits: chance.between('commits', 0, 12),
      stepMs: 0,
      when: chance.pick('when', ['before', 'after'] as const),
      downMs: chance.pick('down', [1, 500, 5_000, LONGEST_DOWN_MS]),
    });
  }
  for (let left = chance.between('stalls', 0, 3); left > 0; left -= 1) {
    const stalled = ['processPending', 'applyReads', 'concludeDeletions', 'concludeDeletions', null] as const;
    const verb = chance.pick('stalled', stalled);
    const [shortest, longest] = STALLS_MS[verb ?? 'any'];
    const stalledAt = at();
    operations.push({ at: stalledAt, do: 'stall', verb, forMs: chance.between('stall', shortest, longest) });
    const policies = initialIds(settings, 'policy');
    if (verb !== 'concludeDeletions' || policies.length === 0) continue;
    // Something to conclude, which only a full sync finds.
    const id = chance.pick('gone', policies);
    const syncedAt = stalledAt + 2 * settings.settleMs;
    operations.push(
      { at: stalledAt, do: 'delete', kind: 'policy', id, message: null },
      { at: syncedAt, do: 'sync', kinds: ['policy'] },
    );
  }
  operations.sort((a, b) => a.at - b.at);
  return { seed, settings, replicas: chance.between('replicas', 2, 3), operations };
}
