import type { Kind } from '../compliance/kinds.ts';

/** Where the rows of each kind are, on either engine. */
export const TABLES: Readonly<Record<Kind, string>> = {
  policy: 'policies',
  risk_assessment: 'risk_assessments',
  vendor: 'vendors',
};

/** Of a row `r` and what is known of it, `s`: nothing that `decideApply` asks about a read that shows it as it is. */
export const IS_SETTLED = `s.returned AND s.unverified_since IS NULL AND s.dirty_at IS NULL AND s.first_dirty_at IS NULL
  AND s.due_at IS NULL AND s.missing_since IS NULL AND s.missing_number IS NULL AND NOT s.proven AND s.delete_event IS NULL
  AND s.refusals = 0 AND s.attempts = 0 AND r.deleted_at IS NULL AND r.unverified_since IS NULL AND r.shown IS NULL`;

/** What a row says of itself, besides what it says of its record. Instants are ISO 8601 UTC text. */
export interface RowMarks {
  firstSeenAt: string;
  syncedAt: string;
  verifiedAt: string | null;
  lastEventId: string | null;
  lastEventAt: string | null;
  cause: string;
}

/** `KindStatus` by kind, on both engines. What is verified is counted of the rows: the view's figure leaves out what no read can verify. */
export const SELECT_KIND_STATUS =
  'SELECT s.*, s.records - (SELECT c.unverified FROM record_counts c WHERE c.kind = s.kind) AS verified FROM sync_status s';
