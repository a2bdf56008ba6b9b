import type { Lane } from '../compliance/budget.ts';
import { type FetchedKind, KINDS, type Kind, type ListedKind } from '../compliance/kinds.ts';
import { isAddressable } from '../compliance/pointers.ts';
import { backoffMs, momentOf } from '../platform/clock.ts';
import { describeError, listed, StoreUnavailable } from '../platform/errors.ts';
import type { SyncRunOutcome, SyncRunProgress } from '../store/store.ts';
import type { Context } from './context.ts';
import {
  type Conclude,
  type ConclusionRequest,
  createDifferences,
  type Differences,
  type DifferencesReport,
} from './differences.ts';
import { createListScan, type ListScan, scanWhole } from './list-scan.ts';
import { type Pace, paceOf, READ_BACKOFF } from './plan.ts';
import type { Refetch } from './refetch.ts';
import type { Upstream } from './upstream.ts';

/** Without a total, only one more list scan shows that the list did not move. */
const PAIRS_WITHOUT_TOTAL = 2;

/** So many pairs of list scans may disagree; then a gap tells a person. */
const PROOF_TRIES = 5;

/** Records read at the same time by one full sync. The real limit is the request budget. */
const READS_AT_ONCE = 4;

/** Tries for a record whose read fails, within one full sync. */
const TRIES_PER_RECORD = 4;

/** Ids taken from the database at a time. */
const CYCLE_BATCH = 100;

/** A long full sync reports its progress this often. */
const PROGRESS_EVERY_MS = 10_000;

/** What a running full sync shows of itself. */
export interface RunningSyncRun extends SyncRunProgress, Pace {
  id: number;
  kind: Kind;
  reason: string;
  startedWall: number;
  estimatedTotal: number | null;
}

interface Ending {
  outcome: SyncRunOutcome;
  error: string | null;
  /** The service's own total contradicts its list. */
  mismatch?: boolean;
  /** It went on where an interrupted one had stopped, and came to the end: its rows are fresh, a whole one is still needed. */
  resumed?: boolean;
}

export interface FullSyncResult extends Ending {
  kind: Kind;
  id: number;
  reason: string;
  progress: SyncRunProgress;
  differences: DifferencesReport;
  durationMs: number;
}

/** A full sync under way. */
interface Running {
  /** Counts are kept in it. */
  shown: Omit<RunningSyncRun, keyof Pace>;
  lane: Lane;
  /** Pages left out, since an interrupted full sync has read them. */
  skip: number;
  startedAt: number;
  saidAt: number;
  /** The counter as it began. */
  number: number;
  /** Events wait whose record is not known. */
  hasUnnamed: boolean;
  differences: Differences;
  /** Live in the mirror, not in the list, and answered at their own address: the list is incomplete, whatever its total. */
  unlisted: string[];
}

const COMPLETE: Ending = { outcome: 'complete', error: null };
const incomplete = (error: string | null, more: Pick<Ending, 'mismatch' | 'resumed'> = {}): Ending => ({
  outcome: 'incomplete',
  error,
  ...more,
});

/** `settled`: nothing more can be learned about it now. */
type ReadOutcome = 'shown' | 'missing' | 'settled' | 'failed';

type ScanOnce = (seenBefore: ReadonlySet<string>) => Promise<ListScan>;

export function createFullSyncer(
  options: Context & {
    upstream: Upstream;
    refetch: Refetch;
    conclude: Conclude;
    /** Ids that the full sync reads itself; nobody else reads them meanwhile. */
    reserved: Set<string>;
    onProgress: (fullSync: RunningSyncRun) => void;
    onFullSync: (result: FullSyncResult) => void;
  },
) {
  const { store, upstream, clock, timing, gaps, signal } = options;
  const scanList = createListScan(options);
  const running = new Map<Kind, Running>();
  /** What the last complete list scan of each kind said it holds. */
  const totals = new Map<Kind, number>();

  /**
   * Brings a whole kind into sync, leaving out the first `skip` pages. Resolves with how it went; rejects only when
   * the store fails.
   */
  async function fullSync(kind: Kind, reason: string, skip: number): Promise<FullSyncResult> {
    const startedAt = clock.steady();
    const { id, ...begun } = await store.startSyncRun(kind, reason, momentOf(clock));
    const counts = { pages: skip, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };
    // A scan for what events have reported does not wait behind other scans.
    const lane = reason === 'events' ? 'live' : 'scan';
    const estimatedTotal = totals.get(kind) ?? null;
    const run: Running = {
      shown: { id, kind, reason, startedWall: clock.wall(), estimatedTotal, ...counts },
      ...begun,
      lane,
      skip,
      startedAt,
      saidAt: startedAt,
      differences: createDifferences(),
      unlisted: [],
    };
    running.set(kind, run);
    let ending: Ending;
    try {
      ending = kind === 'risk_assessment' ? await cycle(run) : await readList(kind, run);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      ending = signal.aborted
        ? { outcome: 'interrupted', error: null }
        : { outcome: 'failed', error: describeError(error) };
    } finally {
      running.delete(kind);
    }
    const progress = run.shown;
    const differences = run.differences.report();
    const hasDifferences = differences.missing + differences.extra + differences.different > 0;
    await store.finishSyncRun(
      id,
      { ...ending, progress, differences: { ...differences }, hasDifferences },
      momentOf(clock),
    );
    const durationMs = clock.steady() - startedAt;
    const result = { kind, id, reason, progress, differences, durationMs, ...ending };
    options.onFullSync(result);
    return result;
  }

  async function readList(kind: ListedKind, run: Running): Promise<Ending> {
    const lacking = new Set<string>();
    const scanOnce: ScanOnce = (seenBefore) =>
      scanList({
        seenBefore,
        kind,
        syncRunId: run.shown.id,
        lane: run.lane,
        progress: run.shown,
        skip: seenBefore.size === 0 ? run.skip : 0,
        onPage: (applied, total) => {
          run.differences.read(applied);
          // One that differs besides is due anyway: it is read at its own address once that is sure to show the same.
          for (const { id, lacks, outcome } of applied)
            if (lacks && (outcome === 'unchanged' || outcome === 'refused')) lacking.add(id);
          run.shown.estimatedTotal = total ?? run.shown.estimatedTotal;
          say(run);
        },
      });
    const first = await scanWhole(scanOnce, { hasUnnamed: run.hasUnnamed, settledAfter });
    if (!first.complete) {
      const { error, mismatch, ended } = first;
      return incomplete(error, { mismatch, resumed: run.skip > 0 && ended });
    }
    totals.set(kind, first.total ?? first.ids.size);
    if (kind === 'vendor') {
      await askAgain(kind, run);
      // What the list leaves out of these, only their own addresses show.
      const { failed } = await readEach(kind, run, [...lacking]);
      if (failed > 0) {
        return incomplete(
          `the list leaves out fields of ${lacking.size}, of which ${failed} could not be read by themselves`,
        );
      }
    }

    const absent = await store.unseenBy(kind, run.shown.id, run.number);
    if (absent.length === 0) {
      await gaps.resolve({ reason: 'deletions_unproven', kind, recordId: null });
      return COMPLETE;
    }
    if (kind === 'policy') return await proveByLists(kind, run, absent, first, scanOnce);
    const { failed } = await proveByReading(kind, run, absent, true);
    if (run.unlisted.length > 0) {
      const error = `the list leaves out what the mirror holds and still answers: ${listed(run.unlisted)}`;
      return incomplete(error, { mismatch: first.total !== null });
    }
    if (failed === 0) return COMPLETE;
    // Whether they are gone is not known.
    return incomplete(
      `the list leaves out ${absent.length}, of which ${failed} could not be read by themselves`,
    );
  }

  /** Until a list scan no longer gets pages as old as those of this one. */
  async function settledAfter({ endedAt }: ListScan): Promise<void> {
    await clock.sleep(Math.max(0, endedAt + timing.settleMs - clock.steady()), signal);
    signal.throwIfAborted();
  }

  /** Only their list shows policies: one that is in neither of two complete list scans which agree is gone. */
  async function proveByLists(
    kind: 'policy',
    run: Running,
    absent: readonly string[],
    earlier: ListScan,
    scanOnce: ScanOnce,
  ): Promise<Ending> {
    const gap = { reason: 'deletions_unproven', kind, recordId: null } as const;
    let first = earlier;
    // The earliest of the list scans that agree so far, and how many in a row agreed with it.
    let base = first;
    let agreeing = 0;
    for (let tries = 1; tries <= PROOF_TRIES; tries += 1) {
      // The first list scan may have been too early to show a record; the second is not.
      await settledAfter(first);
      const second = await scanOnce(first.ids);
      if (!second.complete) return incomplete(second.error);
      const touched = await store.touchedSince(kind, base.number);
      // A list that moves while it is read skips records, by bad luck the same ones twice.
      const agrees = first.steady && second.steady && sameBut(touched, base.ids, second.ids);
      agreeing = agrees ? agreeing + 1 : 0;
      if (agreeing >= (second.total === null ? PAIRS_WITHOUT_TOTAL : 1)) {
        // A record that any of the scans has shown is marked as seen by this full sync.
        const gone = await store.unseenBy(kind, run.shown.id, base.number);
        await conclude(kind, run, { absent: gone, number: base.number });
        await gaps.resolve(gap);
        return COMPLETE;
      }
      if (!agrees) base = second;
      first = second;
    }
    await gaps.open(gap, `${PROOF_TRIES} pairs of list scans disagreed; absent from them: ${listed(absent)}`);
    return incomplete('the list changes too fast to prove what is gone');
  }

  /** Every known assessment, one by one: there is no list of them. */
  async function cycle(run: Running): Promise<Ending> {
    const kind = 'risk_assessment';
    const { shown } = run;
    shown.estimatedTotal = await store.countKnown(kind);
    await upstream.probe(kind, run.lane, shown.estimatedTotal);
    const missing: string[] = [];
    let failed = 0;
    for (;;) {
      const ids = await store.cycleRecords(kind, shown.id, CYCLE_BATCH);
      if (ids.length === 0) break;
      const read = await readEach(kind, run, ids, false, async (id, outcome) => {
        await store.markSynced(kind, id, shown.id);
        if (outcome !== 'failed') shown.seen += 1;
      });
      missing.push(...read.missing);
      failed += read.failed;
      await store.progressSyncRun(shown.id, shown);
      say(run);
    }
    if (missing.length > 0) failed += (await proveByReading(kind, run, missing, false)).failed;
    if (failed === 0) return COMPLETE;
    return incomplete(`${failed} of ${shown.estimatedTotal} could not be read`);
  }

  /**
   * Reads what seems gone until it is shown or proven gone. All are judged together at the end, because many deletions at once
   * wait for a person. Resolves with how many could not be read.
   */
  async function proveByReading(
    kind: FetchedKind,
    run: Running,
    ids: readonly string[],
    absentFromList: boolean,
  ): Promise<{ failed: number }> {
    let failed = 0;
    await reserving(kind, ids, async () => {
      let open = ids;
      for (let round = 0; round < 2 && open.length > 0; round += 1) {
        if (round > 0 || !absentFromList) {
          await clock.sleep(timing.settleMs + 1, signal);
          signal.throwIfAborted();
        }
        const read = await readEach(kind, run, open, absentFromList);
        open = read.missing;
        failed += read.failed;
      }
    });
    await conclude(kind, run, null);
    return { failed };
  }

  /**
   * Asks again for vendors whose own addresses were answered with something unusable. The list shows them like all others, so
   * nothing else would ask. The first that fails ends it; next time it comes after the others.
   */
  async function askAgain(kind: 'vendor', run: Running): Promise<void> {
    for (const id of await store.unreadableRecords(kind, CYCLE_BATCH)) {
      signal.throwIfAborted();
      const { outcome } = await reserving(kind, [id], () => refetch(kind, run, id, false, 0));
      if (outcome === 'failed') return;
    }
  }

  async function reserving<T>(kind: Kind, ids: readonly string[], work: () => Promise<T>): Promise<T> {
    const keys = ids.map((id) => `${kind} ${id}`);
    for (const key of keys) options.reserved.add(key);
    try {
      return await work();
    } finally {
      for (const key of keys) options.reserved.delete(key);
    }
  }

  const refetch = (kind: FetchedKind, run: Running, id: string, absentFromList: boolean, attempts: number) =>
    options.refetch({ kind, id, attempts, lane: run.lane, syncRunId: run.shown.id, absentFromList });

  /** Reads each of these, a few at a time. Returns which seem gone so far, and how many could not be read. */
  async function readEach(
    kind: FetchedKind,
    run: Running,
    ids: readonly string[],
    absentFromList = false,
    onRead?: (id: string, outcome: ReadOutcome) => Promise<void>,
  ): Promise<{ missing: string[]; failed: number }> {
    const missing: string[] = [];
    let failed = 0;
    const rest = ids.values();
    const lines = await Promise.allSettled(
      Array.from({ length: READS_AT_ONCE }, async () => {
        for (const id of rest) {
          signal.throwIfAborted();
          const outcome = await readOne(kind, run, id, absentFromList);
          await onRead?.(id, outcome);
          if (outcome === 'missing') missing.push(id);
          if (outcome === 'failed') failed += 1;
        }
      }),
    );
    // All have ended before the first failure is thrown.
    for (const line of lines) if (line.status === 'rejected') throw line.reason;
    return { missing, failed };
  }

  async function readOne(
    kind: FetchedKind,
    run: Running,
    id: string,
    absentFromList: boolean,
  ): Promise<ReadOutcome> {
    for (let tries = 1; ; tries += 1) {
      const result = await refetch(kind, run, id, absentFromList, tries - 1);
      if (result.outcome === 'applied') {
        const { outcome, witness, announced } = result.applied;
        if (outcome === 'inserted' || outcome === 'unchanged') run.shown[outcome] += 1;
        else if (outcome === 'updated' || outcome === 'revived') run.shown.updated += 1;
        run.differences.read([result.applied]);
        if (absentFromList && witness && !announced) run.unlisted.push(id);
        return 'shown';
      }
      if (result.outcome === 'missing') {
        if (result.missing === 'pending') {
          run.differences.found({ id, what: 'extra', fields: [], repaired: false });
        }
        return result.missing === 'first' ? 'missing' : 'settled';
      }
      if (!isAddressable(id)) return 'settled';
      if (tries >= TRIES_PER_RECORD) return 'failed';
      await clock.sleep(backoffMs(READ_BACKOFF, tries, options.random()), signal);
      signal.throwIfAborted();
    }
  }

  async function conclude(kind: Kind, run: Running, proof: ConclusionRequest['proof']): Promise<void> {
    const conclusion = await options.conclude(kind, { proof, syncRunId: run.shown.id, onlyAnnounced: false });
    run.shown.deleted += conclusion.deleted.length;
    run.differences.concluded(conclusion);
  }

  function say(run: Running): void {
    if (clock.steady() - run.saidAt < PROGRESS_EVERY_MS) return;
    run.saidAt = clock.steady();
    options.onProgress(withPace(run));
  }

  const withPace = ({ shown, skip, startedAt }: Running): RunningSyncRun => ({
    ...shown,
    ...paceOf({ ...shown, skipped: skip, elapsedMs: clock.steady() - startedAt }),
  });

  return {
    fullSync,
    /** In the order of `KINDS`. */
    running: (): RunningSyncRun[] => KINDS.flatMap((kind) => running.get(kind) ?? []).map(withPace),
    /** What the last complete list scan of the kind said it holds. */
    total: (kind: Kind): number | null => totals.get(kind) ?? null,
  };
}

function sameBut(ignored: ReadonlySet<string>, one: ReadonlySet<string>, two: ReadonlySet<string>): boolean {
  const covers = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
    [...a].every((id) => b.has(id) || ignored.has(id));
  return covers(one, two) && covers(two, one);
}
