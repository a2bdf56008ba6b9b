import type { JsonObject } from '../compliance/pointers.ts';
import type { DirtyTiming, ReadMoment } from '../store/values.ts';
import type { RowChange, RowContent } from './merge.ts';

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
   * (left out: it was not there); `between`: what events have shown of it before the newest. `wasAlive`: an event has shown the deletion.
   * Null: none.
   */
  shown: null as {
    at: Readonly<Record<string, number>>;
    was: JsonObject;
    between?: Readonly<Record<string, readonly unknown[]>>;
    wasAlive?: true;
  } | null,
  /** The counter when the last applied read began. */
  readNumber: 0,
  readEndedAt: null as number | null,
  /** When the last one of these ended that its own address answered. */
  addressReadAt: null as number | null,
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
export const LONGEST_WAIT_IN_SETTLES = 6;

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

/** What becomes of a record. */
export interface Decision {
  state: RecordState;
  /** Null: the row's content stays. */
  row: RowContent | null;
  change: RowChange | null;
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
    stored.addressReadAt === now.addressReadAt &&
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

/** The times of the last read. */
const READ_TIMES: ReadonlySet<keyof RecordState> = new Set(['readNumber', 'readEndedAt', 'addressReadAt']);

/** Whether the read changed only these in the record's state. */
export function isOnlyRead(before: RecordState, after: RecordState, read: ReadMoment): boolean {
  return (
    after.readNumber === read.number &&
    after.readEndedAt === read.endedAt &&
    (Object.keys(after) as (keyof RecordState)[]).every(
      (key) => READ_TIMES.has(key) || after[key] === before[key],
    )
  );
}
