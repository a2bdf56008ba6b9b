import type { Clock } from '../../src/platform/clock.ts';

/** Real time that can be told to jump ahead: whatever slept into the time that was skipped wakes at once. */
export class LeapingClock implements Clock {
  /** From the start: what asks the machine's own time then fails each time, and not only where many leaps were needed. */
  #ahead = 3_600_000;
  readonly #sleepers = new Set<() => void>();

  wall(): number {
    return Date.now() + this.#ahead;
  }

  steady(): number {
    return Math.round(performance.timeOrigin + performance.now() + this.#ahead);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const until = this.steady() + ms;
    return new Promise((resolve) => {
      if (signal?.aborted) return resolve();
      let timer: NodeJS.Timeout | undefined;
      const end = () => {
        clearTimeout(timer);
        this.#sleepers.delete(look);
        signal?.removeEventListener('abort', end);
        resolve();
      };
      const look = () => {
        clearTimeout(timer);
        const left = until - this.steady();
        if (left <= 0) end();
        else timer = setTimeout(look, Math.min(left, LONGEST_TIMER_MS));
      };
      this.#sleepers.add(look);
      signal?.addEventListener('abort', end, { once: true });
      look();
    });
  }

  leap(ms: number): void {
    this.#ahead += ms;
    for (const look of [...this.#sleepers]) look();
  }
}

/** A timer cannot be set to more. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;
