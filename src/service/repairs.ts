import { readFile } from 'node:fs/promises';
import { type BackfillOptions, createBackfill } from '../backfill/backfill.ts';
import { NOTHING_KNOWN } from '../backfill/upstream.ts';
import { createClient } from '../compliance/client.ts';
import { accessPrint, credentialsFor } from '../compliance/credentials.ts';
import { idLines, isUsableId } from '../compliance/pointers.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { RepairStore } from '../store/store.ts';
import { createLeaderBackfill, readUnreachable } from './leader-backfill.ts';
import { forgeableDistanceMs } from './missed-deliveries.ts';
import type { Base } from './opening.ts';
import type { Replicas } from './replicas.ts';
import { createRememberedBudget, createSharedBudget } from './request-budget.ts';
import type { Telemetry } from './telemetry.ts';

export type Repairs = Awaited<ReturnType<typeof createRepairs>>;

/** Makes everything that asks the API, within one budget, and that repairs the mirror with the answers. */
export async function createRepairs(
  options: Base &
    Pick<BackfillOptions, 'riskIds' | 'interrupted' | 'onReachability'> & {
      replicas: Replicas;
      /** No other replica lived when this process began. */
      isFirst: boolean;
      telemetry: Telemetry;
    },
) {
  const { config, rules, store, clock, replicas, telemetry } = options;
  const settings = config.compliance;
  const requestsPerMinute = settings?.requestsPerMinute ?? 1;
  const address = settings?.baseUrl.href ?? '';
  const budget = replicas.isAlone
    ? await createRememberedBudget({ store, address, requestsPerMinute, clock })
    : createSharedBudget({
        ...options,
        replica: replicas.id,
        requestsPerMinute,
        requestTimeoutMs: settings?.timeoutMs ?? 0,
      });
  let epoch = await store.epoch();
  let skewMs: number | null = null;
  const access = settings === null ? () => '' : accessPrint(settings, () => epoch);
  const repairs = {
    budget,
    /** The fingerprint of the present credentials and address. Without credentials it never changes. */
    access,
    /** Reads the epoch, a part of that fingerprint, again: it changes if the database is restored while the service runs. */
    async renewAccess() {
      epoch = await store.epoch();
    },
    /** How far the API's clock was ahead of ours by its last answer with a date, in milliseconds; null: no answer had one. */
    skewMs: () => skewMs,
  };
  // Without credentials events are all there is.
  if (settings === null)
    return { ...repairs, credentials: null, backfill: null, leader: null, health: () => NOTHING_KNOWN };

  const key = () => config.credentialsKey;
  const credentials = credentialsFor({ settings, store, clock, actor: 'service', needs: 'read', key });
  const client = createClient({
    settings,
    credentials,
    budget,
    clock,
    pointers: rules.pointers,
    observe: (request) => {
      if (request.dateHeaderSkewMs !== null) skewMs = request.dateHeaderSkewMs;
      telemetry.requested(request);
    },
  });
  /** Called once by a process that is alone, and by one of several replicas for each lease. */
  const create = (over: RepairStore, interrupted: BackfillOptions['interrupted'], wasUnreachable = false) =>
    createBackfill({
      ...options,
      store: over,
      client,
      interrupted,
      wasUnreachable,
      access,
      requestsPerMinute,
      paging: settings.paging,
      fullSyncMs: config.sync.fullSyncMs,
      onApplied: telemetry.applied,
      onConcluded: telemetry.concluded,
      onFullSync: telemetry.synced,
      onProgress: (fullSync) => telemetry.syncing(fullSync, budget.left().left),
    });
  /** The backfill of one of several replicas; null: this process is alone. */
  const leader = replicas.isAlone
    ? null
    : createLeaderBackfill({
        ...options,
        create,
        forgeableDistanceMs: forgeableDistanceMs(config.sync.fullSyncMs),
      });
  const backfill = leader ?? create(store, options.interrupted, await readUnreachable(store));
  return { ...repairs, credentials, leader, backfill, health: backfill.health };
}

/** The ids in `RISK_IDS_FILE`. Rejects with UsageError. */
export async function readRiskIds(path: string): Promise<string[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    const what = error.code === 'EISDIR' ? `${path} is a folder` : describeError(error);
    throw new UsageError(`RISK_IDS_FILE: ${what}`, 'name a readable file, one id a line');
  });
  const ids = idLines(text);
  const bad = ids.findIndex((id) => !isUsableId(id));
  if (bad >= 0) throw new UsageError(`RISK_IDS_FILE: id ${bad + 1} in ${path} is not one`, 'one id a line');
  return ids;
}

/** Reads the file now (rejects with UsageError) and again at each call, which falls back on the last ids. Null: no file is set. */
export async function openRiskIds(
  path: string | null,
  log: Logger,
): Promise<() => Promise<readonly string[]>> {
  if (path === null) return async () => [];
  let last = await readRiskIds(path);
  return async () => {
    try {
      last = await readRiskIds(path);
    } catch (error) {
      log.warn({ error }, 'RISK_IDS_FILE cannot be read');
    }
    return last;
  };
}
