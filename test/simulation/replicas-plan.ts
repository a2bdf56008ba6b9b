import { type Operation, type Plan, planOf, type Settings } from './plan.ts';
import { createChance } from './random.ts';

/** A history of several replicas over one database: that of one mirror, and besides what only several can meet. */
export interface ReplicasPlan {
  seed: number;
  settings: Settings;
  replicas: number;
  operations: readonly ReplicasOperation[];
}

type ReplicasOperation = Operation | Stall;

/** One replica stands still, as a stopped process does, while the time of all others goes on. */
interface Stall {
  at: number;
  do: 'stall';
  forMs: number;
}

/** Around these, whoever stands still loses its lease, and finds out late. Milliseconds. */
const STALLS_MS = [2_000, 9_000, 11_000, 16_000] as const;

/** Virtual time costs real queries here: nothing lasts much longer than a lease. */
const LONGEST_DOWN_MS = 15_000;
const LONGEST_FAULT_IN_SETTLES = 15;

/** The same seed has the same plan; how its transactions interleave is the server's and the machine's. */
export function replicasPlanOf(seed: number): ReplicasPlan {
  const base: Plan = planOf(seed);
  const chance = createChance(seed ^ 0x2545f491);
  const { settings } = base;
  const longestMs = LONGEST_FAULT_IN_SETTLES * settings.settleMs;
  const operations = base.operations.flatMap((operation): ReplicasOperation[] => {
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
        const copiesMs = message.copiesMs.map((ms) => Math.min(ms, 2 * longestMs));
        return [{ ...operation, message: { ...message, copiesMs } }];
      }
      default:
        return [operation];
    }
  });
  const endsAt = Math.max(...operations.map(({ at }) => at));
  const at = () => Math.floor(chance.draw('at') * endsAt);
  for (let left = chance.between('crashes', 0, 3); left > 0; left -= 1) {
    operations.push({
      ...{ at: at(), do: 'crash', commits: chance.between('commits', 0, 12), stepMs: 0 },
      when: chance.pick('when', ['before', 'after'] as const),
      downMs: chance.pick('down', [1, 500, 5_000, LONGEST_DOWN_MS]),
    });
  }
  for (let left = chance.between('stalls', 0, 2); left > 0; left -= 1) {
    operations.push({ at: at(), do: 'stall', forMs: chance.pick('stall', STALLS_MS) });
  }
  operations.sort((a, b) => a.at - b.at);
  return { seed, settings, replicas: chance.between('replicas', 2, 3), operations };
}
