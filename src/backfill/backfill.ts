import type { ComplianceClient } from '../compliance/client.ts';
import { type FetchedKind, KINDS, type Kind } from '../compliance/kinds.ts';
import { type Backoff, backoffMs, createNap, momentOf } from '../platform/clock.ts';
import { StoreUnavailable } from '../platform/errors.ts';
import type { DueRecord, ProvisionalRules } from '../store/store.ts';
import { type Context, causeOf } from './context.ts';
import { createFullSyncer, type FullSyncWatch } from './full-sync.ts';
import { createRefetch } from './refetch.ts';
import { createUnknownRecords } from './unknown-records.ts';
import { createUpstream, lookEveryMs } from './upstream.ts';

/** Repairs at the same time. The real limit is the request budget. */
const REPAIRS_AT_ONCE = 4;

/** Due vendors to count, so that a burst of dirty marks is recognised before single repairs begin. */
const BURST_LOOK = 256;

/** The planner looks for work at least this often. New work wakes it sooner. */
const LONGEST_NAP_MS = 1_000;
/** The planner rests at least this long, so that a record that is due again at once makes no busy loop. */
const SHORTEST_NAP_MS = 20;

/** For the next full sync after one that did not end complete. */
const FULL_SYNC_BACKOFF: Backoff = { firstMs: 2_000, longestMs: 10 * 60_000 };

/** The same after one that left deletions waiting for a person: it shows whether a passing fault only looked like deletions. */
const WAITING_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 24 * 3_600_000 };

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

/** `place`: in the order of its kind. */
type Repair = DueRecord & { kind: FetchedKind; place: number };

/** Whether a person asked for it, or set other credentials. Then no backoff applies. */
const isAsked = (reason: string) => /^(operator|approval|credentials)\b/.test(reason);

/** Finds due records, verifies them in the cheaper way, and runs full syncs for everything that single reads cannot repair. */
export function createBackfill(options: BackfillOptions) {
  const { store, clock } = options;
  const { timing, pointers, guardPercent } = options.rules;
  const now = () => momentOf(clock);
  const plans = new Map(KINDS.map((kind) => [kind, newPlan()]));
  const planOf = (kind: Kind) => plans.get(kind)!;
  const repairs = new Map<string, { asked: boolean; done: Promise<void> }>();
  const end = new AbortController();
  const { signal } = end;
  let paused = false;
  const nap = createNap(clock);
  let woken = false;

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
  const { reserved } = fullSyncer;
  let looking: Promise<void> | null = null;

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
    // No event names these ids, so their first read need not wait for the consistency window.
    const settled = { ...now(), steady: now().steady - timing.settleMs };
    const named = kind === 'risk_assessment' ? await options.riskIds() : null;
    if (named !== null) await store.makeKnown(kind, named.ids, settled);
    const listed = named?.isComplete ?? true;
    const result = await fullSyncer.fullSync(kind, reason, listed);
    if (result.outcome === 'complete' || result.outcome === 'accepted') {
      plan.failures = 0;
      plan.pendingAgainAt = Number.POSITIVE_INFINITY;
      const pending = await store.pendingDeletions(clock.wall());
      if (pending.some((waiting) => waiting.kind === kind)) lookAgain(plan);
      else plan.pendingInARow = 0;
      return;
    }
    if (result.outcome === 'interrupted') return;
    retryLater(plan);
    // A single failure may be chance: a page failed, or the list moved while it was read.
    if (plan.failures > 1) {
      const problem = { reason: 'incomplete_list', kind, recordId: null } as const;
      await store.openProblem(problem, result.error, now(), result.stays);
    }
  }

  /** A full sync will show whether the pending deletions were a passing fault. */
  function lookAgain(plan: FullSyncPlan): void {
    if (plan.pendingAgainAt < Number.POSITIVE_INFINITY) return;
    plan.pendingInARow += 1;
    plan.pendingAgainAt = clock.steady() + backoffMs(WAITING_BACKOFF, plan.pendingInARow, options.random());
  }

  function retryLater(plan: FullSyncPlan): void {
    plan.failures += 1;
    plan.retryAt = clock.steady() + backoffMs(FULL_SYNC_BACKOFF, plan.failures, options.random());
  }

  /** When the next full sync begins: after a failure, on request, or by the timer (sooner if deletions are pending). */
  function fullSyncDueAt(plan: FullSyncPlan): number {
    // A person does not wait for a backoff.
    if ([...plan.reasons].some(isAsked)) return 0;
    if (plan.retryAt !== null) return plan.retryAt;
    if (plan.reasons.size > 0) return 0;
    if (options.fullSyncMs === 0) return Number.POSITIVE_INFINITY;
    return Math.min(plan.lastStartedAt + options.fullSyncMs, plan.pendingAgainAt);
  }

  async function planSyncRuns(): Promise<void> {
    for (const kind of await store.kindsWantingFullSync(now())) {
      const plan = planOf(kind);
      if (plan.running === null && plan.failures === 0 && plan.reasons.size === 0)
        plan.reasons.add('problem');
    }
    for (const kind of KINDS) {
      const plan = planOf(kind);
      if (plan.running !== null || fullSyncDueAt(plan) > clock.steady()) continue;
      const unasked = plan.failures > 0 ? 'again' : 'timer';
      startSyncRun(kind, [...plan.reasons].sort().join('+') || unasked);
    }
  }

  // ─── repairs ──────────────────────────────────────────────────────────────────────────────────────────

  const isFree = (kind: Kind, id: string) => !reserved.has(`${kind} ${id}`) && !repairs.has(`${kind} ${id}`);

  /** The records of a kind to read by their own addresses. Begins a full sync where a list scan is cheaper. */
  async function planRepairs(kind: Kind): Promise<Repair[]> {
    const plan = planOf(kind);
    const { pageSize } = options.paging;
    const total = kind === 'vendor' ? (fullSyncer.total(kind) ?? (await store.countKnown(kind))) : 0;
    const enough =
      kind === 'vendor' ? Math.max(BURST_LOOK, scanCost(total, pageSize) + 1) : REPAIRS_AT_ONCE * 4;
    // Records that are being read now come first in the list, so they must not use up the limit.
    const limit = enough + reserved.size + repairs.size;
    const isBeingRead = kind === 'risk_assessment' && plan.running !== null;
    const due = (await store.dueRecords(kind, now(), timing, limit, isBeingRead)).filter(({ id }) =>
      isFree(kind, id),
    );
    // A list may show less of a vendor than its own address, which is what somebody asked for.
    const listed = kind === 'vendor' ? due.filter(({ asked }) => !asked) : due;
    const soon = { ...now(), steady: now().steady + timing.settleMs };
    const withinSettle = kind === 'vendor' ? await store.countDue(kind, soon, limit) : due.length;
    const longestMs = now().steady - (listed[0]?.dueAt ?? now().steady);
    const way = wayToVerify(
      kind,
      { now: listed.length, withinSettle, longestMs },
      { total, pageSize, readable: plan.failures <= 1 },
      timing.settleMs,
    );
    if (way === 'scan') scanForEvents(kind);
    if (kind === 'policy') return [];
    return due
      .filter(({ asked }) => asked || way === 'refetch')
      .map((record, place) => ({ ...record, kind, place }));
  }

  /**
   * What events made due goes first, of all kinds the longest due; but one repair is always of a record that was asked for, if any is.
   * The kinds take turns with these.
   */
  function startRepairs(due: readonly Repair[]): void {
    const asked = due.filter((repair) => repair.asked).sort((a, b) => a.place - b.place);
    const others = due.filter((repair) => !repair.asked).sort((a, b) => a.dueAt - b.dueAt);
    const isOneAsked = [...repairs.values()].some((repair) => repair.asked);
    for (const repair of [...(isOneAsked ? [] : asked.slice(0, 1)), ...others, ...asked]) {
      if (repairs.size >= REPAIRS_AT_ONCE) return;
      if (isFree(repair.kind, repair.id)) startRepair(repair);
    }
  }

  function startRepair({ kind, id, attempts, asked }: Repair): void {
    const key = `${kind} ${id}`;
    const done = refetch({ kind, id, attempts, lane: 'live', syncRunId: null, absentFromList: false })
      .then((result) => {
        if (result.outcome === 'missing' && result.missing === 'pending') lookAgain(planOf(kind));
      }, options.onError)
      .finally(() => {
        repairs.delete(key);
        wake();
      });
    repairs.set(key, { asked, done });
  }

  function scanForEvents(kind: Kind): void {
    const { running, dirtyNotBefore, retryAt } = planOf(kind);
    const isEarly = clock.steady() < Math.max(dirtyNotBefore, retryAt ?? 0);
    if (running === null && !isEarly) startSyncRun(kind, 'events');
  }

  /**
   * Deletes proven absences: those that an event announced or a person approved at once, other assessments once none waits for its
   * proof. Other vendors only a full sync deletes, since a service may list what it does not show at its own address.
   */
  async function judgeProofs(kind: FetchedKind): Promise<void> {
    const { awaiting, proven } = await store.countProofs(kind);
    if (proven === 0) return;
    const needsList = kind === 'vendor';
    const isEarly = needsList || awaiting > 0 || planOf(kind).running !== null;
    const unannounced = isEarly ? [] : null;
    const context = { cause: causeOf(null), unannounced, guardPercent, timing };
    const concluded = await store.concludeDeletions(kind, null, context, now());
    if (concluded.pending.length > 0) lookAgain(planOf(kind));
    options.onConcluded(kind, concluded, context.cause);
    if (needsList && (await store.countProofs(kind)).proven > 0) scanForEvents(kind);
  }

  /** Asks the API now and then while there is nothing to read, so that an outage is noticed. */
  async function lookIfDue(): Promise<void> {
    if (!upstream.isLookDue(lookEveryMs(options.requestsPerMinute))) return;
    const refused = await upstream.look();
    if (refused === null) return;
    // The kind's full sync is tried again until the API accepts it.
    planOf(refused).reasons.add('problem');
    wake();
  }

  // ─── the planner ──────────────────────────────────────────────────────────────────────────────────────

  /** When the next record is due; infinity: no record, or the database fails. */
  async function nextDue(): Promise<number> {
    try {
      const dues = await Promise.all(KINDS.map((kind) => store.nextDueAt(kind)));
      return Math.min(...dues.map((due) => due ?? Number.POSITIVE_INFINITY));
    } catch (error) {
      options.onError(error);
      return Number.POSITIVE_INFINITY;
    }
  }

  async function rest(): Promise<void> {
    await clock.sleep(SHORTEST_NAP_MS, signal);
    if (woken || signal.aborted) return;
    const next = (await nextDue()) - clock.steady();
    if (woken) return;
    // A record that is already due waits for a request to end, and that wakes the planner.
    const ms = next > 0 ? Math.min(LONGEST_NAP_MS, next) : LONGEST_NAP_MS / 4;
    await nap.sleep(ms, signal);
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
        try {
          // The settings may have changed.
          if (!isBegun) await unknownRecords.retryAll();
          isBegun = true;
          if (!paused) {
            await planSyncRuns();
            const due: Repair[] = [];
            for (const kind of KINDS) {
              due.push(...(await planRepairs(kind)));
              if (kind !== 'policy') await judgeProofs(kind);
            }
            startRepairs(due);
            looking ??= lookIfDue()
              .catch(options.onError)
              .finally(() => {
                looking = null;
              });
          }
        } catch (error) {
          options.onError(error);
          if (error instanceof StoreUnavailable) await clock.sleep(STORE_PAUSE_MS, signal);
        }
        await rest();
      }
      await Promise.all([
        ...[...repairs.values()].map((repair) => repair.done),
        looking,
        ...[...plans.values()].map((plan) => plan.running),
      ]);
    },
  };
}

/** Requests for a list scan over `total` records: its pages, and the empty one at the end. */
function scanCost(total: number, pageSize: number): number {
  return Math.ceil(total / pageSize) + 1;
}

/** In a burst, due records wait this long, in SETTLEs, so that one list scan verifies all. */
const BURST_PATIENCE_SETTLES = 0.5;

/**
 * How to verify the due records of a kind: `scan` reads the whole list, `refetch` each record by itself. Policies have no address
 * of their own, and assessments no list. `wait`: a list scan will be cheaper, but now it would miss records that are due soon.
 */
export function wayToVerify(
  kind: Kind,
  due: { now: number; withinSettle: number; longestMs: number },
  list: { total: number; pageSize: number; readable: boolean },
  settleMs: number,
): 'none' | 'scan' | 'refetch' | 'wait' {
  if (due.now === 0) return 'none';
  if (kind === 'policy') return 'scan';
  if (kind === 'risk_assessment' || !list.readable) return 'refetch';
  const cost = scanCost(list.total, list.pageSize);
  const more = due.withinSettle > cost && due.withinSettle > due.now;
  if (more && due.longestMs < settleMs * BURST_PATIENCE_SETTLES) return 'wait';
  return due.now > cost ? 'scan' : 'refetch';
}
