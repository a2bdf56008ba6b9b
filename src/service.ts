import { dirname, resolve } from 'node:path';
import { createBackfill } from './backfill/backfill.ts';
import { createBurstWatch, createGapKeeper, downtimeSince, silenceLimitMs } from './backfill/gaps.ts';
import { type Clock, systemClock } from './clock.ts';
import { createBudget } from './compliance/budget.ts';
import { createClient } from './compliance/client.ts';
import { apiKeyCredentials } from './compliance/credentials.ts';
import { KINDS } from './compliance/kinds.ts';
import type { ComplianceSettings, Config, OpsToken } from './config.ts';
import { describeError, StoreUnavailable, UsageError } from './errors.ts';
import { createInbox } from './inbox/inbox.ts';
import { type Logger, stage } from './logger.ts';
import { createMetrics } from './metrics.ts';
import { createNarrator } from './narrator.ts';
import type { LiveFacts } from './ops/context.ts';
import { createRecent } from './ops/recent.ts';
import { createOps } from './ops/routes.ts';
import { loadOrCreateOpsToken } from './ops/token-file.ts';
import { createWorker } from './process/worker.ts';
import { createReceiver } from './receive/routes.ts';
import { type Listener, listen } from './receive/server.ts';
import { riskIdsReader } from './risk-ids.ts';
import { lockFile } from './store/lock.ts';
import { openStore, sqlitePath } from './store/open.ts';
import type { Store } from './store/store.ts';
import { createStoredSecrets } from './stored-secrets.ts';
import { version } from './version.ts';

/** How often the service says that it lives: the resolution of what counts as our downtime. */
const HEARTBEAT_MS = 5_000;

/** Deliveries that tell how long a pause is usual: more would remember what was usual long ago. */
const USUAL_AMONG = 200;

const REFUSED_SIGNATURES = { reason: 'refused_signatures', kind: null, recordId: null } as const;

/** How soon a registration made meanwhile counts. */
const SECRETS_LOOK_MS = 500;

/** For requests in flight at a stop. With what follows it stays within the 10 s that platforms allow. */
const DRAIN_MS = 5_000;

/** A captured delivery can be replayed by anyone: sweeps on its account keep this distance at least. */
const REPLAY_SWEEP_DISTANCE_MS = 10 * 60_000;

export interface ServiceOptions {
  config: Config;
  logger: Logger;
  /** For tests: time, and chance. */
  clock?: Clock;
  random?: () => number;
}

export interface Service {
  receiverUrl: string;
  opsUrl: string;
  /** Signs its holder in as an operator; null where OPS_TOKENS is set. Never to be logged. */
  signInLink: string | null;
  /** Rejects when the service cannot go on: then the process must end. Never resolves. */
  failed: Promise<never>;
  /** Stops in the order in which data flows, so that nothing acknowledged is left undone that could be done. */
  stop(): Promise<void>;
}

/** The composition root: every stage, wired once, started in order. Rejects with UsageError for settings it cannot run with. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, logger } = options;
  const clock = options.clock ?? systemClock();
  const random = options.random ?? Math.random;
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const startedAt = clock.wall();
  const timing = { settleMs: config.sync.settleMs };
  const log = stage(logger, 'service');

  const riskIds = riskIdsReader(config.riskIdsFile, log);
  await riskIds.check();
  const lock = lockFile(config.databaseUrl, new Date(startedAt).toISOString());
  let store: Store;
  try {
    store = await openStore(config.databaseUrl);
  } catch (error) {
    lock.release();
    throw error;
  }

  const metrics = createMetrics();
  const recent = createRecent(clock);
  const stopping = new AbortController();
  const fatal = Promise.withResolvers<never>();
  fatal.promise.catch(() => undefined);
  let state: LiveFacts['state'] = 'starting';
  let paused = (await store.readFact('paused')) === 'true';
  let silent = false;
  const tell = createNarrator({ logger, metrics });
  const onError = (error: unknown) => {
    log.error({ outcome: 'failed', error: describeError(error) }, 'stage failed');
    if (error instanceof StoreUnavailable && error.fatal) fatal.reject(error);
  };

  const gaps = createGapKeeper({ store, clock, onOpened: tell.gapOpened, onHealed: tell.gapHealed });
  const storedSecrets = createStoredSecrets({
    store,
    key: config.credentialsKey,
    encoding: config.webhook.secretEncoding,
  });
  await storedSecrets.refresh();

  const worker = createWorker({
    ...{ store, clock, random, onError },
    rules: {
      pointers: config.idPointers,
      eventsOnly: config.compliance === null,
      toleranceMs: config.webhook.toleranceSeconds * 1000,
      timing,
    },
    concurrency: config.process.concurrency,
    maxAttempts: config.process.retryMaxAttempts,
    onOutcome: (outcome) => {
      tell.processed(outcome, clock.wall());
      if (outcome.outcome === 'dead') backfill?.wake();
    },
    onRetry: tell.retried,
  });

  const budget = createBudget({ requestsPerMinute: config.compliance?.requestsPerMinute ?? 1, clock });
  let skewMs: number | null = null;
  const backfill =
    config.compliance === null
      ? null
      : createBackfill({
          ...{ store, gaps, clock, timing, random, onError },
          client: createClient({
            settings: config.compliance,
            credentials: credentialsFor(config.compliance),
            budget,
            clock,
            pointers: config.idPointers,
            observe: (request) => {
              skewMs = request.dateHeaderSkewMs ?? skewMs;
              tell.requested(request);
            },
          }),
          pointers: config.idPointers,
          paging: config.compliance.paging,
          sweepMs: config.sync.sweepMs,
          riskIds: riskIds.read,
          onApplied: tell.applied,
          onConcluded: tell.concluded,
          onSweep: tell.swept,
          onProgress: tell.sweeping,
          interrupted: await store.interruptSweeps(now()),
        });

  const inbox = createInbox({ store, clock, timing, onAccepted: worker.wake, onError });

  const burst = createBurstWatch();
  let lastReplaySweep = Number.NEGATIVE_INFINITY;
  const receiver = createReceiver({
    ...{ inbox, clock, logger, metrics },
    settings: { ...config.webhook, storedSecrets: storedSecrets.current },
    pointers: config.idPointers,
    onDelivery: (outcome, reason) => {
      if (outcome === 'accepted' || outcome === 'duplicate') recent.count(outcome);
      else recent.countRefused(reason || outcome);
      if (outcome === 'refused' && reason === 'bad_signature' && burst.refusedOne()) {
        const error = 'several deliveries in a row carry a signature of no secret we know';
        gaps.open(REFUSED_SIGNATURES, error).catch(onError);
      } else if (outcome === 'accepted' && burst.acceptedOne()) {
        // What was refused meanwhile is lost on us, unless the sender still tries.
        backfill?.requestSweep(KINDS, 'refused deliveries');
        gaps.heal(REFUSED_SIGNATURES).catch(onError);
      }
    },
    onRefusedTimestamp: (reason) => {
      const distance = Math.max(REPLAY_SWEEP_DISTANCE_MS, config.sync.sweepMs);
      if (clock.steady() - lastReplaySweep < distance) return;
      lastReplaySweep = clock.steady();
      const error = `a correctly signed delivery was refused: ${reason}`;
      gaps
        .open({ reason: 'refused_timestamp', kind: null, recordId: null }, error)
        .then(() => backfill?.wake(), onError);
    },
  });

  const tokens = opsTokens(config);
  const ops = createOps({
    store: {
      ...store,
      async retryEvent(id, at) {
        const done = await store.retryEvent(id, at);
        if (done) worker.wake();
        return done;
      },
      async releaseQuarantined(id, at, hintTiming) {
        const done = await store.releaseQuarantined(id, at, hintTiming);
        if (done) backfill?.wake();
        return done;
      },
      async confirmDeletions(sweepId, untilWall) {
        const held = await store.confirmDeletions(sweepId, untilWall);
        // The consent lasts an hour, and the next proof deletes: so it is sought at once.
        if (held.ids.length > 0) backfill?.requestSweep([held.kind], 'operator');
        return held;
      },
    },
    actions: {
      async requestSweep(kinds, reason) {
        backfill?.requestSweep(kinds, reason);
      },
      async refetch(kind, ids) {
        if (kind === 'policy') backfill?.requestSweep([kind], 'operator');
        else await backfill?.refetch(kind, ids);
        return { queued: ids.length };
      },
      async pause() {
        await store.writeFact('paused', 'true');
        setPaused(true);
      },
      async resume() {
        await store.writeFact('paused', 'false');
        setPaused(false);
      },
    },
    facts: liveFacts,
    async heldDeletions() {
      const bySweep = Map.groupBy(await store.heldDeletions(), (held) => held.sweepId);
      return [...bySweep].map(([sweepId, held]) => ({ sweepId, kind: held[0]!.kind, count: held.length }));
    },
    tokens: tokens.all,
    publicUrl: config.ops.publicUrl,
    ...{ clock, metrics, logger },
    signal: stopping.signal,
  });

  function setPaused(to: boolean): void {
    paused = to;
    for (const each of [worker, backfill]) to ? each?.pause() : each?.resume();
  }

  function liveFacts(): LiveFacts {
    const health = backfill?.health();
    const left = budget.left();
    return {
      ...{ version: version(), startedAt, state, paused, eventsOnly: config.compliance === null },
      signingSecrets: config.webhook.secrets().length + storedSecrets.current().length,
      ...config.sync,
      runningSweeps: (backfill?.runningSweeps() ?? []).map((sweep) => ({
        ...sweep,
        startedAt: sweep.startedWall,
      })),
      upstream: {
        configured: config.compliance !== null,
        origin: config.compliance?.baseUrl.origin ?? null,
        ok: health?.ok ?? null,
        lastOkAt: health?.lastOkWall ?? null,
        lastErrorAt: health?.lastErrorWall ?? null,
        lastError: health?.lastError ?? null,
        consecutiveFailures: health?.consecutiveFailures ?? 0,
        budgetLeft: left.left,
        budgetPerMinute: left.limit,
        skewMs,
      },
      deliveries: recent.report(),
    };
  }

  // ─── start ────────────────────────────────────────────────────────────────────────────────────────────

  const away = downtimeSince(await store.lastBeat(), clock.wall());
  if (away !== null && backfill !== null) {
    await gaps.open(
      { reason: 'downtime', kind: null, recordId: null },
      `the service was not running for ${Math.round(away.ms / 1000)} s`,
    );
  }
  await store.rehintUnverified(now(), timing);
  await beat();
  if (paused) setPaused(true);
  backfill?.requestSweep(KINDS, 'start');

  async function beat(): Promise<void> {
    const { sweepMs, settleMs } = config.sync;
    await store.beat(now(), { eventsOnly: config.compliance === null, settleMs, sweepMs, blocked: paused });
    await watchSilence();
  }

  async function watchSilence(): Promise<void> {
    const { silenceMs } = config.sync;
    if (silenceMs === 0) return;
    const gap = { reason: 'silence', kind: null, recordId: null } as const;
    const delivery = await store.lastDelivery(USUAL_AMONG);
    const last = delivery.wall ?? startedAt;
    const isSilent = clock.wall() - last >= silenceLimitMs(silenceMs, delivery.longestPauseMs);
    if (!isSilent) await gaps.heal(gap);
    else if (!silent) await gaps.open(gap, `no delivery since ${new Date(last).toISOString()}`);
    silent = isSilent;
  }

  /** `register` is a process of its own, and the first delivery may follow it at once. */
  async function keepSecretsFresh(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(SECRETS_LOOK_MS, stopping.signal);
      if (!stopping.signal.aborted) await storedSecrets.refresh().catch(onError);
    }
  }

  async function keepBeating(): Promise<void> {
    while (!stopping.signal.aborted) {
      await clock.sleep(HEARTBEAT_MS, stopping.signal);
      if (!stopping.signal.aborted) await beat().catch(onError);
    }
  }

  let receiverListener: Listener;
  let opsListener: Listener | null = null;
  try {
    const shared = config.host === config.ops.host && config.port === config.ops.port && config.port !== 0;
    const fetch = shared
      ? (request: Request, env: object) =>
          new URL(request.url).pathname === '/webhooks'
            ? receiver.fetch(request, env as never)
            : ops.fetch(request, env)
      : (request: Request, env: object) => receiver.fetch(request, env as never);
    receiverListener = await listen({ fetch, host: config.host, port: config.port });
    if (!shared) {
      opsListener = await listen({
        fetch: (request, env) => ops.fetch(request, env),
        host: config.ops.host,
        port: config.ops.port,
      }).catch(async (error) => {
        await receiverListener.close(0);
        throw error;
      });
    }
  } catch (error) {
    await store.close();
    lock.release();
    throw error;
  }

  const runs = [
    worker.run(stopping.signal),
    backfill?.run(stopping.signal),
    keepBeating(),
    keepSecretsFresh(),
  ];
  for (const run of runs) run?.catch((error) => fatal.reject(error));
  state = 'running';
  const receiverUrl = urlOf(config.host, receiverListener.port);
  const opsUrl = opsListener === null ? receiverUrl : urlOf(config.ops.host, opsListener.port);
  lock.announce(opsUrl);
  log.info({ outcome: 'started', version: version(), url: receiverUrl }, 'started');

  async function stop(): Promise<void> {
    state = 'draining';
    await receiverListener.close(DRAIN_MS);
    await inbox.drain();
    stopping.abort();
    await Promise.allSettled(runs);
    await opsListener?.close(DRAIN_MS / 5);
    await store
      .beat(now(), { eventsOnly: config.compliance === null, ...config.sync, blocked: paused })
      .catch(onError);
    await store.close();
    lock.release();
    log.info({ outcome: 'stopped' }, 'stopped');
  }
  let stopped: Promise<void> | null = null;

  return {
    receiverUrl,
    opsUrl,
    signInLink:
      tokens.made === null
        ? null
        : `${config.ops.publicUrl?.origin ?? opsUrl}/sign-in#token=${tokens.made.token}`,
    failed: fatal.promise,
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}

function opsTokens(config: Config): { all: readonly OpsToken[]; made: OpsToken | null } {
  if (config.ops.tokens.length > 0) return { all: config.ops.tokens, made: null };
  const made = loadOrCreateOpsToken(dirname(resolve(sqlitePath(config.databaseUrl))));
  return { all: [made], made };
}

function credentialsFor(settings: ComplianceSettings) {
  if (settings.auth === 'api_key' && settings.apiKey !== null) return apiKeyCredentials(settings.apiKey);
  throw new UsageError(
    `COMPLIANCE_AUTH=${settings.auth} is not supported by this version`,
    'use COMPLIANCE_AUTH=api_key with COMPLIANCE_API_KEY',
  );
}
