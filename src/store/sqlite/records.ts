import type { Kind } from '../../compliance/kinds.ts';
import { DUE_ASKED, type RecordState } from '../../mirror/decide.ts';
import { recordState } from '../schema.ts';
import type { DirtyTiming, Now } from '../store.ts';
import type { Engine } from '../units/processing.ts';
import {
  byKind,
  type Change,
  columnsMatchData,
  hasNewState,
  IS_SETTLED,
  keyOf,
  type LoadedRecord,
  loadRecords,
  type RecordRow,
  type Records,
  STATE_FIELDS,
  tableName,
} from '../units/records.ts';
import { iso } from '../units/sql.ts';
import type { Connection } from './connection.ts';

const STATE_COLUMNS = STATE_FIELDS.map((field) => recordState[field].name);

/** How SQLite loads and saves records: their rows, states and changes. */
export function createRecords(db: Connection) {
  const saveState = db.prepare(
    `INSERT INTO record_state (kind, id, ${STATE_COLUMNS.join(', ')}, error, sync_run_id)
     VALUES (${'?, '.repeat(STATE_COLUMNS.length)}?, ?, ?, ?)
     ON CONFLICT (kind, id) DO UPDATE SET ${STATE_COLUMNS.map((name) => `${name} = excluded.${name}`).join(', ')},
       error = excluded.error, sync_run_id = coalesce(max(excluded.sync_run_id, sync_run_id), excluded.sync_run_id, sync_run_id)`,
  );
  // Does the same as the statement below for a record that is dirty already, in less than half the time.
  const markDirtyAgain = db.prepare(
    `UPDATE record_state SET dirty = ?, dirty_at = max(dirty_at, ?) WHERE kind = ? AND id = ? AND unverified_since IS NOT NULL
       AND first_dirty_at IS NOT NULL AND due_at > ${DUE_ASKED} AND due_at <= ? AND missing_since IS NULL AND missing_number IS NULL AND proven = 0`,
  );
  // `dirty_at` is the latest of all events that no read covers. Later dirty marks do not change `due_at`, so that a busy record does
  // not move in its index at every event: `dueRecords` puts the record off later.
  const dirty = db
    .prepare(
      `INSERT INTO record_state (kind, id, dirty, dirty_at, first_dirty_at, unverified_since, due_at)
       VALUES (?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (kind, id) DO UPDATE SET dirty = excluded.dirty,
         dirty_at = max(coalesce(dirty_at, excluded.dirty_at), excluded.dirty_at),
         first_dirty_at = coalesce(first_dirty_at, excluded.first_dirty_at),
         unverified_since = coalesce(unverified_since, excluded.unverified_since),
         due_at = min(iif(due_at > ${DUE_ASKED}, due_at, excluded.due_at), excluded.due_at),
         missing_since = NULL, missing_number = NULL, proven = 0
       RETURNING unverified_since`,
    )
    .pluck();
  const insertChange = db.prepare(
    'INSERT INTO changes (seq, kind, record_id, operation, before, after, cause, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  );
  const tables = byKind((kind) => tableStatements(db, kind));

  const busy = createBusyRecords(db);

  function addChange(change: Change, nowIso: string): void {
    const { seq, kind, id, operation, before, after, cause } = change;
    insertChange.run(seq, kind, id, operation, JSON.stringify(before), JSON.stringify(after), cause, nowIso);
  }

  /** `number`: of the event that is the reason to read the record, or a new one. */
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
    if (since === nowIso) tables[kind].markUnverified.run(nowIso, id);
  }

  function saveOne({ kind, id, state, error, syncRunId }: LoadedRecord): void {
    const values = STATE_FIELDS.map((field) => {
      const value = state[field];
      if (typeof value === 'boolean') return Number(value);
      return field === 'unverifiedSince' && value !== null ? iso(value) : value;
    });
    saveState.run(kind, id, ...values, error, syncRunId);
  }

  /** Returns the length of its document, in characters. */
  function saveRow(record: LoadedRecord): number {
    if (record.row === null) return 0;
    const { row, state, stored } = record;
    const kept = stored?.unverifiedSince === state.unverifiedSince ? record.storedRow?.unverifiedSince : null;
    const since = state.unverifiedSince === null ? null : (kept ?? iso(state.unverifiedSince));
    const characters = tables[record.kind].save(record.id, row, state, since, record.storedRow);
    record.storedRow = { name: row.name, deletedAt: row.deletedAt, unverifiedSince: since };
    return characters;
  }

  /** Saves only the columns that a read sets when it has changed nothing. */
  function saveVerification({ kind, id, row, state }: LoadedRecord): void {
    if (row === null) return;
    const since = state.unverifiedSince === null ? null : iso(state.unverifiedSince);
    tables[kind].saveVerification.run(row.verifiedAt, since, shownText(state.shown), id);
  }

  const records: Records = {
    async settled(_sql, kind, objects, number) {
      const shown = new Map(objects.map((object) => [object.id, object]));
      const rows = tables[kind].settled.all(JSON.stringify([...shown.keys()]), kind, number) as [
        string,
        string,
      ][];
      return rows.flatMap(([id, data]) => {
        const object = shown.get(id)!;
        return data === (object.json ?? JSON.stringify(object.data)) ? [id] : [];
      });
    },
    save(_unit, records, changes, nowIso) {
      for (const record of records) {
        saveOne(record);
        if (record.written) saveRow(record);
        else saveVerification(record);
      }
      for (const change of changes) addChange(change, nowIso);
    },
    dirty(_unit, dirtied, now, timing) {
      for (const { kind, id, number } of dirtied) markOneDirty(kind, id, number, now, iso(now.wall), timing);
    },
  };

  return {
    dirty: markOneDirty,
    engine: {
      records,
      async recall(to, kind, ids) {
        busy.check();
        const recalled = new Map<string, LoadedRecord>();
        const others: string[] = [];
        for (const id of ids) {
          const kept = busy.get(kind, id);
          if (kept === undefined) others.push(id);
          else recalled.set(id, kept);
        }
        for (const record of (await loadRecords(to, kind, others)).values()) recalled.set(record.id, record);
        return recalled;
      },
      forgetRecords: busy.clear,
      saveProvisional(_unit, touched, changes, nowIso) {
        for (const record of touched) {
          if (hasNewState(record)) saveOne(record);
          busy.keep(record, saveRow(record));
        }
        for (const change of changes) addChange(change, nowIso);
      },
    } satisfies Partial<Engine>,
  };
}

function tableStatements(db: Connection, kind: Kind) {
  const table = tableName(kind);
  const hasVersion = kind === 'policy';
  const indexed = ['name', 'unverified_since', 'deleted_at'];
  // biome-ignore format: names side by side
  const content = [
    ...(hasVersion ? ['version'] : []), 'status', 'data', 'synced_at', 'verified_at', 'last_event_id', 'last_event_at', 'cause',
    'change_seq', 'provisional_created', 'shown',
  ];
  const columns = ['id', 'first_seen_at', ...indexed, ...content];
  const updates = [...indexed, ...content].map((column) => `${column} = excluded.${column}`);
  const save = db.prepare(
    `INSERT INTO ${table} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})
     ON CONFLICT (id) DO UPDATE SET ${updates.join(', ')}`,
  );
  const saveContent = db.prepare(
    `UPDATE ${table} SET ${content.map((column) => `${column} = ?`).join(', ')} WHERE id = ?`,
  );
  return {
    // Compares all documents in one statement, as texts: to read and parse them one by one was half the cost of a full sync.
    settled: db
      .prepare(
        `SELECT r.id, r.data FROM ${table} r CROSS JOIN record_state s WHERE r.id IN (SELECT value FROM json_each(?))
         AND s.kind = ? AND s.id = r.id AND max(r.change_seq, s.read_number) <= ? AND ${IS_SETTLED}
         AND ${columnsMatchData(kind, (column) => `CASE json_type(r.data, '$.${column}') WHEN 'text' THEN r.data ->> '${column}' END`)}`,
      )
      .raw(),
    markUnverified: db.prepare(
      `UPDATE ${table} SET unverified_since = ? WHERE id = ? AND unverified_since IS NULL`,
    ),
    saveVerification: db.prepare(
      `UPDATE ${table} SET verified_at = ?, unverified_since = ?, shown = ? WHERE id = ?`,
    ),
    save(
      id: string,
      row: RecordRow,
      { write, provisionalCreated, shown }: RecordState,
      unverifiedSince: string | null,
      stored: LoadedRecord['storedRow'],
    ): number {
      const data = JSON.stringify(row.data);
      // biome-ignore format: in the order of `content`
      const values = [
        ...(hasVersion ? [row.version] : []), row.status, data, row.syncedAt, row.verifiedAt, row.lastEventId, row.lastEventAt, row.cause,
        write, provisionalCreated, shownText(shown),
      ];
      // An UPDATE that names an indexed column rewrites its index, even if the value is the same.
      const sameKeys =
        stored?.name === row.name &&
        stored.deletedAt === row.deletedAt &&
        stored.unverifiedSince === unverifiedSince;
      if (sameKeys) saveContent.run(...values, id);
      else save.run(id, row.firstSeenAt, row.name, unverifiedSince, row.deletedAt, ...values);
      return data.length;
    },
  };
}

const shownText = (shown: RecordState['shown']) => (shown === null ? null : JSON.stringify(shown));

export const RECORDS_KEPT = 2_048;

/** A larger document is read again each time, so that all of them together take only some megabytes. */
const LARGEST_DOCUMENT_CHARACTERS = 8_192;

/**
 * Records as the last events of this process left them. To read a record again for its next event, and to parse its document, was a
 * quarter of what an event costs. The records are dropped when anything else writes: before every verb that writes records, except
 * the inbox's, after a failed transaction, and when SQLite's `data_version` shows that another program has committed.
 */
export function createBusyRecords(db: Connection) {
  const kept = new Map<string, LoadedRecord>();
  const dataVersion = db.prepare('PRAGMA data_version').pluck();
  let version: unknown = null;

  return {
    /** Called at the start of a transaction that uses it. */
    check(): void {
      const now = dataVersion.get();
      if (now !== version) kept.clear();
      version = now;
    },
    get: (kind: Kind, id: string): LoadedRecord | undefined => kept.get(keyOf(kind, id)),
    /** Called after the record is saved, with the length of its document in characters. */
    keep(record: LoadedRecord, characters: number): void {
      const key = keyOf(record.kind, record.id);
      if (characters > LARGEST_DOCUMENT_CHARACTERS) {
        kept.delete(key);
        return;
      }
      if (kept.size >= RECORDS_KEPT && !kept.has(key)) kept.delete(kept.keys().next().value!);
      record.stored = record.state;
      kept.set(key, record);
    },
    /** Called after a dirty mark that changed only these two fields. */
    markedDirty(kind: Kind, id: string, number: number, at: number): void {
      const record = kept.get(keyOf(kind, id));
      if (record === undefined) return;
      record.state = { ...record.state, dirty: number, dirtyAt: Math.max(record.state.dirtyAt ?? at, at) };
      record.stored = record.state;
    },
    drop: (kind: Kind, id: string): void => void kept.delete(keyOf(kind, id)),
    clear: (): void => kept.clear(),
  };
}
