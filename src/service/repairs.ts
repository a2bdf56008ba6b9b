import { type Backfill, type BackfillOptions, createBackfill } from '../backfill/backfill.ts';
import { type Budget, createBudget } from '../compliance/budget.ts';
import { createClient } from '../compliance/client.ts';
import { accessPrint, type Credentials, credentialsFor } from '../compliance/credentials.ts';
import type { RepairStore } from '../store/store.ts';
import { createLeaderBackfill, type LeaderBackfill } from './leader-backfill.ts';
import { forgeableDistanceMs } from './missed-deliveries.ts';
import type { Narrator } from './narrator.ts';
import type { Base } from './opening.ts';
import type { Replicas } from './replicas.ts';
import { createSharedBudget, type SharedBudget } from './shared-budget.ts';

/** What asks the API: under one budget, with one sort of credentials, what repairs the mirror by it. */
export interface Repairs {
  /** Null: there are no credentials, and events are all there is. */
  backfill: Backfill | null;
  /** The same, where several replicas share it; null: this process is alone, or has no credentials. */
  leader: LeaderBackfill | null;
  budget: Budget;
  /** The same, where several replicas share it; null: this process is alone. */
  sharedBudget: SharedBudget | null;
  credentials: Credentials | null;
  /** The print of the credentials and the address that requests go out with now. Without credentials: the same always. */
  access(): string;
  /** Asks for the database's epoch again, with which the print is made: another one, where the database was put back beneath us. */
  renewAccess(): Promise<void>;
  /** By how much the API's clock was ahead of ours in its last answer that told, in milliseconds; null: none has. */
  skewMs(): number | null;
}

export interface RepairsOptions extends Base, Pick<BackfillOptions, 'gaps' | 'riskIds' | 'interrupted'> {
  replicas: Replicas;
  /** Nobody else was there when this process began. */
  isFirst: boolean;
  tell: Narrator;
  /** Among several: somebody here asked for what the leader is to do, which should be passed on soon. */
  onAsked: () => void;
}

export async function createRepairs(options: RepairsOptions): Promise<Repairs> {
  const { config, rules, store, clock, random, gaps, replicas, tell, onError } = options;
  const settings = config.compliance;
  const requestsPerMinute = settings?.requestsPerMinute ?? 1;
  const sharedBudget = replicas.isAlone
    ? null
    : createSharedBudget({
        ...{ store, replica: replicas.id, requestsPerMinute, clock, onError },
        requestTimeoutMs: settings?.timeoutMs ?? 0,
      });
  const budget = sharedBudget ?? createBudget({ requestsPerMinute, clock });
  let epoch = await store.epoch();
  let skewMs: number | null = null;
  const access = settings === null ? () => '' : accessPrint(settings, () => epoch);
  const repairs = {
    ...{ budget, sharedBudget, access },
    async renewAccess() {
      epoch = await store.epoch();
    },
    skewMs: () => skewMs,
  };
  if (settings === null) return { ...repairs, credentials: null, backfill: null, leader: null };

  const credentials = credentialsFor({
    ...{ settings, store, clock, actor: 'service', needs: 'read' },
    key: () => config.credentialsKey,
  });
  const client = createClient({
    ...{ settings, credentials, budget, clock, pointers: rules.pointers },
    observe: (request) => {
      if (request.dateHeaderSkewMs !== null) skewMs = request.dateHeaderSkewMs;
      tell.requested(request);
    },
  });
  /** Among several replicas made anew with each lease. */
  const create = (over: RepairStore, interrupted: BackfillOptions['interrupted']) =>
    createBackfill({
      ...{ store: over, client, interrupted, access, rules },
      ...{ gaps, clock, random, riskIds: options.riskIds, onError },
      paging: settings.paging,
      requestsPerMinute,
      fullSyncMs: config.sync.fullSyncMs,
      ...{ onApplied: tell.applied, onConcluded: tell.concluded, onFullSync: tell.synced },
      onProgress: (fullSync) => tell.syncing(fullSync, budget.left().left),
    });
  const leader = replicas.isAlone
    ? null
    : createLeaderBackfill({
        ...{ store, replicas, clock, isFirst: options.isFirst, onAsked: options.onAsked, create },
        forgeableDistanceMs: forgeableDistanceMs(config.sync.fullSyncMs),
      });
  return { ...repairs, credentials, leader, backfill: leader ?? create(store, options.interrupted) };
}
