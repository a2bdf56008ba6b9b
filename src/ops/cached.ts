import type { Clock } from '../platform/clock.ts';

/**
 * Calls `read` at most once in `ms`. All callers that come during a reading share its result. A reading that took longer than
 * `ms` also serves for `ms` after its end, so that a caller who waited for it does not wait for another.
 */
export function cached<T>(clock: Pick<Clock, 'steady'>, ms: number, read: () => Promise<T>) {
  let last: { at: number; value: Promise<T>; isOver: boolean } | null = null;
  return {
    current(): Promise<T> {
      const at = clock.steady();
      if (last !== null && (!last.isOver || at - last.at < ms)) return last.value;
      const reading = { at, value: read(), isOver: false };
      const end = () => {
        reading.isOver = true;
        const now = clock.steady();
        if (now - at >= ms) reading.at = now;
      };
      reading.value.then(end, end);
      last = reading;
      return reading.value;
    },
    forget(): void {
      last = null;
    },
  };
}

/** How long a request waits for one reading of the database. */
const READ_WITHIN_MS = 6_000;

/** Rejects when the database takes longer than `withinMs`, as when a lock or a broken network holds the answer back. */
export async function inTime<T>(
  clock: Pick<Clock, 'sleep'>,
  reading: Promise<T>,
  withinMs = READ_WITHIN_MS,
): Promise<T> {
  const over = new AbortController();
  const late = clock.sleep(withinMs, over.signal).then(() => {
    throw new Error(`the database has not answered for ${withinMs / 1000} s`);
  });
  try {
    return await Promise.race([reading, late]);
  } finally {
    over.abort();
  }
}
