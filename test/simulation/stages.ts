import { createBackfill } from '../../src/backfill/backfill.ts';
import type { Budget } from '../../src/compliance/budget.ts';
import type { ComplianceClient } from '../../src/compliance/client.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import type { Kind } from '../../src/compliance/kinds.ts';
import type { IdPointers } from '../../src/compliance/pointers.ts';
import { createInbox, type Inbox } from '../../src/inbox/group-commit.ts';
import { type Clock, sharedClock } from '../../src/platform/clock.ts';
import { describeError, MirrorError } from '../../src/platform/errors.ts';
import { createWorker } from '../../src/process/worker.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { createDeliveryWatch, type DeliveryWatch, recover } from '../../src/service/missed-deliveries.ts';
import { createRememberedBudget } from '../../src/service/request-budget.ts';
import { createWorkerBackfill, type WorkerBackfill } from '../../src/service/worker-backfill.ts';
import { createWorkerLease } from '../../src/service/worker-lease.ts';
import { digestOf } from '../../src/store/reports.ts';
import type { ProvisionalOutcome, Store, Unknown } from '../../src/store/store.ts';
import { DiskFull, type Mortal } from './life.ts';
import type { Settings } from './plan.ts';
import type { Chance } from './random.ts';
import type { Answer } from './sender.ts';
import type { World } from './time.ts';

/** As the settings' defaults have it. */
export const POINTERS: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};
const TOLERANCE_MS = 300_000;

/** As the service has them. */
const HEARTBEAT_MS = 5_000;

/** One way between a replica and the database's clock takes up to this. Milliseconds. */
const LONGEST_WAY_MS = 20;
/** A replica's own clock runs off by up to this. */
const DRIFT = 100e-6;
/** How long an approval holds. */
const APPROVED_FOR_MS = 3_600_000;

/** What all lives in one world have in common. */
export interface Site {
  world: World;
  chance: Chance;
  settings: Settings;
  /** `who`: a life's name. */
  trace: (line: string, who?: string) => void;
  client: (life: { clock: Clock; budget: Budget }) => ComplianceClient;
  onOutcome: (outcome: ProvisionalOutcome) => void;
  onFullSync: (kind: Kind, outcome: string, startedAt: number) => void;
  onBug: (what: string) => void;
  isDiskFull: () => boolean;
  /** How long a batch of events waits for its commit, now. */
  slownessMs: () => number;
}

/** The real stages of one process, from its start to its death. */
export interface Stages {
  /** Tells this process from all others in the database; null until it has begun. */
  id(): string | null;
  /** Its start is over: before, nobody can ask it for anything. */
  isRunning(): boolean;
  deliver(body: string, signedWall: number): Promise<Answer>;
  requestFullSync(kinds: readonly Kind[]): void;
  refetch(kind: Kind, id: string): void;
  approve(pending: { kind: Kind; ids: readonly string[] }): Promise<void>;
  discard(event: string): Promise<void>;
  release(quarantined: number): Promise<void>;
  /** Has the API asked which value in an event is the id of its record. False: none is proven, and asking again does not help. */
  find(about: Unknown): Promise<boolean>;
  /** Accepts exactly what the problem shows. */
  resolve(problem: { id: number; digest: string }): Promise<void>;
}

interface Running {
  inbox: Inbox;
  backfill: WorkerBackfill;
  watch: DeliveryWatch;
}

/**
 * Starts the stages as the service does, alone over a file or among several, but for its listeners, and keeps starting
 * them until that succeeds. `store` is the database as this life reaches it.
 */
export function startStages(site: Site, life: Pick<Mortal, 'name' | 'owner'>, store: Store): Stages {
  const { world, settings, chance } = site;
  const { settleMs, fullSyncMs, requestsPerMinute } = settings;
  const { name } = life;
  const timing = { settleMs };
  const rules = {
    pointers: POINTERS,
    eventsOnly: false,
    toleranceMs: TOLERANCE_MS,
    guardPercent: 20,
    timing,
  };
  const signal = new AbortController().signal;
  const isAlone = store.engine === 'sqlite';
  const own = world.clock(life.owner);
  const ownNow = () => ({ wall: own.wall(), steady: own.steady() });
  let id: string | null = null;
  let running: Running | null = null;

  const trace = (line: string) => site.trace(line, name);
  const random = () => chance.draw(`jitter ${name}`.trimEnd());
  const onError = (error: unknown) => {
    trace(`error: ${describeError(error)}`);
    if (error instanceof UpstreamError || error instanceof DiskFull) return;
    // Whoever stood still for too long finds out late, and gives up what it was at.
    if (!isAlone && error instanceof MirrorError && error.code === 'lease_lost') return;
    if (!isAlone && error instanceof DOMException && error.name === 'AbortError') return;
    site.onBug(`a stage failed: ${error instanceof Error ? error.stack : String(error)}`);
  };

  /** The service's own clock, over a database whose time is the world's. */
  async function databaseClock() {
    const drift = (2 * chance.draw(`drift ${name}`) - 1) * DRIFT;
    const offset = Math.floor(1_000_000 * chance.draw(`uptime ${name}`));
    const way = () => own.sleep(chance.between(`way ${name}`, 0, LONGEST_WAY_MS));
    const read = async () => {
      await way();
      const at = world.trueWall();
      await way();
      return { wall: at, steady: at };
    };
    const monotonic = () => offset + world.now() * (1 + drift);
    return await sharedClock(read, { sleep: own.sleep, monotonic, wall: monotonic });
  }

  async function every(ms: number, work: () => Promise<void>): Promise<void> {
    for (;;) {
      await own.sleep(ms);
      await work().catch(onError);
    }
  }

  /** The order of the service's own start. */
  async function start(): Promise<void> {
    const shared = isAlone ? null : await databaseClock();
    const clock = shared ?? own;
    const now = () => ({ wall: clock.wall(), steady: clock.steady() });
    const startedWall = clock.wall();
    const lease = createWorkerLease({ store, clock, onError });
    id = lease.id;
    await recover({ store, clock, timing, eventsOnly: false });
    const backfill = createWorkerBackfill({
      store,
      lease,
      clock,
      requestsPerMinute,
      onError,
      async create(over, wasUnreachable) {
        const of = { store: over, clock, requestsPerMinute, onError };
        const budget = await createRememberedBudget({ ...of, address: 'https://upstream.example/v1' });
        const own = createBackfill({
          ...of,
          wasUnreachable,
          client: site.client({ clock, budget }),
          random,
          rules,
          fullSyncMs,
          paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: settings.pageSize },
          riskIds: async () => ({ ids: settings.riskIds, isComplete: false }),
          access: () => 'key',
          onApplied: (kind, applied) => {
            for (const { id, outcome, verified } of applied)
              trace(`apply ${kind} ${id} ${outcome}${verified ? ' verified' : ''}`);
          },
          onConcluded: (kind, { deleted, pending }) => {
            if (deleted.length + pending.length === 0) return;
            trace(`conclude ${kind} deleted [${deleted.map((one) => one.id)}] pending [${pending}]`);
          },
          onReachability: () => undefined,
          onFullSync: ({ kind, outcome, error, reason, durationMs }) => {
            trace(`sync ${kind} (${reason}) ${outcome} ${error ?? ''}`);
            site.onFullSync(kind, outcome, world.now() - durationMs);
          },
        });
        const known = () => ({
          health: own.health(),
          running: own.runningSyncRuns(),
          budget: budget.left(),
          skewMs: null,
        });
        return { backfill: own, known };
      },
    });
    const worker = createWorker({
      clock,
      random,
      onError,
      rules,
      onOutcome: (outcome) => {
        trace(`event ${outcome.event.id} ${outcome.outcome}`);
        site.onOutcome(outcome);
        if (outcome.outcome === 'failed') backfill.wake();
      },
      onDeferred: (event, error) => site.onBug(`event ${event.id} failed: ${error}`),
    });
    const onAccepted = () => (lease.isWorker() ? worker.wake() : lease.notify('events'));
    const inbox = createInbox({ store, clock, rules, onAccepted, onError });
    const watch = createDeliveryWatch({
      store,
      backfill,
      clock,
      timing: rules.timing,
      onError,
      hasSecret: () => true,
      startedAt: startedWall,
      silenceMs: 0,
      fullSyncMs,
    });
    const facts = { eventsOnly: false, settleMs, fullSyncMs, unreachable: false, access: 'key' } as const;
    const beat = async () => void (await store.beat(now(), lease.isWorker() ? facts : null));
    await beat();
    running = { inbox, backfill, watch };
    // Of one mirror alone only the beat: seeds know it so, and one look more is another history.
    const heartbeat = async () => {
      await beat();
      await watch.check();
    };
    const runs = [
      lease.hold(
        [
          ({ lease: held, signal }) => worker.run(held === null ? store : store.underLease(held), signal),
          backfill.work,
          async () => void beat().catch(onError),
        ],
        signal,
      ),
      every(HEARTBEAT_MS, isAlone ? beat : heartbeat),
      shared === null ? null : every(HEARTBEAT_MS, shared.measure),
      lease.listen({ onEvents: worker.wake, look: backfill.look }, signal),
    ];
    for (const run of runs) run?.catch(onError);
  }

  function keepStarting(): void {
    start().catch((error) => {
      onError(error);
      world.at(world.now() + HEARTBEAT_MS, life.owner, keepStarting);
    });
  }
  keepStarting();

  return {
    id: () => id,
    isRunning: () => running !== null,
    async deliver(body, signedWall) {
      if (running === null) return 'none';
      const { inbox, watch } = running;
      const ageMs = own.wall() - signedWall;
      const t = String(Math.floor(signedWall / 1000));
      const parsed = parseEnvelope(Buffer.from(body), { pointers: POINTERS, t });
      if (Math.abs(ageMs) > TOLERANCE_MS) {
        for (const about of parsed.ok ? parsed.events : [parsed.unusable]) watch.onRejectedTimestamp(about);
        return 'refused';
      }
      try {
        if (parsed.ok) await inbox.accept(parsed.events);
        else await inbox.quarantine(parsed.unusable);
        return parsed.ok ? 'acknowledged' : 'refused';
      } catch {
        return 'none';
      }
    },
    requestFullSync: (kinds) => void running?.backfill.requestFullSync(kinds, 'operator').catch(onError),
    refetch: (kind, recordId) => void running?.backfill.refetch(kind, [recordId]).catch(onError),
    async approve({ kind, ids }) {
      const how = { untilWall: own.wall() + APPROVED_FOR_MS, eventsOnly: false };
      const approved = await store.decideDeletions(kind, digestOf(kind, ids), how, ownNow());
      if (approved === null || running === null) return;
      await running.backfill.requestFullSync([kind], 'operator');
    },
    async discard(event) {
      await store.dismissDelivery(event, ownNow(), timing);
    },
    async find(about) {
      if (running === null) return false;
      try {
        const { pointer, says } = await running.backfill.find(about);
        trace(`find ${about.kind} ${about.recordId}: ${says}`);
        return pointer !== null;
      } catch (error) {
        // Another person's question came in between.
        const isAskedAgain = error instanceof MirrorError && error.code === 'no_worker';
        if (!isAskedAgain) onError(error);
        return isAskedAgain;
      }
    },
    async resolve({ id: problem, digest }) {
      await store.resolveProblem(problem, digest, ownNow());
    },
    async release(quarantined) {
      await store.dismissDelivery(`rejection:${quarantined}`, ownNow(), timing);
    },
  };
}
