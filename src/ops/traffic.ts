import type { Clock } from '../platform/clock.ts';
import type { TrafficReport, TrafficStep } from '../store/reports.ts';
import type { Store } from '../store/store.ts';
import type { DeliveryCounts } from './api/schemas.ts';
import { cached, inTime } from './cached.ts';
import type { OpsContext } from './context.ts';

/** The longest chart: a week, with all of its first bar. */
const TRAFFIC_KEPT_MS = (7 * 24 + 2) * 3_600_000;

/** Ten seconds: fine enough that "the last minute" is true to within one bucket. */
const BUCKET_MS = 10_000;
const BUCKETS = 360;
const BUCKETS_PER_MINUTE = 60_000 / BUCKET_MS;

/** Outcomes that are counted without a reason. */
const OUTCOMES = ['accepted', 'duplicate', 'quarantined'] as const;
type CountedOutcome = (typeof OUTCOMES)[number];
const isCounted = (what: string): what is CountedOutcome => OUTCOMES.some((outcome) => outcome === what);

/**
 * Counts deliveries and lags by the minute. The heartbeat writes them, so that no delivery waits for it; a crash loses a few
 * seconds of a chart.
 */
export function createTraffic(store: Pick<Store, 'addTraffic' | 'listTraffic'>, clock: Clock) {
  const recent = createRecent(clock);
  let unwritten = new Map<string, TrafficReport>();
  /** The current minute's rows by what they count: building the key for each delivery cost a microsecond. */
  let current = { began: Number.NaN, rows: new Map<string, TrafficReport>() };

  function rowOf(what: string): TrafficReport {
    const began = Math.floor(clock.wall() / 60_000) * 60_000;
    if (began !== current.began) current = { began, rows: new Map() };
    let row = current.rows.get(what);
    if (row === undefined) {
      const minute = new Date(began).toISOString();
      row = unwritten.get(`${minute} ${what}`) ?? { minute, what, times: 0, total_ms: 0, max_ms: 0 };
      unwritten.set(`${minute} ${what}`, row);
      current.rows.set(what, row);
    }
    return row;
  }

  function count(what: string, ms = 0): void {
    const row = rowOf(what);
    const rounded = Math.round(ms);
    row.times += 1;
    row.total_ms += rounded;
    if (rounded > row.max_ms) row.max_ms = rounded;
  }

  return {
    delivered(outcome: CountedOutcome): void {
      recent.counts()[outcome] += 1;
      count(outcome);
    },
    /** `reason`: one of our own words, which are few. */
    rejected(reason: string): void {
      addRejected(recent.counts(), reason, 1);
      count(`rejected:${reason}`);
    },
    /** `ms` after the record became unverified. */
    verified: (ms: number): void => count('lag:verification', Math.max(0, ms)),
    /** The last minute and the last hour, in memory. */
    recent: recent.report,
    /** From `wall` on, with what is not written yet. */
    async since(wall: number, step?: TrafficStep): Promise<TrafficReport[]> {
      const written = await store.listTraffic(wall, step);
      const from = new Date(wall).toISOString();
      return [...written, ...[...unwritten.values()].filter(({ minute }) => minute >= from)];
    },
    /** Writes what was counted since the last time. Rejects with StoreUnavailable, and then keeps the counts. */
    async flush(): Promise<void> {
      const counted = unwritten;
      unwritten = new Map();
      current = { began: Number.NaN, rows: new Map() };
      try {
        await store.addTraffic([...counted.values()], clock.wall() - TRAFFIC_KEPT_MS);
      } catch (error) {
        // The counts are unwritten again, together with those of the same minute that came meanwhile.
        for (const [key, row] of counted) {
          const since = unwritten.get(key);
          if (since === undefined) unwritten.set(key, row);
          else {
            since.times += row.times;
            since.total_ms += row.total_ms;
            since.max_ms = Math.max(since.max_ms, row.max_ms);
          }
        }
        throw error;
      }
    },
  };
}

export function noDeliveries(): DeliveryCounts {
  return { accepted: 0, duplicate: 0, quarantined: 0, rejected: {} };
}

function addRejected({ rejected }: DeliveryCounts, reason: string, times: number): void {
  rejected[reason] = (rejected[reason] ?? 0) + times;
}

/** Deliveries of the last hour, in memory of constant size. Lost with a restart: what must last is in the database. */
function createRecent(clock: Pick<Clock, 'steady'>) {
  // Oldest first. `epoch`: the number of the ten seconds since the clock began.
  const buckets: { epoch: number; counts: DeliveryCounts }[] = [];
  const epochNow = () => Math.floor(clock.steady() / BUCKET_MS);

  return {
    /** The counts of the current ten seconds. */
    counts(): DeliveryCounts {
      const epoch = epochNow();
      const newest = buckets.at(-1);
      if (newest?.epoch === epoch) return newest.counts;
      const counts = noDeliveries();
      buckets.push({ epoch, counts });
      if (buckets.length > BUCKETS) buckets.shift();
      return counts;
    },
    report() {
      const newest = epochNow();
      const last_minute = noDeliveries();
      const last_hour = noDeliveries();
      for (const { epoch, counts } of buckets) {
        if (newest - epoch < BUCKETS) addCounts(last_hour, counts);
        if (newest - epoch < BUCKETS_PER_MINUTE) addCounts(last_minute, counts);
      }
      return { last_minute, last_hour };
    },
  };
}

export const rejectedIn = ({ rejected }: DeliveryCounts): number =>
  Object.values(rejected).reduce((sum, times) => sum + times, 0);

function addCounts(to: DeliveryCounts, counts: DeliveryCounts): void {
  for (const outcome of OUTCOMES) to[outcome] += counts[outcome];
  for (const [reason, times] of Object.entries(counts.rejected)) addRejected(to, reason, times);
}

/** The counts of one bar of a chart, or of the whole chart. `verification`: how long records stayed unverified. */
export type TrafficCounts = ReturnType<typeof noTraffic>;

export type TrafficSeries = ReturnType<typeof seriesOf>;

const MINUTE_MS = 60_000;

/** How many bars a chart has, how long each is, both in words too, and how long the chart is cached: a longer one reads more rows. */
export const RANGES = {
  hour: { steps: 60, stepMs: MINUTE_MS, step: 'one minute', from: '60 minutes ago', cachedMs: 1_000 },
  day: { steps: 96, stepMs: 15 * MINUTE_MS, step: '15 minutes', from: '24 hours ago', cachedMs: 5_000 },
  week: { steps: 84, stepMs: 120 * MINUTE_MS, step: 'two hours', from: '7 days ago', cachedMs: 60_000 },
} as const;

export type Range = keyof typeof RANGES;

export const isRange = (text: string): text is Range => Object.hasOwn(RANGES, text);

/** When the first bar of a chart that ends now begins. */
export function seriesStart(range: Range, now: number): number {
  const { steps, stepMs } = RANGES[range];
  return Math.floor(now / stepMs) * stepMs - (steps - 1) * stepMs;
}

const noTraffic = () => ({
  ...noDeliveries(),
  verification: { times: 0, totalMs: 0, maxMs: 0 },
});

/**
 * Sums up the rows of minutes in the bars of a chart: `points`, oldest first, of which the last one is not over yet. `at`: when it
 * begins, wall-clock milliseconds. Pure.
 */
export function seriesOf(rows: readonly TrafficReport[], range: Range, now: number) {
  const { steps, stepMs } = RANGES[range];
  const start = seriesStart(range, now);
  const points = Array.from({ length: steps }, (_, step) => ({ at: start + step * stepMs, ...noTraffic() }));
  const total = noTraffic();
  for (const row of rows) {
    const point = points[Math.floor((Date.parse(row.minute) - start) / stepMs)];
    if (point === undefined) continue;
    addRow(point, row);
    addRow(total, row);
  }
  return { range, points, total };
}

function addRow(counts: TrafficCounts, { what, times, total_ms, max_ms }: TrafficReport): void {
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

/** Deliveries over a range, until now. Never rejects: if the database cannot be read, the chart is empty. */
export function createCharts({ traffic, clock, logger }: OpsContext) {
  const chart = (range: Range) =>
    cached(clock, RANGES[range].cachedMs, async () => {
      const now = clock.wall();
      try {
        const reading = traffic(seriesStart(range, now), range === 'week' ? 'hour' : 'minute');
        const rows = await inTime(clock, reading);
        return seriesOf(rows, range, now);
      } catch (error) {
        logger.error({ outcome: 'failed', error }, 'traffic could not be read');
        return seriesOf([], range, now);
      }
    });
  const charts = { hour: chart('hour'), day: chart('day'), week: chart('week') };
  return (range: Range) => charts[range].current();
}
