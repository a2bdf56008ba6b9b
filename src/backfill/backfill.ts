import type { ComplianceClient } from '../compliance/client.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { type Backoff, backoffMs, createNap, momentOf } from '../platform/clock.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type { InHand, ProvisionalRules, Work } from '../store/store.ts';
import { type Context, causeOf } from './context.ts';
import { createFullSyncer, type FullSyncWatch } from './full-sync.ts';
import { createRefetch } from './refetch.ts';
import { createUnknownRecords } from './unknown-records.ts';
import { createUpstream, lookEveryMs } from './upstream.ts';

/** Records read at the same time, besides those of full syncs. The real limit is the request budget. */
const READS_AT_ONCE = 4;

/** The planner looks for work at least this often. New work wakes it sooner. */
const LONGEST_NAP_MS = 1_000;
/** The planner rests at least this long, so that a record that is due again at once makes no busy loop. */
const SHORTEST_NAP_MS = 20;

/** For the next full sync after one that did not end complete. */
const FULL_SYNC_BACKOFF: Backoff = { firstMs: 2_000, longestMs: 10 * 60_000 };

/** The same after one that left deletions waiting for a person: it shows whether a passing fault only looked like deletions. */
const WAITING_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 24 * 3_600_000 };

/** Failed reads of a vendor before the list is asked. One that has become another answers so for ever, and the list leaves it out. */
const FAILURES_BEFORE_A_SCAN = 2;

/** Wait after the database could not commit. */
const STORE_PAUSE_MS = 1_000;

export interface NamedIds {
  ids: readonly string[];
  isComplete: boolean;
}

export interface BackfillOptions
  extends Pick<Context, 'store' | 'clock' | 'paging' | 'random' | 'onApplied'>,
    FullSyncWatch {
  client: ComplianceClient;
  /** How an event is processed once its record has been found. Reads use the same pointers and timing. */
  rules: ProvisionalRules;
  requestsPerMinute: number;
  /** 0: full syncs run at start and on demand only. */
  fullSyncMs: number;
  /** The API gave no useful answer when the last process ended. */
  wasUnreachable?: boolean;
  /** Ids from RISK_IDS_FILE, and whether it says that it names all; read again before each full sync. */
  riskIds: () => Promise<NamedIds>;
  /** The fingerprint of the credentials and the address that requests use now. */
  access: () => string;
  /** The API has become unreachable, or answers again. */
  onReachability: () => void;
  onError: (error: unknown) => void;
}

export type Backfill = ReturnType<typeof createBackfill>;

/** What is planned for the full syncs of a kind, and how the last ones ended. Times are steady. */
const newPlan = () => ({
  /** Why the next one was requested, since the last one began. */
  reasons: new Set<string>(),
  /** Infinity: none has begun. */
  lastStartedAt: Number.POSITIVE_INFINITY,
  failures: 0,
  retryAt: null as number | null,
  /** How often in a row deletions were left pending, and when the next full sync is due because of that. */
  pendingInARow: 0,
  pendingAgainAt: Number.POSITIVE_INFINITY,
  /** A list scan because of dirty marks does not begin before this. */
  dirtyNotBefore: 0,
  running: null as Promise<void> | null,
});

type FullSyncPlan = ReturnType<typeof newPlan>;

/** Whether a person asked for it, or set other credentials. Then no backoff applies. */
const isAsked = (reason: string) => /^(operator|approval|credentials)\b/.test(reason);

/** Asks the store what there is to do, and does it: reads of single records, and full syncs for everything that these cannot repair. */
export function createBackfill(options: BackfillOptions) {
  const { store, clock } = options;
  const { timing, pointers, guardPercent } = options.rules;
  const now = () => momentOf(clock);
  const plans = new Map(KINDS.map((kind) => [kind, newPlan()]));
  const planOf = (kind: Kind) => plans.get(kind)!;
  const reads = new Map<string, { kind: Kind; id: string; asked: boolean; done: Promise<void> }>();
  const end = new AbortController();
  const { signal } = end;
  let paused = false;
  const nap = createNap(clock);
  let woken = false;
  let looking: Promise<void> | null = null;

  const forReads = { ...options, timing, pointers, guardPercent, signal };
  /** The credentials with which each kind was last noted as readable, so that not every read writes a note. */
  const noted = new Map<string, string>();
  const upstream = createUpstream({
    ...forReads,
    onUnauthorized(others) {
      for (const kind of others) planOf(kind).reasons.add('problem');
      wake();
    },
    onAcceptedAgain() {
      // Full syncs that failed for the same reason begin now, and not after their backoff.
      for (const plan of plans.values()) if (plan.retryAt !== null) plan.retryAt = clock.steady();
      wake();
    },
    async onReadable(kind, how) {
      const access = options.access();
      if (noted.get(`${kind} ${how}`) === access) return;
      await store.noteAccess(kind, access, how, now());
      noted.set(`${kind} ${how}`, access);
    },
  });
  const context = { ...forReads, upstream };
  const unknownRecords = createUnknownRecords({ ...context, onFound: wake });
  const refetch = createRefetch(context);
  const fullSyncer = createFullSyncer({ ...context, refetch });

  function wake(): void {
    woken = true;
    nap.wake();
  }

  // ─── full syncs ───────────────────────────────────────────────────────────────────────────────────────────

  function startSyncRun(kind: Kind, reason: string): void {
    const plan = planOf(kind);
    plan.reasons.clear();
    plan.retryAt = null;
    if (reason !== 'events') plan.lastStartedAt = clock.steady();
    plan.running = runFullSync(kind, reason)
      .catch((error) => {
        options.onError(error);
        // The database failed. The full sync is still wanted.
        retryLater(plan);
      })
      .finally(() => {
        plan.running = null;
        plan.dirtyNotBefore = clock.steady() + timing.settleMs;
        wake();
      });
  }

  async function runFullSync(kind: Kind, reason: string): Promise<void> {
    const plan = planOf(kind);
    // No event names these ids, so their first read need not wait for the read delay.
    const settled = { ...now(), steady: now().steady - timing.settleMs };
    const named = kind === 'risk_assessment' ? await options.riskIds() : null;
    if (named !== null) await store.makeKnown(kind, named.ids, settled);
    const listed = named?.isComplete ?? true;
    const result = await fullSyncer.fullSync(kind, reason, listed);
    if (result.outcome === 'interrupted') return;
    if (result.outcome === 'complete' || result.outcome === 'accepted') {
      plan.pendingAgainAt = Number.POSITIVE_INFINITY;
      // Its problem would ask for the next one at once, and the cache would answer that too.
      if (result.isAged) retryLater(plan);
      else plan.failures = 0;
      return;
    }
    retryLater(plan);
    // A single failure may be chance: a page failed, or the list moved while it was read.
    if (plan.failures > 1) {
      const problem = { reason: 'incomplete_list', kind, recordId: null } as const;
      await store.openProblem(problem, result.error, now(), result.stays);
    }
  }

  function retryLater(plan: FullSyncPlan): void {
    plan.failures += 1;
    plan.retryAt = clock.steady() + backoffMs(FULL_SYNC_BACKOFF, plan.failures, options.random());
  }

  /** When the next full sync begins: after a failure, on request, or by the timer (sooner if deletions are pending). */
  function fullSyncDueAt(plan: FullSyncPlan): number {
    if (plan.running !== null) return Number.POSITIVE_INFINITY;
    // A person does not wait for a backoff.
    if ([...plan.reasons].some(isAsked)) return 0;
    if (plan.retryAt !== null) return plan.retryAt;
    if (plan.reasons.size > 0) return 0;
    if (options.fullSyncMs === 0) return Number.POSITIVE_INFINITY;
    return Math.min(plan.lastStartedAt + options.fullSyncMs, plan.pendingAgainAt);
  }

  function startDueSyncRuns(): void {
    for (const kind of KINDS) {
      const plan = planOf(kind);
      if (fullSyncDueAt(plan) > clock.steady()) continue;
      const unasked = plan.failures > 0 ? 'again' : 'timer';
      startSyncRun(kind, [...plan.reasons].sort().join('+') || unasked);
    }
  }

  function scanForEvents(kind: Kind): void {
    const { running, reasons, dirtyNotBefore, retryAt } = planOf(kind);
    const isEarly = clock.steady() < Math.max(dirtyNotBefore, retryAt ?? 0);
    // One that was requested begins at once.
    if (running === null && reasons.size === 0 && !isEarly) startSyncRun(kind, 'events');
  }

  function wantFullSync({ kind, why }: Work & { what: 'full_sync' }): void {
    const plan = planOf(kind);
    if (why === 'events') scanForEvents(kind);
    if (plan.running !== null) return;
    if (why === 'problem' && plan.failures === 0 && plan.reasons.size === 0) {
      plan.reasons.add('problem');
      wake();
    }
    if (why === 'pending' && plan.pendingAgainAt === Number.POSITIVE_INFINITY) {
      plan.pendingInARow += 1;
      plan.pendingAgainAt = clock.steady() + backoffMs(WAITING_BACKOFF, plan.pendingInARow, options.random());
    }
  }

  // ─── reads of single records ──────────────────────────────────────────────────────────────────────────────────

  function startRead({ kind, id, attempts, asked }: (Work & { what: 'refetch' })['records'][number]): void {
    const key = `${kind} ${id}`;
    const done = refetch({
      kind,
      id,
      attempts,
      tries: 1,
      lane: 'live',
      syncRunId: null,
      absentFromList: false,
    })
      .then(({ outcome }) => {
        if (kind === 'vendor' && outcome === 'failed' && attempts === FAILURES_BEFORE_A_SCAN)
          scanForEvents(kind);
      }, options.onError)
      .finally(() => {
        reads.delete(key);
        wake();
      });
    reads.set(key, { kind, id, asked, done });
  }

  /** Deletes proven absences: those that an event announced or a person approved at once. */
  async function conclude({ kind, all }: Work & { what: 'conclude' }): Promise<void> {
    const context = { cause: causeOf(null), unannounced: all ? null : [], guardPercent, timing };
    const concluded = await store.concludeDeletions(kind, null, context, now());
    options.onConcluded(kind, concluded, context.cause);
    if (kind === 'vendor' && concluded.left > 0) scanForEvents(kind);
  }

  /** Asks the API now and then while there is nothing to read, so that an outage is noticed. */
  async function lookIfDue(): Promise<void> {
    if (!upstream.isLookDue(lookEveryMs(options.requestsPerMinute))) return;
    // A kind's full sync is tried again until the API accepts it.
    for (const kind of await upstream.look()) {
      planOf(kind).reasons.add('problem');
      wake();
    }
  }

  // ─── the planner ──────────────────────────────────────────────────────────────────────────────────────

  function inHand(): InHand {
    const underWay = [...reads.values()];
    const ofKind = (kind: Kind) => ({
      isRunning: planOf(kind).running !== null,
      isReadable: planOf(kind).failures <= 1,
      total: fullSyncer.total(kind),
      busy: [...fullSyncer.reserved(kind), ...underWay.flatMap((one) => (one.kind === kind ? one.id : []))],
    });
    return {
      timing,
      pageSize: options.paging.pageSize,
      slots: READS_AT_ONCE - underWay.length,
      isOneAsked: underWay.some(({ asked }) => asked),
      kinds: {
        policy: ofKind('policy'),
        risk_assessment: ofKind('risk_assessment'),
        vendor: ofKind('vendor'),
      },
    };
  }

  /** Does what there is to do. Returns when to look again. */
  async function workOnce(): Promise<number> {
    startDueSyncRuns();
    let until = Number.POSITIVE_INFINITY;
    const todo = await store.nextWork(now(), inHand());
    for (const [kind, plan] of plans) {
      if (todo.some((one) => one.what === 'full_sync' && one.kind === kind && one.why === 'pending'))
        continue;
      plan.pendingInARow = 0;
      plan.pendingAgainAt = Number.POSITIVE_INFINITY;
    }
    for (const work of todo) {
      if (work.what === 'full_sync') wantFullSync(work);
      else if (work.what === 'conclude') await conclude(work);
      else if (work.what === 'refetch') work.records.forEach(startRead);
      else until = work.until ?? until;
    }
    looking ??= lookIfDue()
      .catch(options.onError)
      .finally(() => {
        looking = null;
      });
    return until;
  }

  async function rest(until: number): Promise<void> {
    await clock.sleep(SHORTEST_NAP_MS, signal);
    if (woken) return;
    const steady = clock.steady();
    const scans = [...plans.values()].map((plan) => plan.dirtyNotBefore).filter((at) => at > steady);
    await nap.sleep(Math.min(LONGEST_NAP_MS, Math.max(0, Math.min(until, ...scans) - steady)), signal);
  }

  return {
    wake,
    pause(): void {
      paused = true;
    },
    resume(): void {
      paused = false;
      wake();
    },
    requestFullSync(kinds: readonly Kind[], reason: string): void {
      for (const kind of kinds) planOf(kind).reasons.add(reason);
      if (isAsked(reason)) upstream.tryNow();
      wake();
    },
    /** Refetches these records now, because a person asks. */
    async refetch(kind: Kind, ids: readonly string[]): Promise<void> {
      await store.makeDue(kind, ids, now());
      upstream.tryNow();
      wake();
    },
    /** Asks the API for what looks like an id in the events of a problem, because a person asks. */
    find: unknownRecords.find,
    health: upstream.health,
    runningSyncRuns: fullSyncer.running,

    async run(outer: AbortSignal): Promise<void> {
      const stop = () => end.abort(outer.reason);
      if (outer.aborted) stop();
      else outer.addEventListener('abort', stop, { once: true });
      let isBegun = false;
      while (!signal.aborted) {
        woken = false;
        let until = Number.POSITIVE_INFINITY;
        try {
          // The settings may have changed.
          if (!isBegun) await unknownRecords.retryAll();
          isBegun = true;
          if (!paused) until = await workOnce();
        } catch (error) {
          options.onError(error);
          if (error instanceof StoreUnavailable) await clock.sleep(STORE_PAUSE_MS, signal);
        }
        await rest(until);
      }
      await Promise.all([
        ...[...reads.values()].map(({ done }) => done),
        looking,
        ...[...plans.values()].map((plan) => plan.running),
      ]);
    },
  };
}
