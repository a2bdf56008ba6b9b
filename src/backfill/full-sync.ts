import type { Lane } from '../compliance/budget.ts';
import { type FetchedKind, KINDS, type Kind, type ListedKind } from '../compliance/kinds.ts';
import { isAddressable } from '../compliance/pointers.ts';
import { backoffMs } from '../platform/clock.ts';
import { describeError, StoreUnavailable } from '../platform/errors.ts';
import type { SyncRunOutcome, SyncRunProgress } from '../store/store.ts';
import type { Context } from './context.ts';
import { createDifferences, type Differences, type DifferencesReport } from './differences.ts';
import { type Conclude, type ConclusionRequest, listed } from './gaps.ts';
import { createListScan, type ListScan, scanWhole } from './list-scan.ts';
import { type Pace, paceOf, READ_BACKOFF } from './plan.ts';
import type { Refetch } from './refetch.ts';
import type { Upstream } from './upstream.ts';

/** Without a total, nothing but one more list scan tells that a list did not move. */
const PAIRS_WITHOUT_TOTAL = 2;

/** Pairs of list scans that disagree are read again this often; then somebody should know. */
const PROOF_TRIES = 5;

/** Records read at the same time by one full sync; the request budget is what really bounds it. */
const READS_AT_ONCE = 4;

/** A record whose read fails is tried this often within one full sync. */
const TRIES_PER_RECORD = 4;

/** Ids taken from the database at a time. */
const CYCLE_BATCH = 100;

/** A full sync that takes longer than this says now and then how far it is. */
const PROGRESS_EVERY_MS = 10_000;

/** What a running full sync shows of itself. */
export interface RunningSyncRun extends SyncRunProgress, Pace {
  id: number;
  kind: Kind;
  reason: string;
  startedWall: number;
  estimatedTotal: number | null;
}

export interface FullSyncResult {
  kind: Kind;
  id: number;
  reason: string;
  outcome: SyncRunOutcome;
  error: string | null;
  progress: SyncRunProgress;
  differences: DifferencesReport;
  /**
   * It went on where an interrupted one had stopped, and came to the end: its rows are fresh, and a whole one is still
   * to come.
   */
  resumed: boolean;
  /** The service's own total contradicts its list. */
  mismatch: boolean;
  durationMs: number;
}

interface FullSyncerOptions extends Context {
  upstream: Upstream;
  refetch: Refetch;
  conclude: Conclude;
  /** Ids that the full sync reads itself, so that nobody else does at the same time. */
  reserved: Set<string>;
  onProgress: (fullSync: RunningSyncRun) => void;
  onFullSync: (result: FullSyncResult) => void;
}

export interface FullSyncer {
  /**
   * Brings a whole kind into sync, leaving out the first `skip` pages. Resolves with how it went; rejects only when
   * the store fails.
   */
  fullSync(kind: Kind, reason: string, lane: Lane, skip: number): Promise<FullSyncResult>;
  running(): RunningSyncRun[];
  /** What the last complete list scan of the kind said it holds. */
  total(kind: Kind): number | null;
}

export function createFullSyncer(options: FullSyncerOptions): FullSyncer {
  const { store, upstream, clock, timing, gaps, signal } = options;
  const scanList = createListScan(options);
  const running = new Map<Kind, Running>();
  const totals = new Map<Kind, number>();
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });

  interface Ending {
    outcome: SyncRunOutcome;
    error: string | null;
    mismatch?: boolean;
    resumed?: boolean;
  }

  interface Running extends Omit<RunningSyncRun, keyof Pace> {
    lane: Lane;
    startedAt: number;
    differences: Differences;
    number: number;
    hasUnnamed: boolean;
    skip: number;
    saidAt: number;
    /** Live in the mirror, not in the list, and answered at their own address: the list is incomplete, whatever its total. */
    unlisted: string[];
  }

  async function fullSync(kind: Kind, reason: string, lane: Lane, skip: number): Promise<FullSyncResult> {
    const startedAt = clock.steady();
    const { id, number, hasUnnamed } = await store.startSyncRun(kind, reason, now());
    const progress: Running = {
      ...{ id, kind, reason, startedWall: clock.wall(), estimatedTotal: totals.get(kind) ?? null },
      ...{ pages: skip, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 },
      ...{
        lane,
        startedAt,
        differences: createDifferences(),
        number,
        hasUnnamed,
        skip,
        saidAt: startedAt,
        unlisted: [],
      },
    };
    running.set(kind, progress);
    let ending: Ending;
    try {
      ending = kind === 'risk_assessment' ? await cycle(progress) : await readList(kind, progress);
    } catch (error) {
      running.delete(kind);
      if (error instanceof StoreUnavailable) throw error;
      ending = signal.aborted
        ? { outcome: 'interrupted', error: null }
        : { outcome: 'failed', error: describeError(error) };
    }
    running.delete(kind);
    const differences = progress.differences.report();
    const hasDifferences = differences.missing + differences.extra + differences.different > 0;
    await store.finishSyncRun(
      id,
      { ...ending, progress, differences: { ...differences }, hasDifferences },
      now(),
    );
    const result: FullSyncResult = {
      ...{ kind, id, reason, progress, differences, resumed: false, mismatch: false, ...ending },
      durationMs: clock.steady() - startedAt,
    };
    options.onFullSync(result);
    return result;
  }

  async function readList(kind: ListedKind, fullSync: Running): Promise<Ending> {
    const lacking = new Set<string>();
    const scanOnce = (seenBefore: ReadonlySet<string>) =>
      scanList({
        seenBefore,
        kind,
        syncRunId: fullSync.id,
        lane: fullSync.lane,
        progress: fullSync,
        skip: seenBefore.size === 0 ? fullSync.skip : 0,
        onPage: (applied, total) => {
          fullSync.differences.read(applied);
          // One that differs besides is due anyway, once its own address is sure to show the same.
          for (const { id, lacks, outcome } of applied)
            if (lacks && (outcome === 'unchanged' || outcome === 'refused')) lacking.add(id);
          fullSync.estimatedTotal = total ?? fullSync.estimatedTotal;
          say(fullSync);
        },
      });
    const first = await scanWhole(scanOnce, fullSync.hasUnnamed);
    if (!first.complete) {
      const { error, mismatch, ended } = first;
      return { outcome: 'incomplete', error, mismatch, resumed: fullSync.skip > 0 && ended };
    }
    totals.set(kind, first.total ?? first.ids.size);
    if (kind === 'vendor') {
      await askAgain(kind, fullSync);
      const failed = await readWhole(kind, fullSync, lacking);
      if (failed > 0) {
        const error = `the list leaves out fields of ${lacking.size}, of which ${failed} could not be read by themselves`;
        return { outcome: 'incomplete', error };
      }
    }

    const absent = await store.unseenBy(kind, fullSync.id, fullSync.number);
    if (absent.length === 0) {
      await gaps.resolve({ reason: 'deletions_unproven', kind, recordId: null });
      return { outcome: 'complete', error: null };
    }
    if (kind === 'vendor') {
      await proveByReading(kind, fullSync, absent, true);
      if (fullSync.unlisted.length === 0) return { outcome: 'complete', error: null };
      const error = `the list leaves out what the mirror holds and still answers: ${listed(fullSync.unlisted)}`;
      return { outcome: 'incomplete', error, mismatch: first.total !== null };
    }

    return await proveByLists(kind, fullSync, absent, first, scanOnce);
  }

  /** For the kind that only its list shows: a record that is in neither of two complete list scans that agree is gone. */
  async function proveByLists(
    kind: 'policy',
    fullSync: Running,
    absent: readonly string[],
    earlier: ListScan,
    scanOnce: (seenBefore: ReadonlySet<string>) => Promise<ListScan>,
  ): Promise<Ending> {
    let first = earlier;
    // The list scans that agree so far, without a break: the earliest of them, and how many followed it.
    let base = first;
    let agreeing = 0;
    for (let tries = 1; tries <= PROOF_TRIES; tries += 1) {
      // The second list scan shows what the first may have been too early to show.
      await clock.sleep(Math.max(0, first.endedAt + timing.settleMs - clock.steady()), signal);
      signal.throwIfAborted();
      const second = await scanOnce(first.ids);
      if (!second.complete) return { outcome: 'incomplete', error: second.error };
      const touched = await store.touchedSince(kind, base.number);
      // A list that moves while it is read skips records, the same ones twice with some bad luck.
      const agrees = first.steady && second.steady && sameBut(touched, base.ids, second.ids);
      agreeing = agrees ? agreeing + 1 : 0;
      if (agreeing >= (second.total === null ? PAIRS_WITHOUT_TOTAL : 1)) {
        // What any of the list scans has shown is marked as seen by this full sync.
        const gone = await store.unseenBy(kind, fullSync.id, base.number);
        await conclude(kind, fullSync, { absent: gone, number: base.number });
        await gaps.resolve({ reason: 'deletions_unproven', kind, recordId: null });
        return { outcome: 'complete', error: null };
      }
      if (!agrees) base = second;
      first = second;
    }
    await gaps.open(
      { reason: 'deletions_unproven', kind, recordId: null },
      `${PROOF_TRIES} pairs of list scans disagreed; absent from them: ${listed(absent)}`,
    );
    return { outcome: 'incomplete', error: 'the list changes too fast to prove what is gone' };
  }

  /** Every known assessment, one by one: there is no list of them. */
  async function cycle(fullSync: Running): Promise<Ending> {
    const kind = 'risk_assessment';
    fullSync.estimatedTotal = await store.countKnown(kind);
    await upstream.probe(kind, fullSync.lane, fullSync.estimatedTotal);
    const missing: string[] = [];
    let failed = 0;
    for (;;) {
      const ids = await store.cycleRecords(kind, fullSync.id, CYCLE_BATCH);
      if (ids.length === 0) break;
      await inParallel(ids, async (id) => {
        signal.throwIfAborted();
        const outcome = await readFor(kind, fullSync, id, false);
        await store.markSynced(kind, id, fullSync.id);
        if (outcome === 'missing') missing.push(id);
        if (outcome === 'failed') failed += 1;
        else fullSync.seen += 1;
      });
      await store.progressSyncRun(fullSync.id, fullSync);
      say(fullSync);
    }
    if (missing.length > 0) await proveByReading(kind, fullSync, missing, false);
    if (failed === 0) return { outcome: 'complete', error: null };
    return { outcome: 'incomplete', error: `${failed} of ${fullSync.estimatedTotal} could not be read` };
  }

  /**
   * Reads what seems gone until it shows itself or is proven gone. They are judged together at the end, so that
   * many at once are seen to be many.
   */
  async function proveByReading(
    kind: FetchedKind,
    fullSync: Running,
    ids: readonly string[],
    absentFromList: boolean,
  ): Promise<void> {
    const keys = ids.map((id) => `${kind} ${id}`);
    for (const key of keys) options.reserved.add(key);
    try {
      let open = [...ids];
      for (let round = 0; round < 2 && open.length > 0; round += 1) {
        if (round > 0 || !absentFromList) {
          await clock.sleep(timing.settleMs + 1, signal);
          signal.throwIfAborted();
        }
        const again: string[] = [];
        await inParallel(open, async (id) => {
          signal.throwIfAborted();
          if ((await readFor(kind, fullSync, id, absentFromList)) === 'missing') again.push(id);
        });
        open = again;
      }
    } finally {
      for (const key of keys) options.reserved.delete(key);
    }
    await conclude(kind, fullSync, null);
  }

  /**
   * The list shows these as it shows all others, so that nothing else would have them asked for: whether their own addresses
   * can be read again is found out here. One that cannot is enough to tell, and has its turn again after the others.
   */
  async function askAgain(kind: 'vendor', fullSync: Running): Promise<void> {
    for (const id of await store.unreadableRecords(kind, CYCLE_BATCH)) {
      signal.throwIfAborted();
      const key = `${kind} ${id}`;
      options.reserved.add(key);
      try {
        const { outcome } = await options.refetch({
          ...{ kind, id, absentFromList: false, attempts: 0 },
          ...{ lane: fullSync.lane, cause: `sync:${fullSync.id}`, syncRunId: fullSync.id },
        });
        if (outcome === 'failed') return;
      } finally {
        options.reserved.delete(key);
      }
    }
  }

  /** What the list leaves out of these, nothing but their own addresses shows. How many of those could not be read. */
  async function readWhole(kind: 'vendor', fullSync: Running, ids: ReadonlySet<string>): Promise<number> {
    let failed = 0;
    await inParallel([...ids], async (id) => {
      signal.throwIfAborted();
      if ((await readFor(kind, fullSync, id, false)) === 'failed') failed += 1;
    });
    return failed;
  }

  async function conclude(kind: Kind, fullSync: Running, proof: ConclusionRequest['proof']): Promise<void> {
    const cause = `sync:${fullSync.id}`;
    const conclusion = await options.conclude(kind, {
      proof,
      cause,
      syncRunId: fullSync.id,
      onlyAnnounced: false,
    });
    fullSync.deleted += conclusion.deleted.length;
    fullSync.differences.concluded(conclusion);
  }

  function say(fullSync: Running): void {
    if (clock.steady() - fullSync.saidAt < PROGRESS_EVERY_MS) return;
    fullSync.saidAt = clock.steady();
    options.onProgress(shown(fullSync));
  }

  function shown(fullSync: Running): RunningSyncRun {
    const {
      id,
      kind,
      reason,
      startedWall,
      estimatedTotal,
      pages,
      seen,
      inserted,
      updated,
      deleted,
      unchanged,
    } = fullSync;
    const elapsedMs = clock.steady() - fullSync.startedAt;
    return {
      ...{ id, kind, reason, startedWall, estimatedTotal },
      ...{ pages, seen, inserted, updated, deleted, unchanged },
      ...paceOf({ seen, pages, skipped: fullSync.skip, estimatedTotal, elapsedMs }),
    };
  }

  async function readFor(
    kind: FetchedKind,
    fullSync: Running,
    id: string,
    absentFromList: boolean,
  ): Promise<'shown' | 'missing' | 'settled' | 'failed'> {
    for (let tries = 1; ; tries += 1) {
      const result = await options.refetch({
        ...{ kind, id, absentFromList, attempts: tries - 1 },
        ...{ lane: fullSync.lane, cause: `sync:${fullSync.id}`, syncRunId: fullSync.id },
      });
      if (result.outcome === 'applied') {
        tally(fullSync, result.applied.outcome);
        fullSync.differences.read([result.applied]);
        if (absentFromList && result.applied.witness && !result.applied.announced) fullSync.unlisted.push(id);
        return 'shown';
      }
      if (result.outcome === 'missing') {
        if (result.missing === 'pending') {
          fullSync.differences.found({ id, what: 'extra', fields: [], repaired: false });
        }
        return result.missing === 'first' ? 'missing' : 'settled';
      }
      if (!isAddressable(id)) return 'settled';
      if (tries >= TRIES_PER_RECORD) return 'failed';
      await clock.sleep(backoffMs(READ_BACKOFF, tries, options.random()), signal);
      signal.throwIfAborted();
    }
  }

  async function inParallel(ids: readonly string[], work: (id: string) => Promise<void>): Promise<void> {
    const rest = ids.values();
    const lines = await Promise.allSettled(
      Array.from({ length: READS_AT_ONCE }, async () => {
        for (const id of rest) await work(id);
      }),
    );
    // None is left running behind the one that failed.
    for (const line of lines) if (line.status === 'rejected') throw line.reason;
  }

  return {
    fullSync,
    running: () =>
      KINDS.flatMap((kind) => {
        const fullSync = running.get(kind);
        return fullSync === undefined ? [] : [shown(fullSync)];
      }),
    total: (kind) => totals.get(kind) ?? null,
  };
}

function tally(fullSync: SyncRunProgress, outcome: string): void {
  if (outcome === 'inserted') fullSync.inserted += 1;
  else if (outcome === 'updated' || outcome === 'revived') fullSync.updated += 1;
  else if (outcome === 'unchanged') fullSync.unchanged += 1;
}

function sameBut(ignored: ReadonlySet<string>, one: ReadonlySet<string>, two: ReadonlySet<string>): boolean {
  const covers = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
    [...a].every((id) => b.has(id) || ignored.has(id));
  return covers(one, two) && covers(two, one);
}
