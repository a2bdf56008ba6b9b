import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createApi } from '../ops/api/app.ts';
import { type ApiClient, apiHere, remoteApi } from '../ops/api/client.ts';
import { createAuditLog } from '../ops/audit.ts';
import type { LiveFacts, OpsActions, OpsContext } from '../ops/context.ts';
import { createOperations } from '../ops/operations.ts';
import { noDeliveries } from '../ops/recent.ts';
import { createSnapshots } from '../ops/snapshot.ts';
import { OPS_TOKEN_FILE } from '../ops/token-file.ts';
import { type Config, loadConfig } from '../platform/config.ts';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { version } from '../platform/package.ts';
import { pendingDeletions } from '../service/operators.ts';
import { beginPause, endPause, readPause } from '../service/pause.ts';
import type { Store } from '../store/store.ts';
import type { Cli } from './cli.ts';
import {
  clockOf,
  databasePath,
  holderOfDatabase,
  livingReplicas,
  withLockedStore,
  withStore,
} from './database.ts';
import { printable } from './text.ts';

/** In the audit, beside the names of tokens. */
const ACTOR = 'cli';

/** An operators' listener, and a token for it. */
export interface Listener {
  url: string;
  token: string;
}

interface Way {
  /** A service that holds the file does it: there is one writer, and it knows at once. Else the file itself will do. */
  isByService: boolean;
  isWriting: (config: Config) => boolean;
}

const WAYS = {
  read: { isByService: false, isWriting: () => false },
  change: { isByService: true, isWriting: () => true },
  // Tokens may have to be renewed, and that is written.
  compare: {
    isByService: true,
    isWriting: ({ compliance }) => (compliance?.auth ?? 'api_key') !== 'api_key',
  },
} satisfies Record<string, Way>;

/**
 * Runs `work` with the operators' API: with OPS_URL that of the service there; to change something, that of the service
 * that holds the file; otherwise the same API over the database itself, whose replicas, where it is PostgreSQL, are
 * told there. `service`: whose it is; null: none was asked.
 */
export async function withApi<T>(
  cli: Cli,
  purpose: keyof typeof WAYS,
  work: (api: ApiClient, service: Listener | null) => Promise<T>,
): Promise<T> {
  const config = loadConfig(cli.env);
  const way: Way = WAYS[purpose];
  const service = way.isByService || config.remote !== null ? await runningService(config) : null;
  if (service !== null) return await work(remoteApi(service), service);
  const here = async (store: Store) => await work(await apiOver(store, cli, config), null);
  if (!way.isWriting(config)) return await withStore(cli, here);
  // A database that is not there would be made by opening it for writing; looking first says so instead.
  await withStore(cli, async () => {});
  return await withLockedStore(cli, here);
}

/** The service that OPS_URL names, or else the one that holds the database; null: none does. */
export async function runningService(config: Config): Promise<Listener | null> {
  if (config.remote !== null) return { url: config.remote.url.href, token: config.remote.token() };
  const holder = await holderOfDatabase(config.databaseUrl);
  if (holder === null) return null;
  if (holder.opsUrl === null) {
    throw new MirrorError('starting', `process ${holder.pid} holds the database and is not listening yet`, {
      retryable: true,
      remedy: 'try again in a moment',
    });
  }
  return { url: holder.opsUrl, token: await operateToken(config) };
}

async function operateToken(config: Config): Promise<string> {
  const configured = config.ops.tokens.find((token) => token.role === 'operate');
  if (configured !== undefined) return configured.token;
  if (config.ops.tokens.length > 0) {
    throw new UsageError('OPS_TOKENS holds no token with the role "operate"', 'changes need one');
  }
  const path = join(dirname((await databasePath(config.databaseUrl)) ?? ''), OPS_TOKEN_FILE);
  if (!existsSync(path)) {
    throw new UsageError(
      `there is no operators' token: OPS_TOKENS is not set, and ${path} does not exist`,
      'set OPS_TOKENS to what the service was started with',
    );
  }
  return readFileSync(path, 'utf8').trim();
}

/** What a service would do at once is noted here, for those that run on the database or the next that starts. */
async function apiOver(store: Store, cli: Cli, config: Config): Promise<ApiClient> {
  const clock = await clockOf(store);
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const isServed = (await livingReplicas(store, clock)) > 0;
  const timing = { settleMs: config.sync.settleMs };
  const toleranceMs = config.webhook.toleranceSeconds * 1000;
  const eventsOnly = config.compliance === null;
  const rules = { pointers: config.idPointers, eventsOnly, toleranceMs, timing };
  const startedAt = clock.wall();
  let pause = await readPause(store);

  const actions: OpsActions = {
    async requestFullSync(kinds, reason) {
      // Whoever starts later begins with full syncs anyway.
      if (!isServed) return;
      await store.requestSyncRuns(kinds, reason, now());
      await store.notify('work');
    },
    async refetch(kind, ids) {
      await store.makeDue(kind, ids, now());
      await store.notify('work');
      return { queued: ids.length };
    },
    async dryRun(kind, signal) {
      const { compareHere } = await import('./compare-here.ts');
      return await compareHere(cli, config, { store, clock }, kind, signal);
    },
    async pause() {
      pause = await beginPause(store, clock.wall());
      await store.notify('work');
    },
    async resume() {
      await endPause(store);
      pause = null;
      await store.notify('work');
    },
  };
  const facts = (): LiveFacts => ({
    ...{ version: version(), startedAt, eventsOnly, ...config.sync, idPointers: config.idPointers },
    ...{
      state: isServed ? 'elsewhere' : 'stopped',
      paused: pause !== null,
      pausedSince: pause?.since ?? null,
    },
    ...{ unwritableSince: null, signingSecrets: config.webhook.secrets().length, secrets: [] },
    ...{ runningSyncRuns: [], upstream: unknownUpstream(config) },
    deliveries: { lastMinute: noDeliveries(), lastHour: noDeliveries(), perMinute: [] },
  });
  const complain = (what: { error?: unknown }) => cli.err.write(`${printable(String(what.error))}\n`);
  const context = {
    store: operatorsStore(),
    ...{ actions, facts, clock, logger: { error: complain } },
    ...{ pendingDeletions: () => pendingDeletions(store, clock.wall()), credentials: async () => null },
    traffic: (since: number) => store.listTraffic(since),
    signal: new AbortController().signal,
  };
  const operations = createOperations(context, createAuditLog(context));
  return apiHere(createApi(context, { operations, snapshots: createSnapshots(context) }), ACTOR);

  function operatorsStore(): OpsContext['store'] {
    const told = async <T>(work: Promise<T>): Promise<T> => {
      const done = await work;
      await store.notify('work');
      return done;
    };
    return {
      ...store,
      retryEvent: (id, at) => told(store.retryEvent(id, rules, at)),
      releaseQuarantined: (id, at) => told(store.releaseQuarantined(id, at, timing)),
      resolveGapById: (id, at) => told(store.resolveGapById(id, at)),
    };
  }
}

function unknownUpstream({ compliance }: Config): LiveFacts['upstream'] {
  const limit = compliance?.requestsPerMinute ?? 0;
  return {
    ...{
      configured: compliance !== null,
      origin: compliance?.baseUrl.origin ?? null,
      ok: null,
      skewMs: null,
    },
    ...{ lastOkAt: null, lastErrorAt: null, lastError: null, consecutiveFailures: 0, unreachableSince: null },
    ...{ budgetLeft: limit, budgetPerMinute: limit, budgetLost: [] },
  };
}
