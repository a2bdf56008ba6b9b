import { type Clock, createNap } from '../platform/clock.ts';
import type { Notice } from '../store/replicas.ts';
import type { Store } from '../store/store.ts';
import { type Pause, readPause } from './pause.ts';
import type { Replicas } from './replicas.ts';

/** How often a replica looks for what others were told, should a notice be lost. */
const LOOK_EVERY_MS = 1_000;

/** Who among several replicas was told what matters to all, and what follows from it here. */
export interface Sharing {
  /** Something is to be passed on: looks now. */
  lookNow(): void;
  run(signal: AbortSignal): Promise<void>;
}

/**
 * Keeps this replica in sync with the others: whether work is paused, and what each was asked for. A replica told of
 * something looks at once; every other look is for notices that were lost.
 */
export function createSharing(options: {
  store: Pick<Store, 'listen' | 'readFact'>;
  replicas: Pick<Replicas, 'isAlone'>;
  clock: Clock;
  onEvents: () => void;
  /** As the database has it; null: work goes on. */
  onPause: (pause: Pause | null) => void;
  look: (isTold: boolean) => Promise<void>;
  onError: (error: unknown) => void;
}): Sharing {
  const { store, clock, replicas } = options;
  const nap = createNap(clock);
  let isTold = false;

  function lookNow(): void {
    isTold = true;
    nap.wake();
  }

  function hear(notice: Notice): void {
    if (notice === 'events') options.onEvents();
    else lookNow();
  }

  async function look(): Promise<void> {
    const told = isTold;
    isTold = false;
    try {
      options.onPause(await readPause(store));
      await options.look(told);
    } catch (error) {
      isTold ||= told;
      options.onError(error);
    }
  }

  return {
    lookNow,
    async run(signal) {
      if (replicas.isAlone) return;
      const ears = await store.listen(hear);
      try {
        while (!signal.aborted) {
          await look();
          await nap.sleep(LOOK_EVERY_MS, signal);
        }
      } finally {
        await ears.stop();
      }
    },
  };
}
