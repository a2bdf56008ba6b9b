import type { Clock } from '../platform/clock.ts';

/** What `read` gives, at most `ms` old, and read once for all that ask meanwhile. */
export function cached<T>(clock: Pick<Clock, 'steady'>, ms: number, read: () => Promise<T>) {
  let last: { at: number; value: Promise<T> } | null = null;
  return {
    current(): Promise<T> {
      const at = clock.steady();
      if (last === null || at - last.at >= ms) last = { at, value: read() };
      return last.value;
    },
    forget(): void {
      last = null;
    },
  };
}
