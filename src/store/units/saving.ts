import type { Kind } from '../../compliance/kinds.ts';
import { COLUMNS, columnPaths, type IdPointers } from '../../compliance/pointers.ts';
import { DUE_ASKED } from '../../mirror/state.ts';
import type { Dialect, Sql, Unit, Writing } from '../database.ts';
import {
  changes as changeTable,
  drizzleModule,
  events as eventTable,
  recordState,
  type Table,
} from '../schema.ts';
import { sql } from '../statement.ts';
import type { DirtyTiming, Now, ReadObject } from '../values.ts';
import {
  byKind,
  type Change,
  type Dirtied,
  hasNewState,
  keyOf,
  type LoadedRecord,
  STATE_FIELDS,
  TABLE_OF,
} from './records.ts';
import { iso, update } from './sql.ts';

/** How records are written: their states, rows and changes. */

const { getTableName } = drizzleModule('drizzle-orm');

interface Declared {
  name: string;
  dataType: Writing['columns'][number]['type'];
}

function writing(table: Table, fields: readonly string[], key: string | null, conflict = ''): Writing {
  const of = table as unknown as Record<string, Declared>;
  const columns = fields.map((field) => ({ field, name: of[field]!.name, type: of[field]!.dataType }));
  return { table: getTableName(table), columns, key, conflict };
}

const inserting = (table: Table, fields: readonly string[], conflict?: string): Writing =>
  writing(table, fields, null, conflict);

const updating = (table: Table, key: string, fields: readonly string[]): Writing =>
  writing(table, [...fields, key], key);

const SAVED_STATE = ['kind', 'id', ...STATE_FIELDS, 'error', 'syncRunId'] as const;

/** The last full sync that has seen a record stays noted. */
const STATE = inserting(
  recordState,
  SAVED_STATE,
  `ON CONFLICT (kind, id) DO UPDATE SET
    ${SAVED_STATE.slice(2, -1)
      .map((field) => `${recordState[field].name} = excluded.${recordState[field].name}`)
      .join(', ')},
    sync_run_id = CASE WHEN record_state.sync_run_id > excluded.sync_run_id THEN record_state.sync_run_id
      ELSE coalesce(excluded.sync_run_id, record_state.sync_run_id) END`,
);

const VERIFIED = ['verifiedAt', 'lastEventId', 'lastEventAt', 'provisionalCreated', 'shown'];
const contentOf = (kind: Kind) => [
  ...(kind === 'policy' ? ['version'] : []),
  ...['name', 'status', 'data', 'syncedAt', 'cause', 'causeId', 'changeSeq'],
];
/** An UPDATE that names one of these writes the index anew on SQLite, even if the value is the same. */
const INDEXED = ['unverifiedSince', 'deletedAt'];

const ROWS = byKind((kind) => {
  const table = TABLE_OF[kind];
  const content = contentOf(kind);
  return {
    new: inserting(table, ['id', 'firstSeenAt', ...content, ...VERIFIED, ...INDEXED]),
    written: updating(table, 'id', [...content, ...VERIFIED]),
    'written and moved': updating(table, 'id', [...content, ...VERIFIED, ...INDEXED]),
    read: updating(table, 'id', VERIFIED),
    'read and moved': updating(table, 'id', [...VERIFIED, ...INDEXED]),
  };
});

const CHANGES = inserting(changeTable, [
  ...['seq', 'kind', 'recordId', 'operation', 'before', 'after', 'name', 'version', 'status', 'data'],
  ...['cause', 'causeId', 'at'],
]);
const ENDED = updating(changeTable, 'seq', ['validTo']);

/** Saves records and their changes. Content is saved only of records that are `written`; with `onlyNew`, a state only where it is new. */
export function saveRecords(
  unit: Unit,
  records: Iterable<LoadedRecord>,
  changes: readonly Change[],
  nowIso: string,
  { onlyNew = false } = {},
): void {
  const all = [...records];
  unit.write(STATE, all.filter((record) => !onlyNew || hasNewState(record)).map(stateOf));
  const shown = all.flatMap((record) => (record.row === null ? [] : [{ record, row: rowOf(record) }]));
  for (const [kind, ofKind] of Map.groupBy(shown, ({ record }) => record.kind)) {
    const groups = Map.groupBy(ofKind, ({ record, row }) => {
      const { storedRow: stored, written } = record;
      if (stored === null) return 'new';
      const isMoved = stored.unverifiedSince !== row.unverifiedSince || stored.deletedAt !== row.deletedAt;
      return `${written ? 'written' : 'read'}${isMoved ? ' and moved' : ''}` as const;
    });
    for (const [group, saved] of groups)
      unit.write(
        ROWS[kind][group],
        saved.map(({ row }) => row),
      );
  }
  unit.write(
    CHANGES,
    changes.map(({ id, is: { name, version, status, data }, ...change }) => ({
      ...change,
      ...{ recordId: id, name, version, status, data, at: nowIso },
    })),
  );
  // After them, since a record may have changed twice in one unit.
  const ended = changes.filter(({ previous }) => previous > 0);
  unit.write(
    ENDED,
    ended.map(({ previous }) => ({ seq: previous, validTo: nowIso })),
  );
}

const sinceOf = ({ state: { unverifiedSince } }: LoadedRecord) =>
  unverifiedSince === null ? null : iso(unverifiedSince);

function stateOf(record: LoadedRecord) {
  const { kind, id, state, error, syncRunId } = record;
  return { ...state, unverifiedSince: sinceOf(record), kind, id, error, syncRunId };
}

function rowOf(record: LoadedRecord) {
  const { id, state } = record;
  const row = record.row!;
  const { write: changeSeq, provisionalCreated, shown } = state;
  const lastEventAt = row.lastEventAt === null ? null : new Date(row.lastEventAt);
  return { ...row, id, lastEventAt, changeSeq, provisionalCreated, shown, unverifiedSince: sinceOf(record) };
}

/**
 * `dirty_at` is the latest of all events that no read covers. Later dirty marks do not change `due_at`, so that a busy record does not move in
 * its index at every event: `nextWork` leaves the record out until then.
 */
const DIRTY = inserting(
  recordState,
  ['kind', 'id', 'dirty', 'dirtyAt', 'firstDirtyAt', 'unverifiedSince', 'dueAt'],
  `ON CONFLICT (kind, id) DO UPDATE SET dirty = excluded.dirty,
    dirty_at = CASE WHEN record_state.dirty_at > excluded.dirty_at THEN record_state.dirty_at ELSE excluded.dirty_at END,
    first_dirty_at = coalesce(record_state.first_dirty_at, excluded.first_dirty_at),
    unverified_since = coalesce(record_state.unverified_since, excluded.unverified_since),
    due_at = CASE WHEN record_state.due_at > ${DUE_ASKED} AND record_state.due_at < excluded.due_at THEN record_state.due_at ELSE excluded.due_at END,
    missing_since = NULL, missing_number = NULL, proven = false`,
);

/** Marks records dirty: there is a reason to read them. `verified`: the keys of those that may be verified; null: all may be. */
export function markDirty(
  unit: Unit,
  dirtied: readonly Dirtied[],
  now: Now,
  timing: DirtyTiming,
  verified: ReadonlySet<string> | null = null,
): void {
  const latest = new Map<string, Dirtied>();
  for (const each of dirtied) {
    const key = keyOf(each.kind, each.id);
    if ((latest.get(key)?.number ?? 0) < each.number) latest.set(key, each);
  }
  const unverifiedSince = iso(now.wall);
  unit.write(
    DIRTY,
    [...latest.values()].map(({ kind, id, number }) => ({
      ...{ kind, id, dirty: number, dirtyAt: now.steady, firstDirtyAt: now.steady },
      ...{ unverifiedSince, dueAt: now.steady + timing.settleMs },
    })),
  );
  const doubted = [...latest].flatMap(([key, each]) => (verified?.has(key) === false ? [] : each));
  for (const [kind, marked] of Map.groupBy(doubted, (each) => each.kind)) {
    const table = TABLE_OF[kind];
    const ids = marked.map(({ id }) => id);
    const isVerified = sql`unverified_since IS NULL AND ${unit.dialect.isAmong(table.id, ids)}`;
    unit.send(update(table, { unverifiedSince }, isVerified));
  }
}

export const EVENTS = inserting(eventTable, [
  ...[
    'seq',
    'id',
    'type',
    'created',
    'createdMs',
    'kind',
    'recordId',
    'receivedAt',
    'lastDeliveredAt',
    'state',
  ],
  ...['processedAt', 'address', 'body'],
]);

/** SQL about a row `r` and its `record_state` row `s`: after a read that shows the row as it is, `decideApply` would change nothing. */
const IS_SETTLED =
  sql.raw(`s.returned AND s.unverified_since IS NULL AND s.dirty_at IS NULL AND s.first_dirty_at IS NULL
  AND s.due_at IS NULL AND s.missing_since IS NULL AND s.missing_number IS NULL AND NOT s.proven AND s.delete_event IS NULL
  AND s.refusals = 0 AND s.attempts = 0 AND r.deleted_at IS NULL AND r.unverified_since IS NULL AND r.shown IS NULL`);

/** SQL: the columns that repeat fields of `data` agree with it. Another program may have changed the row. */
const columnsMatchData = ({ textAt }: Dialect, kind: Kind, pointers: IdPointers): string =>
  COLUMNS.filter((column) => column !== 'version' || kind === 'policy')
    .map((column) => {
      const texts = columnPaths(kind, column, pointers).map((path) => textAt(path, column !== 'name'));
      return `r.${column} IS NOT DISTINCT FROM coalesce(${texts.join(', ')}, NULL)`;
    })
    .join(' AND ');

/**
 * Ids of objects whose read would change nothing but when the record was last read: it is verified, has exactly this document, nothing
 * about it is undecided, and it was neither written nor read after `number`. All documents are compared in one statement, and not parsed:
 * to do that one by one was half the cost of a full sync.
 */
export async function settledAmong(
  from: Sql,
  kind: Kind,
  objects: readonly ReadObject[],
  number: number,
  pointers: IdPointers,
): Promise<string[]> {
  // With LIMIT and OFFSET, PostgreSQL looks for each by its key: without statistics it would begin with all records of the kind.
  const settled = await from.query<{ id: string }>(
    sql`SELECT given.id FROM ${from.dialect.documents(objects)} WHERE EXISTS (SELECT 1 FROM ${TABLE_OF[kind]} AS r
      JOIN record_state AS s ON s.kind = ${sql.raw(`'${kind}'`)} AND s.id = given.id WHERE r.id = given.id AND r.data = given.data
      AND r.change_seq <= ${number} AND s.read_number <= ${number} AND ${IS_SETTLED}
      AND ${sql.raw(columnsMatchData(from.dialect, kind, pointers))} LIMIT 1 OFFSET 0)`,
  );
  return settled.map(({ id }) => id);
}
