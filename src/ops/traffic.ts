import type { Clock } from '../platform/clock.ts';
import type { TrafficReport, TrafficStep } from '../store/reports.ts';
import type { Store } from '../store/store.ts';

/** What the longest chart shows, its first bar whole. */
const TRAFFIC_KEPT_MS = (7 * 24 + 2) * 3_600_000;
/** Reasons are our own words; the limit only protects against a caller that passes a sender's text. */
const MAX_REASONS = 64;

/** Ten seconds: fine enough that "the last minute" is true to within one bucket. */
const BUCKET_MS = 10_000;
const BUCKETS = 360;
const BUCKETS_PER_MINUTE = 60_000 / BUCKET_MS;

/** What is counted without a reason. */
const OUTCOMES = ['accepted', 'duplicate', 'quarantined'] as const;
type CountedOutcome = (typeof OUTCOMES)[number];
export const isCounted = (what: string): what is CountedOutcome =>
  OUTCOMES.some((outcome) => outcome === what);

export interface DeliveryCounts extends Record<CountedOutcome, number> {
  /** By reason; only those that occurred. */
  rejected: Record<string, number>;
}

export interface RecentDeliveries {
  lastMinute: DeliveryCounts;
  lastHour: DeliveryCounts;
}

/**
 * Counts deliveries and lags by the minute. Written with the heartbeat and not with each delivery: a crash loses a
 * few seconds of a chart, and no delivery waits for it.
 */
export function createTraffic({
  store,
  clock,
}: {
  store: Pick<Store, 'addTraffic' | 'listTraffic'>;
  clock: Clock;
}) {
  const recent = createRecent(clock);
  const reasons = new Set<string>();
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
    rejected(reason: string): void {
      if (reasons.size < MAX_REASONS) reasons.add(reason);
      const known = reasons.has(reason) ? reason : 'other';
      addRejected(recent.counts(), known, 1);
      count(`rejected:${known}`);
    },
    /** `ms` from an event's arrival to its provisional row, or from a record becoming unverified to its verification. */
    lagged: (what: 'provisional' | 'verification', ms: number): void => count(`lag:${what}`, Math.max(0, ms)),
    /** Of the last hour, to the second. */
    recent: recent.report,
    /** What is not written yet is included, by the minute. */
    async since(wall: number, step?: TrafficStep): Promise<TrafficReport[]> {
      const written = await store.listTraffic(wall, step);
      const from = new Date(wall).toISOString();
      return [...written, ...[...unwritten.values()].filter(({ minute }) => minute >= from)];
    },
    /** Writes what was counted since the last time. Rejects with StoreUnavailable, and then nothing is forgotten. */
    async flush(): Promise<void> {
      const counted = unwritten;
      unwritten = new Map();
      current = { began: Number.NaN, rows: new Map() };
      try {
        await store.addTraffic([...counted.values()], clock.wall() - TRAFFIC_KEPT_MS);
      } catch (error) {
        // Unwritten again, added to what was counted of the same minute meanwhile.
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

export function addRejected({ rejected }: DeliveryCounts, reason: string, times: number): void {
  rejected[reason] = (Object.hasOwn(rejected, reason) ? rejected[reason]! : 0) + times;
}

/** Deliveries of the last hour, in memory of constant size. Lost with a restart: what must last is in the database. */
function createRecent(clock: Pick<Clock, 'steady'>) {
  // `epoch`: which ten seconds since the clock's beginning. Each place is used again an hour later.
  const ring: { epoch: number; counts: DeliveryCounts }[] = [];
  const epochNow = () => Math.floor(clock.steady() / BUCKET_MS);

  return {
    /** Those of the current ten seconds. */
    counts(): DeliveryCounts {
      const epoch = epochNow();
      const place = epoch % BUCKETS;
      const bucket = ring[place];
      if (bucket?.epoch === epoch) return bucket.counts;
      const counts = noDeliveries();
      ring[place] = { epoch, counts };
      return counts;
    },
    report(): RecentDeliveries {
      const newest = epochNow();
      const [lastMinute, lastHour] = [noDeliveries(), noDeliveries()];
      // Places not used yet are holes.
      for (const { epoch, counts } of ring.filter(Boolean)) {
        const age = newest - epoch;
        if (age < 0 || age >= BUCKETS) continue;
        add(lastHour, counts);
        if (age < BUCKETS_PER_MINUTE) add(lastMinute, counts);
      }
      return { lastMinute, lastHour };
    },
  };
}

export const rejectedIn = ({ rejected }: DeliveryCounts): number =>
  Object.values(rejected).reduce((sum, times) => sum + times, 0);

function add(to: DeliveryCounts, counts: DeliveryCounts): void {
  for (const outcome of OUTCOMES) to[outcome] += counts[outcome];
  for (const [reason, times] of Object.entries(counts.rejected)) addRejected(to, reason, times);
}
