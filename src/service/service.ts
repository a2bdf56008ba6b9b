import { createInbox } from '../inbox/group-commit.ts';
import { stage } from '../platform/logger.ts';
import { version } from '../platform/package.ts';
import { createWorker, GATHER_MS } from '../process/worker.ts';
import { createReceiver } from '../receive/routes.ts';
import { createDeliveryWatch, recover } from './missed-deliveries.ts';
import { type Base, openPlace, overDatabase, type Place, type ServiceOptions } from './opening.ts';
import { createOperators, type Operators, requireTokens } from './operators.ts';
import { createRepairs, openRiskIds } from './repairs.ts';
import { AWAITED_LOOK_MS, SECRETS_LOOK_MS, type SigningSecrets } from './signing-secrets.ts';
import { createHeartbeat, createServiceState, PAUSED } from './state.ts';
import { createTelemetry } from './telemetry.ts';
import { keepUp } from './upkeep.ts';
import { createWorkerLease, type Held } from './worker-lease.ts';

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
  const place = await openPlace(options);
  const stopping = new AbortController();
  /** Ends what operators have open: streams and waiting requests. */
  const leaving = new AbortController();
  try {
    const built = await overDatabase(options, place, async (base, secrets) => {
      const made = await build(base, secrets, place, leaving.signal);
      const { receiver, operators } = made;
      place.listeners.open({
        receiver: (request, env) => receiver.fetch(request, env as never),
        ops: (request, env) => operators.app.fetch(request, env),
      });
      // This is the last step that can fail. Only a stop ends what starts after it.
      place.lock.announce(place.listeners.opsUrl);
      return made;
    });
    const runs = start(place, built, stopping.signal);
    let stopped: Promise<void> | null = null;
    return {
      receiverUrl: place.listeners.receiverUrl,
      opsUrl: place.listeners.opsUrl,
      signIn: built.operators.signIn,
      failed: place.failed,
      stop: () => {
        stopped ??= stop(place, built, runs, { leaving, stopping });
        return stopped;
      },
    };
  } catch (error) {
    leaving.abort();
    stopping.abort();
    await place.close();
    throw error;
  }
}

/**
 * Puts in order what the last process left, makes every stage, the last in the way of the data first, and writes the state into the
 * tables. No stage works yet.
 */
async function build(base: Base, secrets: SigningSecrets, { listeners }: Place, signal: AbortSignal) {
  const { config, rules, store, metrics, logger } = base;
  const riskIds = await openRiskIds(config.riskIdsFile, stage(logger, 'service'));

  const heartbeat = createHeartbeat(base);
  const telemetry = createTelemetry({ ...base, onRepaired: heartbeat.hurry });
  store.watchProblems(telemetry.problemChanged);
  await recover({ ...base, ...rules });

  const lease = createWorkerLease(base);
  const shared = { ...base, lease, telemetry };
  const repairs = await createRepairs({ ...shared, riskIds, onReachability: heartbeat.hurry });
  const { backfill } = repairs;
  const worker = createWorker({
    ...base,
    gatherMs: GATHER_MS,
    onOutcome: (outcome) => {
      telemetry.processed(outcome);
      if (outcome.outcome === 'failed') backfill?.wake();
    },
    onDeferred: telemetry.deferred,
  });
  const state = createServiceState({ ...shared, repairs, worker });
  const inbox = createInbox({
    ...base,
    onAccepted: (commitMs) => {
      metrics.commitSeconds.observe(commitMs / 1000);
      if (lease.isWorker()) worker.wake();
      else lease.notify('events');
    },
  });
  const watch = createDeliveryWatch({
    ...shared,
    ...config.sync,
    timing: rules.timing,
    backfill,
    hasSecret: () => secrets.keys().length > 0,
  });
  const receiver = createReceiver({
    ...base,
    inbox,
    pointers: rules.pointers,
    isSecretAwaited: secrets.isAwaited,
    settings: { ...config.webhook, secrets: secrets.keys },
    onDelivery: watch.onDelivery,
    onRejectedTimestamp: watch.onRejectedTimestamp,
    onUnkept: watch.onUnkept,
    onSecretUsed: secrets.used,
  });
  const operators = createOperators({
    ...shared,
    repairs,
    state,
    secrets,
    watch,
    operatorsUrl: listeners.operatorsUrl,
    receiverUrl: listeners.receiverUrl,
    signal,
  });
  state.setPause((await store.standing(PAUSED)).openSince);
  await state.beat();
  return {
    base,
    secrets,
    heartbeat,
    telemetry,
    lease,
    repairs,
    worker,
    state,
    inbox,
    watch,
    receiver,
    operators,
  };
}

type Built = Awaited<ReturnType<typeof build>>;

/** Starts the work. Returns all that runs until `signal` aborts. */
function start({ listeners, fail }: Place, built: Built, signal: AbortSignal): Promise<unknown>[] {
  const { base, secrets, lease, repairs, worker, state, heartbeat, operators } = built;
  const { store, clock, onError } = base;

  async function every(ms: () => number, work: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(ms(), signal);
      if (!signal.aborted) await work().catch(onError);
    }
  }
  async function beat(): Promise<void> {
    await state.beat();
    await built.watch.check();
  }
  async function look(isNotified: boolean): Promise<void> {
    state.setPause((await store.standing(PAUSED)).openSince);
    await repairs.backfill?.look(isNotified);
  }
  const works = [
    ({ lease: held, signal }: Held) => worker.run(held === null ? store : store.underLease(held), signal),
    repairs.work,
    (held: Held) => keepUp({ ...base, notices: operators.notices, stopping: signal }, held.signal),
    // The worker's settings are those that the verdict goes by.
    async () => heartbeat.hurry(),
  ];
  const runs = [
    lease.hold(works, signal),
    heartbeat.run(beat, signal),
    // Not in the heartbeat: that may wait for its turn to write.
    every(
      () => CLOCK_MEASURED_MS,
      async () => await clock.measure?.(),
    ),
    lease.listen({ onEvents: worker.wake, look }, signal),
    every(() => (secrets.isAwaited() ? AWAITED_LOOK_MS : SECRETS_LOOK_MS), secrets.refresh),
  ];
  for (const run of runs) run.catch(fail);
  state.at('running');
  const log = stage(base.logger, 'service');
  log.info({ outcome: 'started', version: version(), url: listeners.receiverUrl }, 'started');
  return runs;
}

/** Stops in the order in which data flows: receiving, the work, the operators' listener, the database. */
async function stop(
  { listeners, close }: Place,
  { base, inbox, state }: Built,
  runs: readonly Promise<unknown>[],
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
  await base.store.close().finally(close);
  base.lines.flush();
  stage(base.logger, 'service').info({ outcome: 'stopped' }, 'stopped');
}
