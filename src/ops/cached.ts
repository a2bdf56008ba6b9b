import type { Clock } from '../platform/clock.ts';

/**
 * What `read` gives, at most `ms` old. One reading serves all that ask while it is under way, however long it takes. One that took
 * longer than `ms` serves for `ms` after its end: whoever waited for it and asks again does not wait for another.
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

/** How long a page or a program waits for one reading. */
const READ_WITHIN_MS = 6_000;

/** A reading that waits for somebody's lock, or for a network that swallows the question, is no better than one that fails. */
export async function inTime<T>(clock: Pick<Clock, 'sleep'>, reading: Promise<T>): Promise<T> {
  const over = new AbortController();
  const late = clock.sleep(READ_WITHIN_MS, over.signal).then(() => {
    throw new Error(`the database has not answered for ${READ_WITHIN_MS / 1000} s`);
  });
  try {
    return await Promise.race([reading, late]);
  } finally {
    over.abort();
  }
}
