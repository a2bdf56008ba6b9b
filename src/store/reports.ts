import type { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type * as rows from './report-rows.ts';

/** Queries for people, in the shapes of the JSON API and the CLI. Instants are ISO 8601 UTC text. */

export type EventState = z.output<typeof rows.eventState>;
export type ListedOutcome = z.output<typeof rows.listedOutcome>;
export type VerdictName = z.output<typeof rows.verdictName>;
export type EventReport = z.output<typeof rows.event>;
export type RecordReport = z.output<typeof rows.record>;
export type ShownRecord = z.output<typeof rows.shownRecord>;
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
export type TrimmedChanges = z.output<typeof rows.trimmedChanges>;
export type LearnedPointerReport = z.output<typeof rows.learnedPointer>;

/** The columns of a record that people see, in the order of the tables. The tables also have internal columns. */
// biome-ignore format: names side by side
export const recordColumns = (kind: Kind): readonly (keyof RecordReport)[] => [
  'id', 'name', ...(kind === 'policy' ? (['version'] as const) : []), 'status', 'data', 'first_seen_at', 'synced_at', 'verified_at',
  'unverified_since', 'deleted_at', 'last_event_id', 'last_event_at', 'cause',
];

export interface StoreSummary {
  kinds: KindStatus[];
  /** How many stored events are in each state. */
  events: Record<EventState, number>;
  oldest_pending_at: string | null;
  /** When the last delivery came in, new or not. */
  last_delivery_at: string | null;
  /** Not yet released. */
  quarantined: number;
  open_gaps: number;
  open_gaps_by: OpenGaps[];
  resolved_gaps_last_day: number;
  learned_pointers: LearnedPointerReport[];
  database_bytes: number;
  wal_bytes: number;
}

export type TrafficStep = 'minute' | 'hour';

/** How many deliveries or lags of one sort a minute, or an hour, had. */
export interface TrafficReport {
  /** When the minute or hour began. */
  minute: string;
  /** `accepted`, `duplicate`, `quarantined`, `rejected:REASON` or `lag:verification`. */
  what: string;
  times: number;
  /** For lags: their sum and the longest one, in milliseconds; otherwise 0. */
  total_ms: number;
  max_ms: number;
}

/** The `after` that continues a list behind this deletion. A kind has no slash. */
export const pendingDeletionKey = ({ kind, id }: { kind: Kind; id: string }): string => `${kind}/${id}`;

/** Quarantine reason: the delivery has a known event's id and other content. It was answered as a duplicate. */
export const CONFLICTING = 'conflicting_content';

export interface EventFilter extends Period {
  state?: EventState | undefined;
  type?: string | undefined;
  kind?: Kind | undefined;
  recordId?: string | undefined;
}

export interface DeliveryPaging extends Paging {
  /** The `newest` of an earlier page; only later deliveries. */
  above?: string | undefined;
}

export interface ListPaging extends Paging, Period {
  /** Of gaps. */
  open?: boolean | undefined;
  /** Of gaps: only with one of these. */
  reasons?: readonly string[] | undefined;
}

export interface DeliveryFilter extends Period {
  outcome?: ListedOutcome | undefined;
  type?: string | undefined;
  kind?: Kind | undefined;
  /** The id of the event or of the record, or a part of the body, letter for letter. */
  search?: string | undefined;
}

/** A page may have fewer rows than its limit, or none, and still not be the last. */
export interface Page<Row> {
  items: Row[];
  /** The next `after`; null: nothing older. */
  next: string | null;
  /** If the page ended because it had looked at enough rows: when the oldest of them was received. */
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
  /** Instead of `EVENTS_LOOKED_AT`, `RECORDS_LOOKED_AT` or `NAMES_LOOKED_AT`. */
  lookAt?: number | undefined;
}

export const PAGE_LIMIT_MAX = 500;

/** How many events one page looks at: a few milliseconds. Filters have no indexes, because every delivery would pay for them. */
export const EVENTS_LOOKED_AT = 10_000;

export interface RecordFilter {
  /** Finds ids that begin with this text, then names that begin with it, then names that contain it. The case of A to Z in names is ignored. */
  search?: string | undefined;
  status?: string | undefined;
  /** A field of `data`, by its path of names, and its value: a text, or JSON for any other type. */
  field?: { path: readonly string[]; value: string } | undefined;
  unverified?: boolean | undefined;
  deleted?: boolean | undefined;
}

/** `changed`: the latest change first, as far as changes are kept. A search and lists of unverified or deleted records ignore `name`. */
export type RecordOrder = 'id' | 'name' | 'changed';

export interface RecordPaging extends Paging {
  /** Default: by id. */
  order?: RecordOrder | undefined;
}

export interface RecordPage extends Omit<Page<RecordReport>, 'looked_back_to'> {
  /** If the page ended because it had looked at enough rows: the id, name or change instant that it reached. */
  searched_to: string | null;
}

/** The `after` to continue behind a record, in a list by id without a filter. */
export const recordKey = (id: string): string => `0.${id}`;

/** How many records one page looks at, at most; and how many if only an index is read, which takes about as long. */
export const RECORDS_LOOKED_AT = 10_000;
export const NAMES_LOOKED_AT = 25_000;

export interface StatusCount {
  status: string;
  /** `STATUS_COUNT_MAX` means that many or more. */
  records: number;
}

export const STATUS_COUNT_MAX = 10_000;

/** The outcome of an audit entry until its action is done. It stays if the process dies before: then nobody knows whether it was done. */
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
