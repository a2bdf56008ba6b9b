import type { Kind } from '../compliance/kinds.ts';
import type { OpsActions, OpsContext } from '../ops/context.ts';
import { UsageError } from '../platform/errors.ts';
import type { Store } from '../store/store.ts';
import type { Base } from './opening.ts';
import { beginPause, endPause } from './pause.ts';
import type { Repairs } from './repairs.ts';
import type { Replicas } from './replicas.ts';
import type { ServiceState } from './state.ts';

interface Stages extends Pick<Base, 'store' | 'clock' | 'rules'> {
  repairs: Pick<Repairs, 'backfill' | 'leader'>;
  replicas: Pick<Replicas, 'tell'>;
  state: Pick<ServiceState, 'setPause' | 'beat'>;
}

/** The store as operators reach it: what they change makes work, and whoever does that work is woken. */
export function operatorsStore({ store, rules, repairs, replicas }: Stages): OpsContext['store'] {
  return {
    ...store,
    async retryEvent(id, at) {
      const tried = await store.retryEvent(id, rules, at);
      if (tried.outcome === 'processed') {
        repairs.backfill?.wake();
        replicas.tell('work');
      }
      return tried;
    },
    async releaseQuarantined(id, at, timing) {
      const done = await store.releaseQuarantined(id, at, timing);
      if (done) repairs.backfill?.wake();
      return done;
    },
  };
}

export function operatorsActions({ store, clock, repairs, state, replicas }: Stages): OpsActions {
  const { backfill, leader } = repairs;
  const requestFullSync = async (kinds: readonly Kind[], reason: string) => {
    if (leader !== null) await leader.askForFullSync(kinds, reason);
    else backfill?.requestFullSync(kinds, reason);
  };
  return {
    requestFullSync,
    async refetch(kind, ids) {
      // A policy has no address of its own: reading one is reading the list.
      if (kind === 'policy') await requestFullSync([kind], 'operator:refetch');
      else await backfill?.refetch(kind, ids);
      return { queued: ids.length };
    },
    async dryRun(kind, signal) {
      if (backfill === null) throw new UsageError('there are no API credentials to compare with');
      return await backfill.dryRun(kind, signal);
    },
    async pause() {
      state.setPause(await beginPause(store, clock.wall()));
      replicas.tell('work');
      // The heartbeat would write it seconds later.
      await state.beat();
    },
    async resume() {
      await endPause(store);
      state.setPause(null);
      replicas.tell('work');
      // Else the page would go on calling every kind blocked, now for no reason that it could name.
      await state.beat();
    },
  };
}

/** What still waits for a person, by the full sync that found it. */
export async function pendingDeletions(store: Pick<Store, 'pendingDeletions'>, wall: number) {
  const byFullSync = Map.groupBy(await store.pendingDeletions(wall), (one) => one.syncRunId);
  return [...byFullSync].map(([syncRunId, of]) => ({ syncRunId, kind: of[0]!.kind, count: of.length }));
}
