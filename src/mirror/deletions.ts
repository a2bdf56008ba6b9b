import type { DirtyTiming, MissingOutcome, ReadMoment } from '../store/values.ts';
import { diffContent } from './merge.ts';
import { CONFIRMED, earlyAgain, isAbsentBefore, withoutCovered } from './reads.ts';
import type { Decision, Mirrored, RecordState } from './state.ts';

/** What proves that a record is gone, how it becomes a tombstone, and which deletions wait for a person. Pure. */

export interface MissingDecision {
  outcome: MissingOutcome;
  state: RecordState;
}

/** Other reads around a 404. A witness is a live record that a read showed, so our access was not lost. */
export interface MissingContext {
  /** When the last witness before the 404 was read. It counts from `witnessFrom` on. */
  witnessedAt: number | null;
  witnessFrom?: number;
  /** Another witness was read right after the 404. */
  witnessedAfter: boolean;
  absentFromList: boolean;
  /** It was no 404: an answer that nobody can use counts as one. */
  isUnusable?: boolean;
  /** After so many failed reads a deletion that an event announced or an operator approved needs no witnesses. Absent: it never does. */
  patience?: number;
  /** The same of one that an event has reported since its deletion: it may live again, and the reads have lost their path. */
  relivedPatience?: number;
}

/** What a person has said of the record's deletion. */
export interface Said {
  approved?: boolean;
  /** The counter when the deletion was refused. */
  keptNumber?: number | null;
}

/** Of an id that the API has never shown: a problem shows a person the last event about it. */
export interface Asked {
  isAsked?: boolean;
}

/** The API answered 404 for the record. */
export function decideMissing(
  read: ReadMoment,
  record: Mirrored,
  context: MissingContext & Said & Asked,
  timing: DirtyTiming,
): MissingDecision {
  const { state, row } = record;
  const answered = { ...state, attempts: 0 };
  const isShownAlive = row !== null && row.deletedAt === null;
  if (state.unverifiedSince === null && !isShownAlive) {
    return { outcome: 'known', state: { ...answered, dueAt: null } };
  }
  if (isKept(state, context.keptNumber)) {
    const undecided = { ...answered, missingSince: null, missingNumber: null, proven: false };
    return { outcome: 'known', state: withoutCovered(undecided, read, timing) };
  }
  const early = context.approved === true ? null : absentEarly(record, read, timing);
  if (early !== null) return { outcome: 'first', state: { ...answered, ...early } };
  // The API has never shown this id. It may be of another kind, or a record that is not visible yet, or an event that names it may
  // be about another record. This holds for delete events too, and for ids that are in no list.
  const isTold = state.deleteEvent !== null || context.absentFromList || context.approved === true;
  const isNamed = state.dirty > 0 && context.isAsked !== true;
  if (!state.returned && (isNamed || !isTold)) {
    const settled = (state.dirtyAt ?? Number.NEGATIVE_INFINITY) + timing.settleMs;
    if (read.beganAt < settled) return { outcome: 'first', state: { ...answered, dueAt: settled } };
    return { outcome: isNamed ? 'unresolved_event' : 'unresolved', state };
  }

  const { missingSince, missingNumber } = state;
  const isBroken = missingNumber === null || Math.max(state.dirty, state.write) > missingNumber;
  if (missingSince === null || isBroken) {
    const first = {
      ...answered,
      // The end, because a witness that began to be read during this read may have been answered before it.
      missingSince: read.endedAt,
      missingNumber: read.number,
      proven: false,
      unverifiedSince: state.unverifiedSince ?? read.endedWall,
      dirtyAt: state.dirtyAt ?? read.beganAt,
      firstDirtyAt: state.firstDirtyAt ?? read.beganAt,
    };
    const settled = Math.max(read.endedAt, first.dirtyAt) + timing.settleMs;
    return { outcome: 'first', state: { ...first, dueAt: settled } };
  }
  const settled = Math.max(missingSince, state.dirtyAt ?? 0) + timing.settleMs;
  if (read.beganAt < settled) return { outcome: 'first', state: { ...answered, dueAt: settled } };

  const witnessFrom = Math.max(missingSince, context.witnessFrom ?? 0);
  const witnessed = context.witnessedAt !== null && context.witnessedAt >= witnessFrom;
  const isExpected = state.deleteEvent !== null || context.approved === true || !isShownAlive;
  const isRelived = state.deleteEvent === null && row !== null && !isShownAlive && !isAbsentBefore(record);
  const patience = Math.max(context.patience ?? 0, isRelived ? (context.relivedPatience ?? 0) : 0);
  const needsWitness = !isExpected || state.attempts < patience;
  // `state` keeps its failed attempts, so that the next read waits longer.
  if (needsWitness && !witnessed) return { outcome: 'unwitnessed', state };
  if (needsWitness && !context.witnessedAfter) return { outcome: 'witnessed_before', state };
  return { outcome: 'proven', state: { ...answered, proven: true, dueAt: null } };
}

/**
 * Why a record with a proven absence is deleted. Null: nothing is deleted, because the mirror does not show the record and no
 * event reported its deletion. That can be an id that a person asked for.
 */
export function causeOfDeletion({ state, row }: Mirrored): 'event' | 'absence' | null {
  if (state.deleteEvent !== null) return 'event';
  return row === null || row.deletedAt !== null ? null : 'absence';
}

/** A person has refused its deletion, and no event has named it since. */
export const isKept = (state: Pick<RecordState, 'dirty'>, keptNumber: number | null | undefined): boolean =>
  keptNumber != null && state.dirty <= keptNumber;

/**
 * What becomes of a record that list scans do not show, if the API may not show it yet: nothing was shown of it before its newest event
 * either, or the last scan began before the read delay of that event was over. Null: its absence counts.
 */
export function decideUnlisted(
  record: Mirrored,
  scan: Pick<ReadMoment, 'beganAt'>,
  timing: DirtyTiming,
): RecordState | null {
  const { state } = record;
  // So old may answers of a cache be.
  if (state.dirtyAt !== null && scan.beganAt < state.dirtyAt + timing.settleMs) return state;
  const early = absentEarly(record, scan, timing);
  return early === null ? null : { ...state, ...early };
}

/** What an event has announced gone may well be gone. */
const absentEarly = (record: Mirrored, read: Pick<ReadMoment, 'beganAt'>, timing: DirtyTiming) =>
  record.state.deleteEvent === null && isAbsentBefore(record) ? earlyAgain(record.state, read, timing) : null;

/** Makes a verified tombstone of a record whose absence is proven. */
export function decideTombstone({ state, row }: Mirrored, now: { steady: number }, nowIso: string): Decision {
  // A read that began before now may be stale, and a read from before the first 404 is.
  const readEndedAt = Math.max(state.readEndedAt ?? 0, now.steady);
  // Not read anew: a deletion changes no other column.
  const tombstone = row === null || row.deletedAt !== null ? null : { ...row, deletedAt: nowIso };
  return {
    row: tombstone,
    change: tombstone === null ? null : diffContent(row, tombstone),
    state: {
      ...state,
      dirtyAt: null,
      firstDirtyAt: null,
      unverifiedSince: null,
      dueAt: null,
      shown: null,
      ...CONFIRMED,
      confirmed: state.dirty,
      missingSince: null,
      missingNumber: null,
      proven: false,
      deleteEvent: null,
      readEndedAt,
      addressReadAt: readEndedAt,
      readNumber: Math.max(state.readNumber, state.missingNumber ?? 0),
      attempts: 0,
    },
  };
}

/** Deletions wait for a person when more than this many records of a kind go within `GUARD_WINDOW_MS` … */
const ASK_ABOVE_COUNT = 2;
/** … and they are more than `percent` of its living ones. A service that forgot its data, or a script gone wrong, looks like this. */
export const GUARD_WINDOW_MS = 10 * 60_000;

/** How the records of a kind stand before more of them are deleted. */
export interface Guarded {
  /** DELETION_GUARD_PERCENT. */
  percent: number;
  live: number;
  /** Deleted within `GUARD_WINDOW_MS`, and not because a person approved it. */
  recent: number;
  /** Alive, and waiting for a person already. */
  waiting: number;
}

/** A living record that an event or a proof says is gone. */
export interface Leaving {
  id: string;
  announced: boolean;
  approved: boolean;
  /** A person has refused its deletion. */
  kept: boolean;
}

/**
 * Which living records are deleted, and which wait. Approved ones are deleted. The others are if they are few; otherwise all of them wait. A
 * kept one is asked about again, unless an event has announced its deletion anew.
 */
export function decideDeletions(
  leaving: readonly Leaving[],
  { percent, live, recent, waiting }: Guarded,
): { deleted: string[]; pending: string[] } {
  const doubtful = leaving.filter(({ approved }) => !approved);
  const [count, all] = [doubtful.length + waiting + recent, live + recent];
  const isMany = count > ASK_ABOVE_COUNT && count * 100 > percent * all;
  // Even a single one waits if it is the last and nothing announced it: a service that hides its data from us looks like this.
  const isAll = count >= all && (count >= 2 || doubtful.some(({ announced }) => !announced));
  const pending = doubtful.filter(({ kept, announced }) => isMany || isAll || (kept && !announced));
  const waits = new Set(pending.map(({ id }) => id));
  return {
    deleted: leaving.map(({ id }) => id).filter((id) => !waits.has(id)),
    pending: [...waits].sort(),
  };
}

/** The record whose deletion a person has refused: nothing is outstanding, unless it is to be read for another reason. */
export function decideKept(state: RecordState): RecordState {
  const kept = { ...state, deleteEvent: null };
  if (state.dueAt !== null) return kept;
  const undecided = { missingSince: null, missingNumber: null, proven: false };
  return { ...kept, ...undecided, dirtyAt: null, firstDirtyAt: null, unverifiedSince: null, shown: null };
}
