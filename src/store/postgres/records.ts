import type { Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { type RecordState, UNKNOWN_STATE } from '../../mirror/decide.ts';
import type { Sender, Sql, Unit } from '../database.ts';
import type { SQL } from '../drizzle.ts';
import { events } from '../schema.ts';
import type { DirtyTiming, Now, ReadObject } from '../store.ts';
import {
  type Change,
  type Dirtied,
  IS_SETTLED,
  keyOf,
  type LastEvent,
  type LoadedRecord,
  type RecordRow,
  type Records,
  TABLE_OF,
} from '../units/records.ts';
import { idsOf, sql } from '../units/sql.ts';
import { asInstant, bigintArray, instantOf, keepJson, rowsOf, textArray } from './dialect.ts';

/**
 * The rows of records and their states. A verb loads all its records in one statement, decides in memory, and saves them in one
 * statement for each table, so that its cost grows little with their number.
 */

export interface StoredRecord extends LoadedRecord {
  /** Its state as the database has it. */
  stored: RecordState;
}

interface LoadedRow {
  id: string;
  known: boolean;
  dirty: number;
  dirty_at: number | null;
  first_dirty_at: number | null;
  unverified_since: string | null;
  /** Of the row where there is one, else of the state. */
  provisional_created: number | null;
  read_number: number;
  read_ended_at: number | null;
  returned: boolean;
  missing_since: number | null;
  missing_number: number | null;
  proven: boolean;
  delete_event: number | null;
  searched: number;
  refusals: number;
  attempts: number;
  due_at: number | null;
  name: string | null;
  version: string | null;
  status: string | null;
  data: JsonObject | null;
  first_seen_at: string;
  synced_at: string;
  verified_at: string | null;
  deleted_at: string | null;
  last_event_id: string | null;
  last_event_at: string | null;
  cause: string;
  change_seq: number | null;
  shown: RecordState['shown'];
}

/** All of `ids`, by id, also those that are not known. */
export async function loadRecords(
  from: Sql,
  kind: Kind,
  ids: Iterable<string>,
): Promise<Map<string, StoredRecord>> {
  const wanted = [...new Set(ids)];
  if (wanted.length === 0) return new Map();
  const rows = await from.query<LoadedRow>(
    sql`SELECT x.id, s.id IS NOT NULL AS known, s.dirty, s.dirty_at, s.first_dirty_at, s.unverified_since,
       CASE WHEN r.id IS NULL THEN s.provisional_created ELSE r.provisional_created END AS provisional_created,
       s.read_number, s.read_ended_at, s.returned, s.missing_since, s.missing_number, s.proven,
       s.delete_event, s.searched, s.refusals, s.attempts, s.due_at, r.name, ${kind === 'policy' ? sql`r.version` : sql`NULL AS version`},
       r.status, r.data, r.first_seen_at, r.synced_at, r.verified_at, r.deleted_at, r.last_event_id, r.last_event_at, r.cause, r.change_seq, r.shown
     FROM unnest(${textArray(wanted)}::text[]) AS x (id) LEFT JOIN record_state s ON s.kind = ${sql.raw(`'${kind}'`)} AND s.id = x.id
     LEFT JOIN ${TABLE_OF[kind]} r ON r.id = x.id`,
  );
  return new Map(rows.map((row) => [row.id, heldFrom(kind, row)]));
}

async function settled(
  from: Sql,
  kind: Kind,
  objects: readonly ReadObject[],
  number: number,
): Promise<string[]> {
  const shown = rowsOf(objects.map(({ id, data }) => ({ id, data: keepJson(data) })));
  return await idsOf(
    from,
    sql`SELECT r.id FROM json_to_recordset(${shown}::json) AS x (id text, data text) JOIN ${TABLE_OF[kind]} r ON r.id = x.id
     JOIN record_state s ON s.kind = ${sql.raw(`'${kind}'`)} AND s.id = r.id
     WHERE r.data = x.data::jsonb AND greatest(r.change_seq, s.read_number) <= ${number} AND ${sql.raw(IS_SETTLED)}`,
  );
}

async function lastEvents(
  from: Sql,
  kind: Kind,
  records: readonly LoadedRecord[],
): Promise<Map<string, LastEvent>> {
  const ids = records.filter(({ state }) => state.dirty > 0).map(({ id }) => id);
  if (ids.length === 0) return new Map();
  const rows = await from.query<{ record: string; id: string; createdMs: number }>(
    sql`SELECT x.id AS record, e.id, e.created_ms AS "createdMs" FROM unnest(${textArray(ids)}::text[]) AS x (id) CROSS JOIN LATERAL
       (SELECT id, created_ms FROM events WHERE record_id = x.id AND kind = ${kind} AND state = 'processed' ORDER BY seq DESC LIMIT 1) e`,
  );
  return new Map(rows.map(({ record, ...event }) => [record, event]));
}

async function eventsAbout(
  _: Sql,
  kind: Kind,
  id: string,
  { after, through }: { after: number; through: number },
): Promise<SQL> {
  const { seq, recordId } = events;
  return sql`${recordId} = ${id} AND ${events.kind} = ${kind} AND ${seq} > ${after} AND ${seq} <= ${through}`;
}

async function showAnew(unit: Unit, steady: number): Promise<void> {
  for (const table of Object.values(TABLE_OF)) {
    await unit.change(
      sql`UPDATE ${table} SET shown = (SELECT jsonb_object_agg(key, ${steady}::bigint) FROM jsonb_object_keys(shown) AS key)
       WHERE unverified_since IS NOT NULL AND shown IS NOT NULL`,
    );
  }
}

export const RECORDS: Records = {
  load: loadRecords,
  settled,
  save: saveRecords,
  dirty: markRecordsDirty,
  eventsAbout,
  lastEvents,
  showAnew,
};

/** `hasNewState` leaves out states that are unchanged. */
export function saveRecords(
  unit: Sender,
  records: Iterable<LoadedRecord>,
  changes: readonly Change[],
  nowIso: string,
  hasNewState: (held: StoredRecord) => boolean = () => true,
): void {
  const sorted = sortedBy(records, (held) => keyOf(held.kind, held.id));
  saveStates(unit, (sorted as StoredRecord[]).filter(hasNewState));
  for (const kind of new Set(sorted.map((held) => held.kind))) {
    const shown = sorted.filter((held) => held.kind === kind && held.row !== null);
    saveContent(
      unit,
      kind,
      shown.filter((held) => held.written),
    );
    saveTrust(
      unit,
      kind,
      shown.filter((held) => !held.written),
    );
  }
  saveChanges(unit, changes, nowIso);
}

function saveStates(unit: Sender, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  unit.send(
    sql`INSERT INTO record_state AS s (${STATE_NAMES})
     SELECT * FROM json_to_recordset(${rowsOf(records.map(stateRow))}::json) AS x (${STATE_TYPES})
     ON CONFLICT (kind, id) DO UPDATE SET ${STATE_UPDATES}`,
  );
}

const STATE_COLUMNS: readonly Column[] = [
  ['kind', 'text'],
  ['id', 'text'],
  ['dirty', 'bigint'],
  ['dirty_at', 'bigint'],
  ['first_dirty_at', 'bigint'],
  ['unverified_since', 'timestamptz'],
  ['provisional_created', 'bigint'],
  ['read_number', 'bigint'],
  ['read_ended_at', 'bigint'],
  ['returned', 'boolean'],
  ['missing_since', 'bigint'],
  ['missing_number', 'bigint'],
  ['proven', 'boolean'],
  ['delete_event', 'bigint'],
  ['searched', 'bigint'],
  ['refusals', 'int'],
  ['attempts', 'int'],
  ['due_at', 'bigint'],
  ['error', 'text'],
  ['sync_run_id', 'bigint'],
];

const STATE_NAMES = namesOf(STATE_COLUMNS);
const STATE_TYPES = typesOf(STATE_COLUMNS);
const STATE_UPDATES = list(
  STATE_COLUMNS.filter(([name]) => name !== 'kind' && name !== 'id').map(([name]) =>
    name === 'sync_run_id'
      ? 'sync_run_id = coalesce(excluded.sync_run_id, s.sync_run_id)'
      : `${name} = excluded.${name}`,
  ),
);

function saveContent(unit: Sender, kind: Kind, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  const { names, values, types, updates } = CONTENT[kind];
  unit.send(
    sql`INSERT INTO ${TABLE_OF[kind]} (${names})
     SELECT ${values} FROM json_to_recordset(${rowsOf(records.map(contentRow))}::json) AS x (${types})
     ON CONFLICT (id) DO UPDATE SET ${updates}`,
  );
}

type Column = readonly [name: string, type: string, cast?: string];

function list(parts: readonly string[]): SQL {
  return sql.raw(parts.join(', '));
}
function namesOf(columns: readonly Column[]): SQL {
  return list(columns.map(([name]) => name));
}
function typesOf(columns: readonly Column[]): SQL {
  return list(columns.map(([name, type]) => `${name} ${type}`));
}

function contentColumns(kind: Kind): Column[] {
  return [
    ['id', 'text'],
    ['name', 'text'],
    ...(kind === 'policy' ? ([['version', 'text']] as const) : []),
    ['status', 'text'],
    ['data', 'text', '::jsonb'],
    ...['first_seen_at', 'synced_at', 'verified_at', 'unverified_since', 'deleted_at', 'last_event_at'].map(
      (name) => [name, 'timestamptz'] as const,
    ),
    ['last_event_id', 'text'],
    ['cause', 'text'],
    ['change_seq', 'bigint'],
    ['provisional_created', 'bigint'],
    ['shown', 'text', '::jsonb'],
  ];
}

/** Written once, and not for every batch. */
const CONTENT = {
  policy: contentOf('policy'),
  risk_assessment: contentOf('risk_assessment'),
  vendor: contentOf('vendor'),
};

function contentOf(kind: Kind) {
  const columns = contentColumns(kind);
  const updated = columns.filter(([name]) => name !== 'id' && name !== 'first_seen_at');
  return {
    names: namesOf(columns),
    values: list(columns.map(([name, , cast]) => `${name}${cast ?? ''}`)),
    types: typesOf(columns),
    updates: list(updated.map(([name]) => `${name} = excluded.${name}`)),
  };
}

/** After a read that changed nothing, and after an event that shows nothing new. */
function saveTrust(unit: Sender, kind: Kind, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  const rows = records.map((held) => ({
    id: held.id,
    verified_at: held.row?.verifiedAt ?? null,
    unverified_since: instantOrNull(held.state.unverifiedSince),
    last_event_id: held.row?.lastEventId ?? null,
    last_event_at: stored(held.row?.lastEventAt),
    provisional_created: held.state.provisionalCreated,
    shown: shownText(held.state.shown),
  }));
  unit.send(
    sql`UPDATE ${TABLE_OF[kind]} AS r SET verified_at = x.verified_at, unverified_since = x.unverified_since,
       last_event_id = x.last_event_id, last_event_at = x.last_event_at, provisional_created = x.provisional_created,
       shown = x.shown::jsonb
     FROM json_to_recordset(${rowsOf(rows)}::json) AS x (id text, verified_at timestamptz, unverified_since timestamptz,
       last_event_id text, last_event_at timestamptz, provisional_created bigint, shown text) WHERE r.id = x.id`,
  );
}

function saveChanges(unit: Sender, changes: readonly Change[], nowIso: string): void {
  if (changes.length === 0) return;
  const rows = changes.map(({ seq, kind, id, operation, before, after, cause }) => ({
    ...{ seq, kind, id, operation, cause },
    before: keepJson(before),
    after: keepJson(after),
  }));
  unit.send(
    sql`INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at)
     SELECT seq, kind, id, operation, before::jsonb, after::jsonb, cause, ${nowIso}::timestamptz FROM json_to_recordset(${rowsOf(rows)}::json)
       AS x (seq bigint, kind text, id text, operation text, before text, after text, cause text)`,
  );
}

/**
 * Later dirty marks leave `due_at` where the first one put it, so that a hot record does not move through its index at every
 * event; `dueRecords` puts it off when it comes to it.
 */
function markRecordsDirty(unit: Sender, dirtied: readonly Dirtied[], now: Now, timing: DirtyTiming): void {
  if (dirtied.length === 0) return;
  unit.send(
    sql`SELECT mark_dirty(${dirtyColumns(dirtied)}, 0, ${now.steady}, ${now.steady + timing.settleMs}, ${instantOf(now.wall)})`,
  );
}

/** The first parameters of `mark_dirty`: kinds, ids and numbers, the latest of each record, in the order in which they are written. */
export function dirtyColumns(dirtied: readonly Dirtied[]): SQL {
  const latest = latestDirty(dirtied);
  return sql`${textArray(latest.map((dirty) => dirty.kind))}, ${textArray(latest.map((dirty) => dirty.id))},
    ${bigintArray(latest.map((dirty) => dirty.number))}`;
}

function latestDirty(dirtied: readonly Dirtied[]): Dirtied[] {
  const latest = new Map<string, Dirtied>();
  for (const dirty of dirtied) {
    const key = keyOf(dirty.kind, dirty.id);
    if ((latest.get(key)?.number ?? 0) < dirty.number) latest.set(key, dirty);
  }
  return sortedBy(latest.values(), (dirty) => keyOf(dirty.kind, dirty.id));
}

function heldFrom(kind: Kind, row: LoadedRow): StoredRecord {
  const state = row.known ? stateFrom(row) : { ...UNKNOWN_STATE };
  return {
    kind,
    id: row.id,
    known: row.known,
    state,
    row: row.data === null ? null : rowFrom(row, row.data),
    error: null,
    syncRunId: null,
    written: false,
    stored: state,
  };
}

function stateFrom(row: LoadedRow): RecordState {
  return {
    dirty: row.dirty,
    dirtyAt: row.dirty_at,
    firstDirtyAt: row.first_dirty_at,
    unverifiedSince: row.unverified_since === null ? null : Date.parse(row.unverified_since),
    write: row.change_seq ?? 0,
    provisionalCreated: row.provisional_created,
    shown: row.shown,
    readNumber: row.read_number,
    readEndedAt: row.read_ended_at,
    returned: row.returned,
    missingSince: row.missing_since,
    missingNumber: row.missing_number,
    proven: row.proven,
    deleteEvent: row.delete_event,
    searched: row.searched,
    refusals: row.refusals,
    attempts: row.attempts,
    dueAt: row.due_at,
  };
}

function rowFrom(row: LoadedRow, data: JsonObject): RecordRow {
  return {
    name: row.name,
    version: row.version,
    status: row.status,
    data,
    deletedAt: row.deleted_at,
    firstSeenAt: row.first_seen_at,
    syncedAt: row.synced_at,
    verifiedAt: row.verified_at,
    lastEventId: row.last_event_id,
    lastEventAt: row.last_event_at,
    cause: row.cause,
  };
}

function stateRow({ kind, id, state, error, syncRunId }: LoadedRecord) {
  return {
    kind,
    id,
    dirty: state.dirty,
    dirty_at: whole(state.dirtyAt),
    first_dirty_at: whole(state.firstDirtyAt),
    unverified_since: instantOrNull(state.unverifiedSince),
    provisional_created: state.provisionalCreated,
    read_number: state.readNumber,
    read_ended_at: whole(state.readEndedAt),
    returned: state.returned,
    missing_since: whole(state.missingSince),
    missing_number: state.missingNumber,
    proven: state.proven,
    delete_event: state.deleteEvent,
    searched: state.searched,
    refusals: state.refusals,
    attempts: state.attempts,
    due_at: whole(state.dueAt),
    error,
    sync_run_id: syncRunId,
  };
}

function contentRow({ id, row, state }: LoadedRecord) {
  return {
    id,
    name: row?.name ?? null,
    version: row?.version ?? null,
    status: row?.status ?? null,
    data: keepJson(row?.data),
    first_seen_at: row?.firstSeenAt,
    synced_at: row?.syncedAt,
    verified_at: row?.verifiedAt ?? null,
    unverified_since: instantOrNull(state.unverifiedSince),
    deleted_at: row?.deletedAt ?? null,
    last_event_at: stored(row?.lastEventAt),
    last_event_id: row?.lastEventId ?? null,
    cause: row?.cause,
    change_seq: state.write,
    provisional_created: state.provisionalCreated,
    shown: shownText(state.shown),
  };
}

/** Only the sender's instants may be in any year. */
const stored = (iso: string | null | undefined) => (iso == null ? null : asInstant(iso));
const shownText = (shown: RecordState['shown']) => (shown === null ? null : keepJson(shown));
const instantOrNull = (wall: number | null) => (wall === null ? null : instantOf(wall));
/** The columns hold whole milliseconds; clocks give fractions. */
const whole = (ms: number | null) => (ms === null ? null : Math.round(ms));

/** In the order of their keys, in which every transaction writes them. */
function sortedBy<T>(items: Iterable<T>, keyOf: (item: T) => string): T[] {
  return [...items]
    .map((item) => [keyOf(item), item] as const)
    .sort(byKey)
    .map(([, item]) => item);
}

const byKey = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]) =>
  a < b ? -1 : a > b ? 1 : 0;
