import { KINDS, type Kind } from '../compliance/kinds.ts';

/** Where the rows of each kind are, on either engine. */
export const TABLES: Readonly<Record<Kind, string>> = {
  policy: 'policies',
  risk_assessment: 'risk_assessments',
  vendor: 'vendors',
};

/** What a row says of itself, besides what it says of its record. Instants are ISO 8601 UTC text. */
export interface RowMarks {
  firstSeenAt: string;
  syncedAt: string;
  verifiedAt: string | null;
  lastEventId: string | null;
  lastEventAt: string | null;
  cause: string;
}

const OUTSTANDING = KINDS.map(
  (kind) =>
    `WHEN '${kind}' THEN (SELECT count(*) FROM ${TABLES[kind]} WHERE unverified_since IS NOT NULL AND deleted_at IS NULL)`,
);

/** `KindStatus` by kind, on both engines. What is verified is asked of the rows: the view's figure leaves out what no read can verify. */
export const SELECT_KIND_STATUS = `SELECT s.*, s.records - CASE s.kind ${OUTSTANDING.join(' ')} END AS verified FROM sync_status s`;
