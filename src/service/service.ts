import { createGapKeeper } from '../backfill/gaps.ts';
import { KINDS } from '../compliance/kinds.ts';
import { createInbox } from '../inbox/group-commit.ts';
import { createAnswerTimes } from '../ops/answer-times.ts';
import { createTraffic } from '../ops/traffic.ts';
import type { SharedClock } from '../platform/clock.ts';
import { stage } from '../platform/logger.ts';
import { version } from '../platform/package.ts';
import { createWorker, GATHER_MS } from '../process/worker.ts';
import { createReceiver } from '../receive/routes.ts';
import { createHeartbeat } from './heartbeat.ts';
import { createDeliveryWatch } from './missed-deliveries.ts';
import { createNarrator } from './narrator.ts';
import { type Opened, open, type ServiceOptions } from './opening.ts';
import { createOperators, type Operators, requireTokens } from './operators.ts';
import { readPause } from './pause.ts';
import { recover } from './recovery.ts';
import { createRepairs } from './repairs.ts';
import { createReplicas } from './replicas.ts';
import { createSecretUse } from './secret-last-used.ts';
import { createSharing } from './sharing.ts';
import { createServiceState } from './state.ts';
import { AWAITED_LOOK_MS, SECRETS_LOOK_MS } from './stored-secrets.ts';
import { keepUp } from './upkeep.ts';

/** How often the database's time is asked for again: what it may be off by grows with the time since. */
const CLOCK_MEASURED_MS = 5_000;

/** For requests in flight at a stop. With what follows it stays within the 10 s that platforms allow. */
const DRAIN_MS = 5_000;
/** For operators' requests, once nothing else is left to do. */
const OPS_DRAIN_MS = 1_000;

export interface Service {
  receiverUrl: string;
  opsUrl: string;
  signIn: Operators['signIn'];
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
  requireTokens(options.config);
  const opened = await open(options);
  const stopping = new AbortController();
  /** Ends what operators have open: streams, and requests that wait. */
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
    for (const each of [leaving, stopping]) each.abort();
    await opened.close();
    throw error;
  }
}

/**
 * Every stage, wired once, from the end of the data's way to its beginning. What the last process left is put in order
 * first; else nothing works yet, and nobody is answered.
 */
async function build({ base, listeners, riskIds, secrets }: Opened, signal: AbortSignal) {
  const { config, rules, store, clock, metrics, startedAt, onError } = base;

  // What tells of the work.
  const traffic = createTraffic(base);
  const heart = createHeartbeat(base);
  const tell = createNarrator({ ...base, onLag: traffic.lagged, onRepaired: heart.hurry });
  store.watchGaps(tell.gapChanged);

  const gaps = createGapKeeper(base);
  const replicas = createReplicas(base);
  const others = await replicas.beat();
  const interrupted = await recover({ ...{ store, gaps, clock, others }, ...rules });

  const repairs = await createRepairs({
    ...base,
    ...{ gaps, replicas, tell, interrupted, isFirst: others === 0, riskIds: riskIds.read },
    // The one name that is made further down, since the two need each other: its look passes on what was asked for.
    onAsked: () => sharing.lookNow(),
  });
  const { backfill, leader } = repairs;
  const worker = createWorker({
    ...base,
    ...{ gatherMs: GATHER_MS, claims: replicas.claims },
    concurrency: config.process.concurrency,
    maxAttempts: config.process.retryMaxAttempts,
    onOutcome: (outcome) => {
      tell.processed(outcome);
      if (outcome.outcome === 'failed') backfill?.wake();
    },
    onRetry: tell.retried,
  });
  const state = createServiceState({ ...base, gaps, replicas, repairs, worker });
  const sharing = createSharing({
    ...{ store, replicas, clock, onError, onEvents: worker.wake, onPause: state.setPause },
    look: async (isTold) => await leader?.look(isTold),
  });

  const onAccepted = (commitMs: number) => {
    metrics.commitSeconds.observe(commitMs / 1000);
    worker.wake();
    replicas.tell('events');
  };
  const inbox = createInbox({ store, clock, rules, onAccepted, onError });
  const watch = createDeliveryWatch({
    ...{ store, gaps, backfill, clock, onError, takeTurn: replicas.takeTurn, startedWall: startedAt },
    ...{ silenceMs: config.sync.silenceMs, fullSyncMs: config.sync.fullSyncMs },
  });
  const secretUse = createSecretUse(clock);
  const answerTimes = createAnswerTimes();
  const receiver = createReceiver({
    ...base,
    ...{ inbox, pointers: rules.pointers },
    settings: { ...config.webhook, storedSecrets: secrets.keys, isSecretAwaited: secrets.isAwaited },
    onDelivery: (outcome, reason, answered) => {
      answerTimes.note({ outcome, ...answered });
      if (outcome === 'accepted' || outcome === 'duplicate' || outcome === 'quarantined')
        traffic.delivered(outcome);
      else traffic.rejected(reason || outcome);
      watch.onDelivery(outcome, reason);
    },
    onRejectedTimestamp: watch.onRejectedTimestamp,
    onSecretUsed: secretUse.used,
  });

  const operators = createOperators({
    ...base,
    ...{
      repairs,
      state,
      replicas,
      secrets,
      secretUse,
      traffic,
      answerTimes,
      signal,
      url: listeners.operatorsUrl,
    },
    receiverUrl: listeners.receiverUrl,
  });
  return { traffic, heart, replicas, repairs, worker, state, sharing, inbox, watch, receiver, operators };
}

type Built = Awaited<ReturnType<typeof build>>;

/** The tables first, which say how it stands; then answers; then work. Resolves with all that goes on until `signal` aborts. */
async function start(opened: Opened, built: Built, signal: AbortSignal): Promise<unknown[]> {
  const { base, listeners, secrets } = opened;
  const { store, clock, onError } = base;
  const { replicas, repairs, state, receiver, operators } = built;

  state.setPause(await readPause(store));
  await state.write();
  // Among several, whoever takes the lease begins with it.
  if (replicas.isAlone) repairs.backfill?.requestFullSync(KINDS, 'start');

  listeners.open({
    receiver: (request, env) => receiver.fetch(request, env as never),
    ops: (request, env) => operators.app.fetch(request, env),
  });
  // The last that can fail: what works from here on, only a stop ends.
  opened.lock.announce(listeners.opsUrl);

  async function every(ms: () => number, work: () => Promise<void>): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(ms(), signal);
      if (!signal.aborted) await work().catch(onError);
    }
  }
  async function beat(): Promise<void> {
    await state.heartbeat();
    await built.traffic.flush();
    await built.watch.check();
  }
  const about = { version: version(), operators: listeners.operatorsUrl };
  const runs = [
    built.worker.run(signal),
    repairs.backfill?.run(signal),
    built.heart.run(beat, signal),
    // Apart from the heartbeat, which waits for its turn to write.
    every(
      () => CLOCK_MEASURED_MS,
      async () => await (clock as Partial<SharedClock>).measure?.(),
    ),
    repairs.sharedBudget?.run(signal),
    built.sharing.run(signal),
    every(() => (secrets.isAwaited() ? AWAITED_LOOK_MS : SECRETS_LOOK_MS), secrets.refresh),
    replicas.hold(
      'upkeep',
      (held) => keepUp({ ...base, about, verdict: operators.verdict }, held.signal),
      signal,
    ),
  ];
  for (const run of runs) run?.catch(opened.fail);
  state.at('running');
  const log = stage(base.logger, 'service');
  log.info({ outcome: 'started', version: about.version, url: listeners.receiverUrl }, 'started');
  return runs;
}

/** In the order in which data flows: the way in, the work, the operators who watch it, the database. */
async function stop(
  { base, listeners, close }: Opened,
  { inbox, state, traffic, replicas }: Built,
  runs: readonly unknown[],
  { leaving, stopping }: Record<'leaving' | 'stopping', AbortController>,
): Promise<void> {
  const { onError } = base;
  state.at('draining');
  // On one listener for both they would hold its close until it breaks them off.
  if (listeners.ops === null) leaving.abort();
  // Nothing new comes in. Whoever waits for an answer gets it, after the commit that it waits for.
  await listeners.receiver.close(DRAIN_MS);
  await inbox.drain();
  // Each finishes what it is at; the rest of the work stays in the database.
  stopping.abort();
  await Promise.allSettled(runs);
  // So long operators and probes saw that it drains.
  leaving.abort();
  await listeners.ops?.close(OPS_DRAIN_MS);
  // The next start counts from here how long the service was away.
  await state.write().catch(onError);
  await traffic.flush().catch(onError);
  await replicas.leave();
  await close();
  base.lines.flush();
  stage(base.logger, 'service').info({ outcome: 'stopped' }, 'stopped');
}
