import type { z } from 'zod';
import type { Kind } from '../compliance/kinds.ts';
import type * as rows from './report-rows.ts';

/** What people ask of the store: shapes as the JSON API and the CLI show them. Instants are ISO 8601 UTC text. */

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

/** A record's columns, in the order of the tables, which hold what is the mirror's own besides. */
export const recordColumns = (kind: Kind): readonly (keyof RecordReport)[] => [
  ...(['id', 'name'] as const),
  ...(kind === 'policy' ? (['version'] as const) : []),
  ...(['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since'] as const),
  ...(['deleted_at', 'last_event_id', 'last_event_at', 'cause'] as const),
];

/** How far the history has been trimmed. */
export interface TrimmedChanges {
  /** Changes up to this number are gone. */
  through: number;
  /** When the last of them was made. */
  at: string;
}

/** Where a kind's id was found to stand although no setting looks there. */
export interface LearnedPointerReport {
  kind: Kind;
  /** Dotted, as a setting has it. */
  path: string;
  /** The event that showed it, and the record that it named. */
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
  /** Deliveries in quarantine that nobody has released. */
  quarantined: number;
  open_gaps: number;
  /** The same by reason and kind, all of them, however many are open. */
  open_gaps_by: OpenGaps[];
  /** Those that resolved within the last 24 hours. */
  resolved_gaps_last_day: number;
  learned_pointers: LearnedPointerReport[];
  database_bytes: number;
  wal_bytes: number;
}

/** What one row of traffic gathers. */
export type TrafficStep = 'minute' | 'hour';

/** Deliveries or lags of one minute, or of one hour. */
export interface TrafficReport {
  /** When it began. */
  minute: string;
  /** `accepted`, `duplicate`, `rejected:REASON`, `lag:provisional` or `lag:verification`. */
  what: string;
  times: number;
  /** Of lags: their sum and the longest one, milliseconds; else 0. */
  total_ms: number;
  max_ms: number;
}

/** What `after` takes to go on behind it. A kind holds no slash. */
export const pendingDeletionKey = ({ kind, id }: { kind: Kind; id: string }): string => `${kind}/${id}`;

/** The reason of a delivery in quarantine whose event had come before: it was answered as a duplicate. */
export const CONFLICTING = 'conflicting_content';

export interface DeliveryFilter extends Period {
  outcome?: ListedOutcome | undefined;
  type?: string | undefined;
  kind?: Kind | undefined;
  /** The id of the event or of the record, or a part of the body, letter for letter. */
  search?: string | undefined;
}

/** As of events: a page may hold fewer than its limit, or none, and still not be the last. */
export interface DeliveryPage {
  items: DeliveryReport[];
  next: string | null;
  looked_back_to: string | null;
  /** What `above` takes to be told only of what comes from here on. */
  newest: string;
}

/** From `since` on, and before `until`: instants, ISO 8601 UTC. Absent: from the beginning, or to the end. */
export interface Period {
  since?: string | undefined;
  until?: string | undefined;
}

/** Keyset paging: `after` is the key of the last row of the page before. Limits are clamped to `PAGE_LIMIT_MAX`. */
export interface Paging {
  limit: number;
  after?: string | undefined;
}

export const PAGE_LIMIT_MAX = 500;

/**
 * How many events one page of a list looks at, at most; fewer where each is found through an index. Filters have no index
 * of their own, which every delivery would pay for; so many rows take a few milliseconds, which a delivery that waits
 * meanwhile hardly notices.
 */
export const EVENTS_LOOKED_AT = 10_000;

export interface RecordFilter {
  /**
   * Ids that begin with it, names that begin with it and names that hold it, in this order, each in its own. The case of
   * names' letters does not count.
   */
  search?: string | undefined;
  status?: string | undefined;
  /** A field of `data`, by the names that lead to it, and its value: a text, or what JSON has for anything else. */
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

/** As of events: a page may hold fewer than its limit, or none, and still not be the last. */
export interface RecordPage {
  items: RecordReport[];
  next: string | null;
  /** When the page ended because it had looked at so many: the id, the name or the instant of the change that it came to. */
  searched_to: string | null;
}

/** What `after` takes to go on behind a record, in a list of all by id. */
export const recordKey = (id: string): string => `0.${id}`;

/** How many records one page looks at, at most, and how many where an index alone tells which of them fit: as many a moment. */
export const RECORDS_LOOKED_AT = 10_000;
export const NAMES_LOOKED_AT = 25_000;

export interface StatusCount {
  status: string;
  /** How many have it; `STATUS_COUNT_MAX` stands for that many or more. */
  records: number;
}

export const STATUS_COUNT_MAX = 10_000;

/** One page of events. It may hold fewer than its limit, or none, and still not be the last. */
export interface EventPage {
  items: EventReport[];
  /** What `after` takes to go on; null: nothing older is left. */
  next: string | null;
  /** When the page ended because it had looked at so many: the oldest event looked at was received then. */
  looked_back_to: string | null;
}

/**
 * The outcome of an audit entry made before what it speaks of is done. It stays where the process died in between: then it
 * was asked for, and may or may not have been done.
 */
export const AUDIT_ASKED = 'asked';

export interface ReportStore {
  summary(): Promise<StoreSummary>;
  /** Newest first. However many are stored and whatever the filter, it reads no more than a bounded number of rows. */
  listEvents(
    filter: {
      state?: EventState | undefined;
      type?: string | undefined;
      kind?: Kind | undefined;
      recordId?: string | undefined;
    } & Period,
    /** `lookAt`: instead of `EVENTS_LOOKED_AT`. */
    paging: Paging & { lookAt?: number },
  ): Promise<EventPage>;
  showEvent(id: string): Promise<EventReport | null>;
  /** Newest first, from all that came in. Reads no more than a bounded number of rows of each table. */
  listDeliveries(
    filter: DeliveryFilter,
    /** `above`: only what came in after the page that said it as its `newest`. */
    paging: Paging & { above?: string | undefined },
  ): Promise<DeliveryPage>;
  /** However many are stored and whatever the filter, it reads no more than a bounded number of rows. */
  listRecords(kind: Kind, filter: RecordFilter, paging: RecordPaging): Promise<RecordPage>;
  /** Of those that are stored, the deleted included, in their order. */
  listStatuses(kind: Kind): Promise<StatusCount[]>;
  showRecord(kind: Kind, id: string): Promise<RecordReport | null>;
  /** Newest first. */
  recordHistory(kind: Kind, id: string, paging: Paging): Promise<ChangeReport[]>;
  /** Of one record, after the number `after`, oldest first. */
  recordChangesAfter(kind: Kind, id: string, after: number, limit: number): Promise<ChangeReport[]>;
  /** Oldest first, after `after`. */
  listChanges(after: number, limit: number): Promise<ChangeReport[]>;
  /** What `listChanges` takes to begin with those of `instant` (ISO 8601 UTC). */
  changesBefore(instant: string): Promise<number>;
  /** What was trimmed of the changes; null: all are kept. */
  trimmedChanges(): Promise<TrimmedChanges | null>;
  /**
   * Which life of the database this is: another one after a backup was put back, because the numbers of changes then
   * begin again where it was made, and mean other changes from there on. Letters and digits.
   */
  epoch(): Promise<string>;
  /** The counter now, and rows at least as new as it: whoever follows the changes from `seq` on misses none. */
  snapshotRecords(kind: Kind, paging: Paging): Promise<{ seq: number; records: RecordReport[] }>;
  /** Newest first, by when they were opened. */
  listGaps(filter: { open?: boolean | undefined } & Period, paging: Paging): Promise<GapReport[]>;
  /** How many gaps were ever opened, by reason. */
  countGapsOpened(): Promise<{ reason: string; count: number }[]>;
  /** Newest first, by when they began. */
  listSyncRuns(paging: Paging & Period): Promise<SyncRunReport[]>;
  showSyncRun(id: number): Promise<SyncRunReport | null>;
  /** Newest first. */
  listQuarantine(paging: Paging & Period): Promise<QuarantineReport[]>;
  showQuarantined(id: number): Promise<QuarantineReport | null>;
  /** Newest first. */
  listRejections(paging: Paging & Period): Promise<RejectionReport[]>;
  showRejection(id: number): Promise<RejectionReport | null>;
  /** Newest first. */
  listAudit(paging: Paging & Period): Promise<AuditReport[]>;
  /** Of one sync run or of all, by kind and id; the key is `pendingDeletionKey`. */
  listPendingDeletions(
    filter: { syncRunId?: number | undefined },
    paging: Paging,
  ): Promise<PendingDeletionReport[]>;
  /** From `since` (wall-clock milliseconds) on, oldest first. Default: by the minute. */
  listTraffic(since: number, step?: TrafficStep): Promise<TrafficReport[]>;
}
