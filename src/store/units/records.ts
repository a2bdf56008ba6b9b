import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import type { RowChange, RowContent } from '../../mirror/merge.ts';
import { type RecordState, standsInRow, UNKNOWN_STATE } from '../../mirror/state.ts';
import type { Numbers, Sql, Unit } from '../database.ts';
import { drizzleModule, events, policies, recordState, riskAssessments, vendors } from '../schema.ts';
import { fromJson, type SQL, sql } from '../statement.ts';
import type { Cause } from '../values.ts';
import { iso } from './sql.ts';

const { getTableName } = drizzleModule('drizzle-orm');

export interface LastEvent {
  id: string;
  createdMs: number;
}

/** A row: the record's content, and the mirror's own columns. Instants are ISO 8601 UTC text. */
export interface RecordRow extends RowContent, Cause {
  firstSeenAt: string;
  syncedAt: string;
  verifiedAt: string | null;
  lastEventId: string | null;
  lastEventAt: string | null;
}

/** A record in memory, as one unit sees and changes it. */
export interface LoadedRecord {
  kind: Kind;
  id: string;
  state: RecordState;
  row: RecordRow | null;
  /** The state in the database. Null: the record is not known. */
  stored: RecordState | null;
  /** The indexed columns of its row in the database. */
  storedRow: { deletedAt: string | null; unverifiedSince: string | null } | null;
  error: string | null;
  syncRunId: number | null;
  /** Its content has changed, and not only its state. */
  written: boolean;
}

/** A row of `changes`, to be saved with the record. */
export interface Change extends RowChange, Cause {
  seq: number;
  /** The record's change before this one, whose version ends with it; 0: none. */
  previous: number;
  kind: Kind;
  id: string;
  /** The whole record after it. */
  is: Pick<RowContent, 'name' | 'version' | 'status' | 'data'>;
}

/** A dirty mark. `number`: of the event that is the reason, or a new one. */
export interface Dirtied {
  kind: Kind;
  id: string;
  number: number;
}

/** The tables of records. They have the same columns, and policies also have a version. */
export const TABLE_OF = { policy: policies, risk_assessment: riskAssessments, vendor: vendors } as const;

/** What `of` makes of each kind. */
export function byKind<T>(of: (kind: Kind) => T): Record<Kind, T> {
  return { policy: of('policy'), risk_assessment: of('risk_assessment'), vendor: of('vendor') };
}

export const tableName = (kind: Kind): string => getTableName(TABLE_OF[kind]);

/** The condition for a record's row in `record_state`. */
export const isRecord = (kind: Kind, id: string): SQL =>
  sql`${recordState.kind} = ${kind} AND ${recordState.id} = ${id}`;

export const keyOf = (kind: Kind, id: string): string => `${kind} ${id}`;

/** Gives the record new content under a new number, and returns the change. */
export function writeContent(
  record: LoadedRecord,
  content: RowContent,
  change: RowChange,
  context: { cause: Cause; nowIso: string; numbers: Numbers; lastEvent?: LastEvent | undefined },
): Change {
  const { cause, nowIso, numbers, lastEvent } = context;
  const previous = record.state.write;
  const seq = numbers.next();
  record.state = { ...record.state, write: seq };
  record.row = {
    ...content,
    firstSeenAt: record.row?.firstSeenAt ?? nowIso,
    syncedAt: nowIso,
    verifiedAt: record.row?.verifiedAt ?? null,
    lastEventId: record.row?.lastEventId ?? lastEvent?.id ?? null,
    lastEventAt: record.row?.lastEventAt ?? (lastEvent === undefined ? null : iso(lastEvent.createdMs)),
    ...cause,
  };
  record.written = true;
  return { ...change, seq, previous, kind: record.kind, id: record.id, is: content, ...cause };
}

/** Notes for what refetches have changed which event made them due. */
export async function nameEvents(
  unit: Unit,
  changes: readonly Change[],
  records: ReadonlyMap<string, LoadedRecord>,
): Promise<void> {
  const due = changes.flatMap((change) => {
    const { row, stored } = records.get(change.id)!;
    if (change.cause !== 'refetch' || row === null || (stored?.unverifiedSince ?? null) === null) return [];
    return [{ change, row, number: stored!.dirty }];
  });
  if (due.length === 0) return;
  const numbers = due.map(({ number }) => number);
  const named = await unit.query<{ seq: number; id: string }>(
    sql`SELECT seq, id FROM events WHERE ${unit.dialect.isAmong(events.seq, numbers)}`,
  );
  const ids = new Map(named.map(({ seq, id }) => [seq, id]));
  for (const { change, row, number } of due) change.causeId = row.causeId = ids.get(number) ?? null;
}

/** The fields of a state that are columns of `record_state`. The others are in the record's row. */
// biome-ignore format: names side by side
export const STATE_FIELDS = [
  'dirty', 'dirtyAt', 'firstDirtyAt', 'unverifiedSince', 'provisionalCreated', 'readNumber', 'readEndedAt', 'addressReadAt', 'returned',
  'missingSince', 'missingNumber', 'proven', 'deleteEvent', 'confirmed', 'movedAt', 'earlyAt', 'refusals', 'attempts', 'dueAt',
] as const satisfies (keyof RecordState)[];

/** The columns of a row that are loaded under their own names. */
// biome-ignore format: names side by side
const ROW_FIELDS = [
  'name', 'status', 'data', 'firstSeenAt', 'syncedAt', 'verifiedAt', 'deletedAt', 'lastEventId', 'lastEventAt', 'cause', 'causeId',
  'changeSeq', 'shown',
] as const;

const loadedColumns = (kind: Kind) =>
  sql.raw(
    [
      's.id IS NOT NULL AS known, r.id IS NOT NULL AS "hasRow"',
      kind === 'policy' ? 'r.version' : 'NULL AS version',
      'r.unverified_since AS "rowSince", r.provisional_created AS "rowCreated"',
      ...STATE_FIELDS.map((field) => `s.${recordState[field].name} AS "${field}"`),
      ...ROW_FIELDS.map((field) => `r.${TABLE_OF[kind][field].name} AS "${field}"`),
    ].join(', '),
  );

/** Made once, and not for every batch. */
const LOADED_COLUMNS = byKind(loadedColumns);

type Flag = boolean | 0 | 1;

/** A row as the engines return it, with flags, instants and JSON still to be converted. */
interface StoredRow
  extends Omit<RecordState & RecordRow, 'unverifiedSince' | 'returned' | 'proven' | 'data' | 'shown'> {
  known: Flag;
  hasRow: Flag;
  unverifiedSince: string | null;
  returned: Flag;
  proven: Flag;
  rowSince: string | null;
  rowCreated: number | null;
  changeSeq: number;
  data: unknown;
  shown: unknown;
}

/** Loads all of `ids`, unknown ones included. A verb loads the records that it is about, decides in memory, and saves them. */
export async function loadRecords(
  from: Sql,
  kind: Kind,
  ids: Iterable<string>,
): Promise<Map<string, LoadedRecord>> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new Map();
  const { dialect } = from;
  const rows = await from.query<StoredRow & { id: string }>(
    sql`SELECT listed.id, ${LOADED_COLUMNS[kind]} FROM ${dialect.listed(wanted)}
      LEFT JOIN record_state s ON s.kind = ${sql.raw(`'${kind}'`)} AND s.id = listed.id
      LEFT JOIN ${TABLE_OF[kind]} r ON r.id = listed.id`,
  );
  const loaded = rows.map((stored): LoadedRecord => {
    const { id, deletedAt, rowSince: unverifiedSince } = stored;
    const state = stored.known ? stateFrom(stored) : null;
    return {
      kind,
      id,
      stored: state,
      state: state ?? { ...UNKNOWN_STATE },
      row: stored.hasRow ? rowFrom(stored) : null,
      storedRow: stored.hasRow ? { deletedAt, unverifiedSince } : null,
      error: null,
      syncRunId: null,
      written: false,
    };
  });
  return new Map(loaded.map((record) => [record.id, record]));
}

/** The row, if there is one, has the last `provisionalCreated`. Field by field, since a loop over the fields is seven times slower. */
function stateFrom(stored: StoredRow): RecordState {
  const { hasRow, unverifiedSince, shown } = stored;
  return {
    dirty: stored.dirty,
    dirtyAt: stored.dirtyAt,
    firstDirtyAt: stored.firstDirtyAt,
    unverifiedSince: unverifiedSince === null ? null : Date.parse(unverifiedSince),
    write: stored.changeSeq ?? 0,
    provisionalCreated: hasRow ? stored.rowCreated : stored.provisionalCreated,
    shown: shown === null ? null : (fromJson(shown) as RecordState['shown']),
    readNumber: stored.readNumber,
    readEndedAt: stored.readEndedAt,
    addressReadAt: stored.addressReadAt,
    returned: Boolean(stored.returned),
    missingSince: stored.missingSince,
    missingNumber: stored.missingNumber,
    proven: Boolean(stored.proven),
    deleteEvent: stored.deleteEvent,
    confirmed: stored.confirmed,
    movedAt: stored.movedAt,
    earlyAt: stored.earlyAt,
    refusals: stored.refusals,
    attempts: stored.attempts,
    dueAt: stored.dueAt,
  };
}

function rowFrom(stored: StoredRow): RecordRow {
  return {
    name: stored.name,
    version: stored.version,
    status: stored.status,
    data: fromJson(stored.data) as JsonObject,
    deletedAt: stored.deletedAt,
    firstSeenAt: stored.firstSeenAt,
    syncedAt: stored.syncedAt,
    verifiedAt: stored.verifiedAt,
    lastEventId: stored.lastEventId,
    lastEventAt: stored.lastEventAt,
    cause: stored.cause,
    causeId: stored.causeId,
  };
}

/** Usually all that an event changes in a state is in the row too. Then the state need not be saved. */
export const hasNewState = (record: LoadedRecord): boolean =>
  record.stored === null || !standsInRow(record.stored, record);
