import { type Budget, createBudget, KEPT_FROM_SCANS, WINDOW_MS } from '../compliance/budget.ts';
import { type Clock, createNap, momentOf } from '../platform/clock.ts';
import type { PlacesGiven, ReplicaStore, Store } from '../store/store.ts';

/**
 * The request budget of one of several processes, and below it the budget of a process that is alone.
 *
 * A place allows one request in any minute. Each process has some places and uses them as a budget of its own; together the
 * processes never have more places than the whole budget. So a request costs no round trip to the database. The bound also holds
 * when a process dies: its places are given out again only after its last requests are more than a minute old.
 */

/**
 * A process that has not asked again for this long sends nothing more. It lasts two naps, so that one late answer does not stop
 * a process. The shorter it is, the sooner the places of a killed process are free. Milliseconds.
 */
const GOOD_FOR_MS = 6_000;
/** The pause before asking for places again, while requests wait and while none wait. Milliseconds. */
const ASK_WAITING_MS = 300;
const ASK_IDLE_MS = 3_000;
/** The part of the budget that a process has in reserve, so that its next request need not wait. */
const AT_HAND = 1 / 60;
/**
 * The part of the budget that a process may take at once beyond what it uses. It gets more at the next round, 0.3 s later. Places
 * that a killed process did not use are lost to the others for over a minute.
 */
const STEP = 1 / 20;
/** In this many rounds every other process asks. */
const ROUNDS_TO_PASS = 4;

export function createSharedBudget(options: {
  store: Pick<ReplicaStore, 'sharePlaces' | 'pausePlaces'>;
  replica: string;
  requestsPerMinute: number;
  /** No request takes longer to reach the service. */
  requestTimeoutMs: number;
  clock: Clock;
  onError: (error: unknown) => void;
}) {
  const { store, replica, requestsPerMinute: limit, clock } = options;
  const budget = createBudget({
    requestsPerMinute: limit,
    places: 0,
    clock,
    onWaiting: () => nap.wake(),
  });
  const leaseMs = GOOD_FOR_MS + Math.ceil(options.requestTimeoutMs) + WINDOW_MS;
  const now = () => momentOf(clock);
  const nap = createNap(clock);
  let given: PlacesGiven = { places: 0, othersWanting: 0, free: 0, pausedUntil: null, lost: [] };
  let goodUntil = Number.NEGATIVE_INFINITY;
  let askedPauseUntil: number | null = null;
  /** With fewer places than processes that want one, a process that has used a place leaves it to others for this many rounds. */
  let roundsToPass = 0;

  async function exchange(): Promise<void> {
    const { inUse, waiting } = budget.demand();
    roundsToPass = inUse > 0 ? ROUNDS_TO_PASS : roundsToPass - 1;
    const { othersWanting } = given;
    const { uses, ...part } = partOf({ limit, inUse, waiting, othersWanting, passes: roundsToPass > 0 });
    // Places that are about to be given back are not used any more.
    budget.setPlaces(Math.min(given.places, part.takes, uses));
    const askedAt = clock.steady();
    const answer = await store.sharePlaces(
      { replica, limit, ...part, leaseMs, goodForMs: GOOD_FOR_MS },
      now(),
    );
    goodUntil = askedAt + GOOD_FOR_MS;
    // After a late answer other processes may have these places already.
    given = clock.steady() < goodUntil ? answer : { ...answer, places: 0 };
    budget.setPlaces(Math.min(given.places, uses));
    if (given.pausedUntil !== null) budget.pauseUntil(given.pausedUntil);
  }

  /** Does `work`. Stops sending if the given places expire before it ends. */
  async function stoppingWhenOver(work: () => Promise<void>): Promise<void> {
    const done = new AbortController();
    const over = clock.sleep(Math.max(0, goodUntil - clock.steady()), done.signal).then(() => {
      if (done.signal.aborted) return;
      // Other processes may have got these places by now.
      given = { ...given, places: 0 };
      budget.setPlaces(0);
    });
    try {
      await work();
    } finally {
      done.abort();
      await over;
    }
  }

  async function sharePause(): Promise<void> {
    if (askedPauseUntil === null) return;
    const until = askedPauseUntil;
    await store.pausePlaces(until);
    if (askedPauseUntil === until) askedPauseUntil = null;
  }

  const rest = (signal: AbortSignal) =>
    budget.demand().waiting > 0 ? clock.sleep(ASK_WAITING_MS, signal) : nap.sleep(ASK_IDLE_MS, signal);

  return {
    take: budget.take,
    pauseUntil(steadyMs: number): void {
      budget.pauseUntil(steadyMs);
      askedPauseUntil = Math.max(askedPauseUntil ?? steadyMs, steadyMs);
      nap.wake();
    },
    left(): ReturnType<Budget['left']> {
      const own = budget.left();
      return { ...own, left: own.left + given.free, lost: given.lost };
    },
    /** Nothing to remember: the places are in a table. */
    facts: (): Record<string, string> => ({}),
    /** Asks for places, and gives back what is not needed, until `signal` aborts. Never rejects. */
    async run(signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        try {
          await sharePause();
          await stoppingWhenOver(exchange);
        } catch (error) {
          options.onError(error);
        }
        await stoppingWhenOver(() => rest(signal));
      }
      const { inUse } = budget.demand();
      budget.setPlaces(0);
      const kept = { takes: inUse, wants: inUse, leaseMs: leaseMs - GOOD_FOR_MS, goodForMs: GOOD_FOR_MS };
      await store.sharePlaces({ replica, limit, ...kept }, now()).catch(options.onError);
    },
  };
}

/** How many places to take, want and use. Places in use cannot be given back, but those above `uses` are not used again. Pure. */
export function partOf(state: {
  limit: number;
  inUse: number;
  waiting: number;
  othersWanting: number;
  /** There are too few places, and this process leaves its own to others now. */
  passes: boolean;
}): { takes: number; wants: number; uses: number } {
  const { limit, inUse, waiting, othersWanting } = state;
  // A list scan leaves a part of the process's places free, so it needs more places than requests.
  const withRoomFor = (requests: number) => Math.ceil(requests / (1 - KEPT_FROM_SCANS));
  const needed = Math.min(limit, waiting > 0 ? withRoomFor(inUse + waiting) : inUse);
  const reachable = withRoomFor(inUse) + Math.max(1, Math.floor(limit * STEP));
  if (othersWanting === 0) {
    const takes = Math.min(limit, reachable, needed + Math.max(1, Math.floor(limit * AT_HAND)));
    return { takes, wants: needed, uses: takes };
  }
  const share = Math.floor(limit / (othersWanting + 1)) || (state.passes ? 0 : 1);
  return { takes: Math.max(inUse, Math.min(needed, share, reachable)), wants: needed, uses: share };
}

/** What a process that is alone has asked of the API within the last minute. */
const ASKED = 'asked_of_api';

interface Asked {
  /** Counts only for the same service. */
  address: string;
  wall: number;
  requests: number;
  pausedForMs: number;
}

/**
 * The budget of a process that is alone. The process before it may have ended a moment ago: its requests still count, and a pause
 * that the service at `address` asked for goes on. What a killed process sent after its last heartbeat is not known.
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
  if (before?.address === address) {
    // Not negative, even if a clock was set back.
    const agoMs = Math.max(0, clock.wall() - before.wall);
    budget.alreadySent(before.requests, clock.steady() - agoMs);
    budget.pauseUntil(clock.steady() + before.pausedForMs - agoMs);
  }
  return {
    ...budget,
    /** What the heartbeat writes for the next process. */
    facts(): Record<string, string> {
      const { pausedForMs } = budget.left();
      const asked: Asked = { address, wall: clock.wall(), requests: budget.demand().inUse, pausedForMs };
      return { [ASKED]: JSON.stringify(asked) };
    },
    /** Nothing needs to run. The shared budget has the same function. */
    run: async (_signal: AbortSignal): Promise<void> => {},
  };
}
