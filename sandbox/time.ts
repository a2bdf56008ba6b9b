import { z } from 'zod';

/** With this scale the longest wait of the schedule, two days, takes less than two milliseconds. */
const MAX_TIME_SCALE = 100_000_000;

export const timeScaleSchema = z.number().positive().max(MAX_TIME_SCALE);

/** With a longer wait, setTimeout would fire at once. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

interface Timer {
  /** By the scaled clock if `scaled`, otherwise by the monotonic one. */
  dueMs: number;
  scaled: boolean;
  run: () => void;
  handle?: NodeJS.Timeout;
}

/** Timers whose remaining wait changes with the scale, so that waiting retries follow a change of it. */
export class ScaledTimers {
  readonly #timers = new Set<Timer>();
  #scale: number;
  /** What the scaled clock showed when the scale was last set, and the monotonic instant of that. */
  #shownMs = 0;
  #setAtMs = performance.now();

  constructor(scale: number) {
    this.#scale = scale;
  }

  get scale(): number {
    return this.#scale;
  }

  set scale(scale: number) {
    this.#shownMs = this.#now(true);
    this.#setAtMs = performance.now();
    this.#scale = scale;
    for (const timer of this.#timers) this.#arm(timer);
  }

  /** Calls `run` after `ms`, divided by the scale if `scaled`. Returns a function that cancels it. */
  after(ms: number, run: () => void, { scaled }: { scaled: boolean }): () => void {
    const timer: Timer = { dueMs: this.#now(scaled) + ms, scaled, run };
    this.#timers.add(timer);
    this.#arm(timer);
    return () => {
      clearTimeout(timer.handle);
      this.#timers.delete(timer);
    };
  }

  clear(): void {
    for (const timer of this.#timers) clearTimeout(timer.handle);
    this.#timers.clear();
  }

  #now(scaled: boolean): number {
    const now = performance.now();
    return scaled ? this.#shownMs + (now - this.#setAtMs) * this.#scale : now;
  }

  #arm(timer: Timer): void {
    clearTimeout(timer.handle);
    const waitMs = (timer.dueMs - this.#now(timer.scaled)) / (timer.scaled ? this.#scale : 1);
    timer.handle = setTimeout(
      () => {
        this.#timers.delete(timer);
        timer.run();
      },
      Math.min(Math.max(waitMs, 0), LONGEST_TIMER_MS),
    );
  }
}
