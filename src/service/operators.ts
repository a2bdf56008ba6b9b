import type { Backfill } from '../backfill/backfill.ts';
import { UsageError } from '../errors.ts';
import type { OpsActions, OpsContext } from '../ops/context.ts';
import type { Worker } from '../process/worker.ts';
import type { Store } from '../store/store.ts';

interface Stages {
  store: Store;
  worker: Pick<Worker, 'wake'>;
  backfill: Backfill | null;
  /** Stops or goes on with processing and repairs. */
  setPaused: (to: boolean) => void;
}

/** The store as operators reach it: what they change makes work, and whoever does that work is woken. */
export function operatorsStore({ store, worker, backfill }: Stages): OpsContext['store'] {
  return {
    ...store,
    async retryEvent(id, at) {
      const done = await store.retryEvent(id, at);
      if (done) worker.wake();
      return done;
    },
    async releaseQuarantined(id, at, timing) {
      const done = await store.releaseQuarantined(id, at, timing);
      if (done) backfill?.wake();
      return done;
    },
  };
}

export function operatorsActions({ store, backfill, setPaused }: Stages): OpsActions {
  return {
    async requestSweep(kinds, reason) {
      backfill?.requestSweep(kinds, reason);
    },
    async refetch(kind, ids) {
      // A policy has no address of its own: reading one is reading the list.
      if (kind === 'policy') backfill?.requestSweep([kind], 'operator:refetch');
      else await backfill?.refetch(kind, ids);
      return { queued: ids.length };
    },
    async dryRun(kind, signal) {
      if (backfill === null) throw new UsageError('there are no API credentials to compare with');
      return await backfill.dryRun(kind, signal);
    },
    async pause() {
      await store.writeFact('paused', 'true');
      setPaused(true);
    },
    async resume() {
      await store.writeFact('paused', 'false');
      setPaused(false);
    },
  };
}

/** What still waits for a consent, by the sweep that found it. */
export async function heldDeletions(store: Pick<Store, 'heldDeletions'>, wall: number) {
  const bySweep = Map.groupBy(await store.heldDeletions(wall), (held) => held.sweepId);
  return [...bySweep].map(([sweepId, held]) => ({ sweepId, kind: held[0]!.kind, count: held.length }));
}
