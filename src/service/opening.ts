import { answering } from '../ops/headers.ts';
import { type Addresses, createAddresses, urlOf } from '../platform/addresses.ts';
import { type Clock, systemClock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import type { ListedSetting } from '../platform/config-sources.ts';
import { MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { createLogLimit } from '../platform/log-limit.ts';
import { type Logger, stage } from '../platform/logger.ts';
import { createMetrics } from '../platform/metrics.ts';
import { problem } from '../platform/problem.ts';
import { createTurns } from '../receive/body.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';
import { isPostgres, lockFile, openStore } from '../store/open.ts';
import type { ProvisionalRules, Store } from '../store/store.ts';
import { createSigningSecrets, type SigningSecrets } from './signing-secrets.ts';
import { databaseClock } from './worker-lease.ts';

/** A start fails after this long without an answer of the database, which may be starting too. */
const DATABASE_PATIENCE_MS = 60_000;
const DATABASE_AGAIN_MS = 1_000;

/** How the settings came about, by who starts the service. */
interface Described {
  settings(): readonly ListedSetting[];
  /** What was said at the start. */
  warnings: readonly string[];
}

export interface ServiceOptions {
  config: Config;
  logger: Logger;
  /** How its settings came about, for `doctor`. Default: not told. */
  described?: Described;
  /** How many log lines were lost since the start. Default: none ever is. */
  logLinesLost?: () => number;
  /** Ends a start that waits for its database: `startService` rejects with its reason. A service that runs is ended by `stop`. */
  signal?: AbortSignal;
  /** For tests: time and chance. With a clock the database gets no thread, because threads have their own time. */
  clock?: Clock | undefined;
  random?: () => number;
}

/** What is open from the service's start to its end, whatever becomes of the database. */
export type Place = Awaited<ReturnType<typeof openPlace>>;

/**
 * Locks the database and opens the listeners. Rejects with UsageError if another service holds the database, or if an address cannot
 * be used. Whatever it rejects with, nothing stays open.
 */
export async function openPlace({ config, clock = systemClock() }: ServiceOptions) {
  const lock = lockFile(config.databaseUrl, new Date(clock.wall()).toISOString());
  // `failed` never resolves. It rejects with the first error that `fail` is called with: the service cannot go on.
  const { promise: failed, reject: fail } = Promise.withResolvers<never>();
  failed.catch(() => undefined);
  try {
    const addresses = createAddresses(config.trustedProxies);
    const listeners = await openListeners(config, addresses);
    /** Cuts requests that are under way. */
    const close = async () => {
      try {
        await Promise.all([listeners.receiver.close(0), listeners.ops?.close(0)]);
      } finally {
        lock.release();
      }
    };
    return { addresses, listeners, lock, fail, failed, close };
  } catch (error) {
    lock.release();
    throw error;
  }
}

/**
 * Opens the database, and builds the service over it. While PostgreSQL is away or restarts, it does both again. Rejects with UsageError
 * if the database cannot be used, with the signal's reason when that aborts, and with the last error when patience has run out.
 */
export async function overDatabase<T>(
  options: ServiceOptions,
  place: Place,
  build: (base: Base, secrets: SigningSecrets) => Promise<T>,
): Promise<T> {
  const { config, logger, signal, clock = systemClock() } = options;
  const until = clock.steady() + DATABASE_PATIENCE_MS;
  for (;;) {
    let store: Store | null = null;
    try {
      store = await openMigrated(options, place);
      const shared = options.clock ?? (await databaseClock(store)) ?? clock;
      const base = baseOn({ ...options, addresses: place.addresses, store, clock: shared }, place.fail);
      const secrets = createSigningSecrets(base);
      await secrets.refresh();
      return await build(base, secrets);
    } catch (error) {
      await store?.close();
      // Waiting does not help a file that cannot be opened.
      const mayCome = isPostgres(config.databaseUrl) && error instanceof StoreUnavailable && !error.fatal;
      if (!mayCome || clock.steady() >= until) throw error;
      stage(logger, 'store').warn({ outcome: 'failed', error }, 'waiting for the database');
      await clock.sleep(DATABASE_AGAIN_MS, signal);
      signal?.throwIfAborted();
    }
  }
}

async function openMigrated(
  { config, logger, clock }: ServiceOptions,
  { listeners, fail }: Place,
): Promise<Store> {
  const log = stage(logger, 'store');
  const store = await openStore(config.databaseUrl, {
    postgres: config.database,
    serves: true,
    ...(clock === undefined ? { inThread: { onLost: fail } } : {}),
    onMigrating: () => {
      listeners.at('migrating');
      log.info({ outcome: 'started' }, 'migration');
    },
    onWaiting: (whom) => log.warn({ outcome: 'waiting', reason: whom }, 'migration'),
    onBackup: (path) => log.info({ outcome: 'backed_up', path }, 'migration'),
  });
  listeners.at('starting');
  for (const { says, remedy } of await store.exposures())
    log.warn({ outcome: 'exposed', reason: `${says}; ${remedy}` }, 'database');
  return store;
}

/** What every part of the service needs, made of the settings, the database and time. */
export type Base = ReturnType<typeof baseOn>;

function baseOn(
  options: ServiceOptions & { addresses: Addresses; store: Store; clock: Clock },
  fail: (error: unknown) => void,
) {
  const { config, logger, addresses, store, clock, random = Math.random } = options;
  const { described = { settings: () => [], warnings: [] } } = options;
  const lines = createLogLimit(clock);
  const log = stage(logger, 'service');
  return {
    config,
    described,
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
      lines.write(log, 'error', { outcome: 'failed', reason, error }, 'stage failed');
      if (error instanceof StoreUnavailable && error.fatal) fail(error);
    },
  };
}

/** The rules for processing events, by the settings. */
function rulesOf(config: Config): ProvisionalRules {
  return {
    pointers: config.idPointers,
    eventsOnly: config.compliance === null,
    toleranceMs: config.webhook.toleranceSeconds * 1000,
    timing: { settleMs: config.sync.settleMs },
    guardPercent: config.sync.deletionGuardPercent,
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
  function listener(name: 'receiver' | 'ops'): Fetch {
    const early = answering(publicUrl, (path) => answer(path, name === 'ops'));
    return (request, env) => (apps === null ? early(request) : apps[name](request, env));
  }

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

/** A page takes a few milliseconds. A delivery waits for one of them at most, however many are asked for. */
const OPS_REQUESTS_A_TURN = 1;

/** Opens both listeners, or one for both if they have the same address. Until `open` is called, the startup handlers answer. */
async function openListeners(config: Pick<Config, 'host' | 'port' | 'ops'>, addresses: Addresses) {
  const { host, port, ops } = config;
  const startup = createStartup(ops.publicUrl);
  const shared = host === ops.host && port === ops.port && port !== 0;
  const inTurn = createTurns(OPS_REQUESTS_A_TURN);
  const opsFetch: Fetch = async (request, env) => {
    await new Promise<void>(inTurn);
    return startup.ops(request, env);
  };
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? startup.receiver(request, env) : opsFetch(request, env))
    : startup.receiver;
  const receiver = await listen({ fetch, host, port, addresses });
  let own: Listener | null = null;
  try {
    if (!shared)
      own = await listen({
        fetch: opsFetch,
        host: ops.host,
        port: ops.port,
        addresses,
        settings: 'OPS_',
      });
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
  const receiverUrl = urlHere(host, receiver.port);
  const opsUrl = own === null ? receiverUrl : urlHere(ops.host, own.port);
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

const isDelivery = (request: Request) => pathOf(request) === '/webhooks';
const pathOf = (request: Request) => new URL(request.url).pathname;

/** As this machine reaches it. */
const urlHere = (host: string, port: number) =>
  urlOf(host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host, port);
