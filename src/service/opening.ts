import { secured } from '../ops/headers.ts';
import { type Addresses, createAddresses } from '../platform/addresses.ts';
import { type Clock, systemClock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { createLogLimit } from '../platform/log-limit.ts';
import { type Logger, stage } from '../platform/logger.ts';
import { createMetrics } from '../platform/metrics.ts';
import { problem } from '../platform/problem.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';
import { isPostgres, lockFile, openStore } from '../store/open.ts';
import type { ProvisionalRules, Store } from '../store/store.ts';
import { databaseClock } from './replicas.ts';
import { createSigningSecrets } from './signing-secrets.ts';

/** A start fails after this long without an answer of the database, which may be starting too. */
const DATABASE_PATIENCE_MS = 60_000;
const DATABASE_AGAIN_MS = 1_000;

export interface ServiceOptions {
  config: Config;
  logger: Logger;
  /** How many log lines were lost since the start. Default: none ever is. */
  logLinesLost?: () => number;
  /** Ends a start that waits for its database: `startService` rejects with its reason. A service that runs is ended by `stop`. */
  signal?: AbortSignal;
  /** For tests: time and chance. With a clock the database gets no thread, because threads have their own time. */
  clock?: Clock | undefined;
  random?: () => number;
}

/** What is open from the service's start to its end. */
export type Opened = Awaited<ReturnType<typeof open>>;

/**
 * Locks the database and opens everything. Rejects with UsageError if another service holds the database, or if an address or the
 * database cannot be used, and with the signal's reason. Whatever it rejects with, nothing stays open.
 */
export async function open(options: ServiceOptions) {
  const { config } = options;
  const own = options.clock ?? systemClock();
  const lock = lockFile(config.databaseUrl, new Date(own.wall()).toISOString());
  const fatal = Promise.withResolvers<never>();
  fatal.promise.catch(() => undefined);
  let listeners: Listeners | null = null;
  let store: Store | null = null;
  /** Closes whatever is open, and cuts requests that are under way. */
  const close = async () => {
    try {
      await Promise.all([listeners?.receiver.close(0), listeners?.ops?.close(0)]);
      await store?.close();
    } finally {
      lock.release();
    }
  };
  try {
    const addresses = createAddresses(config.trustedProxies);
    listeners = await openListeners(config, addresses);
    store = await openWithPatience(options, own, listeners, fatal.reject);
    listeners.at('starting');
    const clock = options.clock ?? (await databaseClock(store)) ?? own;
    const base = baseOn({ ...options, addresses, store, clock }, fatal.reject);
    const secrets = createSigningSecrets(base);
    await secrets.refresh();
    // `failed` never resolves. It rejects with the first error that `fail` is called with: the service cannot go on.
    const { promise: failed, reject: fail } = fatal;
    return { base, listeners, lock, secrets, fail, failed, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Opens and migrates the store. Rejects with UsageError if the database cannot be used, with the signal's reason when that
 * aborts, and with the last error when patience has run out. `onLost` is called if the opened store is lost for good.
 */
async function openWithPatience(
  options: ServiceOptions,
  clock: Clock,
  listeners: Listeners,
  onLost: (error: StoreUnavailable) => void,
): Promise<Store> {
  const { config, logger, signal } = options;
  const until = clock.steady() + DATABASE_PATIENCE_MS;
  const log = stage(logger, 'store');
  for (;;) {
    try {
      return await openStore(config.databaseUrl, {
        postgres: config.database,
        ...(options.clock === undefined ? { inThread: { onLost } } : {}),
        onMigrating: () => {
          listeners.at('migrating');
          log.info({ outcome: 'started' }, 'migration');
        },
        onBackup: (path) => log.info({ outcome: 'backed_up', path }, 'migration'),
      });
    } catch (error) {
      // Waiting does not help a file that cannot be opened.
      const mayCome = isPostgres(config.databaseUrl) && error instanceof StoreUnavailable && !error.fatal;
      if (!mayCome || clock.steady() >= until) throw error;
      log.warn({ outcome: 'failed', error }, 'waiting for the database');
      await clock.sleep(DATABASE_AGAIN_MS, signal);
      signal?.throwIfAborted();
    }
  }
}

/** What every part of the service needs, made of the settings, the database and time. */
export type Base = ReturnType<typeof baseOn>;

function baseOn(
  options: ServiceOptions & { addresses: Addresses; store: Store; clock: Clock },
  fail: (error: unknown) => void,
) {
  const { config, logger, addresses, store, clock, random = Math.random } = options;
  const lines = createLogLimit(clock);
  const log = stage(logger, 'service');
  return {
    config,
    addresses,
    store,
    clock,
    random,
    logger,
    lines,
    rules: rulesOf(config),
    /** Wall-clock milliseconds. */
    startedAt: clock.wall(),
    metrics: createMetrics({ logLinesLost: options.logLinesLost }),
    /** Reports failures that nobody waits for. */
    onError(error: unknown): void {
      // Not a failure: only a stop, or the loss of a lease, aborts work.
      if (error instanceof Error && error.name === 'AbortError') return;
      const reason = error instanceof MirrorError ? error.code : null;
      if (lines.admits(log, 'error', 'stage failed', { outcome: 'failed', reason }))
        log.error({ outcome: 'failed', error }, 'stage failed');
      if (error instanceof StoreUnavailable && error.fatal) fail(error);
    },
  };
}

/** The rules for processing events, by the settings. */
export function rulesOf(config: Config): ProvisionalRules {
  return {
    pointers: config.idPointers,
    eventsOnly: config.compliance === null,
    toleranceMs: config.webhook.toleranceSeconds * 1000,
    timing: { settleMs: config.sync.settleMs },
  };
}

// ─── listeners ──────────────────────────────────────────────────────────────────────────────────────────

type Fetch = ListenOptions['fetch'];

/** A start takes seconds, but the migration of a large database takes minutes. */
const RETRY_AFTER = { 'retry-after': '5' };

/** Answers until the database is open: a probe can tell a start from a crash, and a sender tries again later. */
export function createStartup(publicUrl: URL | null) {
  /** The step of the start, for `/readyz`. */
  let state: 'starting' | 'migrating' = 'starting';
  let apps: { receiver: Fetch; ops: Fetch } | null = null;

  function answer(path: string, isForOperators: boolean): Response {
    if (path === '/livez') return Response.json({ status: 'live' });
    if (isForOperators && path === '/readyz')
      return Response.json({ status: 'not_ready', reason: state }, { status: 503 });
    return problem(503, 'starting', 'The service is starting.', 'Send it again later.', RETRY_AFTER);
  }
  const listener =
    (name: 'receiver' | 'ops'): Fetch =>
    (request, env) =>
      apps === null ? secured(answer(pathOf(request), name === 'ops'), publicUrl) : apps[name](request, env);

  return {
    receiver: listener('receiver'),
    ops: listener('ops'),
    at(to: typeof state): void {
      state = to;
    },
    /** From now on the apps answer. */
    open(to: typeof apps): void {
      apps = to;
    },
  };
}

type Listeners = Awaited<ReturnType<typeof openListeners>>;

/** Opens both listeners, or one for both if they have the same address. Until `open` is called, the startup handlers answer. */
async function openListeners(config: Pick<Config, 'host' | 'port' | 'ops'>, addresses: Addresses) {
  const { host, port, ops } = config;
  const startup = createStartup(ops.publicUrl);
  const shared = host === ops.host && port === ops.port && port !== 0;
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? startup.receiver(request, env) : startup.ops(request, env))
    : startup.receiver;
  const receiver = await listen({
    fetch,
    host,
    port,
    addresses,
    canWait: (request) => shared && !isForWebhooks(request.url),
  });
  let own: Listener | null = null;
  try {
    if (!shared)
      own = await listen({
        fetch: startup.ops,
        host: ops.host,
        port: ops.port,
        addresses,
        settings: 'OPS_',
        // A page takes a few milliseconds. Only one is served before a waiting delivery, however many are requested.
        canWait: () => true,
      });
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
  const receiverUrl = urlOf(host, receiver.port);
  const opsUrl = own === null ? receiverUrl : urlOf(ops.host, own.port);
  return {
    at: startup.at,
    open: startup.open,
    receiver,
    receiverUrl,
    opsUrl,
    /** Null if the receiver's listener serves both. */
    ops: own,
    /** The operators' listener as seen from outside. */
    operatorsUrl: ops.publicUrl?.origin ?? opsUrl,
  };
}

/** The usual spelling of the path. A delivery with another one only waits for its turn. */
const isForWebhooks = (target: string | undefined) => target?.split('?', 1)[0] === '/webhooks';
const isDelivery = (request: Request) => pathOf(request) === '/webhooks';
const pathOf = (request: Request) => new URL(request.url).pathname;

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
