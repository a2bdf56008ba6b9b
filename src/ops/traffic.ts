import type { Clock } from '../platform/clock.ts';
import type { TrafficReport, TrafficStep } from '../store/reports.ts';
import type { Store } from '../store/store.ts';
import { type CountedOutcome, createRecent, type RecentDeliveries } from './recent.ts';

/** What the longest chart shows, its first bar whole. */
const TRAFFIC_KEPT_MS = (7 * 24 + 2) * 3_600_000;
/** Reasons are words of our own; the limit only guards the table against a caller that passes a sender's text. */
const MAX_REASONS = 64;

export type Lag = 'provisional' | 'verification';

export interface Traffic {
  delivered(outcome: CountedOutcome): void;
  rejected(reason: string): void;
  /** `ms` from an event's arrival to its provisional row, or from a record becoming unverified to its verification. */
  lagged(what: Lag, ms: number): void;
  /** Of the last hour, to the second. */
  recent(): RecentDeliveries;
  /** What is not written yet is included, by the minute. */
  since(wall: number, step?: TrafficStep): Promise<TrafficReport[]>;
  /** Writes what was counted since the last time. Rejects with StoreUnavailable, and then nothing is forgotten. */
  flush(): Promise<void>;
}

/**
 * Counts deliveries and lags by the minute. Written with the heartbeat and not with each delivery: a crash loses a
 * few seconds of a chart, and no delivery waits for it.
 */
export function createTraffic(options: {
  store: Pick<Store, 'addTraffic' | 'listTraffic'>;
  clock: Clock;
}): Traffic {
  const { store, clock } = options;
  const recent = createRecent(clock);
  const reasons = new Set<string>();
  let unwritten = new Map<string, TrafficReport>();
  /** The rows of the minute under way by what they count: naming minute and matter for each delivery cost a microsecond. */
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
    delivered(outcome) {
      recent.count(outcome);
      count(outcome);
    },
    rejected(reason) {
      recent.countRejected(reason);
      const known = reasons.has(reason) || reasons.size < MAX_REASONS;
      if (known) reasons.add(reason);
      count(`rejected:${known ? reason : 'other'}`);
    },
    lagged: (what, ms) => count(`lag:${what}`, Math.max(0, ms)),
    recent: recent.report,
    async since(wall, step) {
      const written = await store.listTraffic(wall, step);
      const from = new Date(wall).toISOString();
      return [...written, ...[...unwritten.values()].filter(({ minute }) => minute >= from)];
    },
    async flush() {
      const counted = unwritten;
      unwritten = new Map();
      current = { began: Number.NaN, rows: new Map() };
      try {
        await store.addTraffic([...counted.values()], clock.wall() - TRAFFIC_KEPT_MS);
      } catch (error) {
        // Back among what is unwritten, and together with what was counted of the same minute meanwhile.
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
