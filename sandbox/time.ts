import { z } from 'zod';

/** With this scale the longest wait of the schedule, two days, takes less than two milliseconds. */
const MAX_TIME_SCALE = 100_000_000;
export const timeScaleSchema = z.number().positive().max(MAX_TIME_SCALE);

/** With a longer wait, setTimeout would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Timers whose remaining wait is divided by a scale, also if the scale changes while they run. */
export class ScaledTimers {
  readonly #timers = new Set<(elapsedMs: number) => void>();
  #sinceMs = performance.now();
  #scale: number;

  constructor(scale: number) {
    this.#scale = scale;
  }

  get scale(): number {
    return this.#scale;
  }

  set scale(scale: number) {
    const now = performance.now();
    const elapsedMs = (now - this.#sinceMs) * this.#scale;
    this.#sinceMs = now;
    this.#scale = scale;
    for (const rearm of this.#timers) rearm(elapsedMs);
  }

  /** Calls `run` after `ms` divided by the scale. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void {
    // What it has not waited for since the scale was set: it counts from then.
    let leftMs = ms + (performance.now() - this.#sinceMs) * this.#scale;
    let handle: NodeJS.Timeout;
    const rearm = (elapsedMs: number) => {
      clearTimeout(handle);
      leftMs -= elapsedMs;
      const waitMs = leftMs / this.#scale - (performance.now() - this.#sinceMs);
      handle = setTimeout(run, Math.min(Math.max(waitMs, 0), LONGEST_TIMER_MS));
    };
    rearm(0);
    this.#timers.add(rearm);
    return () => {
      clearTimeout(handle);
      this.#timers.delete(rearm);
    };
  }
}
