import { createHash } from 'node:crypto';
import type { Kind } from '../compliance/kinds.ts';
import { PAGE_LIMIT_MAX, pendingDeletionKey } from '../store/reports.ts';
import type { PendingCount, PendingDeletions } from './api/schemas.ts';
import type { OpsStore } from './context.ts';
import { count, kindPlural } from './words.ts';

/** Approved deletions wait this long for one more proof: time for a full sync, not for another day's surprise. */
export const APPROVAL_MS = 60 * 60_000;

/** Pending deletions of one kind that one sync run found, with the ids that wait, in order. Those without a sync run are grouped by kind. */
export type PendingOfSyncRun = PendingDeletions['sync_runs'][number] & { ids: string[] };

/** Whether an approval is still good at `wall`. */
export const isApproved = (until: string | null, wall: number): boolean =>
  until !== null && Date.parse(until) > wall;

/** The digest of ids as they were shown, in their order. */
export function digestOf(kind: Kind, ids: readonly string[]): string {
  const hash = createHash('sha256');
  for (const id of ids) hash.update(JSON.stringify([kind, id]));
  return hash.digest('base64url');
}

/** All of them, or those of one sync run. */
export async function pendingBySyncRun(
  store: Pick<OpsStore, 'listPendingDeletions'>,
  wall: number,
  syncRunId?: number,
): Promise<PendingOfSyncRun[]> {
  const bySyncRun = new Map<string, Omit<PendingOfSyncRun, 'waiting' | 'digest'>>();
  for (let after: string | undefined; ; ) {
    const rows = await store.listPendingDeletions({ syncRunId }, { limit: PAGE_LIMIT_MAX, after });
    for (const { sync_run_id, kind, id, approved_until } of rows) {
      const key = `${sync_run_id} ${kind}`;
      const of = bySyncRun.get(key) ?? { sync_run_id, kind, approved: 0, ids: [] };
      bySyncRun.set(key, of);
      if (isApproved(approved_until, wall)) of.approved += 1;
      else of.ids.push(id);
    }
    if (rows.length < PAGE_LIMIT_MAX) break;
    after = pendingDeletionKey(rows.at(-1)!);
  }
  return [...bySyncRun.values()].map((of) => ({
    ...of,
    waiting: of.ids.length,
    digest: of.ids.length === 0 ? null : digestOf(of.kind, of.ids),
  }));
}

export const pendingWords = ({ count: waiting, kind }: PendingCount): string =>
  `${count(waiting, 'deletion')} of ${kindPlural(kind)} ${waiting === 1 ? 'waits' : 'wait'} for approval`;

/** All that waits of the sync run that a digest names. `changed`: other deletions wait by now; `none`: none. */
export async function namedBy(
  store: Pick<OpsStore, 'listPendingDeletions'>,
  digest: string,
  wall: number,
): Promise<PendingOfSyncRun | 'changed' | 'none'> {
  const pending = await pendingBySyncRun(store, wall);
  const named = pending.find((of) => of.digest === digest);
  return named ?? (pending.some(({ waiting }) => waiting > 0) ? 'changed' : 'none');
}
