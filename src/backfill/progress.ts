/** How fast a full sync goes, and how long it has still to go. */
export interface Pace {
  /** Null: nothing has been read yet. */
  recordsPerSecond: number | null;
  /** Milliseconds. Null: the upstream has not said how many records there are, or nothing has been read yet. */
  leftMs: number | null;
}

export interface PaceInput {
  /** Records read by this full sync. */
  seen: number;
  /** Pages read, those included that an interrupted full sync had read before it. */
  pages: number;
  /** Pages left out because an interrupted full sync had read them. */
  skipped: number;
  estimatedTotal: number | null;
  elapsedMs: number;
}

/**
 * By what has been read so far: that holds the budget, the other lanes' share of it and the upstream's own pace, of
 * which none can be known ahead. Pure.
 */
export function paceOf({ seen, pages, skipped, estimatedTotal, elapsedMs }: PaceInput): Pace {
  if (seen === 0 || elapsedMs <= 0) return { recordsPerSecond: null, leftMs: null };
  const perMs = seen / elapsedMs;
  const readBefore = skipped === 0 ? 0 : (seen / Math.max(1, pages - skipped)) * skipped;
  const left = estimatedTotal === null ? null : Math.max(0, estimatedTotal - seen - readBefore);
  return {
    recordsPerSecond: perMs * 1000,
    leftMs: left === null ? null : Math.round(left / perMs),
  };
}
