import type { Clock } from '../../src/platform/clock.ts';

/** A clock that stands still until told to advance; sleepers wake in the order of their instants. */
export class HeldClock implements Clock {
  #now = 1_800_000_000_000;
  #sleepers: { at: number; wake: () => void }[] = [];

  wall(): number {
    return this.#now;
  }

  steady(): number {
    return this.#now;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (signal?.aborted) resolve();
    const sleeper = { at: this.#now + ms, wake: resolve };
    this.#sleepers.push(sleeper);
    signal?.addEventListener('abort', () => {
      this.#sleepers = this.#sleepers.filter((other) => other !== sleeper);
      resolve();
    });
    return promise;
  }

  get sleepers(): number {
    return this.#sleepers.length;
  }

  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await settled();
    for (let next = this.#next(until); next !== undefined; next = this.#next(until)) {
      this.#now = next.at;
      this.#sleepers = this.#sleepers.filter((other) => other !== next);
      next.wake();
      await settled();
    }
    this.#now = until;
    await settled();
  }

  #next(until: number) {
    return this.#sleepers.filter((sleeper) => sleeper.at <= until).sort((a, b) => a.at - b.at)[0];
  }
}

/** Lets every promise that can already go on do so. */
export function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
