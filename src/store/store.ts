import type { Kind } from '../compliance/kinds.ts';
import type { IdPointers, JsonObject, LearnedPointer } from '../compliance/pointers.ts';
import type { Lease, Now, ReplicaStore } from './replicas.ts';
import type { EventState, ReportStore, TrafficReport } from './reports.ts';

/**
 * The port between the stages and the database. Each verb is ONE atomic unit: committed whole when its promise resolves, not
 * at all when it rejects. Transactions do not appear here, so that each engine runs them in its own way. Verbs reject with
 * StoreUnavailable when the database cannot commit.
 *
 * Numbers (`seq`, `dirty`, `write`, `number`) come from one durable counter, in the order of commits. Instants named `…At` are
 * milliseconds of the steady clock, comparable within one run only; those named `…Wall` are wall-clock milliseconds.
 */

export type { Now };

// ─── inbox ──────────────────────────────────────────────────────────────────────────────────────────────

/** A verified delivery, parsed. */
export interface IncomingEvent {
  id: string;
  type: string;
  /** As sent: an ISO 8601 instant. */
  created: string;
  /** `created` in milliseconds since 1970. */
  createdMs: number;
  /** Null: the type's family is unknown. */
  kind: Kind | null;
  /** Null: the payload names no usable id. */
  recordId: string | null;
  /** False: the specification does not name the type. Stored and ignored, but its record is marked dirty. */
  known: boolean;
  /** The raw body, exactly as signed. It has been parsed, so it is well-formed UTF-8. */
  body: string;
  /** `body` parsed: not stored; saves an engine a second parse. */
  data?: JsonObject;
  /** The signature header's timestamp, as sent. */
  t: string;
  /** The sender's; absent or null: not known. */
  address?: string | null;
}

export type AcceptOutcome =
  | { status: 'accepted'; seq: number }
  /** Seen before. `conflicting`: the same id came with other content, which was quarantined and raised as a gap. */
  | { status: 'duplicate'; conflicting: boolean };

/** A delivery with a valid signature, whose content is no usable event. */
export interface UnusableDelivery {
  reason: string;
  t: string;
  body: Uint8Array;
  /** The record it seems to be about: marked dirty, so that the API is asked. */
  kind: Kind | null;
  recordId: string | null;
  /** The sender's; absent or null: not known. */
  address?: string | null;
}

/** A delivery rejected before its content was trusted. */
export interface Rejection {
  reason: string;
  /** As sent, where it could be read. */
  t: string | null;
  bytes: number;
  bodySha256: string | null;
  /** The signature header as sent, cut to a bounded length. A MAC is not a secret. */
  header: string | null;
  /** At most `REJECTION_BODY_BYTES`. */
  body: Uint8Array | null;
  /** The sender's, as far as it can be trusted; null: not known. */
  address: string | null;
  wall: number;
}

/** One row for `times` rejections of the same reason and sender within a minute. */
export interface CountedRejection extends Rejection {
  times: number;
}

/** Rejections kept for each reason. Four of the fourteen reasons keep bodies, of 16 KB at most: 33 MB if all are full. */
export const REJECTIONS_KEPT = 500;
/** A sender retries for two days; a week leaves time to look at the rejections. */
export const REJECTION_KEPT_MS = 7 * 86_400_000;
/** Expired rejections that one write deletes, at most. */
export const OLD_REJECTIONS_LOOKED_AT = 100;

/** Duplicates kept: more than a sender's retries of a bad day. A row is about 150 bytes. */
export const DUPLICATES_KEPT = 10_000;

export interface InboxStore {
  /** Outcomes are in the order of `events`. Assessments that `pointers` find, and no later step would, become known here. */
  accept(
    batch: { events: readonly IncomingEvent[]; unusable: readonly UnusableDelivery[] },
    now: Now,
    timing: DirtyTiming,
    pointers?: IdPointers,
  ): Promise<AcceptOutcome[]>;
  /** Keeps the newest `REJECTIONS_KEPT` of each reason, sender by sender in turn, so that a flood replaces its sender's own only. */
  recordRejections(rejections: readonly CountedRejection[]): Promise<void>;

  /** Due pending events in number order, for `leaseMs`; none of a record of which another batch has claimed one. */
  claimEvents(owner: string, limit: number, leaseMs: number, now: Now): Promise<ClaimedEvent[]>;
  /** Gives back what is left of claims, as after a failure. */
  releaseEvents(events: readonly ClaimedEvent[]): Promise<void>;
  /** At start: drops the claims of earlier processes. Returns how many events are pending. */
  recoverClaims(): Promise<number>;
  /** When the next deferred event is due. */
  nextAttemptWall(): Promise<number | null>;
  /** Writes claimed events into rows and marks each processed or failed, in one transaction. Skips those whose claim was lost. */
  applyEvents(
    events: readonly ClaimedEvent[],
    rules: ProvisionalRules,
    now: Now,
  ): Promise<ProvisionalOutcome[]>;
  /** After an error of our own: retry at `retryAtMs` (steady); null: the event is `failed`. */
  deferEvent(
    failure: { event: ClaimedEvent; retryAtMs: number | null; error: string },
    now: Now,
    timing: DirtyTiming,
  ): Promise<void>;

  /**
   * Reads a failed event again, by these pointers and the learned ones; if that fails, it stays failed. Also a processed one whose
   * record the API has never shown, if it names another record now; a record that nothing else names is then removed.
   */
  retryEvent(id: string, rules: ProvisionalRules, now: Now): Promise<RetryOutcome>;
  /** Failed events that name no record, in number order, after the event of that number. */
  failedWithoutRecord(after: number, limit: number): Promise<UnreadEvent[]>;
  /** False: no such event in a state that allows it. */
  discardEvent(id: string, now: Now): Promise<boolean>;
  /** Marks its record dirty, or opens a gap on its kind, so that the API is asked. */
  releaseQuarantined(id: number, now: Now, timing: DirtyTiming): Promise<boolean>;
}

export type RetryOutcome =
  | { outcome: 'processed'; kind: Kind; recordId: string }
  | { outcome: 'failed'; error: string }
  | { outcome: 'other_state'; state: EventState }
  /** Its body was deleted by retention. */
  | { outcome: 'trimmed' }
  | { outcome: 'unknown' };

/** A failed event whose payload names no record where any pointer looks. */
export interface UnreadEvent {
  seq: number;
  id: string;
  type: string;
  kind: Kind;
  /** How often its record was looked for, and not found. */
  attempts: number;
  body: string;
}

export interface ProvenPointer extends LearnedPointer {
  eventId: string;
  recordId: string;
  /** False: only reported, as a setting to make; else events that the settings find no id in are read by it. */
  isUsed: boolean;
}

export interface ClaimedEvent {
  seq: number;
  id: string;
  kind: Kind | null;
  recordId: string | null;
  receivedWall: number;
  attempts: number;
  /** Of the claim: verbs skip an event that another owner has claimed since. */
  owner: string;
}

export interface ProvisionalRules {
  pointers: IdPointers;
  /** No API credentials: ties go to the later arrival, and any payload may create a row. */
  eventsOnly: boolean;
  /** A `created` further than this after the arrival is cut to it. */
  toleranceMs: number;
  timing: DirtyTiming;
}

export interface ProvisionalOutcome {
  event: ClaimedEvent;
  /** `marked_dirty`: nothing to write, the API is asked. `overtaken`: the row is at least as new. `failed`: its data is unusable. */
  outcome: 'provisional' | 'marked_dirty' | 'overtaken' | 'failed';
  error: string | null;
}

// ─── backfill ───────────────────────────────────────────────────────────────────────────────────────────

export interface DirtyTiming {
  /** How long the API may serve the state before a change: a dirty record is read after it. Milliseconds. */
  settleMs: number;
}

export interface ReadMoment {
  /** The counter as the read began. */
  number: number;
  beganAt: number;
  endedAt: number;
  endedWall: number;
  /** A page of a list, whose rows may lack fields that the record's own address shows. */
  isOfList?: boolean;
}

export interface ReadObject {
  id: string;
  data: JsonObject;
  /** `JSON.stringify(data)`, if already computed. */
  json?: string;
}

export type ApplyOutcome =
  | 'inserted'
  | 'updated'
  | 'revived'
  | 'unchanged'
  /** The row has a newer write: read again. */
  | 'refused'
  /** Differs from the row, and the last read is too recent to know which of them is stale: read again. */
  | 'deferred';

export interface Applied {
  id: string;
  outcome: ApplyOutcome;
  /** Columns that differed from the row before. */
  differences: readonly string[];
  verified: boolean;
  /** How long it had been unverified, if this read ended that. Milliseconds, wall clock. */
  lagMs: number | null;
  /** It was alive before this read and still is: proof that the credentials see live records. */
  witness: boolean;
  /** It was unverified before. */
  announced: boolean;
  /** The list's row lacks fields that the mirror has: only the record's own address shows whether they are gone. */
  lacks: boolean;
}

export interface Compared extends Pick<Applied, 'id' | 'lacks'> {
  what: 'same' | 'missing' | 'different';
  /** Columns that differ. */
  fields: readonly string[];
}

export interface DueRecord {
  kind: Kind;
  id: string;
  attempts: number;
  /** It has answered 404 once. */
  missing: boolean;
}

export type MissingOutcome =
  /** The API never showed it: not a deletion. */
  | 'unresolved'
  /** Unresolved, and an event about it was accepted whose data was not searched for other ids yet. */
  | 'unresolved_event'
  /** Unresolved, and the data of all events about it has been searched. */
  | 'unresolved_again'
  /** First 404, or the first since the record last changed: ask again after SETTLE. */
  | 'first'
  /** 404 on two reads SETTLE apart; `concludeDeletions` decides. */
  | 'proven'
  /** Proven, but nothing shows that the credentials still see live records. */
  | 'unwitnessed'
  /** Proven, with a witness before the second read and none after it. */
  | 'witnessed_before'
  /** A verified tombstone already, or an id that nothing names any more. */
  | 'known';

export interface Conclusion {
  /** Without ids that had no live row and no event: only their state is settled. */
  deleted: { id: string; cause: 'event' | 'absence' }[];
  /** Too many at once: an operator must approve. Sorted. */
  pending: string[];
  /** Pending deletions of the kind after this, those approved but not yet done included. */
  waiting: number;
}

export type GapReason =
  | 'downtime'
  | 'upstream_unavailable'
  | 'credentials_rejected'
  | 'rejected_timestamp'
  | 'rejected_signatures'
  | 'no_signing_secret'
  | 'unresolved'
  | 'unreadable_answer'
  | 'unproven_id'
  | 'unaddressable'
  | 'failed_event'
  | 'no_record_id'
  | 'unusable_delivery'
  | 'conflicting_content'
  | 'total_mismatch'
  | 'silence'
  | 'list_incomplete'
  | 'deletions_unproven'
  | 'deletion_pending'
  | 'restored';

export interface GapKey {
  reason: GapReason;
  /** Null: the whole mirror. */
  kind: Kind | null;
  /** Null: the whole kind. */
  recordId: string | null;
}

/** A further occurrence of an open gap is no change. */
export interface GapChange {
  gap: GapKey;
  what: 'opened' | 'resolved';
  /** Of an opened one, if any. */
  error: string | null;
  /** Of a resolved one: milliseconds, wall clock. */
  openForMs: number | null;
}

export type SyncRunOutcome = 'complete' | 'incomplete' | 'failed' | 'interrupted';

export type SyncRunProgress = Record<
  'pages' | 'seen' | 'inserted' | 'updated' | 'deleted' | 'unchanged',
  number
>;

export interface SyncRunEnd {
  outcome: SyncRunOutcome;
  error: string | null;
  progress: SyncRunProgress;
  differences?: JsonObject;
  /** Something differed that no event had announced. Default: false. */
  hasDifferences?: boolean;
}

export interface BackfillStore {
  /** The counter: taken before a read begins. */
  currentNumber(): Promise<number>;

  /** At start: unverified records count as marked dirty now, since the steady clocks of two runs cannot be compared. */
  markUnverifiedDirty(now: Now, timing: DirtyTiming): Promise<number>;
  /** The longest due first. Those marked dirty since are put off, not returned. */
  dueRecords(kind: Kind, now: Now, timing: DirtyTiming, limit: number): Promise<DueRecord[]>;
  countDue(kind: Kind, now: Now, atMost: number): Promise<number>;
  nextDueAt(kind: Kind): Promise<number | null>;

  /** New ids become known and due. Returns how many were new. */
  makeKnown(kind: Kind, ids: readonly string[], now: Now): Promise<number>;
  /** An operator asked, or a list scan missed them: due now. New ids become known. */
  makeDue(kind: Kind, ids: readonly string[], now: Now): Promise<void>;

  /** Applies the objects of one page or record. `progress` is saved in the same commit. */
  applyReads(
    kind: Kind,
    objects: readonly ReadObject[],
    read: ReadMoment,
    context: {
      cause: string;
      syncRunId: number | null;
      timing: DirtyTiming;
      pointers: IdPointers;
      progress?: SyncRunProgress;
    },
  ): Promise<Applied[]>;
  /** Writes nothing. */
  compareReads(
    kind: Kind,
    objects: readonly ReadObject[],
    read: Pick<ReadMoment, 'isOfList'>,
  ): Promise<Compared[]>;
  /** All known ids after `after`, in order. Tombstones and ids without a row are not `alive`. */
  knownIds(kind: Kind, after: string, limit: number): Promise<{ id: string; alive: boolean }[]>;
  /**
   * A 404 for one record. A witness is a live record of the kind that a read showed: the last one at `witnessedAt`, not before
   * `witnessFrom` (access may have been lost in between), and with `witnessedAfter` another one right after the 404.
   */
  recordMissing(
    kind: Kind,
    id: string,
    read: ReadMoment,
    context: {
      witnessedAt: number | null;
      witnessFrom?: number;
      witnessedAfter: boolean;
      timing: DirtyTiming;
      absentFromList: boolean;
      /** Also for deletions that an event announced or an operator approved, while a live record can be read. */
      needsWitness?: boolean;
    },
  ): Promise<MissingOutcome>;
  /** A read without a usable answer: the record is read again at `retryAtMs`. */
  recordReadFailure(kind: Kind, id: string, error: string, retryAtMs: number): Promise<void>;
  /** Live rows and unverified ones, deleted included, that the sync run has not seen and nothing has touched since `number`. */
  unseenBy(kind: Kind, syncRunId: number, number: number): Promise<string[]>;
  /** Ids marked dirty or written after `number`. */
  touchedSince(kind: Kind, number: number): Promise<Set<string>>;
  /** An event about a deletion was accepted after `number`, or at `wall` or later. */
  hasAnnouncedDeletion(kind: Kind, number: number, wall: number): Promise<boolean>;
  /**
   * Turns proven absences into tombstones or pending deletions. `proof`: of two complete list scans, as of `number`; null: of 404s.
   * `onlyAnnounced`: without deletions that no event announced, which are judged together once the others have their second 404.
   */
  concludeDeletions(
    kind: Kind,
    proof: { absent: readonly string[]; number: number } | null,
    context: {
      cause: string;
      syncRunId: number | null;
      onlyAnnounced: boolean;
      /** Once it is lost, nothing is deleted: rejects with MirrorError `lease_lost`. Absent: there is no other process. */
      lease?: Lease;
    },
    now: Now,
  ): Promise<Conclusion>;
  /** A deletion without a possible witness waits for an operator. `syncRunId` null: the last full sync of the kind. */
  addPendingDeletion(kind: Kind, id: string, syncRunId: number | null, now: Now): Promise<void>;
  /** Approves the deletions pending under that full sync, or only `ids` of them. Returns the ids. */
  approveDeletions(
    syncRunId: number,
    untilWall: number,
    ids?: readonly string[],
  ): Promise<{ kind: Kind; ids: string[] }>;
  /** Records that await their second 404, and those that had it and await `concludeDeletions`. */
  countProofs(kind: Kind): Promise<{ awaiting: number; proven: number }>;
  /** A verified live record that the API has shown, other than `besides`: to read as a witness. */
  someLiveRecord(kind: Kind, besides: string): Promise<string | null>;

  /** Known ids, tombstones included, that this full sync has not tried: unverified first, then the longest unread. */
  cycleRecords(kind: Kind, syncRunId: number, limit: number): Promise<string[]>;
  /** The full sync has tried this record, with any result. */
  markSynced(kind: Kind, id: string, syncRunId: number): Promise<void>;
  countKnown(kind: Kind): Promise<number>;
  /** Records whose own address gave an unreadable answer last, the longest unread first. */
  unreadableRecords(kind: Kind, limit: number): Promise<string[]>;
  /** Kinds with an open gap that a full sync begun now would resolve. */
  kindsWantingFullSync(now: Now): Promise<Kind[]>;
  /** How many are not approved at `wall`, by the sync run that found them. */
  pendingDeletions(wall: number): Promise<{ sync_run_id: number; kind: Kind; count: number }[]>;

  /** One of a kind runs at a time: an open one becomes `interrupted`. `hasUnnamed`: a gap is open that a full list resolves. */
  startSyncRun(
    kind: Kind,
    reason: string,
    now: Now,
  ): Promise<{ id: number; number: number; hasUnnamed: boolean }>;
  progressSyncRun(id: number, progress: SyncRunProgress): Promise<void>;
  /** A complete one resolves the gaps from before it. With unannounced differences the kind was not in sync until now. */
  finishSyncRun(id: number, result: SyncRunEnd, now: Now): Promise<void>;
  /** At start: open sync runs become `interrupted`. Returns how far the last of each kind came. */
  interruptSyncRuns(now: Now): Promise<{ kind: Kind; pages: number }[]>;

  /**
   * Failed events without a record whose search for one is due, the longest due first. About policies only after a complete list
   * begun SETTLE after they were accepted: a policy not yet listed would leave another one that the event names.
   */
  unreadEvents(now: Now, limit: number, timing: DirtyTiming): Promise<UnreadEvent[]>;
  /** Its record was not found: `error` goes into the event and its gap. */
  putOffUnread(event: UnreadEvent, error: string, againWall: number, now: Now): Promise<void>;
  /** After the clock was set back: what was put off past now is due. */
  seekAnew(now: Now): Promise<void>;
  /** Ids, in order, that events have named and the API has never shown. They have no row. */
  neverShown(kind: Kind, after: string, limit: number): Promise<string[]>;
  /** In number order, with a body and not discarded. Default of `after`: the last one that was searched for other ids. */
  eventsNaming(
    kind: Kind,
    id: string,
    which: { after?: number; through?: number; limit: number },
  ): Promise<UnreadEvent[]>;
  /** Events up to `through` were searched. `named`, found in `event`, become dirty unless they did so after it was accepted. */
  noteSearched(
    kind: Kind,
    id: string,
    found: { through: number; event: number; named: readonly string[] },
    now: Now,
    timing: DirtyTiming,
  ): Promise<void>;
  /** Those of `ids` that the API has shown as records of the kind, deleted ones included. */
  shownIds(kind: Kind, ids: readonly string[]): Promise<string[]>;
  /** Those that are used, the latest first. */
  learnedPointers(): Promise<LearnedPointer[]>;
  learnPointer(proven: ProvenPointer, now: Now): Promise<void>;

  /** Opens the gap, or counts one more occurrence on the open one. */
  openGap(gap: GapKey, error: string | null, now: Now): Promise<void>;
  /** By its key or its id. False: it is not open. */
  resolveGap(gap: GapKey | number, now: Now): Promise<boolean>;

  /** These credentials (a fingerprint) can read the kind: something was read, or an invented id was answered as unknown. */
  noteAccess(kind: Kind, access: string, how: 'read' | 'absence', now: Now): Promise<void>;

  /**
   * Writes the fact `heartbeat` (ISO 8601): time without beats is downtime. How the API is read is the word of the replica that
   * reads it; while that is another one, it stays, and what these facts would have made of it is the answer.
   */
  beat(now: Now, facts: ServiceFacts): Promise<ReadingFact[]>;
  /** The last delivery, new or not, and the longest pause within the newest `among` events; null with fewer than ten. */
  lastDelivery(among: number): Promise<{ wall: number | null; longestPauseMs: number | null }>;
}

/** Repairs read the API, and retry events once a read showed where their ids are. */
export type RepairStore = BackfillStore & Pick<InboxStore, 'retryEvent' | 'failedWithoutRecord'>;

/** How the API is read, by the names of the facts that the verdict goes by. */
export type ReadingFact = 'access' | 'events_only' | 'full_sync_ms' | 'settle_ms';

/** What the view `sync_status` needs to know of the running service. */
export interface ServiceFacts {
  eventsOnly: boolean;
  settleMs: number;
  fullSyncMs: number;
  blocked: boolean;
  /** The API has given no useful answer for a while. */
  unreachable: boolean;
  /** The fingerprint of the present credentials, as in `noteAccess`. */
  access: string;
  /** The lease of the one that reads the API, and whose facts these are. Absent: there is only one. */
  reader?: { lease: string; replica: string } | undefined;
  /** Written beside them, by name, and of no meaning here. */
  others?: Readonly<Record<string, string>>;
}

// ─── operators ──────────────────────────────────────────────────────────────────────────────────────────

export interface AuditEntry {
  actor: string;
  action: string;
  outcome: string;
  target: string | null;
}

export interface StoredRegistration {
  upstreamId: string;
  url: string;
  events: string[];
  description: string;
  /** What the service answered that it delivers; `events` is what was requested. */
  delivers: string[];
  /** As sealed by compliance/secrets.ts; null when the answer held none. */
  sealedSecret: string | null;
  /** The whole answer, also sealed: a later version may recognise more in it. */
  sealedAnswer: string | null;
  createdWall: number;
  /** From then on its secret verifies nothing, and upkeep deletes the row. Null: never. */
  expiresWall: number | null;
}

/** A text sealed with CREDENTIALS_KEY, and its row. */
export interface SealedText {
  table: 'registrations' | 'registration_answers' | 'tokens';
  /** The row's key; the seal is bound to it. */
  row: string;
  sealed: string;
}

/** OAuth tokens at rest, as sealed by compliance/. */
export interface StoredTokens {
  /** Rises with every save. */
  version: number;
  sealed: string;
  /** Why the upstream refused to renew them; null: it has not. */
  refusal: string | null;
}

export interface OperatorStore {
  /** Returns its id. The outcome is `AUDIT_ASKED` until the action is done. */
  audit(entry: AuditEntry, now: Now): Promise<number>;
  /** An entry that has its outcome keeps it. */
  settleAudit(id: number, outcome: string): Promise<void>;
  /** Replaces one of the same id; its secret stays if none is given. */
  saveRegistration(registration: StoredRegistration): Promise<void>;
  /** Expired ones that are not deleted yet included. */
  listRegistrations(): Promise<StoredRegistration[]>;
  /** Sets its expiry; one that is not after now deletes the row. False: no such registration, nothing was written. */
  forgetRegistration(id: string, expiresWall: number, entry: AuditEntry, now: Now): Promise<boolean>;

  listSealed(): Promise<SealedText[]>;
  /** Replaces `present[n]` by `resealed[n]`. Nothing is written if the database has others now, or while tokens are being renewed. */
  reseal(
    present: readonly SealedText[],
    resealed: readonly string[],
    entry: AuditEntry,
    now: Now,
  ): Promise<'done' | 'changed' | 'leased'>;

  /** Null: no sign-in yet. */
  readTokens(name: string): Promise<StoredTokens | null>;
  /** The right to renew them, for `leaseMs` by the wall clock, which processes share. Null: another owner has it, or no tokens. */
  leaseTokens(name: string, owner: string, leaseMs: number, now: Now): Promise<StoredTokens | null>;
  releaseTokens(name: string, owner: string): Promise<void>;
  /** Replaces exactly `version` (null: any, a refusal included). False: others were saved since, nothing was written. */
  saveTokens(
    name: string,
    sealed: string,
    version: number | null,
    entry: AuditEntry,
    now: Now,
  ): Promise<boolean>;
  /** The upstream refused to renew these. False: others were saved since, nothing was written. */
  refuseTokens(name: string, refusal: string, version: number, entry: AuditEntry, now: Now): Promise<boolean>;

  /** Adds to each minute's counts, and deletes minutes that began before `keepSince` (wall-clock milliseconds). */
  addTraffic(counted: readonly TrafficReport[], keepSince: number): Promise<void>;

  /** Null: never set. */
  readFact(name: string): Promise<string | null>;
  writeFact(name: string, value: string): Promise<void>;
  /** Writes it, unless it has this value already: false, somebody else has claimed it. */
  claimFact(name: string, value: string): Promise<boolean>;
}

// ─── retention ──────────────────────────────────────────────────────────────────────────────────────────

export type TrimmedThing =
  | 'event_bodies'
  | 'quarantine_bodies'
  | 'duplicates'
  | 'events'
  | 'changes'
  | 'audit'
  | 'event_ids'
  | 'registrations';

export interface TrimStep {
  /** Wall-clock milliseconds: rows received at or after it stay; for registrations, rows that expire then. */
  before: number;
  /** The `next` of the step before; 0: from the oldest. */
  after: number;
  /** Rows looked at, at most: bounds how long the write lock is taken. */
  limit: number;
}

export interface Trimmed {
  trimmed: number;
  /** Null: no row that old is left. */
  next: number | null;
}

export interface RetentionStore {
  /**
   * One step; repeated until `next` is null. Pending and failed events stay with their bodies, which a retry needs. Ids of trimmed
   * events stay until `event_ids` are trimmed: then a redelivery counts as new.
   */
  trim(thing: TrimmedThing, step: TrimStep): Promise<Trimmed>;
}

// ─── typed columns ──────────────────────────────────────────────────────────────────────────────────────

/** Of a column in the views `…_flat`. `date` and `instant` are texts of that form; `json` is an object or array. */
export type FieldType = 'number' | 'boolean' | 'date' | 'instant' | 'text' | 'json';

/** A field of `data` that has no column yet. */
export interface SeenField {
  kind: Kind;
  /** A name in `data`, or a name and one within it. */
  keys: readonly string[];
  type: FieldType;
  /** ISO 8601: the first change that showed it. */
  firstSeenAt: string;
}

/** A row of the table `fields`. */
export interface Field {
  /** In the view, from 1, after the columns that every record has. */
  position: number;
  /** Null: the first field beyond the limit. */
  column: string | null;
  /** `keys` for people. */
  path: string;
  keys: readonly string[];
  type: FieldType;
  firstSeenAt: string;
}

/** A search of the changes for new fields, in steps. */
export interface FieldLook {
  /** The number of the last change that was looked at. */
  through: number;
  seen: readonly SeenField[];
  /** All changes committed before the look began were looked at. */
  isOver: boolean;
}

export interface FieldStore {
  /** Looks at up to `limit` changes after `look`. Null: after the last look that was learned. */
  seeFields(look: FieldLook | null, limit: number): Promise<FieldLook>;
  /** Returns the rows of `fields` that are new or have another column. Rejects with StoreUnavailable while a query blocks a view. */
  learnFields(look: FieldLook): Promise<(Field & { kind: Kind })[]>;
}

export interface Store
  extends InboxStore,
    BackfillStore,
    OperatorStore,
    RetentionStore,
    FieldStore,
    ReportStore,
    ReplicaStore {
  readonly engine: 'sqlite' | 'postgres';
  /**
   * Once for each gap opened or resolved by this process: after the commit, before the verb resolves; the first callback also gets
   * those before it. Replaces the callback before. Must not throw: a verb would reject although it is committed.
   */
  watchGaps(onChange: (change: GapChange) => void): void;
  /** Rejects with StoreUnavailable if no commit is possible. For readiness. */
  checkWritable(): Promise<void>;
  close(): Promise<void>;
}
