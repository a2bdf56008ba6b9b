import { createHash } from 'node:crypto';
import type { Kind } from '../compliance/kinds.ts';
import { PAGE_LIMIT_MAX, pendingDeletionKey } from '../store/reports.ts';
import type { PendingCount, PendingDeletions } from './api/schemas.ts';
import type { OpsStore } from './context.ts';
import { count, kindPlural } from './words.ts';

/** How long an approval is valid: long enough for a full sync, which proves the deletions once more. */
export const APPROVAL_MS = 60 * 60_000;

/** Pending deletions of one kind that one sync run found, with the ids that wait, in order. Those without a sync run are grouped by kind. */
export type PendingOfSyncRun = PendingDeletions['sync_runs'][number] & { ids: string[] };

/** Whether an approval is still good at `wall`. */
export const isApproved = (until: string | null, wall: number): boolean =>
  until !== null && Date.parse(until) > wall;

/** The digest of ids in the order in which they were shown. */
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
      const group = bySyncRun.get(key) ?? { sync_run_id, kind, approved: 0, ids: [] };
      bySyncRun.set(key, group);
      if (isApproved(approved_until, wall)) group.approved += 1;
      else group.ids.push(id);
    }
    if (rows.length < PAGE_LIMIT_MAX) break;
    after = pendingDeletionKey(rows.at(-1)!);
  }
  return [...bySyncRun.values()].map((group) => ({
    ...group,
    waiting: group.ids.length,
    digest: group.ids.length === 0 ? null : digestOf(group.kind, group.ids),
  }));
}

export const pendingWords = ({ count: waiting, kind }: PendingCount): string =>
  `${count(waiting, 'deletion')} of ${kindPlural(kind)} ${waiting === 1 ? 'waits' : 'wait'} for approval`;
