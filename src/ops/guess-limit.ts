import { networkOf } from '../platform/addresses.ts';
import type { Clock } from '../platform/clock.ts';
import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';

/**
 * A token of 96 bits is not found by guessing: a million guesses a second take 10^15 years. So the limit only keeps guesses
 * cheap, and every token is compared, also after many wrong ones from its address. Behind a proxy all operators have one
 * address, and anybody there could otherwise lock them out.
 *
 * Wrong tokens beyond the limit are answered 429 after a second, few at a time. The audit sums them up once a minute. Metrics
 * count every one, and an alert watches their growth.
 */

/** Wrong tokens from one address in a window before the limit applies: enough for mistyped ones. */
export const ATTEMPTS_PER_ADDRESS = 10;
/** The same for all addresses together, so that many addresses cost no more. Also the most addresses that are remembered. */
export const ATTEMPTS_GLOBALLY = 100;
export const ATTEMPTS_WINDOW_MS = 60_000;

export function createAttempts(clock: Pick<Clock, 'steady'>) {
  let startedAt = Number.NEGATIVE_INFINITY;
  let all = 0;
  const failures = new Map<string, number>();

  return {
    /** Milliseconds until the limit no longer applies to this address; 0: it does not apply now. */
    waitMs(address: string): number {
      const own = failures.get(networkOf(address)) ?? 0;
      if (own < ATTEMPTS_PER_ADDRESS && all < ATTEMPTS_GLOBALLY) return 0;
      return Math.max(0, startedAt + ATTEMPTS_WINDOW_MS - clock.steady());
    },
    /** Counts a wrong token. To be called only while the limit does not apply. */
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

/** How often refusals are summed up. */
export const SUMMARY_MS = 60_000;
/** Addresses that are counted for a summary. With more, it says "at least". */
const SUMMED_ADDRESSES = 1_000;
/** Addresses that a summary names. */
const NAMED_ADDRESSES = 5;

interface Minute {
  times: number;
  addresses: Set<string>;
}

/** `target`: in the first entry, in place of the address. */
interface Refused {
  actor: string;
  outcome: string;
  target?: string;
}
const UNKNOWN: Refused = { actor: 'unknown', outcome: 'refused' };

/**
 * Puts refusals into the audit, for each actor and action: the first at once, and those of the following minute as one entry
 * with their count and addresses. So a guess is seen when it happens, and a thousand guesses do not fill the table.
 */
export function createRefusedNotes(
  audit: Pick<AuditLog, 'note'>,
  { clock, signal }: Pick<OpsContext, 'clock' | 'signal'>,
): (action: string, address: string, by?: Refused) => Promise<void> {
  const minutes = new Map<string, Minute>();

  return async (action, address, { actor, outcome, target } = UNKNOWN) => {
    const key = `${actor} ${action}`;
    const running = minutes.get(key);
    if (running !== undefined) {
      running.times += 1;
      if (running.addresses.size < SUMMED_ADDRESSES) running.addresses.add(address);
      return;
    }
    const minute: Minute = { times: 0, addresses: new Set() };
    const sumUp = async () => {
      // A stop ends the wait, so that the count is not lost.
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
  if (addresses.size === 1) return `${times} more within a minute, from ${named}`;
  const atLeast = addresses.size === SUMMED_ADDRESSES ? 'at least ' : '';
  const others = addresses.size > NAMED_ADDRESSES ? ', …' : '';
  return `${times} more within a minute, from ${atLeast}${addresses.size} addresses: ${named}${others}`;
}
