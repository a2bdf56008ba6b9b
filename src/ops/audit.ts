import { HTTPException } from 'hono/http-exception';
import { momentOf } from '../platform/clock.ts';
import { AUDIT_ASKED } from '../store/reports.ts';
import type { OpsContext } from './context.ts';

export type AuditLog = ReturnType<typeof createAuditLog>;

export function createAuditLog({ store, clock, logger }: OpsContext) {
  const now = () => momentOf(clock);

  return {
    /** Notes a sign-in or a refusal. Never rejects: with a full disk an operator must still get in to see it. */
    async note(actor: string, action: string, outcome: string, target: string | null): Promise<void> {
      try {
        await store.audit({ actor, action, outcome, target }, now());
      } catch (error) {
        logger.error({ reason: action, outcome, error }, 'audit entry lost');
      }
    },

    /**
     * Writes an entry, does `work`, and adds the outcome to the entry: `not_possible` if `work` throws a problem. If the process
     * dies in between, the entry says `asked`. Rejects as `work` does. If the entry cannot be written, rejects with
     * StoreUnavailable and does nothing.
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
          // The change is made, and its entry still says `asked`.
          logger.error({ reason: action, outcome, error }, 'audit entry not settled');
        }
      };
      const result = await work().catch(async (error: unknown) => {
        await settle(error instanceof HTTPException ? 'not_possible' : 'failed');
        throw error;
      });
      await settle(outcomeOf(result));
      return result;
    },
  };
}
