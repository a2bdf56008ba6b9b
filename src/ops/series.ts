import { describeError } from '../platform/errors.ts';
import type { TrafficReport } from '../store/reports.ts';
import type { OpsContext } from './context.ts';

/** One bar of a chart. */
export interface TrafficPoint {
  /** When it begins, wall-clock milliseconds. */
  at: number;
  accepted: number;
  duplicate: number;
  quarantined: number;
  /** By reason; only those that occurred. */
  rejected: Map<string, number>;
  /** From a record becoming unverified to its verification. */
  verification: { times: number; totalMs: number; maxMs: number };
}

export interface TrafficSeries {
  stepMs: number;
  /** Oldest first, the last one being under way. */
  points: TrafficPoint[];
}

const MINUTE_MS = 60_000;

/** What a chart shows: so many bars, each of so long. */
export const RANGES = {
  hour: { steps: 60, stepMs: MINUTE_MS },
  day: { steps: 96, stepMs: 15 * MINUTE_MS },
  week: { steps: 84, stepMs: 120 * MINUTE_MS },
} as const;

export type Range = keyof typeof RANGES;

export const isRange = (text: string): text is Range => Object.hasOwn(RANGES, text);

/** When the first bar of a chart that ends now begins. */
export function seriesStart({ steps, stepMs }: { steps: number; stepMs: number }, now: number): number {
  return Math.floor(now / stepMs) * stepMs - (steps - 1) * stepMs;
}

/** Minutes, gathered into the bars of a chart. Pure. */
export function seriesOf(
  rows: readonly TrafficReport[],
  span: { steps: number; stepMs: number },
  now: number,
): TrafficSeries {
  const start = seriesStart(span, now);
  const points = Array.from(
    { length: span.steps },
    (_, step): TrafficPoint => ({
      at: start + step * span.stepMs,
      accepted: 0,
      duplicate: 0,
      quarantined: 0,
      rejected: new Map(),
      verification: { times: 0, totalMs: 0, maxMs: 0 },
    }),
  );
  for (const row of rows) {
    const point = points[Math.floor((Date.parse(row.minute) - start) / span.stepMs)];
    if (point !== undefined) add(point, row);
  }
  return { stepMs: span.stepMs, points };
}

function add(point: TrafficPoint, { what, times, total_ms, max_ms }: TrafficReport): void {
  if (what === 'accepted' || what === 'duplicate' || what === 'quarantined') point[what] += times;
  else if (what.startsWith('rejected:')) {
    const reason = what.slice('rejected:'.length);
    point.rejected.set(reason, (point.rejected.get(reason) ?? 0) + times);
  } else if (what === 'lag:verification') {
    const { verification } = point;
    verification.times += times;
    verification.totalMs += total_ms;
    verification.maxMs = Math.max(verification.maxMs, max_ms);
  }
}

/** Reasons of a chart, the most frequent first. */
export function reasonsOf({ points }: TrafficSeries): [reason: string, times: number][] {
  const totals = new Map<string, number>();
  for (const { rejected } of points) {
    for (const [reason, times] of rejected) totals.set(reason, (totals.get(reason) ?? 0) + times);
  }
  return [...totals].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

/** Read at most once in this time, however many pages are open: the longer the bars, the more rows. */
const KEPT_MS: Readonly<Record<Range, number>> = { hour: 1_000, day: 5_000, week: 60_000 };

/** Deliveries over a range, up to this moment. A listener never sees it fail: what cannot be read is an empty chart. */
export type Charts = (range: Range) => Promise<TrafficSeries>;

export function createCharts({
  traffic,
  clock,
  logger,
}: Pick<OpsContext, 'traffic' | 'clock' | 'logger'>): Charts {
  const last = new Map<Range, { at: number; series: Promise<TrafficSeries> }>();

  const read = async (range: Range): Promise<TrafficSeries> => {
    const span = RANGES[range];
    const now = clock.wall();
    try {
      const rows = await traffic(seriesStart(span, now), range === 'week' ? 'hour' : 'minute');
      return seriesOf(rows, span, now);
    } catch (error) {
      logger.error({ outcome: 'failed', error: describeError(error) }, 'traffic could not be read');
      return seriesOf([], span, now);
    }
  };

  return (range) => {
    const known = last.get(range);
    if (known !== undefined && clock.steady() - known.at < KEPT_MS[range]) return known.series;
    const series = read(range);
    last.set(range, { at: clock.steady(), series });
    return series;
  };
}
