import { momentOf } from '../platform/clock.ts';
import { describeError } from '../platform/errors.ts';
import { AUDIT_ASKED } from '../store/reports.ts';
import type { ApiContext } from './context.ts';

export type AuditLog = ReturnType<typeof createAuditLog>;

export function createAuditLog({ store, clock, logger }: ApiContext) {
  const now = () => momentOf(clock);

  return {
    /** Notes a sign-in or a refusal. Never rejects: with a full disk an operator must still get in to see it. */
    async note(actor: string, action: string, outcome: string, target: string | null): Promise<void> {
      try {
        await store.audit({ actor, action, outcome, target }, now());
      } catch (error) {
        logger.error({ reason: action, outcome, error: describeError(error) }, 'audit entry lost');
      }
    },

    /**
     * Notes who asks for it, does `work`, and notes how it ended: where the process dies on the way, the entry says that it
     * was asked for. Rejects as `work` does, and with StoreUnavailable, nothing done, when it cannot be noted.
     */
    async change<T>(
      actor: string,
      action: string,
      target: string | null,
      work: () => Promise<T>,
      outcomeOf: (result: T) => string = () => 'ok',
    ): Promise<T> {
      const id = await store.audit({ actor, action, outcome: AUDIT_ASKED, target }, now());
      const settle = async (outcome: string) => {
        try {
          await store.settleAudit(id, outcome);
        } catch (error) {
          // The change stays; its entry keeps saying that it was asked for.
          logger.error({ reason: action, outcome, error: describeError(error) }, 'audit entry not settled');
        }
      };
      const result = await work().catch(async (error: unknown) => {
        await settle('failed');
        throw error;
      });
      await settle(outcomeOf(result));
      return result;
    },
  };
}
