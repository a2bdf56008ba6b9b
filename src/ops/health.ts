import { describeError } from '../platform/errors.ts';
import type { OpsContext } from './context.ts';

/** Probes come from several sides at once; one look at the database serves them all for this long. */
const READY_CACHE_MS = 2_000;
/** A look that was good stands for so long while the next one is made: it waits for the disk, and a probe need not. */
const READY_STANDS_MS = 5_000;

export type Readiness = { ready: true } | { ready: false; reason: string };

/** Ready: running, and the database takes a commit. Tells nothing else, because anyone may ask. */
export function createReadiness({
  facts,
  store,
  clock,
  logger,
}: Pick<OpsContext, 'facts' | 'store' | 'clock' | 'logger'>): () => Promise<Readiness> {
  let last: { at: number; writable: Promise<boolean> } | null = null;
  let isLooking = false;
  let goodAt: number | null = null;

  const check = async (): Promise<boolean> => {
    try {
      await store.checkWritable();
      return true;
    } catch (error) {
      logger.warn({ outcome: 'not_ready', error: describeError(error) }, 'database cannot commit');
      return false;
    }
  };

  async function look(at: number): Promise<boolean> {
    isLooking = true;
    const isWritable = await check();
    goodAt = isWritable ? at : null;
    isLooking = false;
    return isWritable;
  }

  return async () => {
    const { state } = facts();
    if (state !== 'running') return { ready: false, reason: state };
    const now = clock.steady();
    const isOld = last === null || now - last.at >= READY_CACHE_MS;
    if (last === null || (isOld && !isLooking)) last = { at: now, writable: look(now) };
    const stands = goodAt !== null && now - goodAt < READY_STANDS_MS;
    return stands || (await last.writable)
      ? { ready: true }
      : { ready: false, reason: 'database_not_writable' };
  };
}
