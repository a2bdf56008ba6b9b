import { DELETE_TYPES, type Kind } from '../compliance/kinds.ts';
import type { JsonObject } from '../compliance/pointers.ts';
import type { ApplyOutcome, Compared, DirtyTiming, ReadMoment, ReadObject } from '../store/values.ts';
import {
  contentOf,
  diffContent,
  differingNames,
  laidOver,
  mergePayload,
  type RowChange,
  type RowContent,
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
  /** Fields of the row's `data` that events have shown and no read covers yet, each with `dirtyAt` at that time. Null: none. */
  shown: null as Readonly<Record<string, number>> | null,
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
  /** For an id that the API does not know: the events that name it have been searched up to this number. */
  searched: 0,
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
}

/** What becomes of a record. */
export interface Decision {
  state: RecordState;
  /** Null: the row's content stays. */
  row: RowContent | null;
  change: RowChange | null;
}

export interface ProvisionalDecision extends Decision {
  outcome: 'provisional' | 'marked_dirty' | 'overtaken';
}

export function decideProvisional(
  event: ProvisionalInput,
  record: Mirrored & { verifiedWall: number | null },
  settings: ProvisionalSettings,
  nowIso: string,
): ProvisionalDecision {
  const { row } = record;
  const deletes = DELETE_TYPES.has(event.type);
  const created = Math.min(event.createdMs, event.receivedWall + settings.toleranceMs);
  const last = record.state.provisionalCreated;
  const isNewer = last === null || (settings.eventsOnly ? created >= last : created > last);
  // A read that began after the event was accepted shows at least its change. So does a read that ended long after `created`.
  const isCovered =
    record.state.unverifiedSince === null ||
    event.seq <= record.state.readNumber ||
    (record.verifiedWall !== null && created < record.verifiedWall - settings.toleranceMs);
  // A covered event says nothing new about a deletion.
  const state = isCovered ? record.state : noteDeletion(record.state, event.seq, deletes, created);
  // Also for a covered event: the row shows its change, and no older payload may be laid over that.
  const noted = isNewer ? { ...state, provisionalCreated: created } : state;
  if (isCovered || !isNewer) return { outcome: 'overtaken', state: noted, row: null, change: null };

  if (deletes) {
    if (row === null) return { outcome: 'marked_dirty', state: noted, row: null, change: null };
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
  return provisional(noted, row, contentOf(event.kind, data, null));
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
  const at = state.dirtyAt;
  const fields = Object.keys((change?.after['data'] as JsonObject | undefined) ?? {});
  if (at === null || fields.length === 0) return state;
  return { ...state, shown: { ...state.shown, ...Object.fromEntries(fields.map((field) => [field, at])) } };
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
    stored.searched === now.searched &&
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
): ApplyDecision {
  const { state, row } = record;
  const { data, lacks } = dataShown(kind, answer, read, record);
  const newerRow = state.write > read.number;
  if (newerRow && state.refusals < REFUSALS_BEFORE_APPLYING) {
    const refusals = state.unverifiedSince === null ? 0 : state.refusals + 1;
    const change = diffContent(row, contentOf(kind, data, null));
    const refused: RecordState = { ...state, refusals };
    // The read that wrote the row began no later than this one, so either of the two may be stale.
    const isDoubtful = change !== null && state.unverifiedSince === null && state.readNumber <= read.number;
    const next = isDoubtful ? lookAgain(refused, read, timing) : refused;
    return { outcome: 'refused', state: next, row: null, change, confirmed: false, lacks };
  }
  const kept = stillShown(state, read, timing);
  const shown = contentOf(kind, withShown(data, row, kept), null);
  const change = diffContent(row, shown);
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
    row: change === null ? null : shown,
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

/** How a read differs from the mirror, for a dry run. */
export function compareRead(
  kind: Kind,
  { id, data: answer }: ReadObject,
  read: Pick<ReadMoment, 'isOfList'>,
  record: Parameters<typeof dataShown>[3],
): Compared {
  const { row } = record;
  if (row === null || row.deletedAt !== null) return { id, what: 'missing', fields: [], lacks: false };
  const { data, lacks } = dataShown(kind, answer, read, record);
  const change = diffContent(row, contentOf(kind, data, null));
  if (change === null) return { id, what: 'same', fields: [], lacks };
  return { id, what: 'different', fields: differingNames(change), lacks };
}

/**
 * The fields that events have shown less than SETTLE before the read began. The read may be stale for these, and the feed of
 * changes would show a change undone and made again. None that is newer than `dirtyAt`, even if the clock was set back.
 */
function stillShown(state: RecordState, read: ReadMoment, timing: DirtyTiming): RecordState['shown'] {
  const { dirtyAt, shown } = state;
  if (shown === null || dirtyAt === null) return null;
  const kept = Object.entries(shown).filter(
    ([, at]) => Math.min(at, dirtyAt) > read.beganAt - timing.settleMs,
  );
  return kept.length === 0 ? null : Object.fromEntries(kept);
}

/** The data as it was read, but with the row's values of the `kept` fields. */
function withShown(data: JsonObject, row: RowContent | null, kept: RecordState['shown']): JsonObject {
  if (row === null || kept === null) return data;
  return { ...data, ...Object.fromEntries(Object.keys(kept).map((field) => [field, row.data[field]])) };
}

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
    return { ...state, dirtyAt: null, firstDirtyAt: null, unverifiedSince: null, dueAt: null };
  }
  const next = { ...state, firstDirtyAt: Math.max(state.firstDirtyAt ?? state.dirtyAt, horizon) };
  return { ...next, dueAt: dueAt(next, timing) };
}
