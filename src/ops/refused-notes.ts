import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';

/** How often refused tokens are summed up. */
export const SUMMARY_MS = 60_000;
/** Remembered for a summary; more of them are "at least" so many. */
const MAX_ADDRESSES = 1_000;
/** Named in a summary. */
const NAMED_ADDRESSES = 5;

interface Minute {
  times: number;
  addresses: Set<string>;
}

/**
 * Refused tokens in the audit, for each door: the first at once, and what follows within a minute as one entry with its
 * count and addresses. So a guess is seen when it happens, a thousand of them as what they are, and nobody fills the table.
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
      if (under.addresses.size < MAX_ADDRESSES) under.addresses.add(address);
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
  const count = `${addresses.size === MAX_ADDRESSES ? 'at least ' : ''}${addresses.size}`;
  const from = addresses.size === 1 ? named : `${count} addresses: ${named}`;
  return `${times} more within a minute, from ${from}${addresses.size > NAMED_ADDRESSES ? ', …' : ''}`;
}
