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
/** And all addresses together, so that many of them cost no more. So many are remembered at most. */
export const ATTEMPTS_GLOBALLY = 100;
export const ATTEMPTS_WINDOW_MS = 60_000;

export function createAttempts(clock: Pick<Clock, 'steady'>) {
  let startedAt = Number.NEGATIVE_INFINITY;
  let all = 0;
  const failures = new Map<string, number>();

  return {
    /** Milliseconds until this address may fail again without being asked to wait; 0: now. */
    waitMs(address: string): number {
      const own = failures.get(networkOf(address)) ?? 0;
      if (own < ATTEMPTS_PER_ADDRESS && all < ATTEMPTS_GLOBALLY) return 0;
      return Math.max(0, startedAt + ATTEMPTS_WINDOW_MS - clock.steady());
    },
    /** To be called only if it need not wait. */
    failed(address: string): void {
      const now = clock.steady();
      if (now - startedAt >= ATTEMPTS_WINDOW_MS) {
        startedAt = now;
        all = 0;
        failures.clear();
      }
      const network = networkOf(address);
      failures.set(network, (failures.get(network) ?? 0) + 1);
      all += 1;
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

/** Who was refused what; `target` of the first one alone. */
interface Refused {
  actor: string;
  outcome: string;
  target?: string;
}
const UNKNOWN: Refused = { actor: 'unknown', outcome: 'refused' };

/**
 * Refused tokens in the audit, those of the form and those of requests apart, and what a token's role may not: the first at once, and what follows within a
 * minute as one entry with its count and addresses. So a guess is seen when it happens, a thousand of them as what they
 * are, and nobody fills the table.
 */
export function createRefusedNotes(
  audit: Pick<AuditLog, 'note'>,
  { clock, signal }: Pick<OpsContext, 'clock' | 'signal'>,
): (action: string, address: string, by?: Refused) => Promise<void> {
  const minutes = new Map<string, Minute>();

  return async (action, address, { actor, outcome, target } = UNKNOWN) => {
    const key = `${actor} ${action}`;
    const under = minutes.get(key);
    if (under !== undefined) {
      under.times += 1;
      if (under.addresses.size < SUMMED_ADDRESSES) under.addresses.add(address);
      return;
    }
    const minute: Minute = { times: 0, addresses: new Set() };
    const sumUp = async () => {
      // At a stop at once: what was counted is not lost with it.
      await clock.sleep(SUMMARY_MS, signal);
      minutes.delete(key);
      if (minute.times > 0) await audit.note(actor, action, outcome, summaryOf(minute));
    };
    minutes.set(key, minute);
    void sumUp();
    await audit.note(actor, action, outcome, target ?? address);
  };
}

function summaryOf({ times, addresses }: Minute): string {
  const named = [...addresses].slice(0, NAMED_ADDRESSES).join(', ');
  const count = `${addresses.size === SUMMED_ADDRESSES ? 'at least ' : ''}${addresses.size}`;
  const from = addresses.size === 1 ? named : `${count} addresses: ${named}`;
  return `${times} more within a minute, from ${from}${addresses.size > NAMED_ADDRESSES ? ', …' : ''}`;
}
