import type { Backfill } from '../../src/backfill/backfill.ts';
import { createBackfill } from '../../src/backfill/backfill.ts';
import { createGapKeeper } from '../../src/backfill/gaps.ts';
import type { Budget } from '../../src/compliance/budget.ts';
import type { ComplianceClient } from '../../src/compliance/client.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import { createSharedBudget } from '../../src/compliance/shared-budget.ts';
import { createInbox, type Inbox } from '../../src/inbox/inbox.ts';
import { type Clock, type SharedClock, sharedClock } from '../../src/platform/clock.ts';
import { describeError, MirrorError, StoreUnavailable } from '../../src/platform/errors.ts';
import { createWorker } from '../../src/process/worker.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { createLeaderBackfill, type LeaderBackfill } from '../../src/service/leader-backfill.ts';
import { recover } from '../../src/service/recovery.ts';
import { createReplicas, REPLICA_LIFE_MS } from '../../src/service/replicas.ts';
import { createSharing, type Sharing } from '../../src/service/sharing.ts';
import { createDeliveryWatch, type DeliveryWatch, forgeableDistanceMs } from '../../src/service/watch.ts';
import type { Notice } from '../../src/store/replicas.ts';
import type { ProvisionalOutcome, RepairStore, Store } from '../../src/store/store.ts';
import { HEARTBEAT_MS, POINTERS, TOLERANCE_MS } from './mirror.ts';
import type { Settings } from './plan.ts';
import type { Chance } from './random.ts';
import type { Answer, Sent } from './sender.ts';
import type { World } from './time.ts';

/** As the service has them. */
const CLAIM_LEASE_MS = 15_000;
const CLAIM_LOOK_MS = 2_000;

/** One way between a replica and the database's clock takes up to this. Milliseconds. */
const LONGEST_WAY_MS = 20;
/** A replica's own clock runs off by up to this. */
const DRIFT = 100e-6;

/** What all replicas of one world have in common. */
export interface Site {
  world: World;
  chance: Chance;
  settings: Settings;
  client: (life: { clock: Clock; budget: Budget }) => ComplianceClient;
  onOutcome: (outcome: ProvisionalOutcome) => void;
  onFullSync: (kind: Kind, outcome: string, startedAt: number) => void;
  onBug: (what: string) => void;
  databaseIsFull: () => boolean;
  trace: (line: string) => void;
  /** Tells the other replicas, if the notice is not lost. */
  notify: (from: object, notice: Notice) => void;
}

/** The real stages of one process, from its start to its death. */
export interface Stages {
  /** Tells this process from all others in the database; null until it has begun. */
  id(): string | null;
  /** Its start is over: before, nobody can ask it for anything. */
  isRunning(): boolean;
  hear(notice: Notice): void;
  deliver(sent: Sent, signedWall: number): Promise<Answer>;
  requestFullSync(kinds: readonly Kind[]): void;
  refetch(kind: Kind, id: string): void;
  approve(syncRunId: number): Promise<void>;
  discard(event: string): Promise<void>;
  release(quarantined: number): Promise<void>;
}

interface Running {
  inbox: Inbox;
  held: LeaderBackfill;
  watch: DeliveryWatch;
  sharing: Sharing;
  wake: () => void;
}

/**
 * Starts the stages as the service does among several, without its listeners, and keeps starting them until that
 * succeeds. `store` is the database as this life reaches it; `life` owns what it does later.
 */
export function startStages(site: Site, name: string, life: object, store: Store): Stages {
  const { world, settings, chance, trace } = site;
  const timing = { settleMs: settings.settleMs };
  const rules = { pointers: POINTERS, eventsOnly: false, toleranceMs: TOLERANCE_MS, timing };
  const signal = new AbortController().signal;
  const own = world.clock(life);
  let id: string | null = null;
  let running: Running | null = null;

  const random = () => chance.draw(`jitter ${name}`);
  const onError = (error: unknown) => {
    trace(`${name} error: ${describeError(error)}`);
    if (error instanceof UpstreamError) return;
    if (error instanceof StoreUnavailable && site.databaseIsFull()) return;
    // Whoever stood still for too long finds out late, and gives up what it was at.
    if (error instanceof MirrorError && error.code === 'lease_lost') return;
    if (error instanceof DOMException && error.name === 'AbortError') return;
    site.onBug(`a stage failed: ${error instanceof Error ? error.stack : String(error)}`);
  };

  /** The service's own clock, over a database whose time is the world's. */
  async function databaseClock(): Promise<SharedClock> {
    const drift = (2 * chance.draw(`drift ${name}`) - 1) * DRIFT;
    const offset = Math.floor(1_000_000 * chance.draw(`uptime ${name}`));
    const way = () => own.sleep(chance.between(`way ${name}`, 0, LONGEST_WAY_MS));
    const read = async () => {
      await way();
      const at = world.trueWall();
      await way();
      return { wall: at, steady: at };
    };
    return await sharedClock(read, {
      sleep: own.sleep,
      monotonic: () => offset + world.now() * (1 + drift),
    });
  }

  async function every(ms: number, work: () => Promise<void>): Promise<void> {
    for (;;) {
      await own.sleep(ms);
      await work().catch(onError);
    }
  }

  /** The order of the service's own start. */
  async function start(): Promise<void> {
    const clock = await databaseClock();
    const now = () => ({ wall: clock.wall(), steady: clock.steady() });
    const startedWall = clock.wall();
    const gaps = createGapKeeper({ store, clock });
    const replicas = createReplicas({ store, clock, onError });
    id = replicas.id;
    const { others } = await store.beatReplica(replicas.id, REPLICA_LIFE_MS, now());
    await recover({ store, gaps, clock, timing, eventsOnly: false, others });
    const { requestsPerMinute, timeoutMs } = settings;
    const budget = createSharedBudget({
      ...{ store, replica: replicas.id, requestsPerMinute, clock, onError },
      requestTimeoutMs: timeoutMs,
    });
    const client = site.client({ clock, budget });
    const create = (over: RepairStore, interrupted: readonly { kind: Kind; pages: number }[]): Backfill =>
      createBackfill({
        ...{
          store: over,
          client,
          gaps,
          clock,
          timing,
          random,
          onError,
          interrupted,
          rules,
          requestsPerMinute,
        },
        pointers: POINTERS,
        paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: settings.pageSize },
        fullSyncMs: settings.fullSyncMs,
        riskIds: async () => settings.riskIds,
        access: () => 'key',
        onApplied: (kind, applied) => {
          for (const { id, outcome, verified } of applied) {
            trace(`${name} apply ${kind} ${id} ${outcome}${verified ? ' verified' : ''}`);
          }
        },
        onConcluded: (kind, { deleted, pending }) => {
          if (deleted.length + pending.length === 0) return;
          trace(`${name} conclude ${kind} deleted [${deleted.map((one) => one.id)}] pending [${pending}]`);
        },
        onProgress: () => undefined,
        onFullSync: ({ kind, outcome, error, reason, durationMs }) => {
          trace(`${name} sync ${kind} (${reason}) ${outcome} ${error ?? ''}`);
          site.onFullSync(kind, outcome, world.now() - durationMs);
        },
      });
    const held = createLeaderBackfill({
      ...{ store, replicas, clock, isFirst: others === 0, create },
      forgeableDistanceMs: forgeableDistanceMs(settings.fullSyncMs),
      onAsked: () => sharing.lookNow(),
    });
    const worker = createWorker({
      ...{ store, clock, random, onError, rules },
      concurrency: 2,
      maxAttempts: 10,
      claims: { owner: `${replicas.id}/`, leaseMs: CLAIM_LEASE_MS, lookEveryMs: CLAIM_LOOK_MS },
      onOutcome: (outcome) => {
        trace(`${name} event ${outcome.event.id} ${outcome.outcome}`);
        site.onOutcome(outcome);
        if (outcome.outcome === 'failed') held.wake();
      },
      onRetry: (event, error) => site.onBug(`event ${event.id} failed: ${error}`),
    });
    const onAccepted = () => {
      worker.wake();
      replicas.tell('events');
    };
    const inbox = createInbox({ store, clock, timing, onAccepted, onError });
    const watch = createDeliveryWatch({
      ...{ store, gaps, backfill: held, clock, onError, takeTurn: replicas.takeTurn },
      ...{ startedWall, silenceMs: 0, fullSyncMs: settings.fullSyncMs },
    });
    const sharing = createSharing({
      ...{ store, replicas, clock, onError, onEvents: worker.wake, onPause: () => undefined },
      look: held.look,
    });
    const { settleMs, fullSyncMs } = settings;
    const beat = () =>
      store.beat(now(), {
        eventsOnly: false,
        settleMs,
        fullSyncMs,
        blocked: false,
        unreachable: false,
        access: 'key',
      });
    await beat();
    running = { inbox, held, watch, sharing, wake: worker.wake };
    const runs = [
      worker.run(signal),
      held.run(signal),
      every(HEARTBEAT_MS, async () => {
        await store.beatReplica(replicas.id, REPLICA_LIFE_MS, now());
        await beat();
        await watch.check();
      }),
      every(HEARTBEAT_MS, clock.measure),
      budget.run(signal),
      sharing.run(signal),
    ];
    for (const run of runs) run.catch(onError);
  }

  function keepStarting(): void {
    start().catch((error) => {
      onError(error);
      world.at(world.now() + HEARTBEAT_MS, life, keepStarting);
    });
  }
  keepStarting();

  return {
    id: () => id,
    isRunning: () => running !== null,
    hear(notice) {
      if (notice === 'events') running?.wake();
      else running?.sharing.lookNow();
    },
    async deliver(sent, signedWall) {
      if (running === null) return 'none';
      const { inbox, watch } = running;
      if (Math.abs(world.trueWall() - signedWall) > TOLERANCE_MS) {
        watch.onRejectedTimestamp('timestamp_too_old', sent.id);
        return 'refused';
      }
      const t = String(Math.floor(signedWall / 1000));
      const parsed = parseEnvelope(Buffer.from(sent.body), { pointers: POINTERS, t });
      try {
        if (parsed.ok) await inbox.accept(parsed.event);
        else await inbox.quarantine(parsed.unusable);
        return parsed.ok ? 'acknowledged' : 'refused';
      } catch {
        return 'none';
      }
    },
    requestFullSync: (kinds) => running?.held.requestFullSync(kinds, 'operator'),
    refetch: (kind, recordId) => void running?.held.refetch(kind, [recordId]).catch(onError),
    async approve(syncRunId) {
      const { kind, ids } = await store.approveDeletions(syncRunId, world.trueWall() + 3_600_000);
      if (ids.length > 0) await running?.held.askForFullSync([kind], 'operator');
    },
    async discard(event) {
      const wall = world.trueWall();
      await store.discardEvent(event, { wall, steady: wall });
    },
    async release(quarantined) {
      const wall = world.trueWall();
      await store.releaseQuarantined(quarantined, { wall, steady: wall }, timing);
    },
  };
}
