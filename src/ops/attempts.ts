import type { Clock } from '../clock.ts';

/**
 * Failed attempts that one address may make in a window: enough for a mistyped token, too few to search for one. Only
 * wrong tokens are counted and made to wait, so nobody is shut out by what others do.
 */
export const ATTEMPTS_PER_ADDRESS = 10;
/** And all addresses together, so that many of them gain little. */
export const ATTEMPTS_GLOBALLY = 100;
export const ATTEMPTS_WINDOW_MS = 60_000;
/** Addresses remembered at once; the longest silent is forgotten first. */
const MAX_ADDRESSES = 10_000;

export interface Attempts {
  /** Milliseconds until this address may fail again without being told to wait; 0: now. */
  waitMs(address: string): number;
  /** Returns how many this address has made in its window, this one included. */
  failed(address: string): number;
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
      return window.failures;
    },
  };
}

/** IPv6 hands out a /64 to each subscriber, so that is what counts as one address there. */
export function networkOf(address: string): string {
  if (!address.includes(':')) return address;
  if (address.startsWith('::ffff:') && address.includes('.')) return address.slice('::ffff:'.length);
  const [head = '', tail = ''] = address.split('%')[0]!.split('::');
  const left = head.split(':').filter((group) => group !== '');
  const right = tail.split(':').filter((group) => group !== '');
  const zeros = address.includes('::')
    ? Array<string>(Math.max(0, 8 - left.length - right.length)).fill('0')
    : [];
  return `${[...left, ...zeros, ...right]
    .slice(0, 4)
    .map((group) => group.toLowerCase())
    .join(':')}::/64`;
}
