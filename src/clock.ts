/**
 * Time, as the stages see it. Everything that waits or compares instants takes a Clock, so that a test can
 * hold time in its hand.
 */
export interface Clock {
  /** The system's time, milliseconds since 1970. For what people read, and for a sender's timestamps. */
  wall(): number;
  /**
   * Milliseconds since 1970 as of the process's start, and from there on by the monotonic clock: a stepped
   * system clock does not move it. For intervals. Comparable only within one run of the process.
   */
  steady(): number;
  /** Resolves after `ms` milliseconds, or at once when `signal` aborts. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

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
