import type { Kind } from '../../compliance/kinds.ts';
import type { RecordState } from '../../mirror/decide.ts';
import type { RowChange, RowContent } from '../../mirror/merge.ts';
import type { Numbers, Sender, Sql, Unit } from '../database.ts';
import { drizzleModule, type SQL } from '../drizzle.ts';
import { policies, recordState, riskAssessments, vendors } from '../schema.ts';
import type { DirtyTiming, Now, ReadObject } from '../store.ts';
import { iso, sql } from './sql.ts';

const { getTableName } = drizzleModule('drizzle-orm');

/**
 * The rows and what is known of them. A verb loads all the records it is about, decides in memory, and saves them: how they
 * are loaded and saved is each engine's own, since most of what an event costs is spent there.
 */
export interface Records {
  /** Every one of `ids`, by id; those nobody knows among them. */
  load(sql: Sql, kind: Kind, ids: Iterable<string>): Promise<Map<string, LoadedRecord>>;
  /**
   * Which of these are verified, have just this document, were neither written nor read after `number`, and leave nothing else to decide:
   * all that a read can move of them is when they were read.
   */
  settled(sql: Sql, kind: Kind, objects: readonly ReadObject[], number: number): Promise<string[]>;
  /** With their lines of the feed. Those whose content was not written, with what is known of them alone. */
  save(unit: Sender, records: Iterable<LoadedRecord>, changes: readonly Change[], nowIso: string): void;
  /** Something gave reason to read these. */
  dirty(unit: Sender, dirtied: readonly Dirtied[], now: Now, timing: DirtyTiming): void;
  /**
   * What holds of the events about one, of `(after, through]`, and of no others. With `readable`, of the first so many at least
   * that are not discarded and have a body.
   */
  eventsAbout(
    sql: Sql,
    kind: Kind,
    id: string,
    which: { after: number; through: number; readable?: number },
  ): Promise<SQL>;
  /** The last event that is done, of each that has one: events that showed nothing came before their record had a row. */
  lastEvents(sql: Sql, kind: Kind, records: readonly LoadedRecord[]): Promise<Map<string, LastEvent>>;
  /** What events have shown and no read covers was shown at this instant of the steady clock. */
  showAnew(unit: Unit, steady: number): Promise<void>;
}

export interface LastEvent {
  id: string;
  createdMs: number;
}

/** A row: the record's content, and the mirror's own columns. Instants are ISO 8601 UTC text. */
export interface RecordRow extends RowContent {
  firstSeenAt: string;
  syncedAt: string;
  verifiedAt: string | null;
  lastEventId: string | null;
  lastEventAt: string | null;
  cause: string;
}

/** A record as one unit sees and changes it. */
export interface LoadedRecord {
  kind: Kind;
  id: string;
  state: RecordState;
  row: RecordRow | null;
  /** The API or an event has made it known. */
  known: boolean;
  error: string | null;
  syncRunId: number | null;
  /** Its content was written, and not only what is known of it. */
  written: boolean;
}

/** A line of the feed, to be written with the record. */
export interface Change extends RowChange {
  seq: number;
  kind: Kind;
  id: string;
  cause: string;
}

/** `number` is that of the event that gave reason to read the record, or one of its own. */
export interface Dirtied {
  kind: Kind;
  id: string;
  number: number;
}

/** The tables of the rows; they share every column but the version, which policies have. */
export const TABLE_OF = { policy: policies, risk_assessment: riskAssessments, vendor: vendors } as const;

export const tableName = (kind: Kind): string => getTableName(TABLE_OF[kind]);

/**
 * SQL on a row `r` and its `record_state` row `s`: `decideApply` would change nothing after a read that shows the row as it is.
 */
export const IS_SETTLED = `s.returned AND s.unverified_since IS NULL AND s.dirty_at IS NULL AND s.first_dirty_at IS NULL
  AND s.due_at IS NULL AND s.missing_since IS NULL AND s.missing_number IS NULL AND NOT s.proven AND s.delete_event IS NULL
  AND s.refusals = 0 AND s.attempts = 0 AND r.deleted_at IS NULL AND r.unverified_since IS NULL AND r.shown IS NULL`;

/** Of `record_state`: the row of this record. */
export const isRecord = (kind: Kind, id: string): SQL =>
  sql`${recordState.kind} = ${kind} AND ${recordState.id} = ${id}`;

export const keyOf = (kind: Kind, id: string): string => `${kind} ${id}`;

/** New content, with its change in the feed, under a number of its own. */
export function writeContent(
  held: LoadedRecord,
  content: RowContent,
  change: RowChange,
  context: { cause: string; nowIso: string; numbers: Numbers; lastEvent?: LastEvent | undefined },
): Change {
  const { cause, nowIso, numbers, lastEvent } = context;
  const seq = numbers.next();
  held.state = { ...held.state, write: seq };
  held.row = {
    ...content,
    firstSeenAt: held.row?.firstSeenAt ?? nowIso,
    syncedAt: nowIso,
    verifiedAt: held.row?.verifiedAt ?? null,
    lastEventId: held.row?.lastEventId ?? lastEvent?.id ?? null,
    lastEventAt: held.row?.lastEventAt ?? (lastEvent === undefined ? null : iso(lastEvent.createdMs)),
    cause,
  };
  held.written = true;
  return { ...change, seq, kind: held.kind, id: held.id, cause };
}

/** As JSON.stringify writes it, which is how a row keeps it. */
export const jsonOf = (object: ReadObject): string => object.json ?? JSON.stringify(object.data);
