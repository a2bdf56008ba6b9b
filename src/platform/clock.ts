/** The time. Everything that waits or compares instants takes a Clock, so that a test can control it. */
export interface Clock {
  /** The system's time, milliseconds since 1970. For people, and for a sender's timestamps. */
  wall(): number;
  /**
   * For intervals. At the process's start the milliseconds since 1970, and from then on the monotonic clock, so that a change of
   * the system's time does not move it. Comparable only within one run of the process, or, if several processes share the
   * database's time, within `marginMs`.
   */
  steady(): number;
  /** The largest error of `steady` against the shared time, milliseconds. Absent: the time is not shared. */
  marginMs?(): number;
  /** Asks for the shared time again. If that rejects, the clock goes on as before. Absent: the time is not shared. */
  measure?(): Promise<void>;
  /** The process may have stood still since the last measurement, so `steady` may be late by any time. Absent: the time is not shared. */
  hasJumped?(): boolean;
  /** Resolves after `ms` milliseconds, or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** One moment on both clocks, milliseconds since 1970. */
export interface Moment {
  wall: number;
  steady: number;
}

export const momentOf = (clock: Pick<Clock, 'wall' | 'steady'>): Moment => ({
  wall: clock.wall(),
  steady: clock.steady(),
});

export function systemClock(): Clock {
  const origin = Date.now() - performance.now();
  return {
    wall: () => Date.now(),
    steady: () => Math.round(origin + performance.now()),
    sleep: (ms, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted) return resolve();
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener('abort', done);
          resolve();
        };
        const timer = setTimeout(done, Math.min(ms, 2 ** 31 - 1));
        signal?.addEventListener('abort', done, { once: true });
      }),
  };
}

/** A sleep that `wake` can end early. */
export function createNap(clock: Pick<Clock, 'sleep'>) {
  let wakeUp: () => void = () => undefined;
  return {
    /** Ends the sleep, if there is one. */
    wake: () => wakeUp(),
    /** Resolves after `ms` milliseconds, or at once when `signal` aborts or `wake` is called. Never rejects. */
    async sleep(ms: number, signal: AbortSignal): Promise<void> {
      if (signal.aborted) return;
      const over = new AbortController();
      // Without a reason, `abort` would make one with a stack, which costs more than the rest of a wake-up.
      const stop = () => over.abort(null);
      wakeUp = stop;
      signal.addEventListener('abort', stop, { once: true });
      await clock.sleep(ms, over.signal);
      signal.removeEventListener('abort', stop);
      wakeUp = () => undefined;
    },
  };
}

/** Exponential, because what has failed for long rarely works again soon. */
export interface Backoff {
  firstMs: number;
  longestMs: number;
}

/**
 * Milliseconds to wait before the attempt that follows `failures` failed ones. `random` is in [0, 1): the wait is between half the
 * exponential step and all of it, so that attempts that failed together are not repeated together.
 */
export function backoffMs(backoff: Backoff, failures: number, random: number): number {
  const step = Math.min(backoff.longestMs, backoff.firstMs * 2 ** Math.max(0, failures - 1));
  return Math.round(step / 2 + (step / 2) * random);
}

/** The most that our clock and the server's drift apart: 0.7 s an hour. */
const DRIFT = 200e-6;
/** Times are rounded on both sides. */
const ROUNDING_MS = 1;
/** On one system the wall clock and the monotonic clock drift apart by less than this, unless one is set or stands still. */
const JUMP_MS = 50;

/**
 * The database's time. Between two measurements this process's monotonic clock continues it. When within a round trip the database
 * read its clock cannot be known, so half of the round trip is the error. A new measurement is used if its error is smaller than
 * that of the last one has become, or if the two contradict each other.
 *
 * While a virtual machine is suspended, its monotonic clock stands still, and its wall clock is set when it resumes. So if the two
 * have moved differently since the last measurement, it does not count any more. A pause of which the system knows nothing, because
 * both clocks stood still, stays unnoticed until the next measurement.
 *
 * `read` returns the database's clocks. `atLeast`: the smallest value that its steady clock can have, as this process knows it.
 */
export async function sharedClock(
  read: (atLeast: number | null) => Promise<Moment>,
  own: Pick<Clock, 'sleep' | 'wall'> & { monotonic: () => number },
) {
  /** How far the database's clocks are ahead of ours. `offset`: how far our wall clock is ahead of our monotonic one. */
  async function look(atLeast: number | null) {
    const sentAt = own.monotonic();
    const offset = own.wall() - sentAt;
    const { wall, steady } = await read(atLeast);
    const at = own.monotonic();
    const errorMs = (at - sentAt) / 2;
    return { wall: wall - at + errorMs, steady: steady - at + errorMs, errorMs, at, offset };
  }

  let ahead = await look(null);
  let last = Number.NEGATIVE_INFINITY;

  const errorNow = (at: number) => ahead.errorMs + (at - ahead.at) * DRIFT;
  const estimate = (at: number) => ahead.steady + at;

  const hasJumped = () => Math.abs(own.wall() - own.monotonic() - ahead.offset) > JUMP_MS;

  function steady(): number {
    // It never goes back. After a correction it stays at the last value until the time has passed it.
    last = Math.max(last, Math.round(estimate(own.monotonic())));
    return last;
  }

  async function measure(): Promise<void> {
    const sentAt = own.monotonic();
    const found = await look(Math.floor(estimate(sentAt) - errorNow(sentAt)));
    const isBetter = found.errorMs <= errorNow(found.at);
    const contradicts = Math.abs(found.steady - ahead.steady) > found.errorMs + errorNow(found.at);
    if (isBetter || contradicts || hasJumped()) ahead = found;
  }

  return {
    wall: () => Math.round(ahead.wall + own.monotonic()),
    steady,
    marginMs(): number {
      const at = own.monotonic();
      const early = Math.max(0, steady() - estimate(at));
      return Math.ceil(errorNow(at) + early + ROUNDING_MS);
    },
    sleep: own.sleep,
    measure,
    hasJumped,
  };
}
