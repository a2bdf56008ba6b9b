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
 * newer. Everything here is a pure function; the store's verbs carry it out, so that every engine decides the same.
 */

/** What is known of a record besides its content, as of one that nobody knows. Instants: steady milliseconds, except where they say wall. */
export const UNKNOWN_STATE = {
  /** Number of the last accepted event about it. */
  dirty: 0,
  /** When there was last a reason to read it again; null: nothing is outstanding. */
  dirtyAt: null as number | null,
  /** When the earliest such reason came that no read covers yet. */
  firstDirtyAt: null as number | null,
  /** Wall. Null: verified. */
  unverifiedSince: null as number | null,
  /** Number of the row's last write. */
  write: 0,
  /** `created` of the last event whose payload was shown, or that a read has covered, wall. */
  provisionalCreated: null as number | null,
  /** Fields of the row's `data` that events have shown and no read covers yet, each with `dirtyAt` as that was. Null: none. */
  shown: null as Readonly<Record<string, number>> | null,
  /** The counter as the last applied read began. */
  readNumber: 0,
  readEndedAt: null as number | null,
  /** The API has shown it at least once. */
  returned: false as boolean,
  /** When the first of an unbroken run of 404 answers was asked for, and the counter then. */
  missingSince: null as number | null,
  missingNumber: null as number | null,
  /** Its absence is proven. Whether it may be deleted is decided together with the others. */
  proven: false as boolean,
  /** Number of the delivered event that said it is gone, until something shows it again. */
  deleteEvent: null as number | null,
  /** While the API does not know it: the events that name it have been searched up to this number, and it is a gap. */
  searched: 0,
  /** Reads refused in a row because the row was newer. */
  refusals: 0,
  attempts: 0,
  dueAt: null as number | null,
};
export type RecordState = typeof UNKNOWN_STATE;

/** A record with many events is read at the latest this many SETTLEs after the first event that no read covers. */
const LONGEST_WAIT_IN_SETTLES = 6;

/**
 * A read is refused this often because the row is newer. Then it is applied anyway, and the record stays unverified: a record
 * that is written faster than it can be read must still move.
 */
const REFUSALS_BEFORE_APPLYING = 3;

/** When a record with outstanding dirty marks is to be read; null when nothing is outstanding. */
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

export interface ProvisionalDecision {
  outcome: 'provisional' | 'marked_dirty' | 'overtaken';
  state: RecordState;
  /** Null: the row stays as it is. */
  row: RowContent | null;
  change: RowChange | null;
}

export function decideProvisional(
  event: ProvisionalInput,
  record: { state: RecordState; row: RowContent | null; verifiedWall: number | null },
  settings: ProvisionalSettings,
  nowIso: string,
): ProvisionalDecision {
  const { row } = record;
  const deletes = DELETE_TYPES.has(event.type);
  const created = Math.min(event.createdMs, event.receivedWall + settings.toleranceMs);
  const last = record.state.provisionalCreated;
  const newer = last === null || (settings.eventsOnly ? created >= last : created > last);
  // A read that began later shows at least what this event reports. So does one that ended long after `created`, in whatever
  // order they arrived.
  const covered =
    record.state.unverifiedSince === null ||
    event.seq <= record.state.readNumber ||
    (record.verifiedWall !== null && created < record.verifiedWall - settings.toleranceMs);
  // A late delete event reports a deletion that is known already, perhaps one before the record was made again.
  const state = deletes && covered ? record.state : noteDeletion(record.state, event.seq, deletes, created);
  // Also of one that is covered: the row shows what it reports, and nothing older may be laid over that.
  const noted = newer ? { ...state, provisionalCreated: created } : state;
  if (covered || !newer) return { outcome: 'overtaken', state: noted, row: null, change: null };

  if (deletes) {
    if (row === null) return { outcome: 'marked_dirty', state: noted, row: null, change: null };
    return provisional(noted, row, { ...row, deletedAt: row.deletedAt ?? nowIso });
  }
  // Only the API can show that a deleted record exists again: a late payload would look the same.
  const isTombstone = row !== null && row.deletedAt !== null && !settings.eventsOnly;
  // The specification does not show a risk event's payload, so it makes no assessment while the API can be asked.
  const mayInsert = settings.eventsOnly || event.kind !== 'risk_assessment';
  if (!event.shows || isTombstone || (row === null && !mayInsert)) {
    return { outcome: 'marked_dirty', state: noted, row: null, change: null };
  }
  const data = mergePayload(row?.data ?? null, event.content, settings.idFields);
  return provisional(noted, row, contentOf(event.kind, data, null));
}

function provisional(state: RecordState, before: RowContent | null, after: RowContent): ProvisionalDecision {
  const change = diffContent(before, after);
  return { outcome: 'provisional', state: noteShown(state, change), row: after, change };
}

function noteShown(state: RecordState, change: RowChange | null): RecordState {
  const at = state.dirtyAt;
  const fields = Object.keys((change?.after['data'] as JsonObject | undefined) ?? {});
  if (at === null || fields.length === 0) return state;
  return { ...state, shown: { ...state.shown, ...Object.fromEntries(fields.map((field) => [field, at])) } };
}

function noteDeletion(state: RecordState, seq: number, deletes: boolean, created: number): RecordState {
  // A delete event older than the last payload says nothing of the record as it is now, whichever arrived first.
  const isOlder = state.provisionalCreated !== null && created < state.provisionalCreated;
  if (deletes) return isOlder ? state : { ...state, deleteEvent: seq };
  const relived =
    state.deleteEvent !== null && (state.provisionalCreated === null || created > state.provisionalCreated);
  return relived ? { ...state, deleteEvent: null } : state;
}

/**
 * Whether the state differs from `stored` only in what the store keeps in the record's row: its last write, and what events
 * have shown. As a rule an event changes nothing else.
 */
export function standsInRow(
  stored: RecordState,
  { state: now, row }: { state: RecordState; row: RowContent | null },
): boolean {
  // One by one: a loop over the fields costs an event a microsecond more.
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

/** Whether the read confirmed a record that was verified before, and changed nothing of its state but when it was read. */
export function isOnlyRead(before: RecordState, after: RecordState, read: ReadMoment): boolean {
  return (
    after.unverifiedSince === null &&
    after.shown === null &&
    after.readNumber === read.number &&
    after.readEndedAt === read.endedAt &&
    (Object.keys(after) as (keyof RecordState)[]).every(
      (key) => key === 'readNumber' || key === 'readEndedAt' || after[key] === before[key],
    )
  );
}

// ─── reads ──────────────────────────────────────────────────────────────────────────────────────────────

export interface ApplyDecision {
  outcome: ApplyOutcome;
  state: RecordState;
  /** Null: the row's content stays. */
  row: RowContent | null;
  change: RowChange | null;
  /** The row's `verified_at` moves to the end of this read. */
  confirmed: boolean;
  lacks: boolean;
}

/**
 * What a read shows of a record in the mirror. A list may leave out fields that the record's own address shows. Policies have
 * no address of their own, so a field that their list leaves out is gone; so is one that only events have shown.
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
  record: { state: RecordState; row: RowContent | null },
  timing: DirtyTiming,
): ApplyDecision {
  const { state, row } = record;
  const { data, lacks } = dataShown(kind, answer, read, record);
  const newerRow = state.write > read.number;
  if (newerRow && state.refusals < REFUSALS_BEFORE_APPLYING) {
    const refusals = state.unverifiedSince === null ? 0 : state.refusals + 1;
    const change = diffContent(row, contentOf(kind, data, null));
    const refused: RecordState = { ...state, refusals };
    // The read that wrote the row began no later than this one: nothing shows yet which of the two is stale.
    const isDoubtful = change !== null && state.unverifiedSince === null && state.readNumber <= read.number;
    const next = isDoubtful ? lookAgain(refused, read, timing) : refused;
    return { outcome: 'refused', state: next, row: null, change, confirmed: false, lacks };
  }
  const kept = stillShown(state, read, timing);
  const shown = contentOf(kind, withShown(data, row, kept), null);
  const change = diffContent(row, shown);
  if (change !== null && row !== null && tooCloseToTell(state, row, read, timing)) {
    // Whatever it is worth, the API has shown the id: a 404 after it is about a record, and not about an id of something else.
    const again = { ...lookAgain(state, read, timing), returned: true };
    return { outcome: 'deferred', state: again, row: null, change, confirmed: false, lacks };
  }

  // What the list left out may belong to another version than what it showed.
  const isMixed = lacks && change !== null;
  const applied: RecordState = {
    ...state,
    shown: kept,
    // An older read that agrees must not move the number back.
    readNumber: Math.max(state.readNumber, read.number),
    // A partial read that shows nothing new must not make the next read of the whole record look too close.
    readEndedAt: lacks && !isMixed ? state.readEndedAt : endedLast(state, read),
    returned: true,
    missingSince: null,
    missingNumber: null,
    proven: false,
    deleteEvent: null,
    refusals: 0,
    attempts: 0,
  };
  const whole = lacks ? applied : covered(applied, read, timing);
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

/** When the last read ended. A page that is saved late may have begun before reads that are applied already. */
function endedLast(state: RecordState, read: ReadMoment): number {
  if (read.number >= state.readNumber || state.readEndedAt === null) return read.endedAt;
  return Math.max(state.readEndedAt, read.endedAt);
}

/** How a read differs from the mirror, if it were applied as it is. */
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
 * The fields that events have shown less than SETTLE before the read began. For those the read may be stale, and readers of the
 * feed would see a change undone and made again. Never more than what keeps the record unverified, whatever the clock says.
 */
function stillShown(state: RecordState, read: ReadMoment, timing: DirtyTiming): RecordState['shown'] {
  const { dirtyAt, shown } = state;
  if (shown === null || dirtyAt === null) return null;
  const kept = Object.entries(shown).filter(
    ([, at]) => Math.min(at, dirtyAt) > read.beganAt - timing.settleMs,
  );
  return kept.length === 0 ? null : Object.fromEntries(kept);
}

/** The record as it was read, except for these fields of the row; all others move on. */
function withShown(data: JsonObject, row: RowContent | null, kept: RecordState['shown']): JsonObject {
  if (row === null || kept === null) return data;
  const fields = Object.keys(kept).filter((field) => Object.hasOwn(row.data, field));
  return { ...data, ...Object.fromEntries(fields.map((field) => [field, row.data[field]])) };
}

/**
 * When two reads less than SETTLE apart differ, either may be stale. So may a read that shows a record which an event has just
 * reported as deleted.
 */
function tooCloseToTell(state: RecordState, row: RowContent, read: ReadMoment, timing: DirtyTiming): boolean {
  if (state.readEndedAt !== null && read.beganAt < state.readEndedAt + timing.settleMs) return true;
  const isTombstone = row.deletedAt !== null && state.deleteEvent !== null;
  return isTombstone && state.dirtyAt !== null && read.beganAt < state.dirtyAt + timing.settleMs;
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

/** Not decided yet: the next read must begin SETTLE after this one ended. */
function lookAgain(state: RecordState, read: ReadMoment, timing: DirtyTiming): RecordState {
  const next = {
    ...state,
    dirtyAt: Math.max(state.dirtyAt ?? 0, read.endedAt),
    firstDirtyAt: state.firstDirtyAt ?? read.endedAt,
    unverifiedSince: state.unverifiedSince ?? read.endedWall,
  };
  // Not by `dueAt()`: after its longest wait that is now, which is too close again, without end.
  return { ...next, dueAt: next.dirtyAt + timing.settleMs };
}

/** A read shows the upstream as it was at most SETTLE before it began, so it covers the dirty marks that are older. */
export function covered(
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
