import { z } from 'zod';

/** With this scale the longest wait of the schedule, two days, takes less than two milliseconds. */
const MAX_TIME_SCALE = 100_000_000;
export const timeScaleSchema = z.number().positive().max(MAX_TIME_SCALE);

/** With a longer wait, setTimeout would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Timers by a clock that runs `scale` times as fast as the real one, also if the scale changes while they run. */
export class ScaledTimers {
  readonly #timers = new Set<() => void>();
  /** What the clock showed when the scale was set, and when that was. */
  #nowThen = 0;
  #sinceMs = performance.now();
  #scale: number;

  constructor(scale: number) {
    this.#scale = scale;
  }

  get scale(): number {
    return this.#scale;
  }

  set scale(scale: number) {
    this.#nowThen = this.#now();
    this.#sinceMs = performance.now();
    this.#scale = scale;
    for (const arm of this.#timers) arm();
  }

  #now(): number {
    return this.#nowThen + (performance.now() - this.#sinceMs) * this.#scale;
  }

  /** Resolves once `ms` have passed, or when `signal` aborts. */
  sleep(ms: number, signal: AbortSignal): Promise<void> {
    const due = this.#now() + ms;
    const { promise, resolve } = Promise.withResolvers<void>();
    let handle: NodeJS.Timeout;
    const arm = () => {
      clearTimeout(handle);
      const waitMs = (due - this.#now()) / this.#scale;
      handle = setTimeout(resolve, Math.min(Math.max(waitMs, 0), LONGEST_TIMER_MS));
    };
    arm();
    this.#timers.add(arm);
    signal.addEventListener('abort', () => resolve(), { once: true });
    return promise.finally(() => {
      clearTimeout(handle);
      this.#timers.delete(arm);
    });
  }
}
