import { describeError } from '../errors.ts';
import type { OpsContext } from './context.ts';

export interface AuditLog {
  /** Notes what happened at the door. Never rejects: with a full disk an operator must still get in to see it. */
  note(actor: string, action: string, outcome: string, target: string | null): Promise<void>;
  /**
   * Does `work` and notes who did it and how it ended. Rejects as `work` does, and with StoreUnavailable when
   * the note cannot be kept.
   */
  change<T>(
    actor: string,
    action: string,
    target: string | null,
    work: () => Promise<T>,
    /** Default: `ok`. */
    outcomeOf?: (result: T) => string,
  ): Promise<T>;
}

export function createAuditLog({
  store,
  clock,
  logger,
}: Pick<OpsContext, 'store' | 'clock' | 'logger'>): AuditLog {
  const write = (actor: string, action: string, outcome: string, target: string | null) =>
    store.audit({ actor, action, outcome, target }, { wall: clock.wall(), steady: clock.steady() });

  const note: AuditLog['note'] = async (actor, action, outcome, target) => {
    try {
      await write(actor, action, outcome, target);
    } catch (error) {
      logger.error({ reason: action, outcome, error: describeError(error) }, 'audit entry lost');
    }
  };

  return {
    note,
    async change(actor, action, target, work, outcomeOf = () => 'ok') {
      const result = await work().catch(async (error: unknown) => {
        await note(actor, action, 'failed', target);
        throw error;
      });
      await write(actor, action, outcomeOf(result), target);
      return result;
    },
  };
}
