import type { Kind } from '../compliance/kinds.ts';
import type { Backoff } from '../platform/clock.ts';

/** The cheaper way to verify due records, how long to wait after failures, and how long a full sync will take. Pure. */

/** Requests for a list scan over `total` records: its pages, and the empty one at the end. */
export function scanCost(total: number, pageSize: number): number {
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

/** For ids that the API does not know. Most of them never will be known. */
export const UNRESOLVED_BACKOFF: Backoff = { firstMs: 60_000, longestMs: 6 * 3_600_000 };

/** For one record or page whose read failed. */
export const READ_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 5 * 60_000 };

/** Tries for one record or page within one full sync or dry run. */
export const READ_TRIES = 4;

/** For all requests after several failures in a row, so that an outage gets no storm of requests. */
export const OUTAGE_BACKOFF: Backoff = { firstMs: 1_000, longestMs: 60_000 };

/**
 * While there is nothing to read, one request in this time shows whether the API still answers. Silence must be reported within
 * 15 s, and is reported 5 s after the first request without an answer.
 */
const LOOK_EVERY_MS = 6_000;
/** The largest part of the request budget for this. */
const LOOKS_SHARE = 1 / 6;

export const lookEveryMs = (requestsPerMinute: number): number =>
  Math.max(LOOK_EVERY_MS, 60_000 / (requestsPerMinute * LOOKS_SHARE));

/** For the next full sync after one that did not end complete. */
export const FULL_SYNC_BACKOFF: Backoff = { firstMs: 2_000, longestMs: 10 * 60_000 };

/** The same after one that left deletions waiting for a person: it shows whether a passing fault only looked like deletions. */
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

/** Estimates from the speed so far: the budget, the other lanes' share of it and the upstream's speed cannot be known ahead. */
export function paceOf({ seen, pages, skipped, estimatedTotal, elapsedMs }: PaceInput): Pace {
  const readBefore = skipped === 0 ? 0 : (seen / Math.max(1, pages - skipped)) * skipped;
  const left = estimatedTotal === null ? null : estimatedTotal - seen - readBefore;
  // More than the total is read if a full sync reads records by themselves, or the list again.
  const isListRead = left !== null && left <= 0;
  if (seen === 0 || elapsedMs <= 0 || isListRead) return { recordsPerSecond: null, leftMs: null };
  const perMs = seen / elapsedMs;
  return {
    recordsPerSecond: perMs * 1000,
    leftMs: left === null ? null : Math.round(left / perMs),
  };
}
