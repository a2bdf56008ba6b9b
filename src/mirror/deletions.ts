import type { Kind } from '../compliance/kinds.ts';
import type { DirtyTiming, MissingOutcome, ReadMoment } from '../store/values.ts';
import type { Decision, Mirrored, RecordState } from './decide.ts';
import { contentOf, diffContent } from './merge.ts';

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
  /** Even a deletion that an event announced or an operator approved needs witnesses. */
  needsWitness?: boolean;
}

/** The API answered 404 for the record. `approved`: an operator has approved its deletion. */
export function decideMissing(
  read: ReadMoment,
  record: Mirrored,
  context: MissingContext & { approved?: boolean },
  timing: DirtyTiming,
): MissingDecision {
  const { state, row } = record;
  const answered = { ...state, attempts: 0 };
  const isShownAlive = row !== null && row.deletedAt === null;
  const hasUnsearchedEvent = state.dirty > state.searched;
  if (state.unverifiedSince === null && !isShownAlive && (state.returned || !hasUnsearchedEvent)) {
    return { outcome: 'known', state: { ...answered, dueAt: null } };
  }
  // The API has never shown this id. It may be of another kind, or a record that is not visible yet, or an event that names it may
  // be about another record. This holds for delete events too, and for ids that are in no list.
  const isTold = state.deleteEvent !== null || context.absentFromList || context.approved === true;
  const isToldGone = !hasUnsearchedEvent && isTold;
  if (!state.returned && !isToldGone) {
    const settled = (state.dirtyAt ?? Number.NEGATIVE_INFINITY) + timing.settleMs;
    if (read.beganAt < settled) return { outcome: 'first', state: { ...answered, dueAt: settled } };
    if (hasUnsearchedEvent) return { outcome: 'unresolved_event', state };
    return { outcome: state.dirty > 0 ? 'unresolved_again' : 'unresolved', state };
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
  const needsWitness = !isExpected || context.needsWitness === true;
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

/** Makes a verified tombstone of a record whose absence is proven. */
export function decideTombstone(
  kind: Kind,
  { state, row }: Mirrored,
  now: { steady: number },
  nowIso: string,
): Decision {
  const tombstone = row === null || row.deletedAt !== null ? null : contentOf(kind, row.data, nowIso);
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
      missingSince: null,
      missingNumber: null,
      proven: false,
      deleteEvent: null,
      // A read that began before now may be stale, and a read from before the first 404 is.
      readEndedAt: Math.max(state.readEndedAt ?? 0, now.steady),
      readNumber: Math.max(state.readNumber, state.missingNumber ?? 0),
      attempts: 0,
    },
  };
}

/** A deletion without a delete event waits for a person when more than this many records of a kind go at once … */
const ASK_ABOVE_COUNT = 2;
/** … and they are more than this share of the live ones. A service that forgot its data looks like this. */
const ASK_ABOVE_SHARE = 0.2;

/**
 * Which of the proven absences become tombstones. Those with a delivered delete event or an operator's approval do. The others do
 * only if they are few; otherwise all others wait. `pendingAlready` counts those that wait already, so that a list which loses
 * its records a few at a time is noticed.
 */
export function decideDeletions(
  candidates: readonly { id: string; announced: boolean; approved: boolean }[],
  live: number,
  pendingAlready = 0,
): { deleted: string[]; pending: string[] } {
  const doubtful = candidates.filter((candidate) => !candidate.announced && !candidate.approved);
  const count = doubtful.length + pendingAlready;
  const isMany = count > ASK_ABOVE_COUNT && count > ASK_ABOVE_SHARE * live;
  // Even a single one waits if it is the last, because a service that lost its data, or hides it from us, looks like this.
  const isAll = count >= live;
  const pending = new Set(isMany || isAll ? doubtful.map((candidate) => candidate.id) : []);
  const deleted = candidates.map((candidate) => candidate.id).filter((id) => !pending.has(id));
  return { deleted, pending: [...pending].sort() };
}
