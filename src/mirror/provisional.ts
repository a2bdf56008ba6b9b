import { DELETE_TYPES, type Kind } from '../compliance/kinds.ts';
import type { IdPointers, JsonObject } from '../compliance/pointers.ts';
import { assign, contentOf, diffContent, mergePayload, type RowChange, type RowContent } from './merge.ts';
import type { Decision, Mirrored, RecordState } from './state.ts';

/** What an event shows in the mirror until a read has confirmed it: it may not undo anything newer. Pure, as what reads show is. */

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

/** Of a field that many events change before a read covers them, the last values. */
const BETWEEN_KEPT = 8;

function noteShown(state: RecordState, change: RowChange | null): RecordState {
  const { dirtyAt, shown } = state;
  const fields = Object.keys((change?.after['data'] as JsonObject | undefined) ?? {});
  if (change?.operation === 'delete') {
    return { ...state, shown: { ...(shown ?? { at: {}, was: {} }), wasAlive: true } };
  }
  if (dirtyAt === null || fields.length === 0) return state;
  const before = (change?.before['data'] as JsonObject | undefined) ?? {};
  const at = { ...shown?.at };
  const was = { ...shown?.was };
  const between: Record<string, readonly unknown[]> = { ...shown?.between };
  for (const field of fields) {
    const isAgain = Object.hasOwn(at, field);
    if (!isAgain && Object.hasOwn(before, field)) assign(was, field, before[field]);
    if (isAgain) assign(between, field, [...(between[field] ?? []), before[field]].slice(-BETWEEN_KEPT));
    assign(at, field, dirtyAt);
  }
  const isAny = Object.keys(between).length > 0;
  return { ...state, shown: { ...shown, at, was, ...(isAny ? { between } : {}) } };
}

function noteDeletion(state: RecordState, seq: number, deletes: boolean, created: number): RecordState {
  // A delete event older than the last payload is about an earlier life of the record, whichever arrived first.
  const isOlder = state.provisionalCreated !== null && created < state.provisionalCreated;
  if (deletes) return isOlder ? state : { ...state, deleteEvent: seq };
  const relived =
    state.deleteEvent !== null && (state.provisionalCreated === null || created > state.provisionalCreated);
  return relived ? { ...state, deleteEvent: null } : state;
}
