import { describeError } from '../platform/errors.ts';
import type { TrafficReport } from '../store/reports.ts';
import { cached } from './cached.ts';
import type { OpsContext } from './context.ts';
import { addRejected, type DeliveryCounts, isCounted, noDeliveries } from './traffic.ts';

/** Of one bar of a chart, or of the whole chart. */
export interface TrafficCounts extends DeliveryCounts {
  /** From a record becoming unverified to its verification. */
  verification: { times: number; totalMs: number; maxMs: number };
}

export interface TrafficSeries {
  range: Range;
  /** Oldest first, the last one being under way. `at`: when it begins, wall-clock milliseconds. */
  points: (TrafficCounts & { at: number })[];
  total: TrafficCounts;
}

const MINUTE_MS = 60_000;

/** What a chart shows: so many bars, each of so long; and how old it may be, because longer bars take more rows. */
export const RANGES = {
  hour: { steps: 60, stepMs: MINUTE_MS, keptMs: 1_000 },
  day: { steps: 96, stepMs: 15 * MINUTE_MS, keptMs: 5_000 },
  week: { steps: 84, stepMs: 120 * MINUTE_MS, keptMs: 60_000 },
} as const;

export type Range = keyof typeof RANGES;

export const isRange = (text: string): text is Range => Object.hasOwn(RANGES, text);

/** When the first bar of a chart that ends now begins. */
export function seriesStart(range: Range, now: number): number {
  const { steps, stepMs } = RANGES[range];
  return Math.floor(now / stepMs) * stepMs - (steps - 1) * stepMs;
}

const noTraffic = (): TrafficCounts => ({
  ...noDeliveries(),
  verification: { times: 0, totalMs: 0, maxMs: 0 },
});

/** Minutes, gathered into the bars of a chart. Pure. */
export function seriesOf(rows: readonly TrafficReport[], range: Range, now: number): TrafficSeries {
  const { steps, stepMs } = RANGES[range];
  const start = seriesStart(range, now);
  const points = Array.from({ length: steps }, (_, step) => ({ at: start + step * stepMs, ...noTraffic() }));
  const total = noTraffic();
  for (const row of rows) {
    const point = points[Math.floor((Date.parse(row.minute) - start) / stepMs)];
    if (point === undefined) continue;
    add(point, row);
    add(total, row);
  }
  return { range, points, total };
}

function add(counts: TrafficCounts, { what, times, total_ms, max_ms }: TrafficReport): void {
  const { verification } = counts;
  if (isCounted(what)) counts[what] += times;
  else if (what.startsWith('rejected:')) addRejected(counts, what.slice('rejected:'.length), times);
  else if (what === 'lag:verification') {
    verification.times += times;
    verification.totalMs += total_ms;
    verification.maxMs = Math.max(verification.maxMs, max_ms);
  }
}

/** Why deliveries were rejected, the most frequent reason first. */
export function reasonsOf({ rejected }: DeliveryCounts): [reason: string, times: number][] {
  return Object.entries(rejected).sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

export type Charts = ReturnType<typeof createCharts>;

/** Deliveries over a range, up to this moment. A listener never sees it fail: what cannot be read is an empty chart. */
export function createCharts({
  traffic,
  clock,
  logger,
}: OpsContext): (range: Range) => Promise<TrafficSeries> {
  const chart = (range: Range) =>
    cached(clock, RANGES[range].keptMs, async () => {
      const now = clock.wall();
      try {
        const rows = await traffic(seriesStart(range, now), range === 'week' ? 'hour' : 'minute');
        return seriesOf(rows, range, now);
      } catch (error) {
        logger.error({ outcome: 'failed', error: describeError(error) }, 'traffic could not be read');
        return seriesOf([], range, now);
      }
    });
  const charts = { hour: chart('hour'), day: chart('day'), week: chart('week') };
  return (range) => charts[range].current();
}
