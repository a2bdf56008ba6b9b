import type { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type * as rows from './report-rows.ts';

/** Queries for people, in the shapes of the JSON API and the CLI. Instants are ISO 8601 UTC text. */

export type EventState = z.output<typeof rows.eventState>;
export type ListedOutcome = z.output<typeof rows.listedOutcome>;
export type VerdictName = z.output<typeof rows.verdictName>;
export type EventReport = z.output<typeof rows.event>;
export type RecordReport = z.output<typeof rows.record>;
export type ChangeReport = z.output<typeof rows.change>;
export type GapReport = z.output<typeof rows.gap>;
export type OpenGaps = z.output<typeof rows.openGaps>;
export type SyncRunReport = z.output<typeof rows.syncRun>;
export type QuarantineReport = z.output<typeof rows.quarantined>;
export type RejectionReport = z.output<typeof rows.rejection>;
export type AuditReport = z.output<typeof rows.auditEntry>;
export type KindStatus = z.output<typeof rows.kindStatus>;
export type DeliveryReport = z.output<typeof rows.delivery>;
export type PendingDeletionReport = z.output<typeof rows.pendingDeletion>;

/** A record's columns for people, in the order of the tables, which also have internal ones. */
export const recordColumns = (kind: Kind): readonly (keyof RecordReport)[] => [
  ...(['id', 'name'] as const),
  ...(kind === 'policy' ? (['version'] as const) : []),
  ...(['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since'] as const),
  ...(['deleted_at', 'last_event_id', 'last_event_at', 'cause'] as const),
];

export interface TrimmedChanges {
  /** Changes up to this number are gone. */
  through: number;
  /** When the last of them was made. */
  at: string;
}

/** Where ids of a kind were found that no setting points at. */
export interface LearnedPointerReport {
  kind: Kind;
  /** Dotted, as in a setting. */
  path: string;
  /** The event that proved it, and the record that it named. */
  event_id: string;
  record_id: string;
  learned_at: string;
  /** Events are read by it. */
  used: boolean;
}

export interface StoreSummary {
  kinds: KindStatus[];
  /** Events by state, of all that are kept. */
  events: Record<EventState, number>;
  /** When the oldest pending event was received. */
  oldest_pending_at: string | null;
  /** When a delivery last came in, new or not. */
  last_delivery_at: string | null;
  /** Not yet released. */
  quarantined: number;
  open_gaps: number;
  open_gaps_by: OpenGaps[];
  /** Those that resolved within the last 24 hours. */
  resolved_gaps_last_day: number;
  learned_pointers: LearnedPointerReport[];
  database_bytes: number;
  wal_bytes: number;
}

export type TrafficStep = 'minute' | 'hour';

/** Deliveries or lags of one minute, or of one hour. */
export interface TrafficReport {
  /** When it began. */
  minute: string;
  /** `accepted`, `duplicate`, `quarantined`, `rejected:REASON` or `lag:verification`. */
  what: string;
  times: number;
  /** Of lags: their sum and the longest one, milliseconds; else 0. */
  total_ms: number;
  max_ms: number;
}

/** The `after` to continue behind it. A kind has no slash. */
export const pendingDeletionKey = ({ kind, id }: { kind: Kind; id: string }): string => `${kind}/${id}`;

/** Quarantine reason: a delivery of a known event with other content, answered as a duplicate. */
export const CONFLICTING = 'conflicting_content';

export interface EventFilter extends Period {
  state?: EventState | undefined;
  type?: string | undefined;
  kind?: Kind | undefined;
  recordId?: string | undefined;
}

export interface EventPaging extends Paging {
  /** Instead of `EVENTS_LOOKED_AT`. */
  lookAt?: number;
}

export interface DeliveryPaging extends EventPaging {
  /** The `newest` of an earlier page; only later deliveries. */
  above?: string | undefined;
}

export interface ListPaging extends Paging, Period {
  /** Of gaps. */
  open?: boolean | undefined;
}

export interface DeliveryFilter extends Period {
  outcome?: ListedOutcome | undefined;
  type?: string | undefined;
  kind?: Kind | undefined;
  /** The id of the event or of the record, or a part of the body, letter for letter. */
  search?: string | undefined;
}

/** It may hold fewer rows than its limit, or none, and still not be the last. */
export interface Page<Row> {
  items: Row[];
  /** The next `after`; null: nothing older. */
  next: string | null;
  /** If the page ended at its limit of rows looked at: when the oldest of them was received. */
  looked_back_to: string | null;
}

export interface DeliveryPage extends Page<DeliveryReport> {
  /** The `above` that lists only later deliveries. */
  newest: string;
}

/** From `since` on, and before `until`: instants, ISO 8601 UTC. Absent: from the beginning, or to the end. */
export interface Period {
  since?: string | undefined;
  until?: string | undefined;
}

/** Keyset paging: `after` is the key of the last row of the previous page. Limits are clamped to `PAGE_LIMIT_MAX`. */
export interface Paging {
  limit: number;
  after?: string | undefined;
}

export const PAGE_LIMIT_MAX = 500;

/** Events that one page looks at: a few milliseconds. Filters have no index of their own, for which every delivery would pay. */
export const EVENTS_LOOKED_AT = 10_000;

export interface RecordFilter {
  /** First ids that begin with it, then names that begin with it, then names that contain it. Case of names is ignored. */
  search?: string | undefined;
  status?: string | undefined;
  /** A field of `data`, by its path of names, and its value: a text, or JSON for any other type. */
  field?: { path: readonly string[]; value: string } | undefined;
  unverified?: boolean | undefined;
  deleted?: boolean | undefined;
}

/** `changed`: the last change first, as far as changes are kept. A search, the unverified and the deleted have no order by name. */
export type RecordOrder = 'id' | 'name' | 'changed';

export interface RecordPaging extends Paging {
  /** Default: by id. */
  order?: RecordOrder | undefined;
  /** Instead of `RECORDS_LOOKED_AT` and `NAMES_LOOKED_AT`. */
  lookAt?: number | undefined;
}

export interface RecordPage extends Omit<Page<RecordReport>, 'looked_back_to'> {
  /** If the page ended at its limit of rows looked at: the id, name or change instant that it reached. */
  searched_to: string | null;
}

/** The `after` to continue behind a record, in a list by id without a filter. */
export const recordKey = (id: string): string => `0.${id}`;

/** How many records one page looks at, at most; and how many if an index alone answers, which takes about as long. */
export const RECORDS_LOOKED_AT = 10_000;
export const NAMES_LOOKED_AT = 25_000;

export interface StatusCount {
  status: string;
  /** `STATUS_COUNT_MAX` means that many or more. */
  records: number;
}

export const STATUS_COUNT_MAX = 10_000;

/** The outcome of an audit entry before its action is done. It stays if the process dies first: the action may be done or not. */
export const AUDIT_ASKED = 'asked';

/** Tables whose rows have a number and a time. */
export interface NumberedRows {
  gaps: GapReport;
  sync_runs: SyncRunReport;
  quarantine: QuarantineReport;
  rejections: RejectionReport;
  audit: AuditReport;
}
export type NumberedTable = keyof NumberedRows;
