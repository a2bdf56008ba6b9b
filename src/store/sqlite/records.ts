import type { Kind } from '../../compliance/kinds.ts';
import type { IdPointers } from '../../compliance/pointers.ts';
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
  type LoadedRecord,
  quoted,
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
    `INSERT INTO changes (seq, kind, record_id, operation, before, after, name, version, status, data, cause, cause_id, at)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
  );
  const endVersion = db.prepare('UPDATE changes SET valid_to = ? WHERE seq = ?');
  const tables = byKind((kind) => tableStatements(db, kind));

  function addChange(change: Change, nowIso: string): void {
    const { seq, previous, kind, id, operation, cause, causeId } = change;
    const { name, version, status } = change.is;
    const [before, after, data] = [change.before, change.after, change.is.data].map((json) =>
      JSON.stringify(json),
    );
    insertChange.run(
      ...[seq, kind, id, operation, before, after, name, version, status, data, cause, causeId, nowIso],
    );
    if (previous > 0) endVersion.run(nowIso, previous);
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
    if (markDirtyAgain.run(number, now.steady, kind, id, dueAt).changes === 1) return;
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

  function saveRow(record: LoadedRecord): void {
    if (record.row === null) return;
    const { row, state, stored } = record;
    const kept = stored?.unverifiedSince === state.unverifiedSince ? record.storedRow?.unverifiedSince : null;
    const since = state.unverifiedSince === null ? null : (kept ?? iso(state.unverifiedSince));
    tables[record.kind].save(record.id, row, state, since, record.storedRow);
  }

  /** Saves only the columns that a read sets when it has changed nothing. */
  function saveVerification({ kind, id, row, state }: LoadedRecord): void {
    if (row === null) return;
    const since = state.unverifiedSince === null ? null : iso(state.unverifiedSince);
    tables[kind].saveVerification.run(row.verifiedAt, since, shownText(state.shown), id);
  }

  const records: Records = {
    async settled(_sql, kind, objects, number, pointers) {
      const shown = new Map(objects.map(({ id, json }) => [id, json]));
      const rows = tables[kind].settled(pointers).all(JSON.stringify([...shown.keys()]), kind, number) as [
        string,
        string,
      ][];
      return rows.flatMap(([id, data]) => (data === shown.get(id) ? [id] : []));
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
      saveProvisional(_unit, touched, changes, nowIso) {
        for (const record of touched) {
          if (hasNewState(record)) saveOne(record);
          saveRow(record);
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
    ...(hasVersion ? ['version'] : []), 'status', 'data', 'synced_at', 'verified_at', 'last_event_id', 'last_event_at', 'cause', 'cause_id',
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
  let settled: { by: string; statement: { all(...params: unknown[]): unknown[] } } | null = null;
  return {
    // Compares all documents in one statement, as texts: to read and parse them one by one was half the cost of a full sync.
    settled(pointers: IdPointers) {
      const by = columnsMatchData(kind, pointers, textAt);
      if (settled?.by !== by) {
        const statement = db.prepare(
          `SELECT r.id, r.data FROM ${table} r CROSS JOIN record_state s WHERE r.id IN (SELECT value FROM json_each(?))
           AND s.kind = ? AND s.id = r.id AND max(r.change_seq, s.read_number) <= ? AND ${IS_SETTLED} AND ${by}`,
        );
        settled = { by, statement: statement.raw() };
      }
      return settled.statement;
    },
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
    ): void {
      // biome-ignore format: in the order of `content`
      const values = [
        ...(hasVersion ? [row.version] : []), row.status, JSON.stringify(row.data), row.syncedAt, row.verifiedAt, row.lastEventId, row.lastEventAt, row.cause,
        row.causeId, write, provisionalCreated, shownText(shown),
      ];
      // An UPDATE that names an indexed column rewrites its index, even if the value is the same.
      const sameKeys =
        stored?.name === row.name &&
        stored.deletedAt === row.deletedAt &&
        stored.unverifiedSince === unverifiedSince;
      if (sameKeys) saveContent.run(...values, id);
      else save.run(id, row.firstSeenAt, row.name, unverifiedSince, row.deletedAt, ...values);
    },
  };
}

/** The text at a path of a row's document, or the whole number where one counts. */
function textAt(path: readonly string[], isNumber: boolean): string {
  const at = quoted(`$${path.map((step) => `."${step}"`).join('')}`);
  const number = isNumber ? ` WHEN 'integer' THEN CAST(r.data ->> ${at} AS TEXT)` : '';
  return `CASE json_type(r.data, ${at}) WHEN 'text' THEN r.data ->> ${at}${number} END`;
}

const shownText = (shown: RecordState['shown']) => (shown === null ? null : JSON.stringify(shown));
