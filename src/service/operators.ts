import type { Backfill } from '../backfill/backfill.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { OpsActions, OpsContext } from '../ops/context.ts';
import type { Clock } from '../platform/clock.ts';
import { UsageError } from '../platform/errors.ts';
import type { ProvisionalRules, Store } from '../store/store.ts';
import type { LeaderBackfill } from './leader-backfill.ts';
import { beginPause, endPause, type Pause } from './pause.ts';
import type { Replicas } from './replicas.ts';

interface Stages {
  store: Store;
  clock: Clock;
  rules: ProvisionalRules;
  backfill: Backfill | null;
  /** The same, where several replicas share it; null: this process is alone, or has no credentials. */
  held: LeaderBackfill | null;
  replicas: Pick<Replicas, 'tell'>;
  /** Stops processing and repairs; null: goes on with them. */
  setPause: (to: Pause | null) => void;
  /** Writes into the tables how it stands now, which the heartbeat would do seconds later. */
  beat: () => Promise<void>;
}

/** The store as operators reach it: what they change makes work, and whoever does that work is woken. */
export function operatorsStore({ store, rules, backfill, replicas }: Stages): OpsContext['store'] {
  return {
    ...store,
    async retryEvent(id, at) {
      const tried = await store.retryEvent(id, rules, at);
      if (tried.outcome === 'processed') {
        backfill?.wake();
        replicas.tell('work');
      }
      return tried;
    },
    async releaseQuarantined(id, at, timing) {
      const done = await store.releaseQuarantined(id, at, timing);
      if (done) backfill?.wake();
      return done;
    },
  };
}

export function operatorsActions(stages: Stages): OpsActions {
  const { store, clock, backfill, held, setPause, beat, replicas } = stages;
  const requestFullSync = async (kinds: readonly Kind[], reason: string) => {
    if (held !== null) await held.askForFullSync(kinds, reason);
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
      setPause(await beginPause(store, clock.wall()));
      replicas.tell('work');
      await beat();
    },
    async resume() {
      await endPause(store);
      setPause(null);
      replicas.tell('work');
      // Else the page would go on calling every kind blocked, now for no reason that it could name.
      await beat();
    },
  };
}

/** What still waits for a person, by the full sync that found it. */
export async function pendingDeletions(store: Pick<Store, 'pendingDeletions'>, wall: number) {
  const byFullSync = Map.groupBy(await store.pendingDeletions(wall), (one) => one.syncRunId);
  return [...byFullSync].map(([syncRunId, of]) => ({ syncRunId, kind: of[0]!.kind, count: of.length }));
}
