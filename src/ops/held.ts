import { createHash } from 'node:crypto';
import type { PendingDeletionReport } from '../store/reports.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import type { OpsStore } from './context.ts';

/** Shown on one page; the others follow by paging. */
export const HELD_SHOWN = 200;

export interface HeldUnderSyncRun {
  /** How many wait for a consent, and how many have one that still holds. */
  waiting: number;
  consented: number;
  /** Names exactly the ids that wait: a consent is for what was shown, and for nothing that came to it since. */
  digest: string;
  /** Those, in order. */
  ids: string[];
  /** Of both, in order, after `after`. */
  shown: PendingDeletionReport[];
  next: string | null;
}

/** Everything held under a full sync, read once for its digest; of the rows one page is kept. */
export async function heldUnder(
  store: Pick<OpsStore, 'listPendingDeletions'>,
  syncRunId: number,
  wall: number,
  from = '',
): Promise<HeldUnderSyncRun> {
  const hash = createHash('sha256');
  const shown: PendingDeletionReport[] = [];
  const ids: string[] = [];
  let [waiting, consented] = [0, 0];
  let more = false;
  for (let after = ''; ; ) {
    const rows = await store.listPendingDeletions(syncRunId, { limit: PAGE_LIMIT_MAX, after });
    for (const row of rows) {
      if (row.consent_until !== null && Date.parse(row.consent_until) > wall) consented += 1;
      else {
        waiting += 1;
        ids.push(row.id);
        hash.update(JSON.stringify([row.kind, row.id]));
      }
      if (row.id <= from) continue;
      if (shown.length < HELD_SHOWN) shown.push(row);
      else more = true;
    }
    if (rows.length < PAGE_LIMIT_MAX) break;
    after = rows.at(-1)!.id;
  }
  const next = more ? shown.at(-1)!.id : null;
  return { waiting, consented, digest: hash.digest('base64url'), ids, shown, next };
}
