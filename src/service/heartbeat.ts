import { type Clock, createNap } from '../platform/clock.ts';

/** How often the service says that it lives: the resolution of what counts as our downtime. */
const HEARTBEAT_MS = 5_000;

/** The soonest after the last one that something repaired brings the next: a beat is a commit, and repairs come in bursts. */
const SOONEST_MS = 500;
/** Or so many times as long as the last one took: with a hundred thousand records outstanding, asking how they stand takes 60 ms. */
const REST_IN_BEATS = 20;

export interface Heartbeat {
  /** Something was repaired: the tables may be in sync now, and are to say since when. */
  hurry(): void;
  /** Beats until `signal` aborts. `beat` rejects when it cannot write; the next one comes all the same, and not before its time. */
  run(beat: () => Promise<void>, signal: AbortSignal): Promise<void>;
}

export function createHeartbeat(options: {
  clock: Pick<Clock, 'sleep' | 'steady'>;
  onError: (error: unknown) => void;
}): Heartbeat {
  const { clock, onError } = options;
  let isHurried = false;
  let soonestMs = SOONEST_MS;
  const nap = createNap(clock);

  async function rest(signal: AbortSignal): Promise<void> {
    await clock.sleep(soonestMs, signal);
    if (isHurried) return;
    await nap.sleep(HEARTBEAT_MS - soonestMs, signal);
  }

  return {
    hurry() {
      isHurried = true;
      nap.wake();
    },
    async run(beat, signal) {
      while (!signal.aborted) {
        await rest(signal);
        isHurried = false;
        if (signal.aborted) return;
        const began = clock.steady();
        await beat().catch(onError);
        const tookMs = clock.steady() - began;
        soonestMs = Math.min(HEARTBEAT_MS, Math.max(SOONEST_MS, tookMs * REST_IN_BEATS));
      }
    },
  };
}
