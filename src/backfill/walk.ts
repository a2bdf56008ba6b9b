import type { Clock } from '../clock.ts';
import { UpstreamError } from '../compliance/errors.ts';
import type { Kind } from '../compliance/kinds.ts';
import { type IdPointers, type JsonObject, recordIdIn } from '../compliance/pointers.ts';
import { MirrorError } from '../errors.ts';
import { backoffMs } from '../inbox/retry.ts';
import type { Applied, BackfillStore, HintTiming, SweepProgress } from '../store/store.ts';
import { READ_BACKOFF } from './plan.ts';
import type { Lane, Upstream } from './upstream.ts';

export type ListedKind = 'policy' | 'vendor';

/** A page that fails is asked for this often in all; then the walk ends and proves nothing. */
const TRIES_PER_PAGE = 4;

/** No service lists more: a paging parameter that it ignores would otherwise be walked for ever. */
const PAGES_MAX = 200_000;

export interface Walk {
  /** Every page was read, and nothing contradicts that they were the whole list. */
  complete: boolean;
  /** Why not. */
  error: string | null;
  /** The list was read to its end, and its own total says otherwise. */
  mismatch: boolean;
  /** Nothing shows that the list moved while it was read: one total throughout, and no record on two pages. */
  steady: boolean;
  ids: Set<string>;
  /** The counter as it began, and when. */
  number: number;
  endedAt: number;
  /** What the service says it holds, as of the last page that said so. */
  total: number | null;
}

export interface WalkOptions {
  store: BackfillStore;
  upstream: Upstream;
  clock: Clock;
  timing: HintTiming;
  pointers: IdPointers;
  firstPage: number;
  random: () => number;
  signal: AbortSignal;
  onApplied: (kind: Kind, applied: readonly Applied[], cause: string) => void;
}

export interface WalkRequest {
  kind: ListedKind;
  sweepId: number;
  lane: Lane;
  /** Counts go on from here, and are saved page by page. */
  progress: SweepProgress;
  /** Counted already: the second walk of a proof shows the same records. */
  seenBefore: ReadonlySet<string>;
  onPage: (applied: readonly Applied[], total: number | null) => void;
  /** Pages to leave out, which an interrupted sweep has read: such a walk is never complete. */
  skip: number;
}

export type DoWalk = (request: WalkRequest) => Promise<Walk>;

/** Reads a whole list, page by page, each object brought into step as it is seen. */
export function createWalk(options: WalkOptions): DoWalk {
  const { store, upstream, clock } = options;

  async function readPage(kind: ListedKind, page: number, lane: Lane) {
    for (let tries = 1; ; tries += 1) {
      try {
        return await upstream.page(kind, page, lane);
      } catch (error) {
        const again = error instanceof UpstreamError && error.retryable && tries < TRIES_PER_PAGE;
        if (!again) throw error;
        await clock.sleep(backoffMs(READ_BACKOFF, tries, options.random()), options.signal);
      }
    }
  }

  return async (request) => {
    const { kind, sweepId, progress } = request;
    const walk: Walk = {
      complete: false,
      error: null,
      mismatch: false,
      steady: true,
      ids: new Set(),
      number: await store.currentNumber(),
      endedAt: clock.steady(),
      total: null,
    };
    let before = '';
    try {
      for (let page = request.skip; page < PAGES_MAX; page += 1) {
        const { answer, read } = await readPage(kind, options.firstPage + page, request.lane);
        const total = answer.meta.total ?? walk.total;
        if (walk.total !== null && total !== walk.total) walk.steady = false;
        walk.total = total;
        walk.endedAt = read.endedAt;
        progress.pages += 1;
        if (answer.objects.length === 0) {
          Object.assign(walk, judgeEnd(walk, request.skip));
          break;
        }
        const objects = identify(kind, answer.objects, options.pointers);
        const ids = JSON.stringify(objects.map((object) => object.id));
        if (ids === before)
          throw new MirrorError(
            'page_repeated',
            `page ${options.firstPage + page} repeats the one before it`,
          );
        before = ids;
        if (objects.some((object) => walk.ids.has(object.id))) walk.steady = false;
        const cause = `sweep:${sweepId}`;
        const applied = await store.applyReads(kind, objects, read, {
          cause,
          sweepId,
          timing: options.timing,
          pointers: options.pointers,
        });
        if (applied.some((one) => one.witness)) upstream.witness(kind, read);
        options.onApplied(kind, applied, cause);
        count(progress, applied, walk.ids, request.seenBefore);
        await store.progressSweep(sweepId, progress);
        request.onPage(applied, walk.total);
      }
    } catch (error) {
      if (options.signal.aborted || !(error instanceof MirrorError) || error.code === 'store_unavailable')
        throw error;
      walk.error = error.message;
    }
    return walk;
  };
}

function judgeEnd(walk: Walk, skipped: number): Pick<Walk, 'complete' | 'error' | 'mismatch'> {
  if (skipped > 0) return { complete: false, error: 'resumed, so it proves no absence', mismatch: false };
  if (walk.total === null || walk.total === walk.ids.size)
    return { complete: true, error: null, mismatch: false };
  return {
    complete: false,
    mismatch: true,
    error: `the list shows ${walk.ids.size} records where its total says ${walk.total}`,
  };
}

function identify(kind: ListedKind, objects: readonly JsonObject[], pointers: IdPointers) {
  return objects.map((data) => {
    const id = recordIdIn(data, kind, pointers);
    if (id !== null) return { id, data };
    throw new MirrorError('malformed_page', `a ${kind} in the list has no id where ID_POINTERS look`, {
      hint: 'set ID_POINTERS_POLICY or ID_POINTERS_VENDOR to where the service keeps it',
    });
  });
}

/** An object may stand on two pages when the list shifts: it is seen once. */
function count(
  progress: SweepProgress,
  applied: readonly Applied[],
  ids: Set<string>,
  seenBefore: ReadonlySet<string>,
): void {
  for (const { id, outcome } of applied) {
    const again = ids.has(id) || seenBefore.has(id);
    ids.add(id);
    if (!again) progress.seen += 1;
    if (outcome === 'inserted') progress.inserted += 1;
    else if (outcome === 'updated' || outcome === 'revived') progress.updated += 1;
    else if (outcome === 'unchanged' && !again) progress.unchanged += 1;
  }
}
