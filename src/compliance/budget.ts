import PQueue from 'p-queue';
import type { Clock } from '../platform/clock.ts';

/** Who asks: an operator's own request, the repair of one record, or a list scan over many. */
export type Lane = 'person' | 'live' | 'scan';

/** The setting's limit is per minute. */
export const WINDOW_MS = 60_000;

/** The part of the window that list scans leave free. Otherwise a repair would wait a minute behind a list scan's burst. */
const KEPT_FROM_SCANS = 1 / 4;
/** The part that repairs and list scans together leave free. */
const KEPT_FOR_PERSONS = 1 / 10;

export interface BudgetState {
  limit: number;
  /** Free places in the window, whether or not there is a pause. */
  left: number;
  /** The rest of a pause that the service asked for. */
  pausedForMs: number;
}

export type Budget = Pick<ReturnType<typeof createBudget>, 'run' | 'pauseUntil' | 'left'>;

/** Requests pass it one after another, each as soon as there is room. */
interface Gate {
  queue: PQueue;
  hasRoom: () => boolean;
}

interface Place {
  lane: Lane;
  isTaken: boolean;
}

/**
 * An upper bound on requests in ANY 60 s, as the service counts them: a request takes a place before it is sent and keeps it until
 * 60 s after its end, because the time of its arrival cannot be known. Within the window bursts are allowed.
 *
 * Requests that wait go in turn: one of those that list scans ask for, one repair, and one of a person for each of these, so none
 * starves. Refused: p-queue's own `interval`, which goes by the wall clock. Where that is set back by an hour, nothing is sent for an hour.
 */
export function createBudget({
  requestsPerMinute: limit,
  clock,
}: {
  requestsPerMinute: number;
  clock: Clock;
}) {
  const used: Record<Lane, number> = { person: 0, live: 0, scan: 0 };
  /** Requests that have ended, oldest first. */
  const ended: { lane: Lane; at: number }[] = [];
  let pausedUntil = Number.NEGATIVE_INFINITY;

  const inUse = () => used.person + used.live + used.scan;
  const upTo = (part: number) => limit - Math.floor(limit * part);
  const gate = (hasRoom: () => boolean): Gate => ({ queue: new PQueue({ concurrency: 1 }), hasRoom });
  const all = gate(() => inUse() < limit && clock.steady() >= pausedUntil);
  const automatic = gate(() => used.live + used.scan < upTo(KEPT_FOR_PERSONS));
  const gates: Record<Lane, readonly Gate[]> = {
    person: [gate(() => true), all],
    live: [gate(() => true), automatic, all],
    scan: [gate(() => used.scan < upTo(KEPT_FROM_SCANS)), automatic, all],
  };

  function forget(): void {
    // Strictly older, because the steady clock is rounded to whole milliseconds.
    while (ended[0] !== undefined && clock.steady() - ended[0].at > WINDOW_MS) used[ended.shift()!.lane]--;
  }

  /** A gate is held until the next one is passed. So of each lane one request waits for what is shared. */
  async function pass([first, ...others]: readonly Gate[], place: Place, signal: AbortSignal): Promise<void> {
    if (first === undefined) {
      used[place.lane] += 1;
      place.isTaken = true;
      return;
    }
    const wait = async () => {
      for (forget(); !first.hasRoom(); forget()) {
        const now = clock.steady();
        const freeIn = ended[0] === undefined ? WINDOW_MS : ended[0].at + WINDOW_MS + 1 - now;
        await clock.sleep(now < pausedUntil ? pausedUntil - now : freeIn, signal);
        if (signal.aborted) break;
      }
      signal.throwIfAborted();
      await pass(others, place, signal);
    };
    await first.queue.add(wait, { signal });
  }

  return {
    /** Sends a request as soon as it may leave. Rejects with the signal's reason when that aborts before. */
    async run<T>(lane: Lane, signal: AbortSignal, send: () => Promise<T>): Promise<T> {
      const place = { lane, isTaken: false };
      try {
        await pass(gates[lane], place, signal);
        return await send();
      } finally {
        // Also if it was aborted just then.
        if (place.isTaken) ended.push({ lane, at: clock.steady() });
      }
    },

    /** No request is sent before this time of the steady clock. The latest pause counts. */
    pauseUntil(steadyMs: number): void {
      pausedUntil = Math.max(pausedUntil, steadyMs);
    },

    /** Counts requests of a process before this one, the last at `steadyMs`, as requests of list scans, which most of them were. */
    alreadySent(requests: number, steadyMs: number): void {
      used.scan += requests;
      ended.push(...Array.from({ length: requests }, () => ({ lane: 'scan' as const, at: steadyMs })));
    },

    /** Requests in the window now. */
    inUse(): number {
      forget();
      return inUse();
    },

    left(): BudgetState {
      forget();
      return {
        limit,
        left: Math.max(0, limit - inUse()),
        pausedForMs: Math.max(0, pausedUntil - clock.steady()),
      };
    },
  };
}
