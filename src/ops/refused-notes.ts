import type { AuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';

/** How often refusals are summed up. */
export const SUMMARY_MS = 60_000;

/** `target`: in the first entry, in place of the address. */
interface Refused {
  actor: string;
  outcome: string;
  target?: string;
}
const UNKNOWN: Refused = { actor: 'unknown', outcome: 'refused' };

/**
 * Puts refusals into the audit, for each actor and action: the first at once, and those of the following minute as one entry
 * with their count. So a guess is seen when it happens, and a thousand guesses do not fill the table. There is no
 * limit on guesses: none finds a token of 32 characters, and behind a proxy it would lock out everybody there.
 */
export function createRefusedNotes(
  audit: Pick<AuditLog, 'note'>,
  { clock, signal }: Pick<OpsContext, 'clock' | 'signal'>,
): (action: string, address: string, by?: Refused) => Promise<void> {
  /** How many more, by actor and action, in their minutes. */
  const more = new Map<string, number>();

  return async (action, address, { actor, outcome, target } = UNKNOWN) => {
    const key = `${actor} ${action}`;
    const running = more.get(key);
    more.set(key, (running ?? -1) + 1);
    if (running !== undefined) return;
    const sumUp = async () => {
      // A stop ends the wait, so that the count is not lost.
      await clock.sleep(SUMMARY_MS, signal);
      const times = more.get(key)!;
      more.delete(key);
      if (times > 0) await audit.note(actor, action, outcome, `${times} more within a minute`);
    };
    void sumUp();
    await audit.note(actor, action, outcome, target ?? address);
  };
}
