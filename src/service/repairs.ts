import { readFile } from 'node:fs/promises';
import { type BackfillOptions, createBackfill, type NamedIds } from '../backfill/backfill.ts';
import { createClient } from '../compliance/client.ts';
import { accessPrint, credentialsFor } from '../compliance/credentials.ts';
import { idLines, isUsableId } from '../compliance/pointers.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import type { Logger } from '../platform/logger.ts';
import type { Base } from './opening.ts';
import { createRememberedBudget } from './request-budget.ts';
import type { Telemetry } from './telemetry.ts';
import { createWorkerBackfill } from './worker-backfill.ts';
import type { WorkerLease } from './worker-lease.ts';

export type Repairs = Awaited<ReturnType<typeof createRepairs>>;

/** Makes what asks the API, and repairs the mirror with the answers. */
export async function createRepairs(
  options: Base &
    Pick<BackfillOptions, 'riskIds' | 'onReachability'> & { lease: WorkerLease; telemetry: Telemetry },
) {
  const { config, rules, store, clock, telemetry } = options;
  const settings = config.compliance;
  let epoch = (await store.readFact('epoch')) ?? '';
  const access = settings === null ? () => '' : accessPrint(settings, () => epoch);
  const repairs = {
    /** The fingerprint of the present credentials and address. Without credentials it never changes. */
    access,
    /** Reads the epoch, a part of that fingerprint, again: it changes if the database is restored while the service runs. */
    async renewAccess() {
      epoch = (await store.readFact('epoch')) ?? '';
    },
  };
  // Without credentials events are all there is.
  if (settings === null)
    return { ...repairs, credentials: null, backfill: null, known: () => null, work: async () => undefined };

  const key = () => config.credentialsKey;
  const credentials = credentialsFor({ settings, store, clock, actor: 'service', needs: 'read', key });
  const { requestsPerMinute } = settings;
  const backfill = createWorkerBackfill({
    ...options,
    requestsPerMinute,
    async create(over, wasUnreachable) {
      const address = settings.baseUrl.href;
      const budget = await createRememberedBudget({ ...options, store: over, address, requestsPerMinute });
      // One that had to be found counts for this service and this setting only.
      const asked = `${address} ${settings.paging.pageSize}`;
      const [found, size] = (await over.readFact(PAGE_SIZE_FACT))?.split(' = ') ?? [];
      let skewMs: number | null = null;
      const client = createClient({
        settings,
        credentials,
        budget,
        clock,
        pointers: rules.pointers,
        pageSize: found === asked ? Number(size) : undefined,
        onPageSize: (taken) => over.writeFact(PAGE_SIZE_FACT, `${asked} = ${taken}`),
        observe: (request) => {
          if (request.dateHeaderSkewMs !== null) skewMs = request.dateHeaderSkewMs;
          telemetry.requested(request);
        },
      });
      const own = createBackfill({
        ...options,
        store: over,
        wasUnreachable,
        client,
        access,
        requestsPerMinute,
        paging: settings.paging,
        fullSyncMs: config.sync.fullSyncMs,
        onApplied: telemetry.applied,
        onConcluded: telemetry.concluded,
        onFullSync: telemetry.synced,
      });
      const known = () => ({
        health: own.health(),
        running: own.runningSyncRuns(),
        budget: budget.left(),
        skewMs,
      });
      return { backfill: own, known };
    },
  });
  return { ...repairs, credentials, backfill, known: backfill.known, work: backfill.work };
}

/** The largest page size that the API takes, where that is less than the setting. */
const PAGE_SIZE_FACT = 'page_size';

/** As its first line: the file names all assessments that there are. */
const COMPLETE_LINE = /^\uFEFF?#\s*complete\s*$/;

/** What `RISK_IDS_FILE` says. Rejects with UsageError. */
async function readRiskIds(path: string): Promise<NamedIds> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    const what = error.code === 'EISDIR' ? `${path} is a folder` : describeError(error);
    throw new UsageError(`RISK_IDS_FILE: ${what}`, 'name a readable file, one id a line');
  });
  const ids = idLines(text);
  const bad = ids.findIndex((id) => !isUsableId(id));
  if (bad >= 0) throw new UsageError(`RISK_IDS_FILE: id ${bad + 1} in ${path} is not one`, 'one id a line');
  return { ids, isComplete: COMPLETE_LINE.test(text.split(/\r?\n/, 1)[0]!) };
}

/** Reads the file now (rejects with UsageError) and again at each call, which falls back on the last ids. Null: no file is set. */
export async function openRiskIds(path: string | null, log: Logger): Promise<() => Promise<NamedIds>> {
  if (path === null) return async () => ({ ids: [], isComplete: false });
  let last = await readRiskIds(path);
  return async () => {
    try {
      last = await readRiskIds(path);
    } catch (error) {
      log.warn({ error }, 'RISK_IDS_FILE cannot be read');
      // What it says now is not known.
      last = { ...last, isComplete: false };
    }
    return last;
  };
}
