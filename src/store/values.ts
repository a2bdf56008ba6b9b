import type { FetchedKind, Kind } from '../compliance/kinds.ts';
import type { IdPointers, JsonObject, LearnedPointer } from '../compliance/pointers.ts';
import type { EventState } from './reports.ts';
import type { FieldType, Row } from './schema.ts';

/**
 * What the store's verbs take and return. Numbers (`seq`, `dirty`, `write`, `number`) come from one durable counter, in the order of
 * commits. Instants named `…At` are milliseconds of the steady clock, which only one run can compare; those named `…Wall` are
 * milliseconds of the wall clock.
 */

/** Both clocks, read together. Units: milliseconds since 1970. */
export interface Now {
  wall: number;
  steady: number;
}

// ─── inbox ──────────────────────────────────────────────────────────────────────────────────────────────

export interface IncomingEvent
  extends Pick<Row<'events'>, 'id' | 'type' | 'createdMs' | 'kind' | 'recordId'> {
  /** As sent: an ISO 8601 instant. */
  created: string;
  /** False: the specification does not name the type. Stored and ignored, but its record is marked dirty. */
  known: boolean;
  /** The raw body, exactly as signed. It is well-formed UTF-8, since it was parsed. */
  body: string;
  /** The signature header's timestamp, as sent. */
  t: string;
  /** The sender's; absent or null: unknown. */
  address?: string | null;
}

export type AcceptOutcome =
  | { status: 'accepted'; seq: number }
  /** The id is known. `conflicting`: with other content, so this delivery was quarantined and a problem opened. */
  | { status: 'duplicate'; conflicting: boolean };

/** A delivery whose signature is valid, and whose content is no usable event. */
export interface UnusableDelivery {
  reason: string;
  t: string;
  body: Uint8Array;
  /** The record that it seems to be about. It becomes dirty, so that the API is asked. */
  kind: Kind | null;
  recordId: string | null;
  /** The sender's; absent or null: unknown. */
  address?: string | null;
}

/** A delivery rejected before its content was trusted. */
export interface Rejection
  extends Pick<Row<'rejections'>, 'reason' | 't' | 'bytes' | 'bodySha256' | 'header' | 'body' | 'address'> {
  wall: number;
}

/** One row for `times` rejections of the same reason and sender within a minute. */
export interface CountedRejection extends Rejection {
  times: number;
}

export type RetryOutcome =
  | { outcome: 'processed'; kind: Kind; recordId: string }
  | { outcome: 'failed'; error: string }
  | { outcome: 'other_state'; state: EventState }
  /** Its body was deleted by retention. */
  | { outcome: 'trimmed' }
  | { outcome: 'unknown' };

/** An event whose record cannot be found: no pointer finds an id in it, or the API has never shown the record with that id. */
export interface UnknownEvent {
  seq: number;
  id: string;
  type: string;
  kind: Kind;
  recordId: string | null;
  body: string;
  /** The id that the settings and the learned pointers find in it now. */
  named: string | null;
}

/** What an open problem `unknown_record` is about. `recordId` null: events that name no record. */
export interface Unknown {
  kind: Kind;
  recordId: string | null;
}

export interface ProvenPointer extends LearnedPointer {
  eventId: string;
  recordId: string;
}

/** An accepted event, as far as outcomes name it. */
export interface NamedEvent {
  seq: number;
  id: string;
  kind: Kind;
  recordId: string | null;
  receivedWall: number;
  attempts: number;
}

export interface ProvisionalRules {
  pointers: IdPointers;
  /** No API credentials: ties go to the later arrival, and any payload may create a row. */
  eventsOnly: boolean;
  /** `created` counts as at most this long after the arrival. */
  toleranceMs: number;
  timing: DirtyTiming;
  /** DELETION_GUARD_PERCENT. */
  guardPercent: number;
}

export interface ProvisionalOutcome {
  event: NamedEvent;
  /** `marked_dirty`: only the API is asked. `overtaken`: the row is at least as new. `failed`: the event's data is unusable. */
  outcome: 'provisional' | 'marked_dirty' | 'overtaken' | 'deletion_pending' | 'failed';
  error: string | null;
}

// ─── backfill ───────────────────────────────────────────────────────────────────────────────────────────

export interface DirtyTiming {
  /** The read delay, milliseconds: a dirty record is read after it. */
  settleMs: number;
}

/** What wrote a row. */
export interface Cause {
  cause: 'event' | 'sync' | 'refetch' | 'person';
  /** The event's id, the sync run's, of a refetch the event that made it due. Null: no event did. */
  causeId: string | null;
}

export interface ReadMoment {
  /** The counter when the read began. */
  number: number;
  beganAt: number;
  endedAt: number;
  endedWall: number;
  /** True for a page of a list: its rows may lack fields that the record's own address shows. */
  isOfList?: boolean;
}

export interface ReadObject {
  id: string;
  /** Its document as JSON.stringify writes it. Only where it differs from the row it is parsed again. */
  json: string;
}

export type ApplyOutcome =
  | 'inserted'
  | 'updated'
  | 'revived'
  | 'unchanged'
  /** The row has a newer write: read again. */
  | 'refused'
  /** It differs from the row, and the last read is too recent to tell which of the two is stale: read again. */
  | 'deferred'
  /** It has nothing that the record had: nobody can use the answer. */
  | 'unlike';

export interface Applied {
  id: string;
  outcome: ApplyOutcome;
  /** Columns in which the read differed from the row; empty if there was no row. */
  differences: readonly string[];
  verified: boolean;
  /** How long the record was unverified, if this read verified it. Milliseconds, wall clock. */
  lagMs: number | null;
  /** The record was alive before this read and still is: this proves that the credentials see live records. */
  witness: boolean;
  /** The record was unverified before. */
  announced: boolean;
  /** The list's row lacks fields that the mirror has. Only the record's own address shows whether they are gone. */
  lacks: boolean;
}

export interface DueRecord {
  id: string;
  attempts: number;
  /** Steady; of some that were asked for no instant. */
  dueAt: number;
  /** No event or read left it unverified: a person or a list wants this very record read, or it is known by its id only. */
  asked: boolean;
}

/** What the planner is at. */
export interface InHand {
  timing: DirtyTiming;
  pageSize: number;
  /** Reads of single records that may begin; and whether one of those under way is of a record that was asked for. */
  slots: number;
  isOneAsked: boolean;
  kinds: Readonly<
    Record<
      Kind,
      {
        /** A full sync runs. It reads first what is known by its id only. */
        isRunning: boolean;
        /** The list does not keep failing. */
        isReadable: boolean;
        /** Records in the list; null: what is known counts. */
        total: number | null;
        /** Records that are being read now. */
        busy: readonly string[];
      }
    >
  >;
}

/** What is to be done, or when to look again. */
export type Work =
  /** A problem waits for it, deletions wait for a person, or what events made due is best read in a list. */
  | { what: 'full_sync'; kind: Kind; why: 'problem' | 'pending' | 'events' }
  /** Absences are proven. `all`: those that nobody has announced are deleted too. */
  | { what: 'conclude'; kind: FetchedKind; all: boolean }
  | { what: 'refetch'; records: readonly (DueRecord & { kind: FetchedKind })[] }
  /** Null: nothing is due later. */
  | { what: 'rest'; until: number | null };

export type MissingOutcome =
  /** The API never showed it: not a deletion. */
  | 'unresolved'
  /** The same, and no problem shows the last event about it. */
  | 'unresolved_event'
  /** The first 404 since the record last changed: read again after the read delay. */
  | 'first'
  /** 404 on two reads, a read delay apart; `concludeDeletions` decides. */
  | 'proven'
  /** Proven, but nothing shows that the credentials still see live records. */
  | 'unwitnessed'
  /** Proven, with a witness before the second read and none after it. */
  | 'witnessed_before'
  /** Already a verified tombstone, or an id that nothing names any more. */
  | 'known';

export interface Conclusion {
  /** Without ids that had neither a live row nor an event. */
  deleted: { id: string; cause: 'event' | 'absence' }[];
  /** Too many at once: an operator must approve. Sorted. */
  pending: string[];
  /** How many are proven gone, and not judged yet. */
  left: number;
}

export type { ProblemReason } from '../mirror/problems.ts';

/** What a problem is about. Without a kind: all; without a record: the whole kind. */
export type ProblemKey = Pick<Row<'problems'>, 'reason' | 'kind' | 'recordId'>;

/** A problem was opened or resolved. Another occurrence of an open problem is no change. */
export interface ProblemChange {
  problem: ProblemKey;
  what: 'opened' | 'resolved';
  /** Of an opened problem, if there is one. */
  error: string | null;
  /** Of a resolved problem: milliseconds, wall clock. */
  openForMs: number | null;
}

/** What a person's `resolveProblem` did. `changed`: it shows something else than the person saw; `unfit`: it has its own decision. */
export type ResolveOutcome = 'resolved' | 'changed' | 'not_open' | 'unfit';

/** `accepted`: a person has accepted what its list does not show, and it has read all else. */
export type SyncRunOutcome = 'complete' | 'accepted' | 'incomplete' | 'failed' | 'interrupted';

export type SyncRunProgress = Pick<
  Row<'syncRuns'>,
  'pages' | 'seen' | 'inserted' | 'updated' | 'deleted' | 'unchanged'
>;

export interface SyncRunEnd {
  outcome: SyncRunOutcome;
  /** Of a complete one: it has read a list that shows all records of the kind. Default: false. */
  listed?: boolean;
  /** Of an incomplete one: what a person can accept, as long as it stays. */
  stays?: string | undefined;
  error: string | null;
  progress: SyncRunProgress;
  differences?: JsonObject;
  /** A record differed that no event had announced. Default: false. */
  hasDifferences?: boolean;
  /** Its oldest answer was as old as this, milliseconds: it counts as begun so much earlier, and as of this number of the counter. */
  agedMs?: number;
  number?: number;
}

/** What the heartbeat of the worker says of how it reads. */
export interface ServiceFacts {
  eventsOnly: boolean;
  settleMs: number;
  /** 0: no timer. */
  fullSyncMs: number;
  /** The API gives no usable answer: its last error. False: it does. Null: not known yet. */
  unreachable: { error: string | null } | false | null;
  /** The fingerprint of the present credentials, as in `noteAccess`. */
  access: string;
  pointers?: IdPointers;
}

// ─── operators ──────────────────────────────────────────────────────────────────────────────────────────

export type AuditEntry = Omit<Row<'audit'>, 'id' | 'at'>;

export type StoredRegistration = Row<'registrations'>;

/** A text sealed with CREDENTIALS_KEY, and its row. */
export interface SealedText {
  table: 'registrations' | 'registration_answers' | 'tokens';
  /** The row's key; the seal is bound to it. */
  row: string;
  sealed: string;
}

/** OAuth tokens at rest, as sealed by compliance/. */
export type StoredTokens = Pick<Row<'tokens'>, 'version' | 'sealed' | 'refusal'>;

// ─── retention ──────────────────────────────────────────────────────────────────────────────────────────

// biome-ignore format: names side by side
export type TrimmedThing =
  | 'event_bodies' | 'quarantined_bodies' | 'rejections' | 'events' | 'changes' | 'audit' | 'event_ids'
  | 'sync_history';

export interface TrimStep {
  /** Wall-clock milliseconds: rows received at or after this time stay. */
  before: number;
  /** Wall-clock milliseconds. */
  now: number;
  /** The `next` of the step before; 0: from the oldest. */
  after: number;
  /** The most rows that the step looks at, since it has the write lock. */
  limit: number;
}

export interface Trimmed {
  trimmed: number;
  /** Null: no row is left to trim. */
  next: number | null;
}

// ─── typed columns ──────────────────────────────────────────────────────────────────────────────────────

export type { FieldType };

/** A field of `data` that has no column yet. */
export interface SeenField {
  kind: Kind;
  /** The name of a field of `data`, or that of an object in `data` and of a field in it. */
  keys: readonly string[];
  type: FieldType;
  /** ISO 8601: the first change that showed it. */
  firstSeenAt: string;
}

/** An object in `data`, as records have shown it since fields were last learned. */
export interface SeenObject {
  kind: Kind;
  key: string;
  /** How many records have it. */
  records: number;
  /** Its keys; the first hundred. */
  keys: readonly string[];
  /** How often records have one of these keys. */
  times: number;
}

/** A row of the table `fields`. */
export type Field = Omit<Row<'fields'>, 'kind'>;

/** How far a search of the changes for new fields has come, which runs in steps. */
export interface FieldLook {
  /** The number of the last change that was searched. */
  through: number;
  seen: readonly SeenField[];
  objects: readonly SeenObject[];
  /** Records that an event has written, and no read has confirmed yet. */
  waiting: readonly { kind: Kind; id: string }[];
  /** All changes that were committed before the search began have been searched. */
  isOver: boolean;
}

// ─── several processes ───────────────────────────────────────────────────────────────────────────────────────────

/** The right to do work that only one process does at a time. It is lost when another process takes it, with a higher fence. */
export type Lease = Omit<Row<'leases'>, 'leaseUntil'>;

export type SyncRequest = Pick<Row<'syncRequests'>, 'kind' | 'reason'>;

export type StoredSession = Row<'operatorSessions'>;

/** A message to other processes. If it is lost, they notice the same at their next poll. */
export type Notice = 'events' | 'work';
