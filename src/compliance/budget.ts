import type { Clock } from '../platform/clock.ts';

/** Who asks: an operator's own request, the repair of one record, or a list scan over many. */
export type Lane = 'person' | 'live' | 'scan';
const LANES: readonly Lane[] = ['person', 'live', 'scan'];

/** The setting's limit is per minute. */
export const WINDOW_MS = 60_000;

/** How many turns a lane gets while all lanes wait. A person waits for an answer, and a list scan is never urgent. */
const LANE_WEIGHTS: Readonly<Record<Lane, number>> = { person: 4, live: 2, scan: 1 };

/** The part of the window that list scans leave free. Otherwise a repair would wait a minute behind a list scan's burst. */
const KEPT_FROM_SCANS = 1 / 4;
/** The part that repairs and list scans together leave free. */
const KEPT_FOR_PERSONS = 1 / 10;

/** The permission to send one request. Exactly one of its functions must be called, however the request ends. */
export interface Ticket {
  /** The request has reached the service by now, or never will. Its place is free in 60 s. */
  arrived(): void;
  /** Nothing was sent. Its place is free at once. */
  unused(): void;
}

export interface BudgetState {
  limit: number;
  /** Free places in the window, whether or not there is a pause. */
  left: number;
  /** The rest of a pause that the service asked for. */
  pausedForMs: number;
}

export type Budget = Pick<ReturnType<typeof createBudget>, 'take' | 'pauseUntil' | 'left'>;

/**
 * An upper bound on requests in ANY 60 s, as the service counts them. A request takes a place before it is sent and keeps it until
 * 60 s after its answer, because the time of its arrival cannot be known. Refused: a token bucket or a log of sending times. With
 * those, a slow request and a later burst could arrive within 60 s.
 *
 * Within the window bursts are allowed. A lane is first come, first served. Waiting lanes share the places by weight (stride
 * scheduling: the lane whose turn is earliest goes, and each turn moves it on by 1 / weight), so that none starves.
 */
export function createBudget({
  requestsPerMinute: limit,
  clock,
}: {
  requestsPerMinute: number;
  clock: Clock;
}) {
  const scanLimit = limit - Math.floor(limit * KEPT_FROM_SCANS);
  const automaticLimit = limit - Math.floor(limit * KEPT_FOR_PERSONS);

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
    // Strictly older, because the steady clock is rounded to whole milliseconds.
    while (arrivals[0] !== undefined && now - arrivals[0].at > WINDOW_MS) used[arrivals.shift()!.lane]--;
  }

  function hasRoom(lane: Lane): boolean {
    if (inUse() >= limit) return false;
    if (lane === 'person') return true;
    if (used.live + used.scan >= automaticLimit) return false;
    return lane === 'live' || used.scan < scanLimit;
  }

  function nextLane(): Lane | null {
    let next: Lane | null = null;
    for (const lane of LANES) {
      if (queues[lane].length === 0 || !hasRoom(lane)) continue;
      if (next === null || turns[lane] < turns[next]) next = lane;
    }
    return next;
  }

  /** Hands out all free places. If requests still wait, sets an alarm for the next time that a place or the pause ends. */
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
    const wakeInMs = now < pausedUntil ? pausedUntil - now : untilNextForgotten(now);
    if (wakeInMs === null) return;
    const own = new AbortController();
    alarm = own;
    void clock.sleep(wakeInMs, own.signal).then(() => {
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

    /** No request is sent before this time of the steady clock. The latest pause counts. */
    pauseUntil(steadyMs: number): void {
      pausedUntil = Math.max(pausedUntil, steadyMs);
    },

    /** Counts requests of a process before this one, the last at `steadyMs`, as requests of list scans, which most of them were. */
    alreadySent(requests: number, steadyMs: number): void {
      used.scan += requests;
      arrivals.push(...Array.from({ length: requests }, () => ({ lane: 'scan' as const, at: steadyMs })));
    },

    /** Requests in the window now. */
    inUse(): number {
      forget(clock.steady());
      return inUse();
    },

    left(): BudgetState {
      const now = clock.steady();
      forget(now);
      return {
        limit,
        left: Math.max(0, limit - inUse()),
        pausedForMs: Math.max(0, pausedUntil - now),
      };
    },
  };
}
