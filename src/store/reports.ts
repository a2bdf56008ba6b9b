import type { Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';

/** What people ask of the store: shapes as the JSON API and the CLI show them. Instants are ISO 8601 UTC text. */

export type EventState = 'pending' | 'processed' | 'ignored' | 'failed' | 'discarded';
/** Of a kind, and of the whole. */
export type VerdictName =
  | 'in_sync'
  | 'catching_up'
  | 'stale'
  | 'unreachable'
  | 'action_required'
  | 'unverified';

export interface EventReport {
  seq: number;
  id: string;
  type: string;
  created: string;
  kind: Kind | null;
  record_id: string | null;
  received_at: string;
  deliveries: number;
  last_delivered_at: string;
  state: EventState;
  /** How often it was tried to process it, the last one included, since it came or since an operator asked for another try. */
  attempts: number;
  next_attempt_at: string | null;
  processed_at: string | null;
  error: string | null;
  /** Whom it came from; null: not known, or trimmed with the body. */
  address: string | null;
  /** Null in lists, and once trimmed. */
  body: string | null;
}

export interface RecordReport {
  id: string;
  name: string | null;
  /** Policies only. */
  version?: string | null;
  status: string | null;
  data: JsonObject;
  first_seen_at: string;
  synced_at: string;
  verified_at: string | null;
  unverified_since: string | null;
  deleted_at: string | null;
  last_event_id: string | null;
  last_event_at: string | null;
  cause: string;
}

/** Its columns, in the order of the tables, which hold what is the mirror's own besides. */
export const recordColumns = (kind: Kind): readonly (keyof RecordReport)[] => [
  ...(['id', 'name'] as const),
  ...(kind === 'policy' ? (['version'] as const) : []),
  ...(['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since'] as const),
  ...(['deleted_at', 'last_event_id', 'last_event_at', 'cause'] as const),
];

export interface ChangeReport {
  seq: number;
  kind: Kind;
  record_id: string;
  operation: 'insert' | 'update' | 'delete' | 'restore';
  /** Changed columns only; `data` holds changed fields only. A field that is absent did not exist. */
  before: JsonObject;
  after: JsonObject;
  cause: string;
  at: string;
}

export interface GapReport {
  id: number;
  kind: Kind | null;
  record_id: string | null;
  reason: string;
  opened_at: string;
  resolved_at: string | null;
  attempts: number;
  error: string | null;
}

/** Open gaps of one reason and kind. */
export interface OpenGaps {
  reason: string;
  /** Null: of the whole mirror. */
  kind: Kind | null;
  count: number;
  /** When the oldest of them was opened. */
  oldest_at: string;
}

export interface SyncRunReport {
  id: number;
  kind: Kind;
  reason: string;
  started_at: string;
  finished_at: string | null;
  pages: number;
  seen: number;
  inserted: number;
  updated: number;
  deleted: number;
  unchanged: number;
  outcome: string | null;
  error: string | null;
  /** What differed although nothing had announced it; null while it runs. */
  differences: JsonObject | null;
}

export interface QuarantineReport {
  id: number;
  received_at: string;
  reason: string;
  t: string;
  body_sha256: string;
  released_at: string | null;
  /** Whom it came from; null: not known, or trimmed with the body. */
  address: string | null;
  /** As text, with replacement characters where it is not UTF-8; null in lists, and once trimmed. */
  body: string | null;
  /** Its bytes as they came; null as `body` is. */
  body_base64: string | null;
}

export interface RejectionReport {
  id: number;
  at: string;
  reason: string;
  t: string | null;
  bytes: number;
  body_sha256: string | null;
  header: string | null;
  /** Whom it came from; null where that is not known. */
  address: string | null;
  /** How many rejections of that reason, sender and minute it stands for. */
  times: number;
  /** As text, with replacement characters where it is not UTF-8; null in lists, and where none was kept. */
  body: string | null;
  /** Its bytes as they came; null as `body` is. */
  body_base64: string | null;
}

export interface AuditReport {
  id: number;
  at: string;
  actor: string;
  action: string;
  outcome: string;
  target: string | null;
}

/** How far the history has been trimmed. */
export interface TrimmedChanges {
  /** Changes up to this number are gone. */
  through: number;
  /** When the last of them was made. */
  at: string;
}

/** One row of the view `sync_status`, and what it leaves out. */
export interface KindStatus {
  kind: Kind;
  verdict: VerdictName;
  in_sync_since: string | null;
  /** Live ones. */
  records: number;
  /** Tombstones. */
  deleted: number;
  /** Ids known, those included that the API never showed. */
  known: number;
  /** Live ones with nothing outstanding, as their rows say. */
  verified: number;
  /** Ids that a read can verify and has not, rows or not: none of those that the API does not show. */
  unverified: number;
  oldest_unverified_at: string | null;
  last_full_sync_at: string | null;
  /** How long that took; of risk assessments it is the length of a cycle. */
  last_full_sync_seconds: number | null;
  /** Everything that the upstream held at this instant has been read since, as far as `coverage` goes. */
  complete_through: string | null;
  /** Since when the present credentials have been seen to read it; null: not yet, so that it cannot be in sync. */
  readable_since: string | null;
  open_gaps: number;
  coverage: string;
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

/** A deletion that waits for a person, or is approved and waits for its proof. */
export interface PendingDeletionReport {
  kind: Kind;
  id: string;
  /** As the mirror shows it; null: it has no row, or no name. */
  name: string | null;
  status: string | null;
  /** When its row was last written; null: it has none. */
  synced_at: string | null;
  /** The sync run that found it gone. */
  sync_run_id: number;
  pending_since: string;
  /** Null: nobody has approved it yet. */
  approved_until: string | null;
}

/** What `after` takes to go on behind it. A kind holds no slash. */
export const pendingDeletionKey = ({ kind, id }: { kind: Kind; id: string }): string => `${kind}/${id}`;

export type ListedOutcome = 'accepted' | 'duplicate' | 'quarantined' | 'rejected';

/** The reason of a delivery in quarantine whose event had come before: it was answered as a duplicate. */
export const CONFLICTING = 'conflicting_content';

/** A delivery, whatever became of it. */
export interface DeliveryReport {
  outcome: ListedOutcome;
  /** Of events, duplicates, quarantine or rejections: `seq` or `id` there. */
  number: number;
  received_at: string;
  /** As its body names them; null: it names none. */
  event_id: string | null;
  type: string | null;
  kind: Kind | null;
  record_id: string | null;
  /** Of an accepted one: what became of its event. */
  state: EventState | null;
  /** Why it was not accepted, or why its event failed. */
  reason: string | null;
  /** Whom it came from; null: not known, or trimmed with the body. */
  address: string | null;
  /** How often it came: an accepted event, or rejections of its reason, sender and minute; else 1. */
  deliveries: number;
}

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
  /** The bytes of a delivery in quarantine; null: no such delivery, or trimmed. */
  readQuarantinedBody(id: number): Promise<Uint8Array | null>;
  /** From `since` (wall-clock milliseconds) on, oldest first. Default: by the minute. */
  listTraffic(since: number, step?: TrafficStep): Promise<TrafficReport[]>;
}
