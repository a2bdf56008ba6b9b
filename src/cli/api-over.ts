import { apiHere, createApi } from '../ops/api/app.ts';
import { createOperations } from '../ops/api/changes.ts';
import type { ApiClient } from '../ops/api/client.ts';
import { createAuditLog } from '../ops/audit.ts';
import type { ApiContext, LiveFacts, OpsActions } from '../ops/context.ts';
import { createSnapshots } from '../ops/snapshot.ts';
import { noDeliveries } from '../ops/traffic.ts';
import { momentOf } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { describeError, UsageError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { rulesOf } from '../service/opening.ts';
import { beginPause, endPause, readPause } from '../service/state.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import { clockOf, livingReplicas } from './database.ts';
import { printable } from './text.ts';

/** The actor in the audit, where a service writes the name of a token. */
const ACTOR = 'cli';

/** The operators' API over the database itself. Requested work is stored for the service that runs on it now or starts next. */
export async function apiOver(store: Store, cli: Cli, config: Config): Promise<ApiClient> {
  const clock = await clockOf(store);
  const now = () => momentOf(clock);
  const isServed = (await livingReplicas(store)) > 0;
  const rules = rulesOf(config);
  const startedAt = clock.wall();
  let pausedSince = await readPause(store);

  /** Tells the services on this database about `work` when it is done. */
  const notifying = async <T>(work: Promise<T>): Promise<T> => {
    const done = await work;
    await store.notify('work');
    return done;
  };
  const actions: OpsActions = {
    async requestFullSync(kinds, reason) {
      // A service that starts later runs full syncs anyway.
      if (isServed) await notifying(store.requestSyncRuns(kinds, reason, now()));
    },
    async refetch(kind, ids) {
      await notifying(store.makeDue(kind, ids, now()));
    },
    async dryRun(kind, signal) {
      if ((await livingReplicas(store)) > 0) {
        throw new UsageError(
          'services run on this database, and the request budget is theirs',
          'set OPS_URL and OPS_TOKEN: then one of them compares',
        );
      }
      // Loaded only here: other commands need none of it.
      const { createDryRun } = await import('../backfill/dry-run.ts');
      const { commandClient, complianceSettings } = await import('./client.ts');
      const { readRiskIds } = await import('../service/repairs.ts');
      const { riskIdsFile } = config;
      const compare = createDryRun({
        client: commandClient(cli, config, store, { actor: 'cli', needs: 'read', silent: true }),
        store,
        clock,
        random: Math.random,
        pointers: config.idPointers,
        riskIds: async () => (riskIdsFile === null ? [] : await readRiskIds(riskIdsFile)),
        paging: complianceSettings(config).paging,
      });
      return await compare(kind, signal);
    },
    async pause() {
      pausedSince = await notifying(beginPause(store, clock.wall()));
    },
    async resume() {
      await notifying(endPause(store));
      pausedSince = null;
    },
  };
  const facts = (): LiveFacts => ({
    version: version(),
    startedAt,
    ...config.sync,
    eventsOnly: rules.eventsOnly,
    idPointers: rules.pointers,
    state: isServed ? 'elsewhere' : 'stopped',
    pausedSince,
    unwritableSince: null,
    databaseError: null,
    untimelySince: null,
    rejectsSignatures: false,
    lacksCredentials: false,
    secrets: config.webhook
      .secrets()
      .map((_, index) => ({ position: index + 1, registration: null, lastUsedAt: null })),
    runningSyncRuns: [],
    upstream: unknownUpstream(config),
    unreachableSince: null,
    deliveries: { last_minute: noDeliveries(), last_hour: noDeliveries() },
  });
  const complain = (what: { error?: unknown }) => cli.err.write(`${printable(describeError(what.error))}\n`);
  const context: ApiContext = {
    store: {
      ...store,
      retryEvent: (id, at) => notifying(store.retryEvent(id, rules, at)),
      releaseQuarantined: (id, at) => notifying(store.releaseQuarantined(id, at, rules.timing)),
      settleGap: (id, at) => notifying(store.settleGap(id, at)),
    },
    actions,
    facts,
    clock,
    logger: { error: complain },
    credentials: async () => null,
    traffic: store.listTraffic,
    // Only the process that answered a delivery knows how long it took.
    answerTimes: { of: () => null },
    signal: new AbortController().signal,
  };
  const operations = createOperations(context, createAuditLog(context));
  // Here a database that cannot be read is an error, not a verdict.
  const snapshots = createSnapshots(context, { rejects: true });
  return apiHere(createApi(context, { operations, snapshots }), ACTOR);
}

function unknownUpstream({ compliance }: Config): LiveFacts['upstream'] {
  const limit = compliance?.requestsPerMinute ?? 0;
  return {
    configured: compliance !== null,
    origin: compliance?.baseUrl.origin ?? null,
    ok: null,
    skew_ms: null,
    last_ok_at: null,
    last_error_at: null,
    last_error: null,
    consecutive_failures: 0,
    budget_left: limit,
    budget_per_minute: limit,
    budget_waits_for: [],
    waits_until: null,
  };
}
