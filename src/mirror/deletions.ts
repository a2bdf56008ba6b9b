import type { Kind } from '../compliance/kinds.ts';
import type { DirtyTiming, MissingOutcome, ReadMoment } from '../store/values.ts';
import type { RecordState } from './decide.ts';
import { contentOf, diffContent, type RowChange, type RowContent } from './merge.ts';

/** What proves that a record is gone, what a proof makes of it, and which deletions wait for a person. Pure. */

export interface MissingDecision {
  outcome: MissingOutcome;
  state: RecordState;
}

/** What else was read around a 404. A witness is a live record of the kind that a read showed. */
export interface MissingContext {
  /** When the last witness was read, not before `witnessFrom`: access may have been lost in between. */
  witnessedAt: number | null;
  witnessFrom?: number;
  /** Another one was read right after the 404. */
  witnessedAfter: boolean;
  absentFromList: boolean;
  /** Also for deletions that an event announced or an operator approved, while a live record can be read. */
  needsWitness?: boolean;
}

/** The API answered 404 for the record. `agreed`: an operator has approved its deletion. */
export function decideMissing(
  read: ReadMoment,
  record: { state: RecordState; row: RowContent | null },
  context: MissingContext & { agreed?: boolean },
  timing: DirtyTiming,
): MissingDecision {
  const { state, row } = record;
  const answered = { ...state, attempts: 0 };
  const isNews = state.dirty > state.searched;
  if (state.unverifiedSince === null && (row === null || row.deletedAt !== null)) {
    if (state.returned || !isNews) return { outcome: 'known', state: { ...answered, dueAt: null } };
  }
  // The id may not be of this kind at all, or its creation may not be visible yet. An event that names an id which the API has
  // never shown may be about another record. That includes delete events, and ids that are in no list.
  const toldOf = !isNews && (state.deleteEvent !== null || context.absentFromList);
  if (!state.returned && !toldOf) {
    // The API may not show yet what an event has just named.
    const settled = (state.dirtyAt ?? Number.NEGATIVE_INFINITY) + timing.settleMs;
    if (read.beganAt < settled) return { outcome: 'first', state: { ...answered, dueAt: settled } };
    if (isNews) return { outcome: 'unresolved_event', state };
    return { outcome: state.dirty > 0 ? 'unresolved_again' : 'unresolved', state };
  }

  const { missingSince, missingNumber } = state;
  const isBroken = missingNumber === null || Math.max(state.dirty, state.write) > missingNumber;
  if (missingSince === null || isBroken) {
    const first = {
      ...answered,
      // Its end, since a witness read that began during this one may have been answered before it.
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
  const shownAlive = row !== null && row.deletedAt === null;
  const spokenFor = state.deleteEvent !== null || context.agreed === true || !shownAlive;
  const mayLack = spokenFor && context.needsWitness !== true;
  // The failed attempts stay counted, or it would be asked for again every other second.
  if (!witnessed && !mayLack) return { outcome: 'unwitnessed', state };
  if (!context.witnessedAfter && !mayLack) return { outcome: 'witnessed_before', state };
  return { outcome: 'proven', state: { ...answered, proven: true, dueAt: null } };
}

/**
 * What made a proven absence a deletion. Null: the mirror did not show it and no event reported its deletion, as with an id
 * that somebody asked for by hand, so nothing is deleted.
 */
export function causeOfDeletion({
  state,
  row,
}: {
  state: RecordState;
  row: RowContent | null;
}): 'event' | 'absence' | null {
  if (state.deleteEvent !== null) return 'event';
  return row === null || row.deletedAt !== null ? null : 'absence';
}

/** Makes a proven absence a verified tombstone; a record that already is one becomes verified. */
export function decideTombstone(
  kind: Kind,
  { state, row }: { state: RecordState; row: RowContent | null },
  now: { steady: number },
  nowIso: string,
): { state: RecordState; row: RowContent | null; change: RowChange | null } {
  const tombstone = row === null || row.deletedAt !== null ? null : contentOf(kind, row.data, nowIso);
  const change = row === null || tombstone === null ? null : diffContent(row, tombstone);
  return {
    row: change === null ? null : tombstone,
    change,
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
      // A read that began before this one ended may be older, and one from before the first 404 is.
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
 * Which of the proven absences become tombstones. `candidates` without a delivered delete event and without an
 * operator's approval go only if there are few of them; otherwise all of those wait together. `pendingAlready` counts
 * those that wait already: a list that loses its records a few at a time must not go unnoticed.
 */
export function decideDeletions(
  candidates: readonly { id: string; announced: boolean; approved: boolean }[],
  live: number,
  pendingAlready = 0,
): { deleted: string[]; pending: string[] } {
  const doubtful = candidates.filter((candidate) => !candidate.announced && !candidate.approved);
  const count = doubtful.length + pendingAlready;
  const many = count > ASK_ABOVE_COUNT && count > ASK_ABOVE_SHARE * live;
  // Even a single one waits if it is the last: a service that lost its data, or shows us none, looks like this.
  const all = count >= live && (live > 0 || count >= 2);
  const pending = new Set(many || all ? doubtful.map((candidate) => candidate.id) : []);
  return {
    deleted: candidates.filter((candidate) => !pending.has(candidate.id)).map((candidate) => candidate.id),
    pending: [...pending].sort(),
  };
}
