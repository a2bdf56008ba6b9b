import { networkOf } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';

/**
 * What a limit on guesses is for. A token of 96 bits is not found by guessing: a million guesses a second take 10^15 years. So the
 * limit is not what keeps strangers out, and every token is compared, whatever came before it from the same address. Were
 * it not, anybody behind the operators' proxy could shut them out, since all there have one address. Comparing costs one
 * hash, less than reading the request did.
 *
 * What guesses may not do is cost: the wrong ones beyond the limit are held for a second, few at a time, told to wait,
 * and summed up in the audit once a minute; metrics count them all, and an alert is raised on their growth.
 */

/** Failed attempts that one address may make in a window before it is told to wait: enough for a mistyped token. */
export const ATTEMPTS_PER_ADDRESS = 10;
/** And all addresses together, so that many of them cost no more. */
export const ATTEMPTS_GLOBALLY = 100;
export const ATTEMPTS_WINDOW_MS = 60_000;
/** Addresses remembered at once; the longest silent is forgotten first. */
const MAX_ADDRESSES = 10_000;

export interface Attempts {
  /** Milliseconds until this address may fail again without being told to wait; 0: now. */
  waitMs(address: string): number;
  failed(address: string): void;
}

interface Window {
  startedAt: number;
  failures: number;
}

export function createAttempts(clock: Pick<Clock, 'steady'>): Attempts {
  const windows = new Map<string, Window>();
  const everyone: Window = { startedAt: Number.NEGATIVE_INFINITY, failures: 0 };

  const remaining = (window: Window | undefined, limit: number): number => {
    if (window === undefined || window.failures < limit) return 0;
    return Math.max(0, window.startedAt + ATTEMPTS_WINDOW_MS - clock.steady());
  };
  const bump = (window: Window) => {
    const now = clock.steady();
    if (now - window.startedAt >= ATTEMPTS_WINDOW_MS) {
      window.startedAt = now;
      window.failures = 0;
    }
    window.failures += 1;
  };

  return {
    waitMs(address) {
      const own = remaining(windows.get(networkOf(address)), ATTEMPTS_PER_ADDRESS);
      return Math.max(own, remaining(everyone, ATTEMPTS_GLOBALLY));
    },
    failed(address) {
      const key = networkOf(address);
      const window = windows.get(key) ?? { startedAt: Number.NEGATIVE_INFINITY, failures: 0 };
      bump(window);
      bump(everyone);
      windows.delete(key);
      windows.set(key, window);
      if (windows.size > MAX_ADDRESSES) windows.delete(windows.keys().next().value!);
    },
  };
}
