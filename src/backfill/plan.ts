import type { Kind } from '../compliance/kinds.ts';
import type { Backoff } from '../platform/clock.ts';

/** The cheaper way to do what is due, how long to wait after failures, and how long a full sync will take. Pure. */

/** Requests for a list scan over `total` records: its pages, and the empty one at the end. */
export function scanCost(total: number, pageSize: number): number {
  return Math.ceil(total / Math.max(1, pageSize)) + 1;
}

/** What is due waits this long, in SETTLEs, while more is about to be due: one list scan may do for all. */
const BURST_PATIENCE_SETTLES = 0.5;

/**
 * How to verify what is due of a kind: `scan` reads the whole list, `refetch` each record by itself. Policies have no address of
 * their own, assessments no list. `wait`: in a burst a list scan will be cheaper, but now it would miss what is due in a moment.
 * If the list cannot be read, each record is asked for.
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

/** A record that the API does not know. Most such ids never will be known, so it is asked for more and more rarely. */
export const UNRESOLVED_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 6 * 3_600_000 };

/** One record's read that failed. */
export const READ_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 5 * 60_000 };

/** After several failures in a row all requests wait this long, so that an outage gets no storm of requests. */
export const OUTAGE_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 60_000 };

/**
 * While there is nothing to read, one request so often shows whether the API still answers. If it does not, that is to be said within
 * 15 s; it is said five seconds after the first request without an answer.
 */
const LOOK_EVERY_MS = 6_000;
/** Of the budget, at most this part is spent on that. */
const LOOKS_SHARE = 1 / 6;

export const lookEveryMs = (requestsPerMinute: number): number =>
  Math.max(LOOK_EVERY_MS, 60_000 / (requestsPerMinute * LOOKS_SHARE));

/** A full sync that could not finish is begun again. */
export const FULL_SYNC_BACKOFF: Backoff = { firstMs: 2_000, longestMs: 10 * 60_000 };

/** A full sync after which deletions wait for a person: the fault that looks like them may pass, and the next one shows it. */
export const WAITING_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 24 * 3_600_000 };

/** How fast a full sync goes, and how long it will still take. */
export interface Pace {
  /** Null: nothing has been read yet, or the whole list has. */
  recordsPerSecond: number | null;
  /** Milliseconds. Null: the total is not known either. */
  leftMs: number | null;
}

interface PaceInput {
  /** Records read by this full sync. */
  seen: number;
  /** Pages read, including those of the interrupted full sync before it. */
  pages: number;
  /** Pages left out because an interrupted full sync had read them. */
  skipped: number;
  estimatedTotal: number | null;
  elapsedMs: number;
}

/** By what has been read so far, since the budget, the other lanes' share of it and the upstream's speed are not known ahead. */
export function paceOf({ seen, pages, skipped, estimatedTotal, elapsedMs }: PaceInput): Pace {
  const readBefore = skipped === 0 ? 0 : (seen / Math.max(1, pages - skipped)) * skipped;
  const left = estimatedTotal === null ? null : estimatedTotal - seen - readBefore;
  // After the list it may read what the list lacks, or the list again.
  const isListRead = left !== null && left <= 0;
  if (seen === 0 || elapsedMs <= 0 || isListRead) return { recordsPerSecond: null, leftMs: null };
  const perMs = seen / elapsedMs;
  return {
    recordsPerSecond: perMs * 1000,
    leftMs: left === null ? null : Math.round(left / perMs),
  };
}
