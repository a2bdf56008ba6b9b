import type { Backfill } from '../backfill/backfill.ts';
import { createGapKeeper } from '../backfill/gaps.ts';
import { unreachableSince } from '../backfill/upstream.ts';
import { accessPrint } from '../compliance/access-print.ts';
import { createBudget } from '../compliance/budget.ts';
import { credentialsFor } from '../compliance/credentials-for.ts';
import { KINDS } from '../compliance/kinds.ts';
import { createSharedBudget } from '../compliance/shared-budget.ts';
import { createInbox } from '../inbox/inbox.ts';
import type { LiveFacts, OpsContext } from '../ops/context.ts';
import { createOps } from '../ops/routes.ts';
import { createSnapshots } from '../ops/snapshot.ts';
import { signInLink } from '../ops/tokens.ts';
import { createTraffic } from '../ops/traffic.ts';
import { createAddresses } from '../platform/addresses.ts';
import { type Clock, type SharedClock, systemClock } from '../platform/clock.ts';
import type { Config } from '../platform/config.ts';
import { describeError, MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { createLogLimit } from '../platform/log-limit.ts';
import { type Logger, stage } from '../platform/logger.ts';
import { createMetrics } from '../platform/metrics.ts';
import { version } from '../platform/package.ts';
import { createWorker, GATHER_MS } from '../process/worker.ts';
import { prove } from '../receive/connections.ts';
import { createReceiver } from '../receive/routes.ts';
import { lockFile } from '../store/lock.ts';
import type { Store } from '../store/store.ts';
import { credentialFacts, rejectionDiagnoses } from './facts.ts';
import { createFront, type Front } from './front.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createLeaderBackfill } from './leader-backfill.ts';
import { type Listeners, openListeners } from './listeners.ts';
import { liveFacts } from './live-facts.ts';
import { createNarrator } from './narrator.ts';
import { databaseClock, openWithPatience } from './opening.ts';
import { operatorsActions, operatorsStore, pendingDeletions } from './operators.ts';
import { opsTokens, requireTokens } from './ops-tokens.ts';
import { type Pause, readPause } from './pause.ts';
import { noteDowntime, recover } from './recovery.ts';
import { repairsWith } from './repairs.ts';
import { createReplicas, REPLICA_LIFE_MS } from './replicas.ts';
import { riskIdsReader } from './risk-ids.ts';
import { createSecretUse } from './secret-use.ts';
import { createSharing } from './sharing.ts';
import { AWAITED_LOOK_MS, createStoredSecrets, SECRETS_LOOK_MS } from './stored-secrets.ts';
import { keepUp } from './upkeep.ts';
import { createDeliveryWatch, forgeableDistanceMs } from './watch.ts';

/** How often the database's time is asked for again: what it may be off by grows with the time since. */
const CLOCK_MEASURED_MS = 5_000;

/** A claim that its replica, killed, cannot give back is taken over after this. A batch takes well under a second. */
const CLAIM_LEASE_MS = 15_000;
/** How often a replica looks for events that another took and did not finish. */
const CLAIM_LOOK_MS = 2_000;

/** For requests in flight at a stop. With what follows it stays within the 10 s that platforms allow. */
const DRAIN_MS = 5_000;
/** For operators' requests, once nothing else is left to do. */
const OPS_DRAIN_MS = 1_000;

export interface ServiceOptions {
  config: Config;
  logger: Logger;
  /** Log lines that found no room since the start. Default: none is ever lost. */
  logLinesLost?: () => number;
  /** Ends a start that waits for its database: `startService` rejects with its reason. Afterwards there is `stop`. */
  signal?: AbortSignal;
  /** For tests: time, which no thread of its own keeps to, and chance. */
  clock?: Clock;
  random?: () => number;
}

export interface Service {
  receiverUrl: string;
  opsUrl: string;
  /** Of the token that was made because OPS_TOKENS is not set; null: it is. The link holds the token: never to be logged. */
  signIn: { link: string; tokenFile: string } | null;
  /** Rejects when the service cannot go on: then the process must end. Never resolves. */
  failed: Promise<never>;
  /** Stops in the order in which data flows, so that nothing acknowledged is left undone that could be done. */
  stop(): Promise<void>;
}

/**
 * The composition root. Holds the database, or rejects with UsageError naming who does; and rejects with UsageError
 * for settings it cannot run with. Whatever it rejects with, nothing stays open behind it.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config } = options;
  const own = options.clock ?? systemClock();
  requireTokens(config);
  const lock = lockFile(config.databaseUrl, new Date(own.wall()).toISOString());
  const front = createFront(config.ops.publicUrl);
  let listeners: Listeners | null = null;
  let store: Store | null = null;
  const fatal = Promise.withResolvers<never>();
  fatal.promise.catch(() => undefined);
  try {
    listeners = await openListeners(config, createAddresses(config.trustedProxies), front);
    const { logger, signal } = options;
    const onLost = options.clock === undefined ? fatal.reject : null;
    store = await openWithPatience({ config, logger, clock: own, front, signal, onLost });
    front.at('starting');
    const clock = options.clock ?? (await databaseClock(store)) ?? own;
    return await compose({ ...options, clock }, store, lock, listeners, front, fatal);
  } catch (error) {
    await Promise.all([listeners?.receiver.close(0), listeners?.ops?.close(0)]);
    await store?.close();
    lock.release();
    throw error;
  }
}

/** Every stage, wired once and started in order. */
async function compose(
  options: ServiceOptions & { clock: Clock },
  store: Store,
  lock: ReturnType<typeof lockFile>,
  listeners: Listeners,
  front: Front,
  fatal: PromiseWithResolvers<never>,
): Promise<Service> {
  const { config, logger, clock } = options;
  const random = options.random ?? Math.random;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const startedAt = clock.wall();
  const timing = { settleMs: config.sync.settleMs };
  const eventsOnly = config.compliance === null;
  const pointers = config.idPointers;
  const addresses = createAddresses(config.trustedProxies);
  const rules = { pointers, eventsOnly, toleranceMs: config.webhook.toleranceSeconds * 1000, timing };
  const log = stage(logger, 'service');

  const stopping = new AbortController();
  const lines = createLogLimit(clock);
  const onError = (error: unknown) => {
    // Only our own signals abort anything: a stop, or a lease that went to another replica.
    if (error instanceof Error && error.name === 'AbortError') return;
    const reason = error instanceof MirrorError ? error.code : null;
    if (lines.admits(log, 'error', 'stage failed', { outcome: 'failed', reason }))
      log.error({ outcome: 'failed', error: describeError(error) }, 'stage failed');
    if (error instanceof StoreUnavailable && error.fatal) fatal.reject(error);
  };

  const metrics = createMetrics({ logLinesLost: options.logLinesLost });
  const traffic = createTraffic({ store, clock });
  const heart = createHeartbeat({
    ...{ clock, onError },
    beat: async () => {
      await heartbeat();
      await traffic.flush();
      await watch.check();
    },
  });
  const tell = createNarrator({ logger, metrics, onLag: traffic.lagged, onRepaired: heart.hurry });
  store.watchGaps(tell.gapChanged);
  const gaps = createGapKeeper({ store, clock });
  const riskIds = riskIdsReader(config.riskIdsFile, log);
  await riskIds.check();
  const secrets = createStoredSecrets({
    ...{ store, clock, encoding: config.webhook.secretEncoding },
    key: () => config.credentialsKey,
    onProblem: (registration, reason) =>
      log.warn(
        { outcome: 'unusable', target: registration, reason },
        'the signing secret of a registration cannot be used: doctor says what to do',
      ),
  });
  await secrets.refresh();
  const secretUse = createSecretUse(clock);

  let epoch = await store.epoch();
  const access = config.compliance === null ? () => '' : accessPrint(config.compliance, () => epoch);
  let beatenWith: string | null = null;
  let state: LiveFacts['state'] = 'starting';
  let pause: Pause | null = null;
  let unwritableSince: number | null = null;
  let skewMs: number | null = null;

  // ─── stages, from the end of the data's way to its beginning ───

  const replicas = createReplicas({ store, clock, onError });
  const living: { others?: number } = replicas.isAlone
    ? {}
    : await store.beatReplica(replicas.id, REPLICA_LIFE_MS, now());
  const interrupted = await recover({ ...{ store, gaps, clock, timing, eventsOnly }, ...living });
  const requestsPerMinute = config.compliance?.requestsPerMinute ?? 1;
  const shared = replicas.isAlone
    ? null
    : createSharedBudget({
        ...{ store, replica: replicas.id, requestsPerMinute, clock, onError },
        requestTimeoutMs: config.compliance?.timeoutMs ?? 0,
      });
  const budget = shared ?? createBudget({ requestsPerMinute, clock });
  const credentials =
    config.compliance === null
      ? null
      : credentialsFor({
          ...{ settings: config.compliance, store, clock, actor: 'service', needs: 'read' },
          key: () => config.credentialsKey,
        });
  const createRepairs =
    config.compliance === null || credentials === null
      ? null
      : repairsWith({
          ...{ config, settings: config.compliance, credentials, budget, tell },
          ...{ gaps, clock, timing, rules, random, onError, riskIds: riskIds.read, access },
          onSkew: (ms) => {
            skewMs = ms;
          },
        });
  const held =
    createRepairs === null || replicas.isAlone
      ? null
      : createLeaderBackfill({
          ...{ store, replicas, clock, isFirst: living.others === 0, create: createRepairs },
          forgeableDistanceMs: forgeableDistanceMs(config.sync.fullSyncMs),
          onAsked: () => sharing.lookNow(),
        });
  const backfill: Backfill | null = held ?? createRepairs?.(store, interrupted) ?? null;

  const worker = createWorker({
    ...{ store, clock, random, onError, rules },
    concurrency: config.process.concurrency,
    maxAttempts: config.process.retryMaxAttempts,
    gatherMs: GATHER_MS,
    ...(replicas.isAlone
      ? {}
      : { claims: { owner: `${replicas.id}/`, leaseMs: CLAIM_LEASE_MS, lookEveryMs: CLAIM_LOOK_MS } }),
    onOutcome: (outcome) => {
      tell.processed(outcome, clock.wall());
      if (outcome.outcome === 'failed') backfill?.wake();
    },
    onRetry: (event, error, delayMs) => tell.retried(event, error, delayMs, clock.wall()),
  });

  const onAccepted = () => {
    worker.wake();
    replicas.tell('events');
  };
  const inbox = createInbox({ store, clock, timing, onAccepted, onError });
  const watch = createDeliveryWatch({
    ...{ store, gaps, backfill, clock, onError, takeTurn: replicas.takeTurn },
    ...{ startedWall: startedAt, silenceMs: config.sync.silenceMs, fullSyncMs: config.sync.fullSyncMs },
  });
  const receiver = createReceiver({
    ...{ inbox, clock, logger, lines, metrics, pointers },
    addresses,
    settings: { ...config.webhook, storedSecrets: secrets.keys, isSecretAwaited: secrets.isAwaited },
    onDelivery: (outcome, reason) => {
      if (outcome === 'accepted' || outcome === 'duplicate') traffic.delivered(outcome);
      else traffic.rejected(reason || outcome);
      watch.onDelivery(outcome, reason);
    },
    onRejectedTimestamp: watch.onRejectedTimestamp,
    onSecretUsed: secretUse.used,
  });

  const tokens = opsTokens(config);
  const stages = { store, clock, rules, backfill, held, setPause, beat, replicas };
  const operators: OpsContext = {
    ...{ addresses, prove },
    store: operatorsStore(stages),
    actions: operatorsActions(stages),
    ...(replicas.isAlone ? {} : { sessionStore: store }),
    facts: () =>
      liveFacts({
        ...{ config, startedAt, state, pause, unwritableSince, skewMs },
        ...{ secrets, secretUse, backfill, budget, traffic, clock },
      }),
    pendingDeletions: () => pendingDeletions(store, clock.wall()),
    credentials: () => credentialFacts(config.compliance, credentials),
    traffic: traffic.since,
    diagnose: rejectionDiagnoses(config, store, clock),
    tokens: tokens.all,
    host: config.ops.host,
    publicUrl: config.ops.publicUrl,
    ...{ clock, metrics, logger, lines },
    signal: stopping.signal,
  };
  const ops = createOps(operators);
  const shown = createSnapshots(operators);

  function setPause(to: Pause | null): void {
    const wasPaused = pause !== null;
    pause = to;
    if (wasPaused === (to !== null)) return;
    for (const each of [worker, backfill]) to === null ? each?.resume() : each?.pause();
  }

  async function writeBeat(): Promise<void> {
    const { settleMs, fullSyncMs } = config.sync;
    const present = access();
    await store.beat(now(), {
      eventsOnly,
      settleMs,
      fullSyncMs,
      blocked: pause !== null,
      unreachable: unreachableSince(backfill?.health(), clock.wall()) !== null,
      access: present,
    });
    // Another one, where the database was put back beneath us.
    epoch = await store.epoch();
    // Nothing is known of what the new ones may read until they have read it.
    if (beatenWith !== null && beatenWith !== present) backfill?.requestFullSync(KINDS, 'credentials');
    beatenWith = present;
  }

  async function beat(): Promise<void> {
    await noteDowntime({ store, gaps, clock, eventsOnly }, 'the service stood still, or could not write,');
    await writeBeat();
  }

  async function heartbeat(): Promise<void> {
    try {
      if (!replicas.isAlone) await store.beatReplica(replicas.id, REPLICA_LIFE_MS, now());
      await beat();
      unwritableSince = null;
    } catch (error) {
      unwritableSince ??= clock.wall();
      throw error;
    }
  }

  const sharing = createSharing({
    ...{ store, replicas, clock, onError, onEvents: worker.wake, onPause: setPause },
    look: async (isTold) => await held?.look(isTold),
  });

  // ─── start ───

  setPause(await readPause(store));
  await writeBeat();
  // Among several, whoever takes the lease begins with it.
  if (replicas.isAlone) backfill?.requestFullSync(KINDS, 'start');

  front.open({
    receiver: (request, env) => receiver.fetch(request, env as never),
    ops: (request, env) => ops.fetch(request, env),
  });

  async function every(ms: number | (() => number), work: () => Promise<void>): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(typeof ms === 'number' ? ms : ms(), stopping.signal);
      if (!stopping.signal.aborted) await work().catch(onError);
    }
  }
  const runs = [
    worker.run(stopping.signal),
    backfill?.run(stopping.signal),
    heart.run(stopping.signal),
    // Apart from the heartbeat, which waits for its turn to write.
    every(CLOCK_MEASURED_MS, async () => await (clock as Partial<SharedClock>).measure?.()),
    shared?.run(stopping.signal),
    sharing.run(stopping.signal),
    every(() => (secrets.isAwaited() ? AWAITED_LOOK_MS : SECRETS_LOOK_MS), secrets.refresh),
    replicas.hold(
      'upkeep',
      ({ signal }) =>
        keepUp(
          {
            ...{ config, store, clock, random, metrics, logger, onError },
            about: { version: version(), operators: config.ops.publicUrl?.origin ?? listeners.opsUrl },
            verdict: async () => (await shown.current()).verdict,
          },
          signal,
        ),
      stopping.signal,
    ),
  ];
  for (const run of runs) run?.catch((error) => fatal.reject(error));
  state = 'running';
  lock.announce(listeners.opsUrl);
  log.info({ outcome: 'started', version: version(), url: listeners.receiverUrl }, 'started');

  async function stop(): Promise<void> {
    state = 'draining';
    await listeners.receiver.close(DRAIN_MS);
    await inbox.drain();
    stopping.abort();
    await Promise.allSettled(runs);
    await listeners.ops?.close(OPS_DRAIN_MS);
    await writeBeat().catch(onError);
    await traffic.flush().catch(onError);
    await replicas.quiet();
    if (!replicas.isAlone) await store.leaveReplicas(replicas.id).catch(onError);
    await store.close();
    lock.release();
    lines.flush();
    log.info({ outcome: 'stopped' }, 'stopped');
  }
  let stopped: Promise<void> | null = null;

  return {
    receiverUrl: listeners.receiverUrl,
    opsUrl: listeners.opsUrl,
    signIn:
      tokens.made === null
        ? null
        : {
            link: signInLink(config.ops.publicUrl?.origin ?? listeners.opsUrl, tokens.made.token),
            tokenFile: tokens.made.file,
          },
    failed: fatal.promise,
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}
