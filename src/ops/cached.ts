import type { Clock } from '../platform/clock.ts';

/** What `read` gives, at most `ms` old. One reading serves all that ask while it is under way, however long it takes. */
export function cached<T>(clock: Pick<Clock, 'steady'>, ms: number, read: () => Promise<T>) {
  let last: { at: number; value: Promise<T>; isOver: boolean } | null = null;
  return {
    current(): Promise<T> {
      const at = clock.steady();
      if (last !== null && (!last.isOver || at - last.at < ms)) return last.value;
      const reading = { at, value: read(), isOver: false };
      const end = () => {
        reading.isOver = true;
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
