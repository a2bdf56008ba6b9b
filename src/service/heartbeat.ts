import type { Clock } from '../clock.ts';

/** How often the service says that it lives: the resolution of what counts as our downtime. */
const HEARTBEAT_MS = 5_000;

/** The soonest after the last one that something repaired brings the next: a beat is a commit, and repairs come in bursts. */
const SOONEST_MS = 500;

export interface Heartbeat {
  /** Something was repaired: the tables may be in step now, and are to say since when. */
  hurry(): void;
  /** Beats until `signal` aborts. */
  run(signal: AbortSignal): Promise<void>;
}

/** `beat` rejects when it cannot write; the next one comes all the same. */
export function createHeartbeat(options: {
  clock: Pick<Clock, 'sleep'>;
  beat: () => Promise<void>;
  onError: (error: unknown) => void;
}): Heartbeat {
  const { clock, beat, onError } = options;
  let isHurried = false;
  let wakeUp: () => void = () => undefined;

  async function rest(signal: AbortSignal): Promise<void> {
    await clock.sleep(SOONEST_MS, signal);
    if (isHurried) return;
    const nap = new AbortController();
    wakeUp = () => nap.abort(null);
    await clock.sleep(HEARTBEAT_MS - SOONEST_MS, AbortSignal.any([signal, nap.signal]));
    wakeUp = () => undefined;
  }

  return {
    hurry() {
      isHurried = true;
      wakeUp();
    },
    async run(signal) {
      while (!signal.aborted) {
        await rest(signal);
        isHurried = false;
        if (!signal.aborted) await beat().catch(onError);
      }
    },
  };
}
