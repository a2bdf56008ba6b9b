import { describeError } from '../errors.ts';
import type { OpsContext } from './context.ts';

/** Probes come from several sides at once; one look at the database serves them all for this long. */
const READY_CACHE_MS = 2_000;

export type Readiness = { ready: true } | { ready: false; reason: string };

/** Ready: running, and the database takes a commit. Tells nothing else, because anyone may ask. */
export function createReadiness({
  facts,
  store,
  clock,
  logger,
}: Pick<OpsContext, 'facts' | 'store' | 'clock' | 'logger'>): () => Promise<Readiness> {
  let last: { at: number; writable: Promise<boolean> } | null = null;

  const check = async (): Promise<boolean> => {
    try {
      await store.checkWritable();
      return true;
    } catch (error) {
      logger.warn({ outcome: 'not_ready', error: describeError(error) }, 'database cannot commit');
      return false;
    }
  };

  return async () => {
    const { state } = facts();
    if (state !== 'running') return { ready: false, reason: state };
    if (last === null || clock.steady() - last.at >= READY_CACHE_MS) {
      last = { at: clock.steady(), writable: check() };
    }
    return (await last.writable) ? { ready: true } : { ready: false, reason: 'database_not_writable' };
  };
}
