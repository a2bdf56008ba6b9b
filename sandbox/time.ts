import { z } from 'zod';

/** Timers whose remaining wait shrinks or grows when the scale changes, so that a running retry follows it. */
interface Timer {
  /** Milliseconds of unscaled waiting left at `armedAt`. */
  leftMs: number;
  armedAt: number;
  scaled: boolean;
  run: () => void;
  handle: NodeJS.Timeout;
}

/** At this scale the longest wait of the schedule, two days, is under two milliseconds. */
const MAX_TIME_SCALE = 100_000_000;

export const timeScaleSchema = z.number().positive().max(MAX_TIME_SCALE);

/** setTimeout fires at once for longer waits. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class ScaledTimers {
  readonly #timers = new Set<Timer>();
  #scale: number;

  constructor(scale: number) {
    this.#scale = scale;
  }

  get scale(): number {
    return this.#scale;
  }

  set scale(scale: number) {
    const now = performance.now();
    for (const timer of this.#timers) {
      clearTimeout(timer.handle);
      timer.leftMs -= (now - timer.armedAt) * this.#speed(timer);
    }
    this.#scale = scale;
    for (const timer of this.#timers) this.#arm(timer);
  }

  /** Calls `run` after `ms`, divided by the scale if `scaled`. Returns what cancels it. */
  after(ms: number, run: () => void, options: { scaled: boolean }): () => void {
    const timer: Timer = {
      leftMs: ms,
      armedAt: 0,
      scaled: options.scaled,
      run,
      handle: setTimeout(() => {}, 0),
    };
    clearTimeout(timer.handle);
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

  #speed(timer: Timer): number {
    return timer.scaled ? this.#scale : 1;
  }

  #arm(timer: Timer): void {
    timer.armedAt = performance.now();
    const waitMs = Math.min(Math.max(timer.leftMs / this.#speed(timer), 0), LONGEST_TIMER_MS);
    timer.handle = setTimeout(() => {
      this.#timers.delete(timer);
      timer.run();
    }, waitMs);
  }
}
