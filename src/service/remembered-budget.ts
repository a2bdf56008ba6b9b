import { createBudget, WINDOW_MS } from '../compliance/budget.ts';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';

/** What a process that is alone has asked of the API within the last minute. */
const ASKED = 'asked_of_api';

interface Asked {
  /** Of another service it says nothing. */
  address: string;
  wall: number;
  requests: number;
  pausedForMs: number;
}

/**
 * The budget of a process that is alone. The process before may have ended a moment ago: its requests still count, and a pause
 * that the service at `address` asked for goes on. What a killed one has sent since its last heartbeat is not known.
 */
export async function createRememberedBudget(options: {
  store: Pick<Store, 'readFact'>;
  address: string;
  requestsPerMinute: number;
  clock: Clock;
}) {
  const { store, address, clock } = options;
  const budget = createBudget(options);
  const before = JSON.parse((await store.readFact(ASKED)) ?? 'null') as Asked | null;
  if (before !== null && before.address === address) {
    // Never negative, as after a clock that was set back.
    const agoMs = Math.max(0, clock.wall() - before.wall);
    if (agoMs <= WINDOW_MS) budget.alreadySent(before.requests, clock.steady() - agoMs);
    if (agoMs < before.pausedForMs) budget.pauseUntil(clock.steady() + before.pausedForMs - agoMs);
  }
  return {
    ...budget,
    /** For the heartbeat to write: what the next process is to know. */
    facts(): Record<string, string> {
      const { pausedForMs } = budget.left();
      const asked: Asked = { address, wall: clock.wall(), requests: budget.demand().inUse, pausedForMs };
      return { [ASKED]: JSON.stringify(asked) };
    },
    /** As the shared one has it: nothing needs to run. */
    run: async (_signal: AbortSignal): Promise<void> => {},
  };
}
