import { KINDS, type Kind } from '../../src/compliance/kinds.ts';
import type { InHand, Now, Store, Work } from '../../src/store/store.ts';

type Asks = Pick<Store, 'nextWork'>;
type Over = Partial<Omit<InHand, 'kinds'>> & { isRunning?: boolean };

/** What a planner is told that is at nothing, and reads no lists. */
export function workNow(store: Asks, now: Now, { isRunning = false, ...over }: Over = {}): Promise<Work[]> {
  const of = { isRunning, isReadable: false, total: 1_000, busy: [] };
  const kinds = { policy: of, risk_assessment: of, vendor: of };
  const hand = { timing: { settleMs: 1_000 }, pageSize: 100, slots: 10, isOneAsked: false, kinds };
  return store.nextWork(now, { ...hand, ...over });
}

/** The records of a kind that are due. */
export async function dueOf(store: Asks, kind: Kind, now: Now, over?: Over) {
  const work = await workNow(store, now, over);
  const read = work.flatMap((one) => (one.what === 'refetch' ? one.records : []));
  return read.flatMap(({ kind: its, ...due }) => (its === kind ? due : []));
}

/** The kinds that are to be read in full, and why. */
export async function fullSyncsOf(store: Asks, now: Now, why: 'problem' | 'pending' | 'events' = 'problem') {
  const work = await workNow(store, now);
  return KINDS.filter((kind) =>
    work.some((one) => one.what === 'full_sync' && one.kind === kind && one.why === why),
  );
}
