import type { Kind } from '../compliance/kinds.ts';

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
