import type { Kind } from '../compliance/kinds.ts';
import { MirrorError } from '../platform/errors.ts';
import { PAGE_LIMIT_MAX, type RecordReport } from '../store/reports.ts';
import { type PastRecord, recordAt } from './history.ts';
import type { Reports } from './reports.ts';

/** Changes of one record read at a time, newest first. */
const CHANGES_PAGE = PAGE_LIMIT_MAX;

/**
 * The records of a kind as they were at `instant`, by id, up to `limit` behind `after`. Rejects where the history that
 * would tell has been trimmed.
 */
export async function recordsAt(
  reports: Reports,
  kind: Kind,
  instant: string,
  page: { limit: number; after?: string | undefined; deleted?: boolean | undefined },
): Promise<PastRecord[]> {
  const trimmed = await reports.trimmedChanges();
  if (trimmed !== null && trimmed.at > instant) {
    throw new MirrorError('not_kept', `the history is kept since ${trimmed.at} only`, {
      remedy: 'RETENTION_HISTORY_DAYS says how long; what was trimmed cannot be had back',
    });
  }
  const found: PastRecord[] = [];
  let { after } = page;
  for (;;) {
    const records = await reports.listRecords(kind, {}, { limit: page.limit, after });
    for (const record of records) {
      const past = await pastOf(reports, kind, record, instant);
      if (past === null || (page.deleted && past.deleted_at === null)) continue;
      found.push(past);
      if (found.length === page.limit) return found;
    }
    if (records.length < page.limit) return found;
    after = records.at(-1)?.id;
  }
}

async function pastOf(
  reports: Reports,
  kind: Kind,
  record: RecordReport,
  instant: string,
): Promise<PastRecord | null> {
  if (record.first_seen_at > instant) return null;
  // The row has not been written since: there is nothing to take back.
  if (record.synced_at <= instant) return recordAt(record, [], instant);
  const changes = [];
  let after: string | undefined;
  for (;;) {
    const some = await reports.recordHistory(kind, record.id, { limit: CHANGES_PAGE, after });
    changes.push(...some);
    const oldest = some.at(-1);
    if (oldest === undefined || some.length < CHANGES_PAGE || oldest.at <= instant) break;
    after = String(oldest.seq);
  }
  return recordAt(record, changes, instant);
}
