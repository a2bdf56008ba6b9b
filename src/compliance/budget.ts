import type { Clock } from '../platform/clock.ts';

/** Who asks: an operator's own request, the repair of one record, or a list scan over many. */
export type Lane = 'person' | 'live' | 'scan';
const LANES: readonly Lane[] = ['person', 'live', 'scan'];

/** The setting's limit is per minute. */
export const WINDOW_MS = 60_000;

/** How many turns a lane gets while all of them wait. A list scan is never urgent, and a person waits for an answer. */
const LANE_WEIGHTS: Readonly<Record<Lane, number>> = { person: 4, live: 2, scan: 1 };

/** List scans leave this part of the window free; otherwise a repair would wait a minute behind their burst. */
export const KEPT_FROM_SCANS = 1 / 4;
/** Repairs and list scans together leave this part free for a person. */
const KEPT_FOR_PERSONS = 1 / 10;

/** Leave to send one request. Exactly one of its functions must be called, however the request ends. */
export interface Ticket {
  /** The request has reached the service by now, or never will: it leaves the window 60 s from now. */
  arrived(): void;
  /** Nothing was sent: the place is free again. */
  unused(): void;
}

/** The places of a lost process when it was last seen. It may have used them, so nobody else may until then. */
export interface LostPlaces {
  replica: string;
  places: number;
  /** Steady clock. */
  until: number;
}

export interface BudgetState {
  limit: number;
  /** Requests that may be sent at once, by the window alone. */
  left: number;
  /** What is left of a pause that the service asked for. */
  pausedForMs: number;
  /** Places of processes that shared the budget and are gone. */
  lost: readonly LostPlaces[];
}

/** What those who send requests need. */
export type Budget = Pick<ReturnType<typeof createBudget>, 'take' | 'pauseUntil' | 'left'>;

/**
 * An upper bound on requests in ANY 60 s, as the service counts them. A request takes its place before it is sent and keeps it
 * for 60 s after it is known to have arrived, because the exact time of its arrival cannot be known. Not a token bucket or a log of
 * sending times: with those a slow request and a burst could fall into one window.
 *
 * Within the window bursts are allowed. Sharing: first come, first served within a lane; between waiting lanes
 * by weight (stride scheduling: the lane whose turn is earliest goes, and each turn moves it on by 1 / weight),
 * so that none starves at any limit; and the parts above stay free of list scans, and of list scans and repairs together.
 */
export function createBudget(options: {
  requestsPerMinute: number;
  clock: Clock;
  /** The size of a part of the budget, which can change. Default: the whole. */
  places?: number;
  /** A request waits for a place: a larger part would help. */
  onWaiting?: () => void;
}) {
  const { requestsPerMinute, clock } = options;
  let limit = options.places ?? requestsPerMinute;
  const scanLimit = () => limit - Math.floor(limit * KEPT_FROM_SCANS);
  const automaticLimit = () => limit - Math.floor(limit * KEPT_FOR_PERSONS);

  const queues: Record<Lane, ((ticket: Ticket) => void)[]> = { person: [], live: [], scan: [] };
  const used: Record<Lane, number> = { person: 0, live: 0, scan: 0 };
  const turns: Record<Lane, number> = { person: 0, live: 0, scan: 0 };
  /** Requests known to have arrived, oldest first. */
  const arrivals: { lane: Lane; at: number }[] = [];
  let turn = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let alarm: AbortController | null = null;

  const inUse = () => used.person + used.live + used.scan;

  function forget(now: number): void {
    // Strictly older: the steady clock is rounded to whole milliseconds.
    while (arrivals[0] !== undefined && now - arrivals[0].at > WINDOW_MS) used[arrivals.shift()!.lane]--;
  }

  function hasRoom(lane: Lane): boolean {
    if (inUse() >= limit) return false;
    if (lane === 'person') return true;
    if (used.live + used.scan >= automaticLimit()) return false;
    return lane === 'live' || used.scan < scanLimit();
  }

  function nextLane(): Lane | null {
    let next: Lane | null = null;
    for (const lane of LANES) {
      if (queues[lane].length === 0 || !hasRoom(lane)) continue;
      if (next === null || turns[lane] < turns[next]) next = lane;
    }
    return next;
  }

  /** Hands out all free places, then sets one alarm for the next change that only time brings. */
  function advance(): void {
    alarm?.abort();
    alarm = null;
    const now = clock.steady();
    forget(now);
    if (now >= pausedUntil) {
      for (let lane = nextLane(); lane !== null; lane = nextLane()) {
        turn = turns[lane];
        turns[lane] += 1 / LANE_WEIGHTS[lane];
        used[lane]++;
        queues[lane].shift()!(ticketFor(lane));
      }
    }
    if (LANES.every((lane) => queues[lane].length === 0)) return;
    options.onWaiting?.();
    const wakeInMs = now < pausedUntil ? pausedUntil - now : untilNextForgotten(now);
    if (wakeInMs === null) return;
    const own = new AbortController();
    alarm = own;
    // Nobody awaits it and it cannot fail: sleep never rejects, and each waiter has its own promise.
    void clock.sleep(Math.max(1, wakeInMs), own.signal).then(() => {
      if (alarm === own) advance();
    });
  }

  function untilNextForgotten(now: number): number | null {
    return arrivals[0] === undefined ? null : arrivals[0].at + WINDOW_MS + 1 - now;
  }

  function ticketFor(lane: Lane): Ticket {
    let open = true;
    const close = (act: () => void) => () => {
      if (!open) return;
      open = false;
      act();
      advance();
    };
    return {
      arrived: close(() => arrivals.push({ lane, at: clock.steady() })),
      unused: close(() => used[lane]--),
    };
  }

  return {
    /** Resolves when a request may leave; rejects with the signal's reason when that aborts first. */
    take(lane: Lane, signal: AbortSignal): Promise<Ticket> {
      if (signal.aborted) return Promise.reject(signal.reason);
      const { promise, resolve, reject } = Promise.withResolvers<Ticket>();
      const leave = () => {
        queues[lane] = queues[lane].filter((other) => other !== waiter);
        reject(signal.reason);
        advance();
      };
      const waiter = (ticket: Ticket) => {
        signal.removeEventListener('abort', leave);
        resolve(ticket);
      };
      signal.addEventListener('abort', leave, { once: true });
      // A lane that was idle does not save up turns.
      if (queues[lane].length === 0) turns[lane] = Math.max(turns[lane], turn);
      queues[lane].push(waiter);
      advance();
      return promise;
    },

    /** Nothing leaves on any lane before this instant of the steady clock. A later pause wins over an earlier. */
    pauseUntil(steadyMs: number): void {
      if (steadyMs <= pausedUntil) return;
      pausedUntil = steadyMs;
      advance();
    },

    /** Requests of a process before this one, the last at `steadyMs`. Most of them were of list scans. */
    alreadySent(requests: number, steadyMs: number): void {
      used.scan += requests;
      arrivals.unshift(...Array.from({ length: requests }, () => ({ lane: 'scan' as const, at: steadyMs })));
    },

    /** From now on so many requests may be in the window. Those in it stay in it. */
    setPlaces(places: number): void {
      if (places === limit) return;
      limit = places;
      advance();
    },

    /** Requests in the window now, and those that wait for a place in it. */
    demand(): { inUse: number; waiting: number } {
      forget(clock.steady());
      return { inUse: inUse(), waiting: LANES.reduce((sum, lane) => sum + queues[lane].length, 0) };
    },

    left(): BudgetState {
      const now = clock.steady();
      forget(now);
      return {
        limit: requestsPerMinute,
        left: Math.max(0, limit - inUse()),
        pausedForMs: Math.max(0, pausedUntil - now),
        lost: [],
      };
    },
  };
}
