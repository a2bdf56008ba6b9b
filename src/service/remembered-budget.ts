import { type createBudget, WINDOW_MS } from '../compliance/budget.ts';
import type { Clock } from '../platform/clock.ts';
import type { Store } from '../store/store.ts';

/** What a process that is alone has asked of the API within the last minute. Of replicas the shared budget knows it. */
const ASKED = 'asked_of_api';

type OwnBudget = Pick<ReturnType<typeof createBudget>, 'demand' | 'left' | 'alreadySent' | 'pauseUntil'>;

/** For the heartbeat's facts. Of another service than the one at `address` it says nothing. */
export function rememberBudget(budget: OwnBudget, address: string, clock: Clock): Record<string, string> {
  const asked: Asked = {
    ...{
      address,
      wall: clock.wall(),
      requests: budget.demand().inUse,
      pausedForMs: budget.left().pausedForMs,
    },
  };
  return { [ASKED]: JSON.stringify(asked) };
}

interface Asked {
  address: string;
  wall: number;
  requests: number;
  pausedForMs: number;
}

/**
 * The process before may have ended a moment ago: its requests still count, and a pause that the service asked for goes on.
 * What a killed one has sent since its last heartbeat is not known.
 */
export async function recallBudget(
  budget: OwnBudget,
  store: Pick<Store, 'readFact'>,
  address: string,
  clock: Clock,
): Promise<void> {
  const asked = JSON.parse((await store.readFact(ASKED)) ?? 'null') as Asked | null;
  if (asked === null || asked.address !== address) return;
  // Never negative, as after a clock that was set back.
  const agoMs = Math.max(0, clock.wall() - asked.wall);
  if (agoMs <= WINDOW_MS) budget.alreadySent(asked.requests, clock.steady() - agoMs);
  if (agoMs < asked.pausedForMs) budget.pauseUntil(clock.steady() + asked.pausedForMs - agoMs);
}
