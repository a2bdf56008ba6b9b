import type { Lane } from '../compliance/budget.ts';
import { unreadableText } from '../compliance/errors.ts';
import type { Kind, ListedKind } from '../compliance/kinds.ts';
import { momentOf } from '../platform/clock.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import type { Applied, ReadMoment, ReadObject, SyncRunProgress } from '../store/store.ts';
import { type Context, causeOf } from './context.ts';
import { contradiction, createPages } from './pages.ts';
import type { Upstream } from './upstream.ts';

/** When each of this many list scans has shown new records that no event announced, the full sync fails, so that people see it. */
const SCANS_MAX = 5;

/** Records saved in one commit, whatever the page size. Deliveries wait for it: about 20 ms if all records are new. */
const SLICE = 500;

export interface ListScan {
  /** Every page was read, and nothing contradicts that they were the whole list. */
  complete: boolean;
  /** Why not. */
  error: string | null;
  /** The end was reached, and the list's total contradicts its rows: how many it does not show. Undefined: it does not. */
  stays: string | undefined;
  /** Nothing shows that the list moved while it was read: the total stayed the same, and no record was on two pages. */
  steady: boolean;
  /**
   * It showed records that no event announced, and may have skipped others like them: a deletion moves a record across the end
   * of a page. So this is true if the list became shorter, showed a record twice or has no total, or if an event reported a
   * deletion meanwhile.
   */
  mayLack: boolean;
  /** An event reported the deletion of a record that may have been in the list when the scan began. */
  shortened: boolean;
  ids: Set<string>;
  /** Those that the list shows as deleted. */
  gone: Set<string>;
  /** The counter when it began, and when that was; if answers came from a cache, when the oldest was given to that. */
  number: number;
  beganAt: number;
  endedAt: number;
  /** The age of the oldest answer. Milliseconds. */
  agedMs: number;
  /** The total of the list, from the last page that gave one. */
  total: number | null;
}

interface ListScanRequest {
  kind: ListedKind;
  syncRunId: number;
  lane: Lane;
  /** Updated after each page. The commit of a page also saves the number of pages with it, and the counts without it. */
  progress: SyncRunProgress;
  /** Records that an earlier list scan of this full sync has counted. */
  seenBefore: ReadonlySet<string>;
  onPage: (applied: readonly Applied[], total: number | null) => void;
}

/** Reads a whole list, and brings the records of each page into sync. */
export function createListScan(options: Context & { upstream: Upstream }) {
  const { store, upstream, clock } = options;
  const pages = createPages(options);

  return async (request: ListScanRequest): Promise<ListScan> => {
    const { kind, syncRunId, progress } = request;
    const scan: ListScan = {
      complete: false,
      error: null,
      stays: undefined,
      steady: true,
      mayLack: false,
      shortened: false,
      ids: new Set(),
      gone: new Set(),
      number: await store.currentNumber(),
      beganAt: clock.steady(),
      endedAt: clock.steady(),
      agedMs: 0,
      total: null,
    };
    const beganWall = clock.wall();
    let showedUnannounced = false;
    let hasSeveralPages = false;
    let moved = false;
    try {
      for await (const { objects, gone, meta, read, agedMs } of pages({ ...request, since: scan.number })) {
        scan.number = Math.min(scan.number, read.number);
        scan.beganAt = Math.min(scan.beganAt, read.beganAt);
        scan.agedMs = Math.max(scan.agedMs, agedMs);
        for (const id of gone) scan.gone.add(id);
        const total = meta.total ?? scan.total;
        if (scan.total !== null && total !== scan.total) scan.steady = false;
        if (scan.total !== null && total! < scan.total) moved = true;
        scan.total = total;
        scan.endedAt = read.endedAt;
        progress.pages += 1;
        if (objects.length === 0) continue;
        hasSeveralPages = scan.ids.size > 0;
        if (objects.some((object) => scan.ids.has(object.id))) {
          scan.steady = false;
          moved = true;
        }
        const applied = await save(request, objects, read);
        if (applied.some((one) => one.witness)) upstream.noteWitness(kind, read);
        showedUnannounced ||= applied.some(
          ({ outcome, announced }) => (outcome === 'inserted' || outcome === 'revived') && !announced,
        );
        options.onApplied(kind, applied, causeOf(syncRunId));
        count(progress, applied, scan.ids, request.seenBefore);
        request.onPage(applied, scan.total);
      }
      scan.error = contradiction(scan.total, scan.ids.size, scan.gone.size);
      scan.complete = scan.error === null;
      if (!scan.complete) scan.stays = String(Number(scan.total) - scan.ids.size);
      const isSuspect = showedUnannounced && scan.complete;
      scan.shortened = hasSeveralPages && (await isShortened(kind, scan.number, beganWall, isSuspect));
      scan.mayLack = showedUnannounced && (moved || scan.total === null || scan.shortened);
    } catch (error) {
      if (!(error instanceof MirrorError) || error.code === 'store_unavailable') throw error;
      scan.error = error.message;
      const text = unreadablePage(error, upstream);
      if (text !== null)
        await store.openProblem({ reason: 'unreadable_answer', kind, recordId: null }, text, momentOf(clock));
    }
    return scan;
  };

  async function save(
    { kind, syncRunId, progress }: ListScanRequest,
    objects: readonly ReadObject[],
    read: ReadMoment,
  ): Promise<Applied[]> {
    const { timing, pointers } = options;
    const context = { cause: causeOf(syncRunId), syncRunId, timing, pointers };
    const applied: Applied[] = [];
    for (let from = 0; from < objects.length; from += SLICE) {
      options.signal.throwIfAborted();
      const slice = objects.slice(from, from + SLICE);
      // A page counts once all of it is saved.
      const isLast = from + SLICE >= objects.length;
      const saved = isLast ? { ...context, progress } : context;
      for (const one of await store.applyReads(kind, slice, read, saved)) applied.push(one);
    }
    return applied;
  }

  /**
   * Whether an event reported a deletion that may have happened during the list scan, or up to SETTLE before it, since pages may
   * be that old. Such an event may come late: if the scan is suspect, this waits SETTLE for it.
   */
  async function isShortened(
    kind: Kind,
    number: number,
    beganWall: number,
    isSuspect: boolean,
  ): Promise<boolean> {
    const { settleMs } = options.timing;
    if (isSuspect) await clock.sleep(settleMs, options.signal);
    options.signal.throwIfAborted();
    return await store.hasAnnouncedDeletion(kind, number, beganWall - settleMs);
  }
}

/** The text of a problem about an unreadable page; null: the list scan ended for another reason. */
function unreadablePage(error: MirrorError, upstream: Pick<Upstream, 'isOwnFault'>): string | null {
  if (upstream.isOwnFault(error)) return unreadableText(error);
  return error.code === 'malformed_page' || error.code === 'paging' ? describeError(error) : null;
}

/** Counts each record once, even if a list that moved has it on two pages. */
function count(
  progress: SyncRunProgress,
  applied: readonly Applied[],
  ids: Set<string>,
  seenBefore: ReadonlySet<string>,
): void {
  for (const { id, outcome, lacks } of applied) {
    const again = ids.has(id) || seenBefore.has(id);
    ids.add(id);
    if (!again) progress.seen += 1;
    if (outcome === 'inserted') progress.inserted += 1;
    else if (outcome === 'updated' || outcome === 'revived') progress.updated += 1;
    // A row that leaves out fields counts after the record was read at its own address.
    else if (outcome === 'unchanged' && !again && !lacks) progress.unchanged += 1;
  }
}

/**
 * Scans the list until no record can have been skipped. Each deletion while a list is read moves another record across the end of
 * a page, and one that no event announced would be missed. Two list scans do not skip the same record.
 */
export async function scanWhole(
  scanOnce: (seenBefore: ReadonlySet<string>) => Promise<ListScan>,
  { hasUnnamed, settledAfter }: { hasUnnamed: boolean; settledAfter: (scan: ListScan) => Promise<void> },
): Promise<ListScan> {
  let last = await scanOnce(new Set());
  let shown: ReadonlySet<string> = last.ids;
  // A moving list may have skipped the very record that an unread event is about. Its total need not show that it moved: one
  // record goes, and another comes.
  const isOnceMore = hasUnnamed || !last.steady || last.shortened;
  for (let scans = 2; last.complete && (last.mayLack || (scans === 2 && isOnceMore)); scans += 1) {
    if (scans > SCANS_MAX)
      return { ...last, complete: false, error: 'the list changes too fast to show all that it holds' };
    // A list scan that begins earlier may get the same stale pages, and skip the same record.
    await settledAfter(last);
    last = await scanOnce(shown);
    shown = new Set([...shown, ...last.ids]);
  }
  return last;
}
