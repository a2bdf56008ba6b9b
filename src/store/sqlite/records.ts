import { parseJson } from '../../compliance/json.ts';
import { KINDS, type Kind } from '../../compliance/kinds.ts';
import type { JsonObject } from '../../compliance/pointers.ts';
import { type RecordState, UNKNOWN_STATE } from '../../mirror/decide.ts';
import { events } from '../schema.ts';
import type { DirtyTiming, Now } from '../store.ts';
import {
  type Change,
  IS_SETTLED,
  jsonOf,
  type LastEvent,
  type LoadedRecord,
  type RecordRow,
  type Records,
  tableName,
} from '../units/records.ts';
import { iso } from '../units/sql.ts';
import { createBusyRecords, type StoredKeys, type StoredRecord, type TableRow } from './busy-records.ts';
import type { Connection } from './connection.ts';
import { createBlockSearch } from './database.ts';

/** The rows of records and their states: the statements that several verbs share. */

/** Above any number of events, and of rows. */
const ALL = 2 ** 52;

interface StateRow {
  dirty: number;
  dirty_at: number | null;
  first_dirty_at: number | null;
  unverified_since: string | null;
  provisional_created: number | null;
  read_number: number;
  read_ended_at: number | null;
  returned: number;
  missing_since: number | null;
  missing_number: number | null;
  proven: number;
  delete_event: number | null;
  searched: number;
  refusals: number;
  attempts: number;
  due_at: number | null;
}

const STATE_COLUMNS =
  'dirty, dirty_at, first_dirty_at, unverified_since, provisional_created, read_number, read_ended_at, returned, ' +
  'missing_since, missing_number, proven, delete_event, searched, refusals, attempts, due_at';

export type SqliteRecords = ReturnType<typeof createRecords>;

export function createRecords(db: Connection) {
  const selectState = db.prepare(`SELECT ${STATE_COLUMNS} FROM record_state WHERE kind = ? AND id = ?`);
  const saveState = db.prepare(
    `INSERT INTO record_state (kind, id, ${STATE_COLUMNS}, error, sync_run_id)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (kind, id) DO UPDATE SET dirty = excluded.dirty, dirty_at = excluded.dirty_at,
       first_dirty_at = excluded.first_dirty_at, unverified_since = excluded.unverified_since,
       provisional_created = excluded.provisional_created, read_number = excluded.read_number,
       read_ended_at = excluded.read_ended_at, returned = excluded.returned, missing_since = excluded.missing_since,
       missing_number = excluded.missing_number, proven = excluded.proven, delete_event = excluded.delete_event,
       searched = excluded.searched, refusals = excluded.refusals, attempts = excluded.attempts, due_at = excluded.due_at, error = excluded.error,
       sync_run_id = coalesce(excluded.sync_run_id, sync_run_id)`,
  );
  // The same as the full statement below for a record that is dirty already, in less than half the time.
  const markDirtyAgain = db.prepare(
    `UPDATE record_state SET dirty = ?, dirty_at = max(dirty_at, ?) WHERE kind = ? AND id = ? AND unverified_since IS NOT NULL
       AND first_dirty_at IS NOT NULL AND due_at <= ? AND missing_since IS NULL AND missing_number IS NULL AND proven = 0`,
  );
  // `dirty_at` is the latest of all events that no read covers, in whatever order their transactions commit.
  // Later dirty marks leave `due_at` where the first one put it, so that a hot record does not move through its index at
  // every event; `dueRecords` puts it off when it comes to it.
  const dirty = db
    .prepare(
      `INSERT INTO record_state (kind, id, dirty, dirty_at, first_dirty_at, unverified_since, due_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (kind, id) DO UPDATE SET dirty = excluded.dirty,
         dirty_at = max(coalesce(dirty_at, excluded.dirty_at), excluded.dirty_at),
         first_dirty_at = coalesce(first_dirty_at, excluded.first_dirty_at),
         unverified_since = coalesce(unverified_since, excluded.unverified_since),
         due_at = min(coalesce(due_at, excluded.due_at), excluded.due_at),
         missing_since = NULL, missing_number = NULL, proven = 0
       RETURNING unverified_since`,
    )
    .pluck();
  const insertChange = db.prepare(
    'INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  );
  const eventSearch = (condition: string, order: 'ASC' | 'DESC') =>
    createBlockSearch(db, {
      ...{ table: 'events', index: 'events_record', order },
      match: `t.record_id = ? AND t.kind = ?${condition}`,
    });
  const anyEventOf = eventSearch('', 'DESC');
  const readableEventsOf = eventSearch(" AND t.state <> 'discarded' AND t.body IS NOT NULL", 'ASC');
  const processedEventsOf = eventSearch(" AND t.state = 'processed'", 'DESC');
  const showAnew = KINDS.map((kind) =>
    db.prepare(
      `UPDATE ${tableName(kind)} SET shown = (SELECT json_group_object(key, ?) FROM json_each(shown))
       WHERE unverified_since IS NOT NULL AND shown IS NOT NULL`,
    ),
  );
  const eventAt = db.prepare('SELECT id, created_ms AS createdMs FROM events WHERE seq = ?');

  /** The last processed event about it; a record that no event has marked dirty has none. */
  function lastEventOf({ kind, id, state }: LoadedRecord): LastEvent | undefined {
    if (state.dirty === 0) return undefined;
    const [seq] = processedEventsOf([id, kind], state.dirty + 1, 1);
    return seq === undefined ? undefined : (eventAt.get(seq) as LastEvent);
  }
  const byKind = Object.fromEntries(KINDS.map((kind) => [kind, tableStatements(db, kind)])) as Record<
    Kind,
    ReturnType<typeof tableStatements>
  >;

  const busy = createBusyRecords(db);

  function load(kind: Kind, id: string): StoredRecord {
    const stateRow = selectState.get(kind, id) as StateRow | undefined;
    const row = byKind[kind].select.get(id) as TableRow | undefined;
    const state = stateRow === undefined ? null : stateFrom(stateRow, row);
    return {
      kind,
      id,
      state: state ?? { ...UNKNOWN_STATE },
      row: row === undefined ? null : rowFrom(row),
      known: state !== null,
      ...{ error: null, syncRunId: null, written: false },
      stored: { state, row: row ?? null },
    };
  }

  function addChange(change: Change, nowIso: string): void {
    const { seq, kind, id, operation, before, after, cause } = change;
    insertChange.run(seq, kind, id, operation, JSON.stringify(before), JSON.stringify(after), cause, nowIso);
  }

  /** There is a reason to read the record: the event with this number, if an event. */
  function markOneDirty(
    kind: Kind,
    id: string,
    number: number,
    now: Now,
    nowIso: string,
    timing: DirtyTiming,
  ): void {
    const dueAt = now.steady + timing.settleMs;
    if (markDirtyAgain.run(number, now.steady, kind, id, dueAt).changes === 1) {
      busy.markedDirty(kind, id, number, now.steady);
      return;
    }
    busy.drop(kind, id);
    const since = dirty.get(kind, id, number, now.steady, now.steady, nowIso, dueAt);
    if (since === nowIso) byKind[kind].markUnverified.run(nowIso, id);
  }

  function saveOne({ kind, id, state: s, error, syncRunId }: LoadedRecord): void {
    saveState.run(
      kind,
      id,
      s.dirty,
      s.dirtyAt,
      s.firstDirtyAt,
      s.unverifiedSince === null ? null : iso(s.unverifiedSince),
      s.provisionalCreated,
      s.readNumber,
      s.readEndedAt,
      s.returned ? 1 : 0,
      s.missingSince,
      s.missingNumber,
      s.proven ? 1 : 0,
      s.deleteEvent,
      s.searched,
      s.refusals,
      s.attempts,
      s.dueAt,
      error,
      syncRunId,
    );
  }

  /** Returns the length of its document, in characters. */
  function saveRow(held: StoredRecord): number {
    if (held.row === null) return 0;
    const { row, state, stored } = held;
    const kept =
      stored.state?.unverifiedSince === state.unverifiedSince ? stored.row?.unverified_since : null;
    const since = state.unverifiedSince === null ? null : (kept ?? iso(state.unverifiedSince));
    const characters = byKind[held.kind].save(held.id, row, state, since, stored.row);
    stored.row = { name: row.name, deleted_at: row.deletedAt, unverified_since: since };
    return characters;
  }

  /** The bookkeeping columns alone: what a read that changed nothing leaves behind. */
  function saveTrust({ kind, id, row, state }: LoadedRecord): void {
    if (row === null) return;
    const since = state.unverifiedSince;
    byKind[kind].trust.run(row.verifiedAt, since === null ? null : iso(since), shownText(state.shown), id);
  }

  const shared: Records = {
    load: async (_sql, kind, ids) => new Map([...new Set(ids)].map((id) => [id, load(kind, id)])),
    async settled(_sql, kind, objects, number) {
      const shown = new Map(objects.map((object) => [object.id, object]));
      const rows = byKind[kind].settled.all(JSON.stringify([...shown.keys()]), kind, number) as [
        string,
        string,
      ][];
      return rows.filter(([id, data]) => data === jsonOf(shown.get(id)!)).map(([id]) => id);
    },
    save(_unit, records, changes, nowIso) {
      for (const held of records as Iterable<StoredRecord>) {
        saveOne(held);
        if (held.written) saveRow(held);
        else saveTrust(held);
      }
      for (const change of changes) addChange(change, nowIso);
    },
    dirty(_unit, dirtied, now, timing) {
      for (const { kind, id, number } of dirtied) markOneDirty(kind, id, number, now, iso(now.wall), timing);
    },
    async eventsAbout({ dialect }, kind, id, { after, through, readable }) {
      if (readable === undefined)
        return dialect.isAmong(events.seq, anyEventOf([id, kind], through + 1, ALL, after));
      return dialect.isAmong(events.seq, readableEventsOf([id, kind], after, readable, through + 1));
    },
    async lastEvents(_sql, _kind, records) {
      const found = records.map((held) => [held.id, lastEventOf(held)] as const);
      return new Map(found.filter((pair): pair is [string, LastEvent] => pair[1] !== undefined));
    },
    async showAnew(_unit, steady) {
      for (const statement of showAnew) statement.run(steady);
    },
  };

  return {
    load,
    busy,
    /** For the verbs that are written once for both engines. */
    shared,
    dirty: markOneDirty,

    /** As `load`, but from memory where the last event of the record has left it there. */
    recall(kind: Kind, id: string): StoredRecord {
      return busy.get(kind, id) ?? load(kind, id);
    },

    addChange,
    saveState: saveOne,
    saveRow,
  };
}

function tableStatements(db: Connection, kind: Kind) {
  const table = tableName(kind);
  const version = kind === 'policy' ? 'version' : null;
  const columns = ['id', 'name', version, 'status', 'data', 'first_seen_at', 'synced_at', 'verified_at']
    .concat(['unverified_since', 'deleted_at', 'last_event_id', 'last_event_at', 'cause'])
    .concat(['change_seq', 'provisional_created', 'shown'])
    .filter((column) => column !== null);
  const updates = columns
    .filter((column) => column !== 'id' && column !== 'first_seen_at')
    .map((column) => `${column} = excluded.${column}`);
  const save = db.prepare(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
     ON CONFLICT (id) DO UPDATE SET ${updates.join(', ')}`,
  );
  const saveContent = db.prepare(
    `UPDATE ${table} SET ${version === null ? '' : 'version = ?, '}status = ?, data = ?, synced_at = ?, verified_at = ?,
       last_event_id = ?, last_event_at = ?, cause = ?, change_seq = ?, provisional_created = ?, shown = ? WHERE id = ?`,
  );
  return {
    select: db.prepare(
      `SELECT name, ${version ?? 'NULL AS version'}, status, data, first_seen_at, synced_at, verified_at,
       unverified_since, deleted_at, last_event_id, last_event_at, cause, change_seq, provisional_created, shown
       FROM ${table} WHERE id = ?`,
    ),
    // As texts, all at once: to read and parse them one by one was half the cost of a full sync.
    settled: db
      .prepare(
        `SELECT r.id, r.data FROM ${table} r CROSS JOIN record_state s WHERE r.id IN (SELECT value FROM json_each(?))
         AND s.kind = ? AND s.id = r.id AND max(r.change_seq, s.read_number) <= ? AND ${IS_SETTLED}`,
      )
      .raw(),
    markUnverified: db.prepare(
      `UPDATE ${table} SET unverified_since = ? WHERE id = ? AND unverified_since IS NULL`,
    ),
    trust: db.prepare(`UPDATE ${table} SET verified_at = ?, unverified_since = ?, shown = ? WHERE id = ?`),
    save(
      id: string,
      row: RecordRow,
      { write, provisionalCreated, shown }: RecordState,
      unverifiedSince: string | null,
      stored: StoredKeys | null,
    ): number {
      const ofPolicies = version === null ? [] : [row.version];
      const data = JSON.stringify(row.data);
      // Naming an indexed column in an UPDATE rewrites its index, changed or not.
      const sameKeys =
        stored?.name === row.name &&
        stored.deleted_at === row.deletedAt &&
        stored.unverified_since === unverifiedSince;
      if (sameKeys) {
        saveContent.run(
          ...ofPolicies,
          ...[
            row.status,
            data,
            row.syncedAt,
            row.verifiedAt,
            row.lastEventId,
            row.lastEventAt,
            row.cause,
            write,
            provisionalCreated,
            shownText(shown),
            id,
          ],
        );
        return data.length;
      }
      save.run(
        ...[id, row.name, ...ofPolicies],
        ...[row.status, data, row.firstSeenAt, row.syncedAt, row.verifiedAt],
        ...[
          unverifiedSince,
          row.deletedAt,
          row.lastEventId,
          row.lastEventAt,
          row.cause,
          write,
          provisionalCreated,
          shownText(shown),
        ],
      );
      return data.length;
    },
  };
}

const shownText = (shown: RecordState['shown']) => (shown === null ? null : JSON.stringify(shown));

/** Where there is a row it says what was shown last, else the state does. */
function stateFrom(row: StateRow, shown: TableRow | undefined): RecordState {
  return {
    dirty: row.dirty,
    dirtyAt: row.dirty_at,
    firstDirtyAt: row.first_dirty_at,
    unverifiedSince: row.unverified_since === null ? null : Date.parse(row.unverified_since),
    write: shown?.change_seq ?? 0,
    provisionalCreated: shown === undefined ? row.provisional_created : shown.provisional_created,
    shown: shown?.shown ? (JSON.parse(shown.shown) as RecordState['shown']) : null,
    readNumber: row.read_number,
    readEndedAt: row.read_ended_at,
    returned: row.returned === 1,
    missingSince: row.missing_since,
    missingNumber: row.missing_number,
    proven: row.proven === 1,
    deleteEvent: row.delete_event,
    searched: row.searched,
    refusals: row.refusals,
    attempts: row.attempts,
    dueAt: row.due_at,
  };
}

function rowFrom(row: TableRow): RecordRow {
  return {
    name: row.name,
    version: row.version,
    status: row.status,
    data: parseJson(row.data) as JsonObject,
    deletedAt: row.deleted_at,
    firstSeenAt: row.first_seen_at,
    syncedAt: row.synced_at,
    verifiedAt: row.verified_at,
    lastEventId: row.last_event_id,
    lastEventAt: row.last_event_at,
    cause: row.cause,
  };
}
