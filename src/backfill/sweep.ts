import type { Clock } from '../clock.ts';
import { KINDS, type Kind } from '../compliance/kinds.ts';
import { isAddressable } from '../compliance/pointers.ts';
import { describeError, StoreUnavailable } from '../errors.ts';
import { backoffMs } from '../inbox/retry.ts';
import type { BackfillStore, HintTiming, SweepOutcome, SweepProgress } from '../store/store.ts';
import type { Conclude, ConclusionRequest } from './conclude.ts';
import { createDrift, type Drift, type DriftReport } from './drift.ts';
import { type GapKeeper, listed } from './gaps.ts';
import type { ListedKind } from './pages.ts';
import { READ_BACKOFF } from './plan.ts';
import { type Pace, paceOf } from './progress.ts';
import type { FetchedKind, Refetch } from './refetch.ts';
import type { Lane, Upstream } from './upstream.ts';
import type { DoWalk, Walk } from './walk.ts';

/** Without a total, nothing but one more walk tells that a list did not move. */
const PAIRS_WITHOUT_TOTAL = 2;

/** Pairs of walks that disagree are walked again this often; then somebody should know. */
const PROOF_TRIES = 5;

/** Walks that each bring something which nobody has told of; then somebody should know. */
const WALKS_MAX = 5;

/** Records read at the same time by one sweep; the request budget is what really bounds it. */
const READS_AT_ONCE = 4;

/** A record whose read fails is tried this often within one sweep. */
const TRIES_PER_RECORD = 4;

/** Ids taken from the database at a time. */
const CYCLE_BATCH = 100;

/** A sweep that takes longer than this says now and then how far it is. */
const PROGRESS_EVERY_MS = 10_000;

/** What a running sweep shows of itself. */
export interface RunningSweep extends SweepProgress, Pace {
  id: number;
  kind: Kind;
  reason: string;
  startedWall: number;
  estimatedTotal: number | null;
}

export interface SweepResult {
  kind: Kind;
  id: number;
  reason: string;
  outcome: SweepOutcome;
  error: string | null;
  progress: SweepProgress;
  drift: DriftReport;
  /**
   * It went on where an interrupted one had stopped, and came to the end: its rows are fresh, and a whole one is still
   * to come.
   */
  resumed: boolean;
  /** The service's own total contradicts its list. */
  mismatch: boolean;
  durationMs: number;
}

export interface SweeperOptions {
  store: BackfillStore;
  walk: DoWalk;
  refetch: Refetch;
  probe: Upstream['probe'];
  conclude: Conclude;
  gaps: GapKeeper;
  clock: Clock;
  timing: HintTiming;
  random: () => number;
  signal: AbortSignal;
  /** Ids that the sweep reads itself, so that nobody else does at the same time. */
  reserved: Set<string>;
  onProgress: (sweep: RunningSweep) => void;
  onEnded: (result: SweepResult) => void;
}

export interface Sweeper {
  /**
   * Brings a whole kind into step, leaving out the first `skip` pages. Resolves with how it went; rejects only when
   * the store fails.
   */
  sweep(kind: Kind, reason: string, lane: Lane, skip: number): Promise<SweepResult>;
  running(): RunningSweep[];
  /** What the last complete walk of the kind said it holds. */
  total(kind: Kind): number | null;
}

export function createSweeper(options: SweeperOptions): Sweeper {
  const { store, clock, timing, gaps, signal } = options;
  const running = new Map<Kind, Running>();
  const totals = new Map<Kind, number>();
  const now = () => ({ wall: clock.wall(), steady: clock.steady() });

  interface Ending {
    outcome: SweepOutcome;
    error: string | null;
    mismatch?: boolean;
    resumed?: boolean;
  }

  interface Running extends Omit<RunningSweep, keyof Pace> {
    startedAt: number;
    drift: Drift;
    number: number;
    hasUnnamed: boolean;
    skip: number;
    saidAt: number;
    /** Held alive, absent from the list, and answering by themselves: the list is not whole, whatever its total says. */
    unlisted: string[];
  }

  async function sweep(kind: Kind, reason: string, lane: Lane, skip: number): Promise<SweepResult> {
    const startedAt = clock.steady();
    const { id, number, hasUnnamed } = await store.startSweep(kind, reason, now());
    const progress: Running = {
      ...{ id, kind, reason, startedWall: clock.wall(), estimatedTotal: totals.get(kind) ?? null },
      ...{ pages: skip, seen: 0, inserted: 0, updated: 0, deleted: 0, unchanged: 0 },
      ...{ startedAt, drift: createDrift(), number, hasUnnamed, skip, saidAt: startedAt, unlisted: [] },
    };
    running.set(kind, progress);
    let ending: Ending;
    try {
      ending =
        kind === 'risk_assessment' ? await cycle(progress, lane) : await readList(kind, progress, lane);
    } catch (error) {
      running.delete(kind);
      if (error instanceof StoreUnavailable) throw error;
      ending = signal.aborted
        ? { outcome: 'interrupted', error: null }
        : { outcome: 'failed', error: describeError(error) };
    }
    running.delete(kind);
    const drift = progress.drift.report();
    const hasDrift = drift.missing + drift.extra + drift.different > 0;
    await store.finishSweep(id, { ...ending, progress, drift: { ...drift }, hasDrift }, now());
    const result: SweepResult = {
      ...{ kind, id, reason, progress, drift, resumed: false, mismatch: false, ...ending },
      durationMs: clock.steady() - startedAt,
    };
    options.onEnded(result);
    return result;
  }

  async function readList(kind: ListedKind, sweep: Running, lane: Lane): Promise<Ending> {
    const lacking = new Set<string>();
    const walkOnce = (seenBefore: ReadonlySet<string>) =>
      options.walk({
        seenBefore,
        kind,
        sweepId: sweep.id,
        lane,
        progress: sweep,
        skip: seenBefore.size === 0 ? sweep.skip : 0,
        onPage: (applied, total) => {
          sweep.drift.read(applied);
          // One that differs besides is due anyway, once its own address is sure to show the same.
          for (const { id, lacks, outcome } of applied)
            if (lacks && (outcome === 'unchanged' || outcome === 'refused')) lacking.add(id);
          sweep.estimatedTotal = total ?? sweep.estimatedTotal;
          say(sweep);
        },
      });
    let first = await walkWhole(walkOnce, sweep.hasUnnamed);
    if (!first.complete) {
      const { error, mismatch, ended } = first;
      return { outcome: 'incomplete', error, mismatch, resumed: sweep.skip > 0 && ended };
    }
    totals.set(kind, first.total ?? first.ids.size);
    if (kind === 'vendor') {
      await askAgain(kind, sweep, lane);
      const failed = await readWhole(kind, sweep, lacking, lane);
      if (failed > 0) {
        const error = `the list leaves out fields of ${lacking.size}, of which ${failed} could not be read by themselves`;
        return { outcome: 'incomplete', error };
      }
    }

    const absent = await store.unseenBy(kind, sweep.id, sweep.number);
    if (absent.length === 0) {
      await gaps.heal({ reason: 'deletions_unproven', kind, recordId: null });
      return { outcome: 'complete', error: null };
    }
    if (kind === 'vendor') {
      await proveByReading(kind, sweep, absent, lane, true);
      if (sweep.unlisted.length === 0) return { outcome: 'complete', error: null };
      const error = `the list leaves out what the mirror holds and still answers: ${listed(sweep.unlisted)}`;
      return { outcome: 'incomplete', error, mismatch: first.total !== null };
    }

    // The walks that agree so far, without a break: the earliest of them, and how many followed it.
    let base = first;
    let agreeing = 0;
    for (let tries = 1; tries <= PROOF_TRIES; tries += 1) {
      // The second walk shows what the first may have been too early to show.
      await clock.sleep(Math.max(0, first.endedAt + timing.settleMs - clock.steady()), signal);
      signal.throwIfAborted();
      const second = await walkOnce(first.ids);
      if (!second.complete) return { outcome: 'incomplete', error: second.error };
      const touched = await store.touchedSince(kind, base.number);
      // A list that moves while it is read skips records, the same ones twice with some bad luck.
      const agrees = first.steady && second.steady && sameBut(touched, base.ids, second.ids);
      agreeing = agrees ? agreeing + 1 : 0;
      if (agreeing >= (second.total === null ? PAIRS_WITHOUT_TOTAL : 1)) {
        // What any of the walks has shown is marked as seen by this sweep.
        const gone = await store.unseenBy(kind, sweep.id, base.number);
        await conclude(kind, sweep, { absent: gone, number: base.number });
        await gaps.heal({ reason: 'deletions_unproven', kind, recordId: null });
        return { outcome: 'complete', error: null };
      }
      if (!agrees) base = second;
      first = second;
    }
    await gaps.open(
      { reason: 'deletions_unproven', kind, recordId: null },
      `${PROOF_TRIES} pairs of walks disagreed; absent from them: ${listed(absent)}`,
    );
    return { outcome: 'incomplete', error: 'the list changes too fast to prove what is gone' };
  }

  /** Every known assessment, one by one: there is no list of them. */
  async function cycle(sweep: Running, lane: Lane): Promise<Ending> {
    const kind = 'risk_assessment';
    sweep.estimatedTotal = await store.countKnown(kind);
    await options.probe(kind, lane, sweep.estimatedTotal);
    const missing: string[] = [];
    let failed = 0;
    for (;;) {
      const ids = await store.cycleRecords(kind, sweep.id, CYCLE_BATCH);
      if (ids.length === 0) break;
      await inParallel(ids, async (id) => {
        signal.throwIfAborted();
        const outcome = await readFor(kind, sweep, id, lane, false);
        await store.markSwept(kind, id, sweep.id);
        if (outcome === 'missing') missing.push(id);
        if (outcome === 'failed') failed += 1;
        else sweep.seen += 1;
      });
      await store.progressSweep(sweep.id, sweep);
      say(sweep);
    }
    if (missing.length > 0) await proveByReading(kind, sweep, missing, lane, false);
    if (failed === 0) return { outcome: 'complete', error: null };
    return { outcome: 'incomplete', error: `${failed} of ${sweep.estimatedTotal} could not be read` };
  }

  /**
   * Reads what seems gone until it shows itself or is proven gone. They are judged together at the end, so that
   * many at once are seen to be many.
   */
  async function proveByReading(
    kind: FetchedKind,
    sweep: Running,
    ids: readonly string[],
    lane: Lane,
    absentFromWalk: boolean,
  ): Promise<void> {
    const keys = ids.map((id) => `${kind} ${id}`);
    for (const key of keys) options.reserved.add(key);
    try {
      let open = [...ids];
      for (let round = 0; round < 2 && open.length > 0; round += 1) {
        if (round > 0 || !absentFromWalk) {
          await clock.sleep(timing.settleMs + 1, signal);
          signal.throwIfAborted();
        }
        const again: string[] = [];
        await inParallel(open, async (id) => {
          signal.throwIfAborted();
          if ((await readFor(kind, sweep, id, lane, absentFromWalk)) === 'missing') again.push(id);
        });
        open = again;
      }
    } finally {
      for (const key of keys) options.reserved.delete(key);
    }
    await conclude(kind, sweep, null);
  }

  /**
   * The list shows these as it shows all others, so that nothing else would have them asked for: whether their own addresses
   * can be read again is found out here. One that cannot is enough to tell, and has its turn again after the others.
   */
  async function askAgain(kind: 'vendor', sweep: Running, lane: Lane): Promise<void> {
    for (const id of await store.unreadableRecords(kind, CYCLE_BATCH)) {
      signal.throwIfAborted();
      const key = `${kind} ${id}`;
      options.reserved.add(key);
      try {
        const { outcome } = await options.refetch({
          ...{ kind, id, lane, absentFromWalk: false, attempts: 0 },
          ...{ cause: `sweep:${sweep.id}`, sweepId: sweep.id },
        });
        if (outcome === 'failed') return;
      } finally {
        options.reserved.delete(key);
      }
    }
  }

  /** What the list leaves out of these, nothing but their own addresses shows. How many of those could not be read. */
  async function readWhole(
    kind: 'vendor',
    sweep: Running,
    ids: ReadonlySet<string>,
    lane: Lane,
  ): Promise<number> {
    let failed = 0;
    await inParallel([...ids], async (id) => {
      signal.throwIfAborted();
      if ((await readFor(kind, sweep, id, lane, false)) === 'failed') failed += 1;
    });
    return failed;
  }

  async function conclude(kind: Kind, sweep: Running, proof: ConclusionRequest['proof']): Promise<void> {
    const cause = `sweep:${sweep.id}`;
    const conclusion = await options.conclude(kind, {
      proof,
      cause,
      sweepId: sweep.id,
      onlyAnnounced: false,
    });
    sweep.deleted += conclusion.deleted.length;
    sweep.drift.concluded(conclusion);
  }

  function say(sweep: Running): void {
    if (clock.steady() - sweep.saidAt < PROGRESS_EVERY_MS) return;
    sweep.saidAt = clock.steady();
    options.onProgress(shown(sweep));
  }

  function shown(sweep: Running): RunningSweep {
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
    } = sweep;
    const elapsedMs = clock.steady() - sweep.startedAt;
    return {
      ...{ id, kind, reason, startedWall, estimatedTotal },
      ...{ pages, seen, inserted, updated, deleted, unchanged },
      ...paceOf({ seen, pages, skipped: sweep.skip, estimatedTotal, elapsedMs }),
    };
  }

  async function readFor(
    kind: FetchedKind,
    sweep: Running,
    id: string,
    lane: Lane,
    absentFromWalk: boolean,
  ): Promise<'shown' | 'missing' | 'settled' | 'failed'> {
    for (let tries = 1; ; tries += 1) {
      const result = await options.refetch({
        ...{ kind, id, lane, absentFromWalk, attempts: tries - 1 },
        ...{ cause: `sweep:${sweep.id}`, sweepId: sweep.id },
      });
      if (result.outcome === 'applied') {
        tally(sweep, result.applied.outcome);
        sweep.drift.read([result.applied]);
        if (absentFromWalk && result.applied.witness && !result.applied.announced) sweep.unlisted.push(id);
        return 'shown';
      }
      if (result.outcome === 'missing') {
        if (result.missing === 'held') {
          sweep.drift.found({ id, what: 'extra', fields: [], repaired: false });
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
    sweep,
    running: () =>
      KINDS.flatMap((kind) => {
        const sweep = running.get(kind);
        return sweep === undefined ? [] : [shown(sweep)];
      }),
    total: (kind) => totals.get(kind) ?? null,
  };
}

/**
 * Walks until nothing of the list can have been skipped: each record that is deleted while a list is read moves another one
 * over the end of a page, and one that nobody else has told of would be missed by everybody. Two walks do not skip the same.
 */
async function walkWhole(
  walkOnce: (seenBefore: ReadonlySet<string>) => Promise<Walk>,
  hasUnnamed: boolean,
): Promise<Walk> {
  let last = await walkOnce(new Set());
  const shown = new Set(last.ids);
  // What a list in motion skipped may be the only one that nobody has told of, and just what is asked for. A total need not
  // show that it moved: one goes, and another comes.
  const isOnceMore = hasUnnamed || !last.steady;
  for (let walks = 2; last.complete && (last.mayLack || (walks === 2 && isOnceMore)); walks += 1) {
    if (walks > WALKS_MAX)
      return { ...last, complete: false, error: 'the list changes too fast to show all that it holds' };
    last = await walkOnce(shown);
    for (const id of last.ids) shown.add(id);
  }
  return last;
}

function tally(sweep: SweepProgress, outcome: string): void {
  if (outcome === 'inserted') sweep.inserted += 1;
  else if (outcome === 'updated' || outcome === 'revived') sweep.updated += 1;
  else if (outcome === 'unchanged') sweep.unchanged += 1;
}

function sameBut(ignored: ReadonlySet<string>, one: ReadonlySet<string>, two: ReadonlySet<string>): boolean {
  const covers = (a: ReadonlySet<string>, b: ReadonlySet<string>) =>
    [...a].every((id) => b.has(id) || ignored.has(id));
  return covers(one, two) && covers(two, one);
}
