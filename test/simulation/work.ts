/**
 * What really takes time, such as a database's transactions, while the world's time is only told. Time may go on a
 * little meanwhile, so that others begin something too, and waits beyond.
 */
export interface Work {
  /** `real` has begun; the world's time does not pass `until` before it has ended. */
  track<T>(until: number, real: Promise<T>): Promise<T>;
  /** The instant that must not be passed now. */
  limit(): number;
  /** When some of it has ended; null: none is under way. */
  ended(): Promise<void> | null;
}

export function createWork(): Work {
  const underWay = new Set<{ until: number }>();
  let oneEnded = Promise.withResolvers<void>();

  return {
    async track(until, real) {
      const entry = { until };
      underWay.add(entry);
      try {
        return await real;
      } finally {
        underWay.delete(entry);
        oneEnded.resolve();
        oneEnded = Promise.withResolvers<void>();
      }
    },
    limit: () => Math.min(Number.POSITIVE_INFINITY, ...[...underWay].map(({ until }) => until)),
    ended: () => (underWay.size === 0 ? null : oneEnded.promise),
  };
}
