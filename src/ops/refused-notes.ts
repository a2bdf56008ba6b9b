import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';

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
 * with their count and addresses. So a guess is seen when it happens, and a thousand guesses do not fill the table. There is no
 * limit on guesses: none finds a token of 32 characters, and behind a proxy it would lock out everybody there.
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
