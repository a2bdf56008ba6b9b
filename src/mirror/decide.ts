import { DELETE_TYPES, type Kind } from '../compliance/kinds.ts';
import { DEFAULT_ID_POINTERS, type IdPointers, type JsonObject } from '../compliance/pointers.ts';
import type { ApplyOutcome, DirtyTiming, ReadMoment } from '../store/values.ts';
import {
  assign,
  contentOf,
  diffContent,
  laidOver,
  mergePayload,
  type RowChange,
  type RowContent,
  withoutIgnored,
} from './merge.ts';

/**
 * Which version of a record wins. A payload is provisional, an answer of the API is the truth, and neither may undo something
 * newer. These are pure functions. The store's verbs on both engines call them.
 */

/** The state of a record besides its content, for a record that nobody knows. Instants are steady milliseconds, unless marked wall. */
export const UNKNOWN_STATE = {
  /** Number of the last accepted event about it. */
  dirty: 0,
  /** When the latest reason to read it came; null: nothing is outstanding. */
  dirtyAt: null as number | null,
  /** When the earliest reason came that no read covers yet. */
  firstDirtyAt: null as number | null,
  /** Wall. Null: verified. */
  unverifiedSince: null as number | null,
  /** Number of the row's last write. */
  write: 0,
  /** Wall. The latest `created` of the events whose payload was shown, or that a read has covered. */
  provisionalCreated: null as number | null,
  /**
   * Fields of the row's `data` that events have shown and no read covers yet, each with `dirtyAt` `at` that time, and what it `was` before
   * (left out: it was not there). `wasAlive`: an event has shown the deletion. Null: none.
   */
  shown: null as { at: Readonly<Record<string, number>>; was: JsonObject; wasAlive?: true } | null,
  /** The counter when the last applied read began. */
  readNumber: 0,
  readEndedAt: null as number | null,
  /** The API has shown it at least once. */
  returned: false as boolean,
  /** When the first of an unbroken run of 404s ended, and the counter when it began. */
  missingSince: null as number | null,
  missingNumber: null as number | null,
  /** Its absence is proven. Whether it may be deleted is decided for all proven records together. */
  proven: false as boolean,
  /** Number of the event that reported its deletion; null once something shows it again. */
  deleteEvent: null as number | null,
  /** `dirty` when a read last confirmed the record. With a larger `dirty`, an event waits for a read. */
  confirmed: 0,
  /** When the last read began that has shown another state than the reads before it, since the record is unverified. */
  movedAt: null as number | null,
  /** When the first read began that has shown only what was confirmed before the newest event. The API may not have its change yet. */
  earlyAt: null as number | null,
  /** Reads refused in a row because the row was newer. */
  refusals: 0,
  attempts: 0,
  dueAt: null as number | null,
};
export type RecordState = typeof UNKNOWN_STATE;

/** A record as the mirror has it. `row` null: it has none. */
export interface Mirrored {
  state: RecordState;
  row: RowContent | null;
}

/** However many events come, a record is due this many SETTLEs after the first event that no read covers. */
const LONGEST_WAIT_IN_SETTLES = 6;

/**
 * After this many refused reads a read is applied although the row is newer, and the record stays unverified. So a record that is
 * written faster than it can be read still changes.
 */
const REFUSALS_BEFORE_APPLYING = 3;

/**
 * `dueAt` of a record that is known by its id only: no event is about it, and it was never asked for. A running full sync, which reads
 * all of these, so leaves them out of the due records without a look at each.
 */
export const DUE_BY_ID_ONLY = 0;
/**
 * `dueAt` of a record that a person asked for, or that a list did not show: it is read by its own address. Like the one above it is
 * no instant, so that such records, however many they are, are told from those that events made due without a look at each.
 */
export const DUE_ASKED = 1;

/** When a record with outstanding dirty marks is to be read; null: nothing is outstanding. */
export function dueAt(
  state: Pick<RecordState, 'dirtyAt' | 'firstDirtyAt'>,
  timing: DirtyTiming,
): number | null {
  if (state.dirtyAt === null) return null;
  const first = state.firstDirtyAt ?? state.dirtyAt;
  return Math.min(state.dirtyAt + timing.settleMs, first + LONGEST_WAIT_IN_SETTLES * timing.settleMs);
}

// ─── what an event shows ───────────────────────────────────────────────────────────────────────────────────────────

export interface ProvisionalInput {
  seq: number;
  type: string;
  kind: Kind;
  createdMs: number;
  receivedWall: number;
  /** The record's part of the payload. */
  content: JsonObject;
  /** It shows more of the record than its id. */
  shows: boolean;
}

export interface ProvisionalSettings {
  eventsOnly: boolean;
  toleranceMs: number;
  idFields: ReadonlySet<string>;
  /** A deletion waits for a person: the row stays alive. */
  deletionWaits?: boolean;
  pointers?: IdPointers;
}

/** What becomes of a record. */
export interface Decision {
  state: RecordState;
  /** Null: the row's content stays. */
  row: RowContent | null;
  change: RowChange | null;
}

export interface ProvisionalDecision extends Decision {
  outcome: 'provisional' | 'marked_dirty' | 'overtaken' | 'deletion_pending';
}

type Told = Pick<ProvisionalInput, 'seq' | 'createdMs' | 'receivedWall'>;
type Holding = Mirrored & { verifiedWall: number | null };

function standing(event: Told, { state, verifiedWall }: Holding, settings: ProvisionalSettings) {
  const created = Math.min(event.createdMs, event.receivedWall + settings.toleranceMs);
  const last = state.provisionalCreated;
  return {
    created,
    isNewer: last === null || (settings.eventsOnly ? created >= last : created > last),
    // A read that began after the event was accepted shows at least its change. So does a read that ended long after `created`.
    isCovered:
      state.unverifiedSince === null ||
      event.seq <= state.readNumber ||
      (verifiedWall !== null && created < verifiedWall - settings.toleranceMs),
  };
}

/** Whether the event, if nothing else, makes a tombstone of a living row. */
export function announcesDeletion(
  event: Told & Pick<ProvisionalInput, 'type'>,
  record: Holding,
  settings: ProvisionalSettings,
): boolean {
  if (!DELETE_TYPES.has(event.type) || record.row === null || record.row.deletedAt !== null) return false;
  const { isNewer, isCovered } = standing(event, record, settings);
  return isNewer && !isCovered;
}

export function decideProvisional(
  event: ProvisionalInput,
  record: Holding,
  settings: ProvisionalSettings,
  nowIso: string,
): ProvisionalDecision {
  const { row } = record;
  const deletes = DELETE_TYPES.has(event.type);
  const { created, isNewer, isCovered } = standing(event, record, settings);
  // A covered event says nothing new about a deletion.
  const state = isCovered ? record.state : noteDeletion(record.state, event.seq, deletes, created);
  // Also for a covered event: the row shows its change, and no older payload may be laid over that.
  const noted = isNewer ? { ...state, provisionalCreated: created } : state;
  if (isCovered || !isNewer) return { outcome: 'overtaken', state: noted, row: null, change: null };

  if (deletes) {
    if (row === null) return { outcome: 'marked_dirty', state: noted, row: null, change: null };
    if (settings.deletionWaits && row.deletedAt === null) {
      return { outcome: 'deletion_pending', state: dueAgain(noted), row: null, change: null };
    }
    return provisional(noted, row, { ...row, deletedAt: row.deletedAt ?? nowIso });
  }
  // Only the API can show that a deleted record exists again, because a late payload would look the same.
  const isTombstone = row !== null && row.deletedAt !== null && !settings.eventsOnly;
  // The specification does not show a risk event's payload. So it makes no row while the API can be asked.
  const mayInsert = settings.eventsOnly || event.kind !== 'risk_assessment';
  if (!event.shows || isTombstone || (row === null && !mayInsert)) {
    return { outcome: 'marked_dirty', state: noted, row: null, change: null };
  }
  const data = mergePayload(row?.data ?? null, event.content, settings.idFields);
  return provisional(noted, row, contentOf(event.kind, data, null, settings.pointers));
}

function provisional(state: RecordState, before: RowContent | null, after: RowContent): ProvisionalDecision {
  const change = diffContent(before, after);
  const next = change === null ? state : dueAgain(state);
  return { outcome: 'provisional', state: noteShown(next, change), row: after, change };
}

/** A row that is written must be read, even if its absence was proven before: that proof does not count any more. */
function dueAgain(state: RecordState): RecordState {
  if (state.dueAt !== null) return state;
  return { ...state, missingSince: null, missingNumber: null, proven: false, dueAt: state.dirtyAt };
}

function noteShown(state: RecordState, change: RowChange | null): RecordState {
  const { dirtyAt, shown } = state;
  const fields = Object.keys((change?.after['data'] as JsonObject | undefined) ?? {});
  if (change?.operation === 'delete') {
    const { at, was } = shown ?? { at: {}, was: {} };
    return { ...state, shown: { at, was, wasAlive: true } };
  }
  if (dirtyAt === null || fields.length === 0) return state;
  const before = (change?.before['data'] as JsonObject | undefined) ?? {};
  const at = { ...shown?.at };
  const was = { ...shown?.was };
  for (const field of fields) {
    if (!Object.hasOwn(at, field) && Object.hasOwn(before, field)) assign(was, field, before[field]);
    assign(at, field, dirtyAt);
  }
  return { ...state, shown: { ...shown, at, was } };
}

function noteDeletion(state: RecordState, seq: number, deletes: boolean, created: number): RecordState {
  // A delete event older than the last payload is about an earlier life of the record, whichever arrived first.
  const isOlder = state.provisionalCreated !== null && created < state.provisionalCreated;
  if (deletes) return isOlder ? state : { ...state, deleteEvent: seq };
  const relived =
    state.deleteEvent !== null && (state.provisionalCreated === null || created > state.provisionalCreated);
  return relived ? { ...state, deleteEvent: null } : state;
}

/**
 * Whether the state differs from `stored` only in fields that the store keeps in the record's row: the last write, and what events
 * have shown. Most events change nothing else.
 */
export function standsInRow(stored: RecordState, { state: now, row }: Mirrored): boolean {
  // A loop over the fields would cost an event a microsecond more.
  return (
    (row !== null || (stored.provisionalCreated === now.provisionalCreated && stored.shown === now.shown)) &&
    stored.deleteEvent === now.deleteEvent &&
    stored.dirty === now.dirty &&
    stored.dirtyAt === now.dirtyAt &&
    stored.firstDirtyAt === now.firstDirtyAt &&
    stored.unverifiedSince === now.unverifiedSince &&
    stored.readNumber === now.readNumber &&
    stored.readEndedAt === now.readEndedAt &&
    stored.returned === now.returned &&
    stored.missingSince === now.missingSince &&
    stored.missingNumber === now.missingNumber &&
    stored.proven === now.proven &&
    stored.confirmed === now.confirmed &&
    stored.movedAt === now.movedAt &&
    stored.earlyAt === now.earlyAt &&
    stored.refusals === now.refusals &&
    stored.attempts === now.attempts &&
    stored.dueAt === now.dueAt
  );
}

/** Whether the read changed only the time of the last read in the record's state. */
export function isOnlyRead(before: RecordState, after: RecordState, read: ReadMoment): boolean {
  return (
    after.readNumber === read.number &&
    after.readEndedAt === read.endedAt &&
    (Object.keys(after) as (keyof RecordState)[]).every(
      (key) => key === 'readNumber' || key === 'readEndedAt' || after[key] === before[key],
    )
  );
}

// ─── reads ──────────────────────────────────────────────────────────────────────────────────────────────

export interface ApplyDecision extends Decision {
  /** With `change` null: it differs only in fields that are no difference, and is stored all the same. */
  row: RowContent | null;
  outcome: ApplyOutcome;
  /** The row's `verified_at` moves to the end of this read. */
  confirmed: boolean;
  lacks: boolean;
}

/**
 * The record's data as a read shows it. A list may leave out fields that the record's own address shows, so those are kept. Not
 * kept are fields of policies, which have no address of their own, and fields that only events have shown.
 */
function dataShown(
  kind: Kind,
  data: JsonObject,
  read: Pick<ReadMoment, 'isOfList'>,
  { state, row }: { state: Pick<RecordState, 'returned' | 'unverifiedSince'>; row: RowContent | null },
): { data: JsonObject; lacks: boolean } {
  const isPart = read.isOfList === true && kind !== 'policy' && state.returned;
  if (!isPart || row === null) return { data, lacks: false };
  return laidOver(row.data, data, state.unverifiedSince === null);
}

/** The API showed the record as `answer`. */
export function decideApply(
  kind: Kind,
  answer: JsonObject,
  read: ReadMoment,
  record: Mirrored,
  timing: DirtyTiming,
  pointers: IdPointers = DEFAULT_ID_POINTERS,
): ApplyDecision {
  const { state, row } = record;
  const { data, lacks } = dataShown(kind, answer, read, record);
  const contentIn = (document: JsonObject) => contentOf(kind, document, null, pointers);
  /** Null: they are equal but for fields that are no difference. */
  const changeFrom = (before: RowContent | null, document: JsonObject) =>
    diffContent(
      before,
      contentIn(before === null ? document : withoutIgnored(kind, before.data, document, pointers)),
    );
  const newerRow = state.write > read.number;
  if (newerRow && state.refusals < REFUSALS_BEFORE_APPLYING) {
    const refusals = state.unverifiedSince === null ? 0 : state.refusals + 1;
    const change = changeFrom(row, data);
    const refused: RecordState = { ...state, refusals };
    // The read that wrote the row began no later than this one, so either of the two may be stale.
    const isDoubtful = change !== null && state.unverifiedSince === null && state.readNumber <= read.number;
    const next = isDoubtful ? lookAgain(refused, read, timing) : refused;
    return { outcome: 'refused', state: next, row: null, change, confirmed: false, lacks };
  }
  const isWaiting = state.unverifiedSince !== null;
  const before = isWaiting ? lastRead(kind, record, pointers) : row;
  // What a list leaves out is what reads have shown, and not what events have.
  const seen = dataShown(kind, answer, read, { state, row: before });
  const isMoved = isWaiting && changeFrom(before, seen.data) !== null;
  const again = isMoved ? null : earlyAgain(state, read, timing);
  if (again !== null) {
    const readEndedAt = endedLast(state, read);
    const there = { returned: true, missingSince: null, missingNumber: null, proven: false, attempts: 0 };
    const early: RecordState = { ...state, ...there, ...again, readEndedAt, refusals: 0 };
    return {
      outcome: 'unchanged',
      state: early,
      row: null,
      change: null,
      confirmed: false,
      lacks: seen.lacks,
    };
  }
  const kept = stillShown(state, read, timing, seen.data);
  const document = withShown(data, row, kept);
  const shown = contentIn(document);
  const change = changeFrom(row, document);
  // Of a deleted vendor, what a list shows in part is only a reason to ask its own address, which alone knows.
  const isOfDeleted = lacks && row !== null && row.deletedAt !== null;
  if (change !== null && row !== null && (isOfDeleted || tooCloseToTell(state, read, timing))) {
    // A reason that is already waiting is not put off: list after list would keep the record's own address from being asked.
    const again = isOfDeleted && state.dirtyAt !== null ? state : lookAgain(state, read, timing);
    // Even if the read is stale, the API has shown the id. So a later 404 is about a record, and not about another thing's id.
    const next = { ...again, returned: true };
    return { outcome: 'deferred', state: next, row: null, change, confirmed: false, lacks };
  }

  // The fields that the list left out may belong to another version of the record.
  const isMixed = lacks && change !== null;
  const applied: RecordState = {
    ...state,
    shown: kept,
    movedAt: isMoved && !newerRow ? Math.floor(read.beganAt) : state.movedAt,
    // An older read that agrees must not move the number back.
    readNumber: Math.max(state.readNumber, read.number),
    // A partial read that shows nothing new must not make the next whole read count as too close.
    readEndedAt: lacks && !isMixed ? state.readEndedAt : endedLast(state, read),
    returned: true,
    missingSince: null,
    missingNumber: null,
    proven: false,
    deleteEvent: null,
    refusals: 0,
    attempts: 0,
  };
  const whole = lacks ? applied : withoutCovered(applied, read, timing);
  const next = newerRow || isMixed ? lookAgain(applied, read, timing) : whole;
  return {
    outcome: outcomeOf(change),
    state: next,
    row: change === null && diffContent(row, shown) === null ? null : shown,
    change,
    confirmed: !lacks,
    lacks,
  };
}

/** When the last read ended. A page may be saved after reads that began later. */
function endedLast(state: RecordState, read: ReadMoment): number {
  if (read.number >= state.readNumber || state.readEndedAt === null) return read.endedAt;
  return Math.max(state.readEndedAt, read.endedAt);
}

/**
 * The fields that events have shown less than SETTLE before the read began. The read may be stale for these, and the feed of
 * changes would show a change undone and made again. None that is newer than `dirtyAt`, even if the clock was set back.
 */
function stillShown(
  state: RecordState,
  read: ReadMoment,
  timing: DirtyTiming,
  data: JsonObject,
): RecordState['shown'] {
  const { dirtyAt, shown } = state;
  if (shown === null || dirtyAt === null) return null;
  const kept = Object.entries(shown.at).filter(
    ([, at]) => Math.min(at, dirtyAt) > read.beganAt - timing.settleMs,
  );
  if (kept.length === 0) return null;
  const was = kept.flatMap(([field]) => (Object.hasOwn(data, field) ? [[field, data[field]]] : []));
  return { at: Object.fromEntries(kept), was: Object.fromEntries(was) };
}

/** The data as it was read, but with the row's values of the `kept` fields. */
function withShown(data: JsonObject, row: RowContent | null, kept: RecordState['shown']): JsonObject {
  if (row === null || kept === null) return data;
  return { ...data, ...Object.fromEntries(Object.keys(kept.at).map((field) => [field, row.data[field]])) };
}

// ─── reads that may be too early ──────────────────────────────────────────────────────────────────────────────

/** When a read that may be too early is repeated, in SETTLEs after the first of them. After the last of these it counts. */
const EARLY_AGAIN_IN_SETTLES = [6, 18] as const;

/** The record as reads have last shown it, without what events have shown since. Null: as absent, or never. */
function lastRead(kind: Kind, { state, row }: Mirrored, pointers: IdPointers): RowContent | null {
  if (row === null || isAbsentBefore({ state, row })) return null;
  if (state.shown === null) return row.deletedAt === null ? row : { ...row, deletedAt: null };
  const data = { ...row.data };
  for (const field of Object.keys(state.shown.at)) {
    if (Object.hasOwn(state.shown.was, field)) assign(data, field, state.shown.was[field]);
    else delete data[field];
  }
  return contentOf(kind, data, null, pointers);
}

/** Reads have last shown that there is no such record, or no read has ever shown one. */
export function isAbsentBefore({ state, row }: Mirrored): boolean {
  return row === null || !state.returned || (row.deletedAt !== null && state.shown?.wasAlive !== true);
}

/**
 * For a read that shows only what reads have shown before the newest event: null if it counts. It does if no event waits, if it began within
 * SETTLE (then it covers no event), if the API has shown another state since the event, or if such reads have been repeated long enough.
 */
export function earlyAgain(
  state: RecordState,
  { beganAt }: Pick<ReadMoment, 'beganAt'>,
  { settleMs }: DirtyTiming,
): Pick<RecordState, 'earlyAt' | 'dueAt'> | null {
  const { dirtyAt, dirty, confirmed, movedAt } = state;
  if (dirty <= confirmed || dirtyAt === null || beganAt < dirtyAt + settleMs) return null;
  if (movedAt !== null && movedAt >= dirtyAt) return null;
  // One before the newest event was about an older one.
  const isSame = state.earlyAt !== null && state.earlyAt > dirtyAt;
  const earlyAt = isSame ? state.earlyAt! : Math.floor(beganAt);
  const wait = EARLY_AGAIN_IN_SETTLES.find((settles) => beganAt < earlyAt + settles * settleMs);
  return wait === undefined ? null : { earlyAt, dueAt: Math.ceil(earlyAt + wait * settleMs) };
}

/** After a read that counts: no event waits for one. */
export const CONFIRMED = { movedAt: null, earlyAt: null } as const;

/** Of two reads less than SETTLE apart that differ, either may be stale. So may a read of a record just reported as deleted. */
function tooCloseToTell(state: RecordState, read: ReadMoment, timing: DirtyTiming): boolean {
  if (state.readEndedAt !== null && read.beganAt < state.readEndedAt + timing.settleMs) return true;
  if (state.deleteEvent === null || state.dirtyAt === null) return false;
  return read.beganAt < state.dirtyAt + timing.settleMs;
}

function outcomeOf(change: RowChange | null): ApplyOutcome {
  switch (change?.operation) {
    case undefined:
      return 'unchanged';
    case 'insert':
      return 'inserted';
    case 'restore':
      return 'revived';
    default:
      return 'updated';
  }
}

/** The read does not decide: the next one must begin SETTLE after this one ended. */
function lookAgain(state: RecordState, read: ReadMoment, timing: DirtyTiming): RecordState {
  const next = {
    ...state,
    dirtyAt: Math.max(state.dirtyAt ?? 0, read.endedAt),
    firstDirtyAt: state.firstDirtyAt ?? read.endedAt,
    unverifiedSince: state.unverifiedSince ?? read.endedWall,
  };
  // Not by `dueAt()`: after the longest wait it returns a time that is past, and each next read would be too close again.
  return { ...next, dueAt: next.dirtyAt + timing.settleMs };
}

/** Removes the dirty marks that the read covers: those from more than SETTLE before it began, since it may be that stale. */
export function withoutCovered(
  state: RecordState,
  read: Pick<ReadMoment, 'beganAt'>,
  timing: DirtyTiming,
): RecordState {
  const horizon = read.beganAt - timing.settleMs;
  if (state.dirtyAt === null || state.dirtyAt <= horizon) {
    const verified = { dirtyAt: null, firstDirtyAt: null, unverifiedSince: null, dueAt: null };
    return { ...state, ...verified, ...CONFIRMED, confirmed: state.dirty };
  }
  const next = { ...state, firstDirtyAt: Math.max(state.firstDirtyAt ?? state.dirtyAt, horizon) };
  return { ...next, dueAt: dueAt(next, timing) };
}
