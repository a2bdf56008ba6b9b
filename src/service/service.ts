import { KINDS } from '../compliance/kinds.ts';
import { createInbox } from '../inbox/group-commit.ts';
import { stage } from '../platform/logger.ts';
import { version } from '../platform/package.ts';
import { createWorker, GATHER_MS } from '../process/worker.ts';
import { createReceiver } from '../receive/routes.ts';
import { createDeliveryWatch, recover } from './missed-deliveries.ts';
import { type Opened, open, type ServiceOptions } from './opening.ts';
import { createOperators, type Operators, requireTokens } from './operators.ts';
import { createRepairs, openRiskIds } from './repairs.ts';
import { createReplicas } from './replicas.ts';
import { AWAITED_LOOK_MS, SECRETS_LOOK_MS } from './signing-secrets.ts';
import { createHeartbeat, createServiceState, readPause } from './state.ts';
import { createTelemetry } from './telemetry.ts';
import { keepUp } from './upkeep.ts';

/** How often the database's time is measured: the possible error grows with the time since then. */
const CLOCK_MEASURED_MS = 5_000;

/** How long a stop waits for requests in flight. If the database answers, the whole stop stays within the 10 s of platforms. */
const DRAIN_MS = 5_000;
/** How long a stop waits for operators' requests, after everything else has ended. */
const OPS_DRAIN_MS = 1_000;

export interface Service {
  receiverUrl: string;
  opsUrl: string;
  signIn: Operators['signIn'];
  /** Rejects when the service cannot go on and the process must end. Never resolves. */
  failed: Promise<never>;
  /** Stops in the order in which data flows, so that accepted deliveries are stored and work under way is finished. */
  stop(): Promise<void>;
}

/**
 * The composition root. Rejects with UsageError if another process holds the database, which it names, or if it cannot run
 * with the settings. Whatever it rejects with, nothing stays open.
 */
export async function startService(options: ServiceOptions): Promise<Service> {
  requireTokens(options.config);
  const opened = await open(options);
  const stopping = new AbortController();
  /** Ends what operators have open: streams and waiting requests. */
  const leaving = new AbortController();
  try {
    const built = await build(opened, leaving.signal);
    const runs = await start(opened, built, stopping.signal);
    let stopped: Promise<void> | null = null;
    return {
      receiverUrl: opened.listeners.receiverUrl,
      opsUrl: opened.listeners.opsUrl,
      signIn: built.operators.signIn,
      failed: opened.failed,
      stop: () => {
        stopped ??= stop(opened, built, runs, { leaving, stopping });
        return stopped;
      },
    };
  } catch (error) {
    leaving.abort();
    stopping.abort();
    await opened.close();
    throw error;
  }
}

/** Puts in order what the last process left, and makes every stage, the last in the way of the data first. No stage works yet. */
async function build({ base, listeners, secrets }: Opened, signal: AbortSignal) {
  const { config, rules, store, metrics, logger } = base;
  const riskIds = await openRiskIds(config.riskIdsFile, stage(logger, 'service'));

  const heartbeat = createHeartbeat(base);
  const telemetry = createTelemetry({ ...base, onRepaired: heartbeat.hurry });
  store.watchGaps(telemetry.gapChanged);
  const replicas = createReplicas(base);
  const others = await replicas.beat();
  const interrupted = await recover({ ...base, ...rules, others });

  const shared = { ...base, replicas, telemetry };
  const forRepairs = { interrupted, isFirst: others === 0, riskIds, onReachability: heartbeat.hurry };
  const repairs = await createRepairs({ ...shared, ...forRepairs });
  const { backfill } = repairs;
  const worker = createWorker({
    ...base,
    gatherMs: GATHER_MS,
    claims: replicas.claims,
    concurrency: config.process.concurrency,
    maxAttempts: config.process.retryMaxAttempts,
    onOutcome: (outcome) => {
      telemetry.processed(outcome);
      if (outcome.outcome === 'failed') backfill?.wake();
    },
    onRetry: telemetry.retried,
  });
  const state = createServiceState({ ...shared, repairs, worker });
  const inbox = createInbox({
    ...base,
    onAccepted: (commitMs) => {
      metrics.commitSeconds.observe(commitMs / 1000);
      worker.wake();
      replicas.notify('events');
    },
  });
  const watch = createDeliveryWatch({
    ...shared,
    ...config.sync,
    timing: rules.timing,
    backfill,
    takeTurn: replicas.takeTurn,
    others: replicas.others,
  });
  const receiver = createReceiver({
    ...base,
    inbox,
    pointers: rules.pointers,
    isSecretAwaited: secrets.isAwaited,
    settings: { ...config.webhook, secrets: secrets.keys },
    onDelivery: (outcome, reason, answered) => {
      telemetry.answered(outcome, reason, answered);
      watch.onDelivery(outcome, reason, answered.address);
    },
    onRejectedTimestamp: watch.onRejectedTimestamp,
    onUnkept: watch.onUnkept,
    onSecretUsed: secrets.used,
  });
  const { operatorsUrl, receiverUrl } = listeners;
  const operators = createOperators({
    ...shared,
    repairs,
    state,
    secrets,
    watch,
    operatorsUrl,
    receiverUrl,
    signal,
  });
  return { heartbeat, telemetry, replicas, repairs, worker, state, inbox, watch, receiver, operators };
}

type Built = Awaited<ReturnType<typeof build>>;

/** Writes the state into the tables, opens the apps, and starts the work. Resolves with all that runs until `signal` aborts. */
async function start(opened: Opened, built: Built, signal: AbortSignal): Promise<unknown[]> {
  const { base, listeners, secrets } = opened;
  const { store, clock, onError } = base;
  const { replicas, repairs, worker, state, receiver, operators } = built;

  const readPauseAgain = async () => state.setPause(await readPause(store));
  await readPauseAgain();
  await state.beat();
  // Among several replicas, the one that takes the lease requests it.
  if (replicas.isAlone) repairs.backfill?.requestFullSync(KINDS, 'start');

  listeners.open({
    receiver: (request, env) => receiver.fetch(request, env as never),
    ops: (request, env) => operators.app.fetch(request, env),
  });
  // This is the last step that can fail. Only a stop ends what starts after it.
  opened.lock.announce(listeners.opsUrl);

  async function every(ms: () => number, work: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(ms(), signal);
      if (!signal.aborted) await work().catch(onError);
    }
  }
  async function beat(): Promise<void> {
    await state.beat();
    await built.telemetry.traffic.flush();
    await built.watch.check();
  }
  const about = { version: version(), operators: listeners.operatorsUrl };
  async function look(isNotified: boolean): Promise<void> {
    await readPauseAgain();
    await repairs.leader?.look(isNotified);
  }
  const runs = [
    worker.run(signal),
    repairs.backfill?.run(signal),
    built.heartbeat.run(beat, signal),
    // Not in the heartbeat: that may wait for its turn to write.
    every(
      () => CLOCK_MEASURED_MS,
      async () => await clock.measure?.(),
    ),
    repairs.budget.run(signal),
    replicas.listen({ onEvents: worker.wake, look }, signal),
    every(() => (secrets.isAwaited() ? AWAITED_LOOK_MS : SECRETS_LOOK_MS), secrets.refresh),
    replicas.hold(
      'upkeep',
      (held) => keepUp({ ...base, about, verdict: operators.verdict, stopping: signal }, held.signal),
      signal,
    ),
  ];
  for (const run of runs) run?.catch(opened.fail);
  state.at('running');
  const log = stage(base.logger, 'service');
  log.info({ outcome: 'started', version: about.version, url: listeners.receiverUrl }, 'started');
  return runs;
}

/** Stops in the order in which data flows: receiving, the work, the operators' listener, the database. */
async function stop(
  { base, listeners, close }: Opened,
  { inbox, state, telemetry, replicas }: Built,
  runs: readonly unknown[],
  { leaving, stopping }: Record<'leaving' | 'stopping', AbortController>,
): Promise<void> {
  const { onError } = base;
  state.at('draining');
  // On a shared listener, open streams of operators would delay its close.
  if (listeners.ops === null) leaving.abort();
  // From here on nothing new comes in. A delivery under way is answered after its commit.
  await listeners.receiver.close(DRAIN_MS);
  await inbox.drain();
  // Each stage finishes what it is doing. The rest of the work stays in the database.
  stopping.abort();
  await Promise.allSettled(runs);
  // Until now operators and probes could see that the service drains.
  leaving.abort();
  await listeners.ops?.close(OPS_DRAIN_MS);
  // From this instant the next start counts the downtime.
  await state.beat().catch(onError);
  await telemetry.traffic.flush().catch(onError);
  await replicas.leave();
  await close();
  base.lines.flush();
  stage(base.logger, 'service').info({ outcome: 'stopped' }, 'stopped');
}
