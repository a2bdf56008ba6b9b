import type { Kind } from '../compliance/kinds.ts';
import type { IdPointers, JsonObject, LearnedPointer } from '../compliance/pointers.ts';
import type { Lease, Now, ReplicaStore } from './replicas.ts';
import type { EventState, ReportStore, TrafficReport } from './reports.ts';

/**
 * The port between the stages and the database. Each verb is ONE atomic unit: it has happened whole when its
 * promise resolves, and not at all when it rejects. No transaction leaves this file, so that an engine may run
 * one however it must. Verbs reject with StoreUnavailable when the database cannot commit.
 *
 * Numbers (`seq`, `dirty`, `write`, `number`) all come from one durable counter, and their order is the order
 * of commits. Instants named `…At` are milliseconds of the steady clock, comparable within one run only;
 * instants for people are wall-clock milliseconds and say so.
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
  /** The kind the type's family speaks of; null when the family is unknown. */
  kind: Kind | null;
  /** The record it is about; null when the payload does not say in a usable way. */
  recordId: string | null;
  /** False: a type the specification does not name. Stored and ignored, but its record is still marked dirty. */
  known: boolean;
  /** The raw body, exactly as signed. It has been parsed, so it is well-formed UTF-8. */
  body: string;
  /** The payload in `body`, already parsed: not stored, and an engine may use it to spare a second parse. */
  data?: JsonObject;
  /** The signature header's timestamp, as sent. */
  t: string;
  /** Whom it came from; absent or null: not known. */
  address?: string | null;
}

export type AcceptOutcome =
  | { status: 'accepted'; seq: number }
  /** Seen before. `conflicting`: the same id came with other content, which was quarantined and raised as a gap. */
  | { status: 'duplicate'; conflicting: boolean };

/** A delivery whose signature is right and whose content no event can be made of. */
export interface UnusableDelivery {
  reason: string;
  t: string;
  body: Uint8Array;
  /** What it seems to be about, as far as that can be told: marked dirty, so that the API is asked. */
  kind: Kind | null;
  recordId: string | null;
  /** Whom it came from; absent or null: not known. */
  address?: string | null;
}

/** A delivery that was rejected before its content was believed. */
export interface Rejection {
  reason: string;
  /** As sent, where it could be read. */
  t: string | null;
  bytes: number;
  bodySha256: string | null;
  /** The signature header as sent, cut to a bounded length. A MAC is not a secret. */
  header: string | null;
  /** At most the bytes that `REJECTION_BODY_BYTES` allows. */
  body: Uint8Array | null;
  /** The sender's, as far as it can be believed; null: not known. */
  address: string | null;
  wall: number;
}

/** A rejection that is written, and stands for `times` of its reason and sender within a minute. */
export interface CountedRejection extends Rejection {
  times: number;
}

/** Rejections kept of each reason. Fourteen reasons, of which four keep bodies of 16 KB at most: 33 MB if all are full. */
export const REJECTIONS_KEPT = 500;
/** A sender that is told of nothing tries for two days; a week leaves time to look at it. */
export const REJECTION_KEPT_MS = 7 * 86_400_000;
/** Too old ones that one write takes away, at most. */
export const OLD_REJECTIONS_LOOKED_AT = 100;

/** Duplicates kept; more than a sender's retries of a bad day. A row is some 150 bytes. */
export const DUPLICATES_KEPT = 10_000;

export interface InboxStore {
  /**
   * Events and unusable deliveries of one group commit. Outcomes stand in the order of `events`. Of those that are not taken in as
   * events, or ignored, no other step reads the payload: the risk assessments that it names by `pointers` become known at once.
   */
  accept(
    batch: { events: readonly IncomingEvent[]; unusable: readonly UnusableDelivery[] },
    now: Now,
    timing: DirtyTiming,
    pointers?: IdPointers,
  ): Promise<AcceptOutcome[]>;
  /**
   * Of each reason at most `REJECTIONS_KEPT` stay: the newest of every sender first, then the second newest of every
   * sender, and so on. So the many of one sender push out its own, and never the few of another. After
   * `REJECTION_KEPT_MS` they go in any case.
   */
  recordRejections(rejections: readonly CountedRejection[]): Promise<void>;

  /**
   * Up to `limit` pending events that are due, in number order, for `owner` until `leaseMs` from now. An event
   * is left out while another claimed batch holds an event of the same record.
   */
  claimEvents(owner: string, limit: number, leaseMs: number, now: Now): Promise<ClaimedEvent[]>;
  /** Gives unfinished claims back, on shutdown. */
  releaseEvents(events: readonly ClaimedEvent[]): Promise<void>;
  /** Forgets every claim of an earlier process: at start, before the first claim. Returns how many are pending. */
  recoverClaims(): Promise<number>;
  /** When the next deferred event falls due (wall), or null. */
  nextAttemptWall(): Promise<number | null>;
  /**
   * Shows claimed events in the mirror and marks each done or failed, in one transaction: an event is
   * done exactly when its effect is in. Events whose claim was lost are skipped.
   */
  applyEvents(
    events: readonly ClaimedEvent[],
    rules: ProvisionalRules,
    now: Now,
  ): Promise<ProvisionalOutcome[]>;
  /** After a failure of ours: try again at `retryAtMs` (steady), or never (`failed`), with the error for people. */
  deferEvents(
    failures: readonly { event: ClaimedEvent; retryAtMs: number | null; error: string }[],
    now: Now,
    timing: DirtyTiming,
  ): Promise<void>;

  /**
   * A failed event is read anew, by these pointers and what was learned: kind and record are told again from its body, the
   * record becomes dirty, and what the event says is shown, all in this unit. Where it fails again it stays failed. So is one
   * that was processed as if it were about what the API has never shown, where it names another record now. Of a record that
   * nothing else has named, nothing is left then.
   */
  retryEvent(id: string, rules: ProvisionalRules, now: Now): Promise<RetryOutcome>;
  /** Failed events that name no record, in number order, after the event of that number. */
  failedWithoutRecord(after: number, limit: number): Promise<UnreadEvent[]>;
  /** An operator's verb. False: no such event in a state that allows it. */
  discardEvent(id: string, now: Now): Promise<boolean>;
  /** Marks it as seen to, and marks its record dirty, or opens a gap on its kind, so that the API is asked. */
  releaseQuarantined(id: number, now: Now, timing: DirtyTiming): Promise<boolean>;
}

export type RetryOutcome =
  | { outcome: 'processed'; kind: Kind; recordId: string }
  /** It was tried, and the error is what stands beside it now. */
  | { outcome: 'failed'; error: string }
  /** It is not failed. */
  | { outcome: 'other_state'; state: EventState }
  /** Its body is not kept any more, so that it cannot be read again. */
  | { outcome: 'trimmed' }
  | { outcome: 'unknown' };

/** A failed event whose payload names no record where any pointer looks. */
export interface UnreadEvent {
  seq: number;
  id: string;
  type: string;
  kind: Kind;
  /** Times that its record was sought, and not found. */
  attempts: number;
  body: string;
}

/** With the event that showed it, and the record. */
export interface ProvenPointer extends LearnedPointer {
  eventId: string;
  recordId: string;
  /** Events that name no record where the settings look are read by it; else it only tells people what to set. */
  isUsed: boolean;
}

export interface ClaimedEvent {
  seq: number;
  id: string;
  kind: Kind | null;
  recordId: string | null;
  /** Milliseconds since 1970 by the wall clock. */
  receivedWall: number;
  attempts: number;
  /** Who holds the claim: fences verbs against a claim that was lost meanwhile. */
  owner: string;
}

export interface ProvisionalRules {
  pointers: IdPointers;
  /** No API credentials: payloads are all there is, so ties go to the later arrival, and any payload may make a row. */
  eventsOnly: boolean;
  /** `created` counts as at most this much later than the arrival. */
  toleranceMs: number;
  timing: DirtyTiming;
}

export interface ProvisionalOutcome {
  event: ClaimedEvent;
  /**
   * `provisional`: its payload is in the row. `marked_dirty`: nothing in it to show, the API will be asked. `overtaken`:
   * something at least as new is in already. `failed`: its data cannot be used.
   */
  outcome: 'provisional' | 'marked_dirty' | 'overtaken' | 'failed';
  error: string | null;
}

// ─── backfill ───────────────────────────────────────────────────────────────────────────────────────────

/** When a marked dirty record is read again. */
export interface DirtyTiming {
  /** How long the upstream may go on serving what it held before a change. Milliseconds. */
  settleMs: number;
}

/** One read of the upstream, and what surrounds it. */
export interface ReadMoment {
  /** The counter as the read began. */
  number: number;
  beganAt: number;
  endedAt: number;
  endedWall: number;
  /** A page of a list, whose rows may show less of a record than its own address does. */
  isOfList?: boolean;
}

export interface ReadObject {
  id: string;
  data: JsonObject;
  /** `data` as JSON.stringify writes it, where that is at hand. */
  json?: string;
}

export type ApplyOutcome =
  | 'inserted'
  | 'updated'
  | 'revived'
  | 'unchanged'
  /** A newer write is in the row already; look again. */
  | 'refused'
  /** Differs from the row, and the last read is too close to tell which is staler; look again. */
  | 'deferred';

export interface Applied {
  id: string;
  outcome: ApplyOutcome;
  /** What differed from the row as it stood before, by column; empty when nothing did. */
  differences: readonly string[];
  /** Nothing is outstanding for it any more. */
  verified: boolean;
  /** How long it had been unverified, when this read ended that; else null. Milliseconds, wall clock. */
  lagMs: number | null;
  /** It was alive in the mirror before this read and still is: the credentials see what lives. */
  witness: boolean;
  /** It was unverified before: something had announced that it may differ. */
  announced: boolean;
  /** The row of a list leaves out what is held of the record: whether that is gone, its own address says. */
  lacks: boolean;
}

/** An object of a read beside its row. */
export interface Compared extends Pick<Applied, 'id' | 'lacks'> {
  what: 'same' | 'missing' | 'different';
  /** What differs, by column. */
  fields: readonly string[];
}

export interface DueRecord {
  kind: Kind;
  id: string;
  attempts: number;
  /** It has answered 404 once already. */
  missing: boolean;
}

export type MissingOutcome =
  /** The API never showed it: not a deletion. */
  | 'unresolved'
  /** The same of what an accepted event has named since other ids were last looked for in its data. */
  | 'unresolved_event'
  /** The same of what accepted events have named before that, and none since. */
  | 'unresolved_again'
  /** First 404, or the first since something happened: ask again after SETTLE. */
  | 'first'
  /** Gone on two reads SETTLE apart; `concludeDeletions` decides. */
  | 'proven'
  /** Proven but for a witness that the credentials still see what lives. */
  | 'unwitnessed'
  /** The same, with a witness from before the second read and none from after it. */
  | 'witnessed_before'
  /** Already a verified tombstone, or an id that nothing names any more: nothing to do. */
  | 'known';

export interface Conclusion {
  /** Without ids that neither a row shown alive nor an event knew of: of these, only the state is settled. */
  deleted: { id: string; cause: 'event' | 'absence' }[];
  /** Too many at once: an operator must agree. Sorted. */
  pending: string[];
  /** How many deletions of the kind are pending after this, approved or not: approved is not yet done. */
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

/** A gap that was opened or resolved; one that only occurred again has not changed. */
export interface GapChange {
  gap: GapKey;
  what: 'opened' | 'resolved';
  /** What opened it; null where that has no words, and for a resolved one. */
  error: string | null;
  /** Of a resolved one: milliseconds since it was opened, by the wall clock. Null for one that opens. */
  openForMs: number | null;
}

export type SyncRunOutcome = 'complete' | 'incomplete' | 'failed' | 'interrupted';

export interface SyncRunProgress {
  pages: number;
  seen: number;
  inserted: number;
  updated: number;
  deleted: number;
  unchanged: number;
}

export interface SyncRunEnd {
  outcome: SyncRunOutcome;
  error: string | null;
  progress: SyncRunProgress;
  /** As it is shown. */
  differences?: JsonObject;
  /** Anything differed that no event had announced. Default: nothing did. */
  hasDifferences?: boolean;
}

export interface BackfillStore {
  /** The counter now: taken before a read begins. */
  currentNumber(): Promise<number>;

  /**
   * At start: every unverified record counts as marked dirty now, reads of an earlier run count as ended by now, and
   * due times are laid anew. Steady clocks of two runs cannot be compared.
   */
  markUnverifiedDirty(now: Now, timing: DirtyTiming): Promise<number>;
  /** Records of `kind` whose read is due, the longest due first. Those marked dirty since are put off, not returned. */
  dueRecords(kind: Kind, now: Now, timing: DirtyTiming, limit: number): Promise<DueRecord[]>;
  /** How many are due now, counted up to `atMost`. */
  countDue(kind: Kind, now: Now, atMost: number): Promise<number>;
  /** When the next record of `kind` falls due (steady), or null. */
  nextDueAt(kind: Kind): Promise<number | null>;

  /** Makes ids known that something named; those not yet known become due. Returns how many were new. */
  makeKnown(kind: Kind, ids: readonly string[], now: Now): Promise<number>;
  /** A person asked, or a list scan missed them: read these now. Ids not known become known. */
  makeDue(kind: Kind, ids: readonly string[], now: Now): Promise<void>;

  /** Objects of one read, page or record, each judged against its row. `progress` is saved along, so that it costs no commit. */
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
  /** How objects of a read differ from their rows. `lacks` as in `Applied`. Writes nothing. */
  compareReads(
    kind: Kind,
    objects: readonly ReadObject[],
    read: Pick<ReadMoment, 'isOfList'>,
  ): Promise<Compared[]>;
  /** Every known id, in order, after `after`: tombstones and ids without a row included, which are not `alive`. */
  knownIds(kind: Kind, after: string, limit: number): Promise<{ id: string; alive: boolean }[]>;
  /**
   * A 404 for one record. `witnessedAt`: when a read last showed a record of the kind that we hold alive; before `witnessFrom`
   * it is too old, since a path that was lost, found and lost again hides what lives from both reads. `witnessedAfter`: one did
   * so at once after it, too. Without `needsWitness`, what a delivered event has announced, or an operator has agreed to, needs none.
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
      /** Even of what was announced or agreed to: as long as there is something alive to be read. */
      needsWitness?: boolean;
    },
  ): Promise<MissingOutcome>;
  /** A read that told nothing. The record stays as it is and is read again at `retryAtMs`. */
  recordReadFailure(kind: Kind, id: string, error: string, retryAtMs: number): Promise<void>;
  /** Live rows of `kind`, and unverified ones of either life, that `syncRunId` has not seen and that nothing touched since `number`. */
  unseenBy(kind: Kind, syncRunId: number, number: number): Promise<string[]>;
  /** Ids of `kind` that were marked dirty or written after `number`. */
  touchedSince(kind: Kind, number: number): Promise<Set<string>>;
  /** Whether an event that a record of `kind` is gone was accepted after `number`, or at `wall` or later. */
  hasAnnouncedDeletion(kind: Kind, number: number, wall: number): Promise<boolean>;
  /**
   * Turns proven absences into tombstones, or into pending deletions. `absent` adds ids that a pair of complete list scans
   * proved gone, as of `number`. With none, judges what refetches have proven. `onlyAnnounced` leaves alone what
   * no delivered event has announced, while others still await their second 404: those are judged together.
   */
  concludeDeletions(
    kind: Kind,
    proof: { absent: readonly string[]; number: number } | null,
    context: {
      cause: string;
      syncRunId: number | null;
      onlyAnnounced: boolean;
      /** Whoever has lost it meanwhile deletes nothing: rejects with MirrorError `lease_lost`. Absent: nobody else could. */
      lease?: Lease;
    },
    now: Now,
  ): Promise<Conclusion>;
  /** One deletion that nothing alive can witness waits for a person, under `syncRunId`, or with null the last full sync of its kind. */
  addPendingDeletion(kind: Kind, id: string, syncRunId: number | null, now: Now): Promise<void>;
  /**
   * Approves exactly the deletions now pending under that full sync, or those of them among `ids`, until
   * `untilWall`. Returns the ids.
   */
  approveDeletions(
    syncRunId: number,
    untilWall: number,
    ids?: readonly string[],
  ): Promise<{ kind: Kind; ids: string[] }>;
  /** How many records still await their second 404, and how many have had it and await judgement. */
  countProofs(kind: Kind): Promise<{ awaiting: number; proven: number }>;
  /** A verified live record of `kind`, other than `besides`, that the API has shown: to ask whether it still answers. */
  someLiveRecord(kind: Kind, besides: string): Promise<string | null>;

  /** Known ids that this full sync has not tried, unverified first, then the longest unread; tombstones included. */
  cycleRecords(kind: Kind, syncRunId: number, limit: number): Promise<string[]>;
  /** The full sync has tried this record, whatever came of it. */
  markSynced(kind: Kind, id: string, syncRunId: number): Promise<void>;
  /** How many ids of the kind are known. */
  countKnown(kind: Kind): Promise<number>;
  /** Records whose own address was last answered with what nobody understood, those first that were asked for the longest ago. */
  unreadableRecords(kind: Kind, limit: number): Promise<string[]>;
  /** Kinds with an open gap that only a whole reading resolves, that would do so now, and none has begun since. */
  kindsWantingFullSync(now: Now): Promise<Kind[]>;
  /** Pending deletions that nobody has approved at `wall`, with the full sync that found each. */
  pendingDeletions(wall: number): Promise<{ kind: Kind; id: string; syncRunId: number }[]>;

  /**
   * One of a kind runs at a time. One that is still open had its end where the database could not be reached, and
   * becomes `interrupted`. `hasUnnamed`: something is open that names no record, and that its list would make good.
   */
  startSyncRun(
    kind: Kind,
    reason: string,
    now: Now,
  ): Promise<{ id: number; number: number; hasUnnamed: boolean }>;
  progressSyncRun(id: number, progress: SyncRunProgress): Promise<void>;
  /**
   * A complete one resolves the gaps that only a whole reading of the kind can, if they were open as it began. One that
   * found differences which nothing had announced has shown that the kind was not in sync until now.
   */
  finishSyncRun(id: number, result: SyncRunEnd, now: Now): Promise<void>;
  /** Sync runs that an earlier process left open become `interrupted`. Returns how far the last of each kind had come. */
  interruptSyncRuns(now: Now): Promise<{ kind: Kind; pages: number }[]>;

  /**
   * Failed events that name no record and are due to have it sought, the longest due first. Those about policies once a
   * complete list was read that is sure to show them, begun SETTLE after they were accepted: of a policy that no list has shown yet, another one that the event names beside it
   * would be taken for the event's record.
   */
  unreadEvents(now: Now, limit: number, timing: DirtyTiming): Promise<UnreadEvent[]>;
  /** Its record was sought and not found: `error` says so beside it and in its gap, and it is due again then (wall). */
  putOffUnread(event: UnreadEvent, error: string, againWall: number, now: Now): Promise<void>;
  /** The clock was set back: what was put off by a later time than now's is due. */
  seekAnew(now: Now): Promise<void>;
  /** Ids of the kind, in order, that events have named and the API has never shown: no row shows anything of them. */
  neverShown(kind: Kind, after: string, limit: number): Promise<string[]>;
  /**
   * Events about the record, in number order, whose bodies are kept and that nobody has discarded: those after the number,
   * or, where none is given, those in whose data other ids were not looked for yet; up to `through`.
   */
  eventsNaming(
    kind: Kind,
    id: string,
    which: { after?: number; through?: number; limit: number },
  ): Promise<UnreadEvent[]>;
  /**
   * Other ids were looked for in the data of the events about this record, up to the number `through`. Those of `named` were
   * found in that event, and are dirty from now on, unless something has made them so since it was accepted.
   */
  noteSearched(
    kind: Kind,
    id: string,
    found: { through: number; event: number; named: readonly string[] },
    now: Now,
    timing: DirtyTiming,
  ): Promise<void>;
  /** Those of `ids` that the API has shown as records of the kind, deleted ones included. */
  shownIds(kind: Kind, ids: readonly string[]): Promise<string[]>;
  /** Those by which events are read, the latest first. */
  learnedPointers(): Promise<LearnedPointer[]>;
  /** An id of the kind was proven to stand there. */
  learnPointer(proven: ProvenPointer, now: Now): Promise<void>;

  /** Opens the gap, or counts one more occurrence on the open one. */
  openGap(gap: GapKey, error: string | null, now: Now): Promise<void>;
  resolveGap(gap: GapKey, now: Now): Promise<void>;
  /** That very one, whatever its reason. False: it is not open. */
  resolveGapById(id: number, now: Now): Promise<boolean>;

  /**
   * The credentials of this print have been seen to read the kind: a list or a record of it (`read`), or only that an id
   * which nobody has made is unknown (`absence`). The latter counts while no id of the kind is known and another kind
   * has been read with them.
   */
  noteAccess(kind: Kind, access: string, how: 'read' | 'absence', now: Now): Promise<void>;

  /** Says that the process lives and can write, by the fact `heartbeat` (ISO 8601): a time without beats is our downtime. */
  beat(now: Now, facts: ServiceFacts): Promise<void>;
  /**
   * The last delivery of an event, new or not, wall-clock milliseconds, or null; and the longest that two
   * consecutive ones of the newest `among` events lay apart, milliseconds, or null with fewer than ten.
   */
  lastDelivery(among: number): Promise<{ wall: number | null; longestPauseMs: number | null }>;
}

/** Repairs read the API, and process what only a read has told how to. */
export type RepairStore = BackfillStore & Pick<InboxStore, 'retryEvent' | 'failedWithoutRecord'>;

/** What the view `sync_status` needs to know of the running service. */
export interface ServiceFacts {
  eventsOnly: boolean;
  settleMs: number;
  fullSyncMs: number;
  blocked: boolean;
  /** The API has not answered usefully for a while. */
  unreachable: boolean;
  /** The print of the present credentials, as `noteAccess` is given it. */
  access: string;
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
  /** What the service answered that it would deliver; `events` are what it was asked for. */
  delivers: string[];
  /** As sealed by compliance/secrets.ts; null when the answer held none. */
  sealedSecret: string | null;
  /** The whole answer, sealed likewise: what was not recognised in it can be taken from it later. */
  sealedAnswer: string | null;
  createdWall: number;
  /** From then on its secret verifies nothing, and upkeep takes the row away. Null: it stays. */
  expiresWall: number | null;
}

/** A text sealed with CREDENTIALS_KEY, and the row that it stands in. */
export interface SealedText {
  table: 'registrations' | 'registration_answers' | 'tokens';
  /** The row's key, to which the text is bound. */
  row: string;
  sealed: string;
}

/** OAuth tokens at rest, as sealed by compliance/. */
export interface StoredTokens {
  /** Rises with every save: tells whether what somebody read is still what is there. */
  version: number;
  sealed: string;
  /** Why the upstream will not renew them; null: nothing is known against it. */
  refusal: string | null;
}

export interface OperatorStore {
  /** Returns its id. The outcome of what is still to be done is `AUDIT_ASKED`. */
  audit(entry: AuditEntry, now: Now): Promise<number>;
  /** What came of it. An entry that has its outcome keeps it. */
  settleAudit(id: number, outcome: string): Promise<void>;
  /** Over one of the same id: a secret that is there stays where none is given. */
  saveRegistration(registration: StoredRegistration): Promise<void>;
  /** Those that have expired and are not taken away yet as well. */
  listRegistrations(): Promise<StoredRegistration[]>;
  /**
   * Its end, with the audit entry: at `expiresWall`, whatever was set before; where that is not after now, the row is taken
   * away at once. False: there is no such registration, and nothing was written.
   */
  forgetRegistration(id: string, expiresWall: number, entry: AuditEntry, now: Now): Promise<boolean>;

  /** Every text of this database that is sealed with CREDENTIALS_KEY. */
  listSealed(): Promise<SealedText[]>;
  /**
   * Puts `resealed[n]` in the place of `present[n]`, all in one commit with the audit entry. `changed`: what is stored is
   * not exactly `present` by now; `leased`: tokens are being renewed, and what comes of it must not be lost. Then nothing
   * was written.
   */
  reseal(
    present: readonly SealedText[],
    resealed: readonly string[],
    entry: AuditEntry,
    now: Now,
  ): Promise<'done' | 'changed' | 'leased'>;

  /** Null: nobody has signed in. */
  readTokens(name: string): Promise<StoredTokens | null>;
  /**
   * Leave to renew them, for `leaseMs` by the wall clock, which is all that processes share. Null: another owner
   * has it, or there are none.
   */
  leaseTokens(name: string, owner: string, leaseMs: number, now: Now): Promise<StoredTokens | null>;
  releaseTokens(name: string, owner: string): Promise<void>;
  /**
   * Saves with its audit entry, over exactly `version` (null: over whatever is there, a refusal included).
   * False: others were saved meanwhile, and nothing was written.
   */
  saveTokens(
    name: string,
    sealed: string,
    version: number | null,
    entry: AuditEntry,
    now: Now,
  ): Promise<boolean>;
  /** The upstream will not renew these: noted with its audit entry. False: others were saved meanwhile. */
  refuseTokens(name: string, refusal: string, version: number, entry: AuditEntry, now: Now): Promise<boolean>;

  /** Adds to what is counted of each minute, and forgets minutes that began before `keepSince` (wall-clock milliseconds). */
  addTraffic(counted: readonly TrafficReport[], keepSince: number): Promise<void>;

  /** A rejected delivery with its bytes, as far as they were kept. */
  readRejection(id: number): Promise<Rejection | null>;

  /** Small durable facts: paused or not, the secret's version, … Null: never set. */
  readFact(name: string): Promise<string | null>;
  writeFact(name: string, value: string): Promise<void>;
}

// ─── retention ──────────────────────────────────────────────────────────────────────────────────────────

/** Rows of tables, or what is emptied of them. */
export type TrimmedThing =
  | 'event_bodies'
  | 'quarantine_bodies'
  | 'duplicates'
  | 'events'
  | 'changes'
  | 'audit'
  | 'event_ids'
  | 'registrations';

/** Which rows one step of trimming looks at. */
export interface TrimStep {
  /** Wall-clock milliseconds: what came in at or after it stays; of registrations, what expires then. */
  before: number;
  /** The key behind which to go on, as the step before answered; 0: from the oldest. */
  after: number;
  /** Rows looked at, at most: it bounds how long the write lock is held. */
  limit: number;
}

export interface Trimmed {
  trimmed: number;
  /** The key behind which to go on; null: nothing that old is left. */
  next: number | null;
}

export interface RetentionStore {
  /**
   * One step, short by its `limit`. A caller repeats it until `next` is null, with pauses for other writers.
   * - Events that are pending or failed stay, and so do their bodies, which a retry needs. Bodies go on from where the last step
   *   ended, in this round or an earlier one, so that no index of them is needed; not past a pending event.
   * - The ids of trimmed events stay until `event_ids` are trimmed: from then on one that comes again counts as new.
   */
  trim(thing: TrimmedThing, step: TrimStep): Promise<Trimmed>;
}

// ─── typed columns ──────────────────────────────────────────────────────────────────────────────────────

/** Of a column in the views `…_flat`. `date` and `instant` are texts that are one; `json` is what is no scalar. */
export type FieldType = 'number' | 'boolean' | 'date' | 'instant' | 'text' | 'json';

/** Something in records that no column has room for yet. */
export interface SeenField {
  kind: Kind;
  /** Where it stands in `data`: a name, or one and a name within it. */
  keys: readonly string[];
  type: FieldType;
  /** ISO 8601, of the first change that showed it. */
  firstSeenAt: string;
}

/** A row of the table `fields`. */
export interface Field {
  /** Its place in the view, from 1 on, behind the columns that every record has. */
  position: number;
  /** Null: the first field for which there was no room. */
  column: string | null;
  /** `keys` for people. */
  path: string;
  keys: readonly string[];
  type: FieldType;
  firstSeenAt: string;
}

/** How far it has been looked for fields, and what was seen on the way that has no column. */
export interface FieldLook {
  /** The number of the last change that was looked at. */
  through: number;
  seen: readonly SeenField[];
  /** No change is left that was committed as the look began. */
  isOver: boolean;
}

export interface FieldStore {
  /** Looks at the next changes behind `look`, at most `limit`. Null: behind what the last learned one had looked at. */
  seeFields(look: FieldLook | null, limit: number): Promise<FieldLook>;
  /**
   * Gives columns to what was seen, in `fields` and in the views, in one commit. Returns the rows of `fields` that are new or
   * have another column now. Rejects with StoreUnavailable where somebody's query holds a view for longer than readers
   * should wait behind us; then nothing was written.
   */
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
   * Whichever verb opens or resolves a gap, `told` hears of it once: after the commit, in the order of commits, and before the
   * verb resolves; the first who watches, of those too that were opened as the store was. Of this process's own commits only, and of none whose answer was lost. `told` must not throw: the verb
   * would reject although it has happened. It replaces the one that was given before.
   */
  watchGaps(told: (change: GapChange) => void): void;
  /** Resolves when a commit is possible; rejects with StoreUnavailable otherwise. For readiness. */
  checkWritable(): Promise<void>;
  close(): Promise<void>;
}
