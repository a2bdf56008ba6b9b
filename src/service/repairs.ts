import { type Backfill, type BackfillOptions, createBackfill } from '../backfill/backfill.ts';
import type { Budget } from '../compliance/budget.ts';
import { createClient } from '../compliance/client.ts';
import type { Credentials } from '../compliance/credentials.ts';
import type { ComplianceSettings, Config } from '../platform/config.ts';
import type { RepairStore } from '../store/store.ts';
import type { Narrator } from './narrator.ts';

export interface RepairsOptions
  extends Pick<
    BackfillOptions,
    'gaps' | 'clock' | 'timing' | 'rules' | 'random' | 'riskIds' | 'access' | 'onError'
  > {
  config: Config;
  settings: ComplianceSettings;
  credentials: Credentials;
  budget: Budget;
  tell: Narrator;
  /** By how much the API's clock is ahead of ours, whenever an answer tells. */
  onSkew: (ms: number) => void;
}

export type CreateRepairs = (store: RepairStore, interrupted: BackfillOptions['interrupted']) => Backfill;

/** A client of the API under the one budget, and what repairs with it; among several replicas made anew with each lease. */
export function repairsWith(options: RepairsOptions): CreateRepairs {
  const { config, settings, credentials, budget, tell, onSkew, ...shared } = options;
  const pointers = config.idPointers;
  const client = createClient({
    ...{ settings, credentials, budget, pointers, clock: options.clock },
    observe: (request) => {
      if (request.dateHeaderSkewMs !== null) onSkew(request.dateHeaderSkewMs);
      tell.requested(request);
    },
  });
  return (store, interrupted) =>
    createBackfill({
      ...{ ...shared, store, client, pointers, interrupted },
      paging: settings.paging,
      requestsPerMinute: settings.requestsPerMinute,
      fullSyncMs: config.sync.fullSyncMs,
      ...{
        onApplied: tell.applied,
        onConcluded: tell.concluded,
        onFullSync: tell.synced,
        onProgress: (fullSync) => tell.syncing(fullSync, budget.left().left),
      },
    });
}
