import type { Lane } from '../compliance/budget.ts';
import { isUnreadable, UpstreamError, unreadableText } from '../compliance/errors.ts';
import type { Kind, ListedKind } from '../compliance/kinds.ts';
import { describeError, MirrorError } from '../platform/errors.ts';
import type { Applied, SyncRunProgress } from '../store/store.ts';
import type { Context } from './context.ts';
import { contradiction, createPages } from './pages.ts';
import type { Upstream } from './upstream.ts';

/** List scans that each bring records which no event announced; after these the full sync fails, so that people see it. */
const SCANS_MAX = 5;

/** Records saved at a time, for pages of any size. Deliveries wait meanwhile: some 20 ms if all are new. */
const SLICE = 500;

export interface ListScan {
  /** Every page was read, and nothing contradicts that they were the whole list. */
  complete: boolean;
  /** Why not. */
  error: string | null;
  /** The empty page that ends a list was reached, even if pages before it were left out. */
  ended: boolean;
  /** The list was read to its end, and its own total says otherwise. */
  mismatch: boolean;
  /** Nothing shows that the list moved while it was read: one total throughout, and no record on two pages. */
  steady: boolean;
  /**
   * It brought records that no event announced, and others like them may have moved across the end of a page unseen. That is so
   * if the list became shorter, showed a record twice or has no total, or if an event reported a deletion meanwhile, since
   * another record may have taken the place.
   */
  mayLack: boolean;
  /** An event reported the deletion of a record that may have been in the list when the scan began. */
  shortened: boolean;
  ids: Set<string>;
  /** The counter as it began, and when. */
  number: number;
  endedAt: number;
  /** What the service says it holds, as of the last page that said so. */
  total: number | null;
}

interface ListScanRequest {
  kind: ListedKind;
  syncRunId: number;
  lane: Lane;
  /** Counts go on from here. With each page the pages so far are saved, and what was counted before it. */
  progress: SyncRunProgress;
  /** Counted already: the second list scan of a proof shows the same records. */
  seenBefore: ReadonlySet<string>;
  onPage: (applied: readonly Applied[], total: number | null) => void;
  /** Pages to leave out, which an interrupted full sync has read: such a list scan is never complete. */
  skip: number;
}

/** Reads a whole list, page by page, each object brought into sync as it is seen. */
export function createListScan(options: Context & { upstream: Upstream }) {
  const { store, upstream, clock } = options;
  const pages = createPages(options);

  return async (request: ListScanRequest): Promise<ListScan> => {
    const { kind, syncRunId, progress } = request;
    const scan: ListScan = {
      complete: false,
      error: null,
      ended: false,
      mismatch: false,
      steady: true,
      mayLack: false,
      shortened: false,
      ids: new Set(),
      number: await store.currentNumber(),
      endedAt: clock.steady(),
      total: null,
    };
    const beganWall = clock.wall();
    let broughtUntold = false;
    let isOnPages = false;
    let moved = false;
    try {
      for await (const { objects, meta, read } of pages(request)) {
        const total = meta.total ?? scan.total;
        if (scan.total !== null && total !== scan.total) scan.steady = false;
        if (scan.total !== null && total! < scan.total) moved = true;
        scan.total = total;
        scan.endedAt = read.endedAt;
        progress.pages += 1;
        if (objects.length === 0) {
          Object.assign(scan, judgeEnd(scan, request.skip));
          const isSuspect = broughtUntold && scan.complete;
          scan.shortened = isOnPages && (await isShortened(kind, scan.number, beganWall, isSuspect));
          scan.mayLack = broughtUntold && (moved || scan.total === null || scan.shortened);
          break;
        }
        isOnPages = scan.ids.size > 0;
        if (objects.some((object) => scan.ids.has(object.id))) {
          scan.steady = false;
          moved = true;
        }
        const cause = `sync:${syncRunId}`;
        const { pages: soFar, seen, inserted, updated, deleted, unchanged } = progress;
        const context = { cause, syncRunId, timing: options.timing, pointers: options.pointers };
        const counted = { pages: soFar, seen, inserted, updated, deleted, unchanged };
        const applied: Applied[] = [];
        for (let from = 0; from < objects.length; from += SLICE) {
          const slice = objects.slice(from, from + SLICE);
          // A page counts once all of it is saved.
          const isLast = from + SLICE >= objects.length;
          const saved = isLast ? { ...context, progress: counted } : context;
          for (const one of await store.applyReads(kind, slice, read, saved)) applied.push(one);
        }
        if (applied.some((one) => one.witness)) upstream.witness(kind, read);
        broughtUntold ||= applied.some(
          (one) => ['inserted', 'revived'].includes(one.outcome) && !one.announced,
        );
        options.onApplied(kind, applied, cause);
        count(progress, applied, scan.ids, request.seenBefore);
        request.onPage(applied, scan.total);
      }
    } catch (error) {
      if (options.signal.aborted || !(error instanceof MirrorError) || error.code === 'store_unavailable')
        throw error;
      scan.error = error.message;
      const text = unreadablePage(error);
      if (text !== null) await options.gaps.open({ reason: 'unreadable_answer', kind, recordId: null }, text);
    }
    return scan;
  };

  /**
   * Whether a deletion is known of that may have fallen into the list scan: the service serves old pages for the time that it takes
   * to be consistent, and tells of what happened in about as much. That is waited for where the scan is suspect.
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

/** What makes a page unreadable; null: the list scan ended for another reason. */
function unreadablePage(error: MirrorError): string | null {
  if (error instanceof UpstreamError && isUnreadable(error)) return unreadableText(error);
  return error.code === 'malformed_page' || error.code === 'paging' ? describeError(error) : null;
}

function judgeEnd(
  scan: ListScan,
  skipped: number,
): Pick<ListScan, 'ended' | 'complete' | 'error' | 'mismatch'> {
  if (skipped > 0) {
    return { ended: true, complete: false, error: 'resumed, so it proves no absence', mismatch: false };
  }
  const error = contradiction(scan.total, scan.ids.size);
  return { ended: true, complete: error === null, error, mismatch: error !== null };
}

/** An object may be on two pages when the list shifts: it counts once. */
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
    // Of one that leaves something out, its own address is still to tell.
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
