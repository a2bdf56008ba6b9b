import type { Clock } from '../platform/clock.ts';
import type { TrafficReport } from '../store/reports.ts';
import type { Store } from '../store/store.ts';

const MINUTE_MS = 60_000;
/** The chart of an hour, with all of its first bar. */
const TRAFFIC_KEPT_MS = 2 * 3_600_000;

/** Outcomes that are counted without a reason. */
const OUTCOMES = ['accepted', 'duplicate', 'quarantined'] as const;
type CountedOutcome = (typeof OUTCOMES)[number];
const isCounted = (what: string): what is CountedOutcome => OUTCOMES.some((outcome) => outcome === what);

/**
 * Counts deliveries and lags by the minute. The heartbeat writes them, so that no delivery waits for it; a crash loses a few
 * seconds of a chart.
 */
export function createTraffic(store: Pick<Store, 'addTraffic' | 'listTraffic'>, clock: Pick<Clock, 'wall'>) {
  let unwritten = new Map<string, TrafficReport>();

  function add({ minute, what, times, total_ms, max_ms }: TrafficReport): void {
    const key = `${minute} ${what}`;
    const row = unwritten.get(key) ?? { minute, what, times: 0, total_ms: 0, max_ms: 0 };
    unwritten.set(key, row);
    row.times += times;
    row.total_ms += total_ms;
    row.max_ms = Math.max(row.max_ms, max_ms);
  }

  function count(what: string, lagMs = 0): void {
    const minute = new Date(Math.floor(clock.wall() / MINUTE_MS) * MINUTE_MS).toISOString();
    const ms = Math.round(lagMs);
    add({ minute, what, times: 1, total_ms: ms, max_ms: ms });
  }

  return {
    delivered: (outcome: CountedOutcome): void => count(outcome),
    /** `reason`: one of our own words, which are few. */
    rejected: (reason: string): void => count(`rejected:${reason}`),
    /** `ms` after the record became unverified. */
    verified: (ms: number): void => count('lag:verification', Math.max(0, ms)),
    /** From `wall` on, with what is not written yet. */
    async since(wall: number): Promise<TrafficReport[]> {
      const written = await store.listTraffic(wall);
      const from = new Date(wall).toISOString();
      return [...written, ...[...unwritten.values()].filter(({ minute }) => minute >= from)];
    },
    /** Writes what was counted since the last time. Rejects with StoreUnavailable, and then keeps the counts. */
    async flush(): Promise<void> {
      const counted = [...unwritten.values()];
      unwritten = new Map();
      try {
        await store.addTraffic(counted, clock.wall() - TRAFFIC_KEPT_MS);
      } catch (error) {
        counted.forEach(add);
        throw error;
      }
    },
  };
}

export const rejectedIn = ({ rejected }: TrafficCounts): number =>
  Object.values(rejected).reduce((sum, times) => sum + times, 0);

/** The counts of one bar of a chart, or of the whole chart. `verification`: how long records stayed unverified. */
export type TrafficCounts = ReturnType<typeof noTraffic>;

export type TrafficSeries = ReturnType<typeof seriesOf>;

/** A chart has a bar for each minute of the last hour. */
const BARS = 60;

/** When the first bar of a chart that ends now begins. */
export const seriesStart = (now: number): number => (Math.floor(now / MINUTE_MS) - BARS + 1) * MINUTE_MS;

const noTraffic = () => ({
  accepted: 0,
  duplicate: 0,
  quarantined: 0,
  rejected: {} as Record<string, number>,
  verification: { times: 0, totalMs: 0, maxMs: 0 },
});

/**
 * Sums up the rows of minutes in the bars of a chart: `points`, oldest first, of which the last one is not over yet. `at`: when it
 * begins, wall-clock milliseconds. Pure.
 */
export function seriesOf(rows: readonly TrafficReport[], now: number) {
  const start = seriesStart(now);
  const points = Array.from({ length: BARS }, (_, bar) => ({ at: start + bar * MINUTE_MS, ...noTraffic() }));
  const total = noTraffic();
  for (const row of rows) {
    const point = points[Math.floor((Date.parse(row.minute) - start) / MINUTE_MS)];
    if (point === undefined) continue;
    addRow(point, row);
    addRow(total, row);
  }
  return { points, total };
}

function addRow(counts: TrafficCounts, { what, times, total_ms, max_ms }: TrafficReport): void {
  const { verification } = counts;
  if (isCounted(what)) counts[what] += times;
  else if (what.startsWith('rejected:')) {
    const reason = what.slice('rejected:'.length);
    counts.rejected[reason] = (counts.rejected[reason] ?? 0) + times;
  } else if (what === 'lag:verification') {
    verification.times += times;
    verification.totalMs += total_ms;
    verification.maxMs = Math.max(verification.maxMs, max_ms);
  }
}

/** Why deliveries were rejected, the most frequent reason first. */
export function reasonsOf({ rejected }: TrafficCounts): [reason: string, times: number][] {
  return Object.entries(rejected).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}
