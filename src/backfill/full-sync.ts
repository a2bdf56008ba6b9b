import type { Lane } from '../compliance/budget.ts';
import { type FetchedKind, KINDS, type Kind, type ListedKind } from '../compliance/kinds.ts';
import { isAddressable } from '../compliance/pointers.ts';
import { momentOf } from '../platform/clock.ts';
import { describeError, listed, StoreUnavailable } from '../platform/errors.ts';
import type { Cause, Conclusion, SyncRunOutcome, SyncRunProgress } from '../store/store.ts';
import { agedText, type Context, causeOf, READ_TRIES } from './context.ts';
import { createDifferences, type Differences, type DifferencesReport } from './differences.ts';
import { createListScanner } from './list.ts';
import type { Refetch } from './refetch.ts';
import type { Upstream } from './upstream.ts';
import { type Lack, type ListScan, readWhole, type ScanOnce, scanAgain } from './whole-list.ts';

/** Records read at the same time. The real limit is the request budget. */
const READS_AT_ONCE = 4;

/** Ids taken from the database at a time. */
const IDS_AT_ONCE = 100;

/** A running full sync, as people see it. */
export interface RunningSyncRun extends SyncRunProgress {
  id: number;
  kind: Kind;
  reason: string;
  startedWall: number;
  estimatedTotal: number | null;
}

interface Ending {
  outcome: SyncRunOutcome;
  error: string | null;
  /** What the list does not show, of an incomplete one: a person can accept it, as long as it stays. */
  stays?: string;
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
  /** Its counts are updated while the full sync runs. */
  shown: RunningSyncRun;
  lane: Lane;
  /** The counter when it began. */
  number: number;
  /** Events wait for which no record is known. */
  hasUnnamed: boolean;
  differences: Differences;
  /** The age of the oldest page. Milliseconds. */
  agedMs: number;
  /** Records that the list leaves out although their own addresses show them: the list is incomplete, whatever its total. */
  unlisted: string[];
  /** Records whose own addresses gave no usable answer. */
  unread: Set<string>;
  /** Another full sync may end without these: some failed for a reason that is not their own, or have just been announced. */
  mayPass: boolean;
}

/** How records are read by their own addresses. */
interface Reading {
  kind: FetchedKind;
  run: Running;
  /** A complete list scan of this full sync has not shown them. */
  absentFromList: boolean;
}

const COMPLETE: Ending = { outcome: 'complete', error: null };
const incomplete = (lack: Lack): Ending => ({ outcome: 'incomplete', ...lack });

/** What a full sync ends with that could not read all records at their own addresses, or of which the list hides some. */
function lacking({ unlisted, unread, mayPass }: Running, among: string): Ending {
  if (unlisted.length + unread.size === 0) return COMPLETE;
  const hidden = `the list leaves out records that their own addresses still show: ${listed(unlisted)}`;
  const failed = [...unread].sort();
  const failing = `${failed.length} of ${among} could not be read at their own addresses: ${listed(failed)}`;
  const errors = [...(unlisted.length > 0 ? [hidden] : []), ...(failed.length > 0 ? [failing] : [])];
  const lack = { error: errors.join('; ') };
  // Each by itself: a record that is hidden now may be unreadable tomorrow.
  const stays = [...unlisted].sort().concat(failed.map((id) => `unread ${id}`));
  return incomplete(mayPass ? lack : { ...lack, stays: stays.join(' ') });
}

/** `settled`: the record is not shown, and nothing more can be learned about it now. */
type ReadOutcome = 'shown' | 'missing' | 'settled' | 'failed';

/** Who is told of full syncs and of deletions. */
export interface FullSyncWatch {
  onConcluded: (kind: Kind, conclusion: Conclusion, cause: Cause) => void;
  onFullSync: (result: FullSyncResult) => void;
}

export function createFullSyncer(
  options: Context & FullSyncWatch & { upstream: Upstream; refetch: Refetch },
) {
  const { store, upstream, clock, timing, signal, guardPercent } = options;
  const scan = createListScanner(options);
  const running = new Map<Kind, Running>();
  const reserved = new Map<Kind, Set<string>>(KINDS.map((kind) => [kind, new Set()]));
  /** How many records each kind's list holds, by the last complete list scan. */
  const totals = new Map<Kind, number>();

  /**
   * Brings a whole kind into sync. `listed`: the list, or what a person has named, holds all records that there are. Rejects only when the
   * store fails.
   */
  async function fullSync(kind: Kind, reason: string, listed: boolean) {
    const startedAt = clock.steady();
    const { id, ...begun } = await store.startSyncRun(kind, reason, momentOf(clock));
    const counts = { pages: 0, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 };
    // A full sync that verifies events does not wait behind other list scans.
    const lane = reason === 'events' ? 'live' : 'scan';
    const estimatedTotal = totals.get(kind) ?? null;
    const run: Running = {
      shown: { id, kind, reason, startedWall: clock.wall(), estimatedTotal, ...counts },
      ...begun,
      lane,
      differences: createDifferences(),
      agedMs: 0,
      unlisted: [],
      unread: new Set(),
      mayPass: false,
    };
    running.set(kind, run);
    let ending: Ending;
    try {
      ending = kind === 'risk_assessment' ? await readKnown(run) : await readList(kind, run);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      ending = signal.aborted
        ? { outcome: 'interrupted', error: null }
        : { outcome: 'failed', error: describeError(error) };
    } finally {
      running.delete(kind);
    }
    const { shown: progress, number, agedMs } = run;
    const differences = run.differences.report();
    const hasDifferences = differences.new + differences.deleted_upstream + differences.different > 0;
    const found = { progress, differences: { ...differences }, hasDifferences, number, agedMs };
    const isAged = agedMs > timing.settleMs;
    if (isAged) {
      const problem = { reason: 'unreadable_answer', kind, recordId: null } as const;
      await store.openProblem(problem, agedText(agedMs), momentOf(clock));
    }
    const outcome = await store.finishSyncRun(id, { ...ending, ...found, listed }, momentOf(clock));
    const result = { kind, id, reason, progress, differences, isAged, ...ending, outcome };
    options.onFullSync({ ...result, durationMs: clock.steady() - startedAt });
    return result;
  }

  async function readList(kind: ListedKind, run: Running): Promise<Ending> {
    const partial = new Set<string>();
    const scanOnce: ScanOnce = async (seenBefore) => {
      const list = await scan({
        seenBefore,
        kind,
        syncRunId: run.shown.id,
        lane: run.lane,
        progress: run.shown,
        onPage: (applied, total) => {
          run.differences.read(applied);
          // A living record that also differs has changed, and is looked at again after the read delay.
          for (const { id, lacks, outcome, witness } of applied)
            if (lacks && (outcome === 'unchanged' || outcome === 'refused' || !witness)) partial.add(id);
          run.shown.estimatedTotal = total ?? run.shown.estimatedTotal;
        },
      });
      run.agedMs = Math.max(run.agedMs, list.agedMs);
      run.number = Math.min(run.number, list.number);
      return list;
    };
    const first = await readWhole(scanOnce, { hasUnnamed: run.hasUnnamed, settledAfter });
    if (first.lack !== null) return incomplete(first.lack);
    totals.set(kind, first.total ?? first.ids.size);
    if (kind === 'vendor') {
      await refetchUnreadable(kind, run);
      const reading = { kind, run, absentFromList: false };
      await proveByReading(reading, await readEach(reading, [...partial]));
      if (run.unread.size > 0)
        return lacking(run, `${partial.size} records of which the list leaves out fields`);
    }

    const absent = await store.unseenBy(kind, run.shown.id, run.number);
    if (kind === 'policy') {
      return absent.length === 0 ? COMPLETE : await proveByLists(kind, run, absent, first, scanOnce);
    }
    await proveByReading({ kind, run, absentFromList: true }, absent);
    // Not those that seem gone only since the list has shown them: the next list decides.
    await conclude(kind, run, null, [...partial, ...absent]);
    return lacking(run, `${absent.length} records that the list leaves out`);
  }

  /** Waits until no page of a new scan can be as old as the pages of this one. */
  async function settledAfter({ endedAt }: ListScan): Promise<void> {
    await clock.sleep(Math.max(0, endedAt + timing.settleMs - clock.steady()), signal);
    signal.throwIfAborted();
  }

  /** Only their list shows policies. */
  async function proveByLists(
    kind: 'policy',
    run: Running,
    absent: readonly string[],
    first: ListScan,
    scanOnce: ScanOnce,
  ): Promise<Ending> {
    const touchedSince = (number: number) => store.touchedSince(kind, number);
    const { base, last } = await scanAgain(first, scanOnce, { ...timing, settledAfter, touchedSince });
    if (last.lack !== null) {
      const error = `${last.lack.error}; not in the list before: ${listed(absent)}`;
      return incomplete({ ...last.lack, error });
    }
    // Every record that one of the scans has shown counts as seen by this full sync.
    const gone = await store.unseenBy(kind, run.shown.id, base.number);
    await conclude(kind, run, { absent: gone, number: base.number, beganAt: last.beganAt });
    return COMPLETE;
  }

  /** Reads every known assessment by itself, because no list shows them. */
  async function readKnown(run: Running): Promise<Ending> {
    const kind = 'risk_assessment';
    const reading = { kind, run, absentFromList: false } as const;
    const { shown } = run;
    shown.estimatedTotal = await store.countKnown(kind);
    await upstream.probe(kind, run.lane, shown.estimatedTotal);
    const missing: string[] = [];
    for (;;) {
      const ids = await store.untriedRecords(kind, shown.id, IDS_AT_ONCE);
      if (ids.length === 0) break;
      const read = await readEach(reading, ids, async (id, outcome) => {
        await store.markSynced(kind, id, shown.id);
        if (outcome !== 'failed') shown.seen += 1;
      });
      missing.push(...read);
      await store.progressSyncRun(shown.id, shown);
    }
    if (missing.length > 0) {
      await proveByReading(reading, missing);
      await conclude(kind, run, null);
    }
    return lacking(run, `${shown.estimatedTotal} known records`);
  }

  /**
   * Reads records that seem gone until each is shown or proven gone. They are deleted together afterwards, because many
   * deletions at once wait for a person.
   */
  async function proveByReading(reading: Reading, ids: readonly string[]): Promise<void> {
    await reserving(reading.kind, ids, async () => {
      let open = ids;
      for (let round = 0; round < 2 && open.length > 0; round += 1) {
        if (round > 0 || !reading.absentFromList) {
          await clock.sleep(timing.settleMs + 1, signal);
          signal.throwIfAborted();
        }
        open = await readEach(reading, open);
      }
    });
  }

  /**
   * Refetches vendors whose own addresses gave an unusable answer. Nothing else would, because the list shows these vendors.
   * Stops at the first failure; the next time, that vendor comes last.
   */
  async function refetchUnreadable(kind: 'vendor', run: Running): Promise<void> {
    const reading = { kind, run, absentFromList: false };
    for (const id of await store.unreadableRecords(kind, IDS_AT_ONCE)) {
      signal.throwIfAborted();
      if ((await reserving(kind, [id], () => refetch(reading, id))).outcome === 'failed') return;
    }
  }

  async function reserving<T>(kind: Kind, ids: readonly string[], work: () => Promise<T>): Promise<T> {
    const ofKind = reserved.get(kind)!;
    for (const id of ids) ofKind.add(id);
    try {
      return await work();
    } finally {
      for (const id of ids) ofKind.delete(id);
    }
  }

  const refetch = ({ kind, run: { lane, shown }, absentFromList }: Reading, id: string) =>
    options.refetch({
      kind,
      id,
      attempts: 0,
      tries: READ_TRIES,
      lane,
      syncRunId: shown.id,
      absentFromList,
    });

  /** Reads these records, a few at a time. Resolves with the ids that seem gone so far. */
  async function readEach(
    reading: Reading,
    ids: readonly string[],
    onRead?: (id: string, outcome: ReadOutcome) => Promise<void>,
  ): Promise<string[]> {
    const missing: string[] = [];
    const rest = ids.values();
    const readers = await Promise.allSettled(
      Array.from({ length: READS_AT_ONCE }, async () => {
        for (const id of rest) {
          signal.throwIfAborted();
          const outcome = await readOne(reading, id);
          await onRead?.(id, outcome);
          if (outcome === 'missing') missing.push(id);
        }
      }),
    );
    // A failure is thrown only after all readers have ended.
    for (const reader of readers) if (reader.status === 'rejected') throw reader.reason;
    return missing;
  }

  async function readOne(reading: Reading, id: string): Promise<ReadOutcome> {
    const { run, absentFromList } = reading;
    const result = await refetch(reading, id);
    if (result.outcome === 'applied') {
      const { outcome, witness, announced, verified } = result.applied;
      if (outcome === 'inserted' || outcome === 'unchanged') run.shown[outcome] += 1;
      else if (outcome === 'updated' || outcome === 'revived') run.shown.updated += 1;
      run.differences.read([result.applied]);
      // What stays unverified is looked at again.
      if (absentFromList && (verified || !announced)) {
        run.unlisted.push(id);
        // The list may be behind an event, and shows it the next time.
        run.mayPass ||= announced || !witness;
      }
      return 'shown';
    }
    if (result.outcome === 'missing') {
      if (result.missing === 'pending')
        run.differences.found({ id, what: 'deleted_upstream', fields: [], repaired: false });
      return result.missing === 'first' ? 'missing' : 'settled';
    }
    if (!isAddressable(id)) return 'settled';
    const problem = { reason: 'unreadable_answer', kind: reading.kind, recordId: id } as const;
    if ((await store.standing(problem)).isAccepted) return 'settled';
    run.unread.add(id);
    run.mayPass ||= result.isOwn !== true;
    return 'failed';
  }

  /** Turns proven absences into tombstones, or into pending deletions. */
  async function conclude(
    kind: Kind,
    run: Running,
    proof: { absent: readonly string[]; number: number; beganAt: number } | null,
    unannounced: readonly string[] | null = null,
  ): Promise<void> {
    const context = { cause: causeOf(run.shown.id), unannounced, guardPercent, timing };
    const conclusion = await store.concludeDeletions(kind, proof, context, momentOf(clock));
    options.onConcluded(kind, conclusion, context.cause);
    run.shown.deleted += conclusion.deleted.length;
    run.differences.concluded(conclusion);
  }

  return {
    fullSync,
    /** Records that only full syncs read now. */
    reserved: (kind: Kind): ReadonlySet<string> => reserved.get(kind)!,
    /** In the order of `KINDS`. */
    running: (): RunningSyncRun[] => KINDS.flatMap((kind) => running.get(kind)?.shown ?? []),
    /** How many records the kind's list holds; null: no complete list scan yet. */
    total: (kind: Kind): number | null => totals.get(kind) ?? null,
  };
}
