import { isDeepStrictEqual } from 'node:util';
import type { Kind } from '../compliance/kinds.ts';
import {
  DEFAULT_ID_POINTERS,
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  plainName,
} from '../compliance/pointers.ts';
import type { ApplyOutcome, DirtyTiming, ReadMoment } from '../store/values.ts';
import {
  assign,
  contentOf,
  diffContent,
  laidOver,
  type RowChange,
  type RowContent,
  withoutIgnored,
} from './merge.ts';
import { type Decision, dueAt, type Mirrored, type RecordState } from './state.ts';

/** Whether what the API answered is the truth of now, and what it makes of a record. A stale answer may not undo anything newer. Pure. */

/**
 * After this many refused reads a read is applied although the row is newer, and the record stays unverified. So a record that is
 * written faster than it can be read still changes.
 */
const REFUSALS_BEFORE_APPLYING = 3;

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
  const known = kind === 'policy' || read.isOfList === true ? null : lastRead(kind, record, pointers);
  if (known !== null && isUnlike(known.data, answer, pointers))
    return { outcome: 'unlike', state, row: null, change: null, confirmed: false, lacks: false };
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
  const again = isMoved && !isFromBefore(record, seen.data) ? null : earlyAgain(state, read, timing);
  if (again !== null) {
    // As below: what a list leaves out may be the change, and its own address is asked next.
    const readEndedAt = seen.lacks ? state.readEndedAt : endedLast(state, read);
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
  const asksAddress = isOfDeleted || mayBeBehindAddress(state, read, timing);
  if (change !== null && row !== null && (asksAddress || tooCloseToTell(state, read, timing))) {
    const later = lookAgain(state, read, timing);
    // What is due anyway is not put off: list after list would keep the record's own address from being asked. Nor do the reads begin anew
    // that may be too early: a list that is read at the same time again and again would have them end nowhere.
    const dueAt = asksAddress && state.dirtyAt !== null ? state.dueAt : later.dueAt;
    const again = { ...(isEarly(state) ? state : later), dueAt };
    // Even if the read is stale, the API has shown the id. So a later 404 is about a record, and not about another thing's id.
    const next = { ...again, returned: true };
    return { outcome: 'deferred', state: next, row: null, change, confirmed: false, lacks };
  }

  // The fields that the list left out may belong to another version of the record.
  const isMixed = lacks && change !== null;
  const isBetween = isMoved && change !== null && isOfSeveral(state);
  const applied: RecordState = {
    ...state,
    shown: kept,
    movedAt: isMoved && !newerRow && !isBetween ? Math.floor(read.beganAt) : state.movedAt,
    // An older read that agrees must not move the number back.
    readNumber: Math.max(state.readNumber, read.number),
    // A partial read that shows nothing new must not make the next whole read count as too close.
    readEndedAt: lacks && !isMixed ? state.readEndedAt : endedLast(state, read),
    addressReadAt: read.isOfList === true ? state.addressReadAt : endedLast(state, read),
    returned: true,
    missingSince: null,
    missingNumber: null,
    proven: false,
    deleteEvent: null,
    refusals: 0,
    attempts: 0,
  };
  const between = isBetween ? earlyAgain(applied, read, timing) : null;
  if (between !== null) {
    return {
      outcome: outcomeOf(change),
      state: { ...applied, ...between },
      row: shown,
      change,
      confirmed: false,
      lacks,
    };
  }
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

/** Fields that say which record it is, and no more. */
const NAMES = /id$|^(type|object|kind|href|self|url|links?)$/;

/**
 * No field of the record has any content any more: an error, or what is left of one that is gone. More fields than the record had are the
 * record, of which a list has shown a part under other names.
 */
function isUnlike(known: JsonObject, answer: JsonObject, pointers: IdPointers): boolean {
  const ids = idFieldsOf(pointers);
  const isSet = (value: unknown) => value !== undefined && value !== null && value !== '';
  const fieldsOf = (object: JsonObject) =>
    Object.keys(object).filter(
      (field) => !ids.has(field) && !NAMES.test(plainName(field)) && isSet(object[field]),
    );
  const fields = fieldsOf(known);
  return (
    !fields.some((field) => isSet(answer[field])) &&
    fieldsOf(answer).length <= fields.length &&
    fields.length > 0
  );
}

/**
 * A vendor's own address brings it back although an event has reported its removal: its list may agree with the event, and nothing else would
 * ask it.
 */
export const isBackInSpite = (
  kind: Kind,
  { isOfList }: Pick<ReadMoment, 'isOfList'>,
  { deleteEvent }: Pick<RecordState, 'deleteEvent'>,
  outcome: ApplyOutcome,
): boolean => kind === 'vendor' && isOfList !== true && deleteEvent !== null && outcome === 'revived';

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
  // An answer of a cache may be older than the last read, which knows better.
  const last = read.number < state.readNumber ? shown.was : data;
  const was = kept.flatMap(([field]) => (Object.hasOwn(last, field) ? [[field, last[field]]] : []));
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
/** How far a list may be behind the addresses of its records. */
export const LONGEST_LAG_IN_SETTLES = EARLY_AGAIN_IN_SETTLES[1];

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
 * The read shows another state than the reads before it, and yet one from before the newest event: alive what that has deleted, or of each
 * field that it has changed a former value. The rest may differ at each read, such as a link that is signed anew.
 */
function isFromBefore({ state, row }: Mirrored, data: JsonObject): boolean {
  const { shown } = state;
  if (shown === null || row === null) return false;
  if (shown.wasAlive === true && row.deletedAt !== null && state.deleteEvent !== null) return true;
  const { at, was, between = {} } = shown;
  const newest = Math.max(...Object.values(at));
  const fields = Object.keys(at).filter((field) => at[field] === newest && Object.hasOwn(was, field));
  const isFormer = (field: string) =>
    !isDeepStrictEqual(data[field], row.data[field]) &&
    [was[field], ...(between[field] ?? [])].some((value) => isDeepStrictEqual(data[field], value));
  return fields.length > 0 && fields.every(isFormer);
}

/**
 * The API has been behind the events that wait, and these are several: another state than before may be that between two of them. It is shown,
 * and confirmed as if it were from before the newest.
 */
const isOfSeveral = ({ earlyAt, firstDirtyAt, dirtyAt }: RecordState): boolean =>
  earlyAt !== null && firstDirtyAt !== null && dirtyAt !== null && firstDirtyAt < dirtyAt;

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
  const earlyAt = isEarly(state) ? state.earlyAt! : Math.floor(beganAt);
  const wait = EARLY_AGAIN_IN_SETTLES.find((settles) => beganAt < earlyAt + settles * settleMs);
  return wait === undefined ? null : { earlyAt, dueAt: Math.ceil(earlyAt + wait * settleMs) };
}

/** A read after the newest event was too early. One before it was about an older one. */
const isEarly = ({ earlyAt, dirtyAt }: RecordState): boolean =>
  earlyAt !== null && dirtyAt !== null && earlyAt > dirtyAt;

/** After a read that counts: no event waits for one. */
export const CONFIRMED = { movedAt: null, earlyAt: null } as const;

/**
 * A list may be behind the addresses of its records, as a search index is. What it shows otherwise so soon after a record's own address is
 * only a reason to ask that again.
 */
function mayBeBehindAddress(state: RecordState, read: ReadMoment, { settleMs }: DirtyTiming): boolean {
  if (read.isOfList !== true || state.addressReadAt === null) return false;
  return read.beganAt < state.addressReadAt + LONGEST_LAG_IN_SETTLES * settleMs;
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
    const verified = { dirtyAt: null, firstDirtyAt: null, unverifiedSince: null, dueAt: null };
    return { ...state, ...verified, ...CONFIRMED, confirmed: state.dirty };
  }
  const next = { ...state, firstDirtyAt: Math.max(state.firstDirtyAt ?? state.dirtyAt, horizon) };
  return { ...next, dueAt: dueAt(next, timing) };
}
