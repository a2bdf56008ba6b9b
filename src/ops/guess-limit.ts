import { networkOf } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';

/**
 * A token of 96 bits is not found by guessing: a million guesses a second take 10^15 years. So the limit is not what keeps
 * strangers out, and every token is compared, also after many wrong ones from its address. Otherwise anybody behind the
 * operators' proxy could lock them out, since all there have one address. Comparing costs one hash, less than reading
 * the request did.
 *
 * The limit keeps guesses cheap: wrong ones beyond it are answered after a second, few at a time, with 429, and summed up
 * in the audit once a minute; metrics count them all, and an alert watches their growth.
 */

/** Failed attempts that one address may make in a window before it is asked to wait: enough for a mistyped token. */
export const ATTEMPTS_PER_ADDRESS = 10;
/** And all addresses together, so that many of them cost no more. */
export const ATTEMPTS_GLOBALLY = 100;
export const ATTEMPTS_WINDOW_MS = 60_000;
/** Addresses remembered at once; the one that has not failed for the longest is forgotten first. */
const MAX_ADDRESSES = 10_000;

interface Window {
  startedAt: number;
  failures: number;
}

export function createAttempts(clock: Pick<Clock, 'steady'>) {
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
    /** Milliseconds until this address may fail again without being asked to wait; 0: now. */
    waitMs(address: string): number {
      const own = remaining(windows.get(networkOf(address)), ATTEMPTS_PER_ADDRESS);
      return Math.max(own, remaining(everyone, ATTEMPTS_GLOBALLY));
    },
    failed(address: string): void {
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

/** How often refused tokens are summed up. */
export const SUMMARY_MS = 60_000;
/** Remembered for a summary; more of them are "at least" so many. */
const SUMMED_ADDRESSES = 1_000;
/** Named in a summary. */
const NAMED_ADDRESSES = 5;

interface Minute {
  times: number;
  addresses: Set<string>;
}

/**
 * Refused tokens in the audit, those of the form and those of requests apart: the first at once, and what follows within a
 * minute as one entry with its count and addresses. So a guess is seen when it happens, a thousand of them as what they
 * are, and nobody fills the table.
 */
export function createRefusedNotes(
  audit: Pick<AuditLog, 'note'>,
  { clock, signal }: Pick<OpsContext, 'clock' | 'signal'>,
): (action: string, address: string) => Promise<void> {
  const minutes = new Map<string, Minute>();

  const sumUp = async (action: string, minute: Minute) => {
    // At a stop at once: what was counted is not lost with it.
    await clock.sleep(SUMMARY_MS, signal);
    minutes.delete(action);
    if (minute.times > 0) await audit.note('unknown', action, 'refused', summaryOf(minute));
  };

  return async (action, address) => {
    const under = minutes.get(action);
    if (under !== undefined) {
      under.times += 1;
      if (under.addresses.size < SUMMED_ADDRESSES) under.addresses.add(address);
      return;
    }
    const minute: Minute = { times: 0, addresses: new Set() };
    minutes.set(action, minute);
    void sumUp(action, minute);
    await audit.note('unknown', action, 'refused', address);
  };
}

function summaryOf({ times, addresses }: Minute): string {
  const named = [...addresses].slice(0, NAMED_ADDRESSES).join(', ');
  const count = `${addresses.size === SUMMED_ADDRESSES ? 'at least ' : ''}${addresses.size}`;
  const from = addresses.size === 1 ? named : `${count} addresses: ${named}`;
  return `${times} more within a minute, from ${from}${addresses.size > NAMED_ADDRESSES ? ', …' : ''}`;
}
