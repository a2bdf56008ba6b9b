import type { Clock } from '../platform/clock.ts';

/** Ten seconds: fine enough that "the last minute" is true to within one bucket. */
const BUCKET_MS = 10_000;
const BUCKETS = 360;
const BUCKETS_PER_MINUTE = 60_000 / BUCKET_MS;
/** Reasons are words of our own; the limit only guards against a caller that passes a sender's text. */
const MAX_REASONS = 64;

/** What is counted without a reason. */
export type CountedOutcome = 'accepted' | 'duplicate' | 'quarantined';

export interface DeliveryCounts {
  accepted: number;
  duplicate: number;
  quarantined: number;
  /** By reason; only those that occurred. */
  rejected: Record<string, number>;
}

export interface RecentDeliveries {
  lastMinute: DeliveryCounts;
  lastHour: DeliveryCounts;
}

export interface RecentRing {
  count(outcome: CountedOutcome): void;
  countRejected(reason: string): void;
  report(): RecentDeliveries;
}

interface Bucket {
  /** Which ten seconds it stands for; older ones are overwritten when their place comes round. */
  epoch: number;
  accepted: number;
  duplicate: number;
  quarantined: number;
  rejected: Map<string, number>;
}

/** Deliveries of the last hour, in memory of constant size. A restart forgets them; the database holds what must last. */
export function createRecent(clock: Pick<Clock, 'steady'>): RecentRing {
  const ring: Bucket[] = [];
  const epochNow = () => Math.floor(clock.steady() / BUCKET_MS);

  const current = (): Bucket => {
    const epoch = epochNow();
    const place = epoch % BUCKETS;
    const held = ring[place];
    if (held?.epoch === epoch) return held;
    const fresh: Bucket = { epoch, accepted: 0, duplicate: 0, quarantined: 0, rejected: new Map() };
    ring[place] = fresh;
    return fresh;
  };

  return {
    count(outcome) {
      current()[outcome] += 1;
    },
    countRejected(reason) {
      const { rejected } = current();
      const key = rejected.has(reason) || rejected.size < MAX_REASONS ? reason : 'other';
      rejected.set(key, (rejected.get(key) ?? 0) + 1);
    },
    report() {
      const newest = epochNow();
      const lastMinute = noDeliveries();
      const lastHour = noDeliveries();
      for (const bucket of ring) {
        // A place never written is a hole in the sparse array.
        if (bucket === undefined) continue;
        const age = newest - bucket.epoch;
        if (age < 0 || age >= BUCKETS) continue;
        add(lastHour, bucket);
        if (age < BUCKETS_PER_MINUTE) add(lastMinute, bucket);
      }
      return { lastMinute, lastHour };
    },
  };
}

export function noDeliveries(): DeliveryCounts {
  return { accepted: 0, duplicate: 0, quarantined: 0, rejected: {} };
}

function add(counts: DeliveryCounts, bucket: Bucket): void {
  counts.accepted += bucket.accepted;
  counts.duplicate += bucket.duplicate;
  counts.quarantined += bucket.quarantined;
  for (const [reason, times] of bucket.rejected) {
    counts.rejected[reason] = (Object.hasOwn(counts.rejected, reason) ? counts.rejected[reason]! : 0) + times;
  }
}
