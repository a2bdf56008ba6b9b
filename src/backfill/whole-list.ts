import { listed } from '../platform/errors.ts';

/** When each of this many scans has shown new records that no event announced, the full sync fails, so that people see it. */
const SCANS_MAX = 5;

/** Pairs of scans that must agree if the list has no total, which would show that it moved. */
const PAIRS_WITHOUT_TOTAL = 2;

/** When this many pairs of scans have disagreed, the full sync ends incomplete. */
const PAIRS_MAX = 5;

/** Services show no more than this many records of one search. */
const WINDOWS: ReadonlySet<number> = new Set([1_000, 5_000, 10_000]);

/** Why a list is not the whole one. `stays`: a person can accept it, until this changes. */
export interface Lack {
  error: string;
  stays?: string;
}

/** What one scan of a list has shown. */
export interface ListScan {
  /** Null: its end was read, and nothing contradicts that this was the whole list. */
  lack: Lack | null;
  /** Nothing shows that the list moved while it was read: the total stayed the same, and no record was on two pages. */
  steady: boolean;
  /**
   * Whether another scan may show more: each deletion while a list is read moves a record across the end of a page, where nobody sees
   * it. `once`: the list moved, or an event reported a deletion meanwhile. `more`: besides, it showed records that no event announced, or
   * it has shown a record on two pages and no total that shows whether others were on none.
   */
  again: 'no' | 'once' | 'more';
  ids: Set<string>;
  /** Those that stood on more than one page: for each, another one may have been on none. */
  twice: Set<string>;
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

/** `seenBefore`: records that an earlier scan has counted. */
export type ScanOnce = (seenBefore: ReadonlySet<string>) => Promise<ListScan>;

/** Why a list that was read to its end is not the whole one; null: nothing says so. Pure. */
export function lackOf({
  ids,
  gone,
  total,
  isRefused,
  missing,
}: Pick<ListScan, 'ids' | 'gone' | 'total'> & {
  /** Behind its last page the service answers with an error. */
  isRefused: boolean;
  /** Records that events have announced, and that a list whose end is refused does not show. */
  missing: readonly string[];
}): Lack | null {
  const shown = ids.size + gone.size;
  if (missing.length > 0) {
    const error = `after ${shown} records the list is refused, and ${listed(missing)} of its events are not in it`;
    return { error, stays: missing.join(' ') };
  }
  if (ids.size === 0 && gone.size > 1) {
    const error = `each of the ${gone.size} records in the list is marked as deleted: does DELETED_MARKERS fit?`;
    return { error, stays: `${gone.size} deleted` };
  }
  if (WINDOWS.has(shown) && (isRefused || total === null)) {
    const end = isRefused ? 'is refused' : 'ends, and names no total';
    return {
      error: `after ${shown} records the list ${end}: it may show no more than that`,
      stays: `${shown} shown`,
    };
  }
  // A total may count records that are shown as deleted, or not.
  if (total === null || total === ids.size || total === shown) return null;
  const error = `the list shows ${ids.size} records where its total says ${total}`;
  return { error, stays: String(total - ids.size) };
}

/** Why a list that was read so often may still lack records. The same order of pages each time will not show them. */
function unsteady({ twice, total }: ListScan): Lack {
  if (total !== null || twice.size === 0)
    return { error: 'the list changes too fast to show all that it holds' };
  const error = `after ${SCANS_MAX} scans records still stand on two pages, and others may stand on none: ${listed([...twice].sort())}; has the list no order of its own?`;
  return { error, stays: `${twice.size} on two pages` };
}

/**
 * Reads the list until no record can have been skipped: a deletion that no event announced would be missed. Two scans do not skip the
 * same record.
 */
export async function readWhole(
  scanOnce: ScanOnce,
  { hasUnnamed, settledAfter }: { hasUnnamed: boolean; settledAfter: (list: ListScan) => Promise<void> },
): Promise<ListScan> {
  let last = await scanOnce(new Set());
  let shown: ReadonlySet<string> = last.ids;
  // A moving list may have skipped the very record that an unread event is about. Its total need not show that it moved: one
  // record goes, and another comes.
  const isOnceMore = hasUnnamed || last.again === 'once';
  for (
    let times = 2;
    last.lack === null && (last.again === 'more' || (times === 2 && isOnceMore));
    times += 1
  ) {
    if (times > SCANS_MAX) return { ...last, lack: unsteady(last) };
    // A scan that begins earlier may get the same stale pages, and skip the same record.
    await settledAfter(last);
    last = await scanOnce(shown);
    shown = new Set([...shown, ...last.ids]);
  }
  return last;
}

/**
 * Reads a whole list again until scans agree on what it holds; what none of them shows is gone. `base`: the first of those that agree.
 * `last.lack`: they do not, or the last is not whole.
 */
export async function scanAgain(
  earlier: ListScan,
  scanOnce: ScanOnce,
  to: {
    settleMs: number;
    settledAfter: (list: ListScan) => Promise<void>;
    /** Records that an event or a write has touched since this number. */
    touchedSince: (number: number) => Promise<ReadonlySet<string>>;
  },
): Promise<{ base: ListScan; last: ListScan }> {
  let first = earlier;
  let base = first;
  let agreeing = 0;
  for (let pairs = 1; ; pairs += 1) {
    // Within the read delay the first scan may have missed a new record. The second begins after it.
    await to.settledAfter(first);
    const last = await scanOnce(first.ids);
    if (last.lack !== null) return { base, last };
    const touched = await to.touchedSince(base.number);
    // The same answers of a cache agree with themselves.
    const isLater = last.agedMs === 0 || last.beganAt >= first.endedAt + to.settleMs;
    // A list that moves while it is read skips records, and may skip the same ones twice.
    const agrees = first.steady && last.steady && isLater && isEqualExcept(touched, base.ids, last.ids);
    agreeing = agrees ? agreeing + 1 : 0;
    if (agreeing >= (last.total === null ? PAIRS_WITHOUT_TOTAL : 1)) return { base, last };
    if (pairs === PAIRS_MAX) {
      const error = `the list changes too fast to prove what is gone: ${PAIRS_MAX} pairs of scans disagreed`;
      return { base, last: { ...last, lack: { error } } };
    }
    if (!agrees) base = last;
    first = last;
  }
}

function isEqualExcept(
  ignored: ReadonlySet<string>,
  one: ReadonlySet<string>,
  two: ReadonlySet<string>,
): boolean {
  const isIn = (set: ReadonlySet<string>) => (id: string) => set.has(id) || ignored.has(id);
  return [...one].every(isIn(two)) && [...two].every(isIn(one));
}
