import { type Backfill, createBackfill } from '../../src/backfill/backfill.ts';
import { createGapKeeper } from '../../src/backfill/gaps.ts';
import { createBudget } from '../../src/compliance/budget.ts';
import type { ComplianceClient } from '../../src/compliance/client.ts';
import { UpstreamError } from '../../src/compliance/errors.ts';
import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { IdPointers } from '../../src/compliance/pointers.ts';
import { createInbox, type Inbox } from '../../src/inbox/inbox.ts';
import { describeError, StoreUnavailable } from '../../src/platform/errors.ts';
import { createWorker } from '../../src/process/worker.ts';
import { parseEnvelope } from '../../src/receive/envelope.ts';
import { recover } from '../../src/service/recovery.ts';
import { createDeliveryWatch, type DeliveryWatch } from '../../src/service/watch.ts';
import { openSqlite } from '../../src/store/sqlite/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import { turns } from '../../src/store/turns.ts';
import type { Settings } from './plan.ts';
import type { Chance } from './random.ts';
import type { Answer, Sent } from './sender.ts';
import type { World } from './time.ts';

/** As the settings' defaults have it. */
export const POINTERS: IdPointers = {
  policy: ['policyId', 'policy.id', 'id'],
  risk_assessment: ['riskAssessmentId', 'assessmentId', 'riskId', 'risk.id', 'id'],
  vendor: ['vendorId', 'vendor.id', 'id'],
};

export const TOLERANCE_MS = 300_000;
export const HEARTBEAT_MS = 5_000;

/** Verbs that commit nothing: no crash is aimed at them. */
export const READING = new Set([
  ...[
    'currentNumber',
    'countDue',
    'nextDueAt',
    'unseenBy',
    'touchedSince',
    'hasAnnouncedDeletion',
    'countProofs',
    'someLiveRecord',
  ],
  ...[
    'cycleRecords',
    'countKnown',
    'kindsWantingFullSync',
    'pendingDeletions',
    'lastBeat',
    'lastDelivery',
    'readFact',
    'unreadEvents',
    'failedWithoutRecord',
    'shownIds',
    'neverShown',
    'unreadableRecords',
    'eventsNaming',
    'learnedPointers',
  ],
  ...[
    'nextAttemptWall',
    'recoverClaims',
    'releaseEvents',
    'claimEvents',
    'dueRecords',
    'compareReads',
    'countLive',
  ],
]);

export interface MirrorOptions {
  path: string;
  world: World;
  chance: Chance;
  settings: Settings;
  client: (life: {
    clock: ReturnType<World['clock']>;
    budget: ReturnType<typeof createBudget>;
  }) => ComplianceClient;
  /** After each commit, before anyone hears of it. */
  onCommit: (verb: string, args: readonly unknown[]) => void;
  onFullSync: (kind: Kind, outcome: string, startedAt: number) => void;
  onBug: (what: string) => void;
  trace: (line: string) => void;
  /** How long a batch of events waits for its commit, now. */
  slownessMs: () => number;
  diskIsFull: () => boolean;
}

/** One life of the mirror, from a start to a crash. */
export interface Mirror {
  deliver(sent: Sent, signedWall: number): Promise<Answer>;
  /** Dies after so many more commits. */
  crashAfter(commits: number, when: 'before' | 'after', then: () => void): void;
  disarm(): void;
  crash(): void;
  requestFullSync(kinds: readonly Kind[]): void;
  refetch(kind: Kind, id: string): void;
  approve(syncRunId: number): Promise<void>;
  discard(event: string): Promise<void>;
  release(quarantined: number): Promise<void>;
}

/** Starts the real stages over the file, as the service does, but for its listeners. */
export function startMirror(options: MirrorOptions): Mirror {
  const { world, settings, chance, trace } = options;
  const life = {};
  const clock = world.clock(life);
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });
  const timing = { settleMs: settings.settleMs };
  const rules = { pointers: POINTERS, eventsOnly: false, toleranceMs: TOLERANCE_MS, timing };
  const signal = new AbortController().signal;
  const inFlight = new Set<() => void>();
  let failed = false;
  let fuse: { left: number; when: 'before' | 'after'; then: () => void } | null = null;
  world.setOwner(life);

  const file = openSqlite({ path: options.path });
  const store = mortal(file);
  file.watchGaps(({ gap, what, error }) =>
    trace(`gap ${gap.reason} ${gap.kind} ${gap.recordId} ${what}: ${error}`),
  );

  function die(): void {
    failed = true;
    world.forget(life);
    void file.close();
    for (const cut of inFlight) cut();
  }

  function burn(when: 'before' | 'after'): boolean {
    if (fuse === null || fuse.when !== when) return false;
    fuse.left -= 1;
    if (fuse.left > 0) return false;
    const { then } = fuse;
    fuse = null;
    die();
    then();
    return true;
  }

  /** The store as this life sees it: after its death no verb happens, and none answers. */
  function mortal(real: Store): Store {
    const never = new Promise<never>(() => undefined);
    // What is checked after a commit must see that one and no other's.
    const inTurn = turns();
    /** Who has died hears of nothing any more. */
    async function living(ask: () => Promise<unknown>): Promise<unknown> {
      if (failed) return await never;
      try {
        const answer = await ask();
        return failed ? await never : answer;
      } catch (error) {
        if (failed) return await never;
        throw error;
      }
    }
    const verbs = Object.entries(real).map(([name, verb]) => {
      if (typeof verb !== 'function') return [name, verb];
      const call = verb as (...args: unknown[]) => Promise<unknown>;
      if (READING.has(name)) return [name, (...args: unknown[]) => living(() => call(...args))];
      const commit = (args: unknown[]): Promise<unknown> =>
        living(() =>
          inTurn(async () => {
            if (failed || burn('before')) return never;
            if (options.diskIsFull()) throw new StoreUnavailable('the disk is full');
            const result = await call(...args);
            trace(`commit ${name}`);
            options.onCommit(name, args);
            burn('after');
            return result;
          }),
        );
      if (name !== 'applyEvents') return [name, (...args: unknown[]) => commit(args)];
      return [
        name,
        async (...args: unknown[]) => {
          const slowness = options.slownessMs();
          if (slowness > 0) await clock.sleep(slowness);
          return commit(args);
        },
      ];
    });
    return Object.fromEntries(verbs) as Store;
  }

  const random = () => chance.draw('jitter');
  const onError = (error: unknown) => {
    trace(`error: ${describeError(error)}`);
    if (error instanceof UpstreamError || (error instanceof StoreUnavailable && !error.fatal)) return;
    options.onBug(`a stage failed: ${error instanceof Error ? error.stack : String(error)}`);
  };
  const gaps = createGapKeeper({ store, clock });
  const budget = createBudget({ requestsPerMinute: settings.requestsPerMinute, clock });
  let running: { inbox: Inbox; backfill: Backfill; watch: DeliveryWatch } | null = null;

  /** The order of the service's own start. */
  async function start(): Promise<void> {
    const startedWall = clock.wall();
    const interrupted = await recover({ store, gaps, clock, timing, eventsOnly: false });
    const backfill = createBackfill({
      ...{ store, gaps, clock, timing, random, onError, interrupted, rules },
      requestsPerMinute: settings.requestsPerMinute,
      client: options.client({ clock, budget }),
      pointers: POINTERS,
      paging: { pageParam: 'page', perPageParam: 'perPage', firstPage: 1, pageSize: settings.pageSize },
      fullSyncMs: settings.fullSyncMs,
      riskIds: async () => settings.riskIds,
      access: () => 'key',
      onApplied: (kind, applied) => {
        for (const { id, outcome, verified } of applied) {
          trace(`apply ${kind} ${id} ${outcome}${verified ? ' verified' : ''}`);
        }
      },
      onConcluded: (kind, { deleted, pending }) => {
        if (deleted.length + pending.length === 0) return;
        trace(`conclude ${kind} deleted [${deleted.map((one) => one.id)}] pending [${pending}]`);
      },
      onProgress: () => undefined,
      onFullSync: ({ kind, outcome, error, reason, durationMs }) => {
        trace(`sync ${kind} (${reason}) ${outcome} ${error ?? ''}`);
        options.onFullSync(kind, outcome, world.now() - durationMs);
      },
    });
    const worker = createWorker({
      ...{ store, clock, random, onError, rules },
      concurrency: 2,
      maxAttempts: 10,
      onOutcome: (outcome) => {
        trace(`event ${outcome.event.id} ${outcome.outcome}`);
        if (outcome.outcome === 'failed') backfill.wake();
      },
      onRetry: (event, error) => options.onBug(`event ${event.id} failed: ${error}`),
    });
    const inbox = createInbox({ store, clock, timing, onAccepted: worker.wake, onError });
    const { fullSyncMs } = settings;
    const watch = createDeliveryWatch({
      ...{ store, gaps, backfill, clock, startedWall, silenceMs: 0, fullSyncMs, onError },
    });
    await beat();
    backfill.requestFullSync(KINDS, 'start');
    void worker.run(signal).catch(onError);
    void backfill.run(signal).catch(onError);
    running = { inbox, backfill, watch };
    for (;;) {
      await clock.sleep(HEARTBEAT_MS, signal);
      await beat().catch(onError);
    }
  }

  async function beat(): Promise<void> {
    const { settleMs, fullSyncMs } = settings;
    await store.beat(now(), {
      eventsOnly: false,
      settleMs,
      fullSyncMs,
      blocked: false,
      unreachable: false,
      access: 'key',
    });
  }

  /** A service that cannot write at its start ends, and is started again. */
  function keepStarting(): void {
    start().catch((error) => {
      onError(error);
      world.at(world.now() + HEARTBEAT_MS, life, keepStarting);
    });
  }
  keepStarting();

  async function answer(sent: Sent, signedWall: number): Promise<Answer> {
    if (running === null) return 'none';
    const { inbox, watch } = running;
    if (Math.abs(clock.wall() - signedWall) > TOLERANCE_MS) {
      watch.onRejectedTimestamp(
        clock.wall() > signedWall ? 'timestamp_too_old' : 'timestamp_too_new',
        sent.id,
      );
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
  }

  return {
    async deliver(sent, signedWall) {
      if (failed) return 'none';
      const { promise: cut, resolve } = Promise.withResolvers<'none'>();
      const onDeath = () => resolve('none');
      inFlight.add(onDeath);
      const outcome = await Promise.race([answer(sent, signedWall), cut]);
      inFlight.delete(onDeath);
      return outcome;
    },
    crashAfter(commits, when, then) {
      fuse = { left: commits, when, then };
    },
    disarm() {
      fuse = null;
    },
    crash: die,
    requestFullSync: (kinds) => running?.backfill.requestFullSync(kinds, 'operator'),
    refetch: (kind, id) => void running?.backfill.refetch(kind, [id]).catch(onError),
    async approve(syncRunId) {
      const { kind, ids } = await store.approveDeletions(syncRunId, clock.wall() + 3_600_000);
      if (ids.length > 0) running?.backfill.requestFullSync([kind], 'operator');
    },
    async discard(event) {
      await store.discardEvent(event, now());
    },
    async release(quarantined) {
      await store.releaseQuarantined(quarantined, now(), timing);
    },
  };
}
