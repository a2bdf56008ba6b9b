import type { Kind } from '../../compliance/kinds.ts';
import type { Unit } from '../database.ts';
import { type Column, changes as changeTable, recordState, type Table } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import {
  byKind,
  type Change,
  columnsMatchData,
  type Dirtied,
  IS_SETTLED,
  keyOf,
  type LoadedRecord,
  quoted,
  type Records,
  STATE_FIELDS,
  TABLE_OF,
} from '../units/records.ts';
import { idsOf, iso } from '../units/sql.ts';
import { ARRAY_OF, bigintArray, escapedJson, escapedText, textArray } from './dialect.ts';

/** Records are saved with one statement for each table, so that many cost little more than one. */

export const RECORDS: Records = {
  settled: (from, kind, objects, number, pointers) =>
    idsOf(
      from,
      // OFFSET 0 keeps the order of the joins: without statistics, the planner would begin with all records of the kind.
      sql`SELECT r.id FROM unnest(${textArray(objects.map(({ id }) => id))},
         ${textArray(objects.map(({ json }) => escapedText(json)))}) AS x (id, data)
       CROSS JOIN LATERAL (SELECT * FROM ${TABLE_OF[kind]} WHERE id = x.id OFFSET 0) AS r
       CROSS JOIN LATERAL (SELECT * FROM record_state WHERE kind = ${sql.raw(`'${kind}'`)} AND id = x.id OFFSET 0) AS s
       WHERE r.data = x.data::jsonb AND greatest(r.change_seq, s.read_number) <= ${number} AND ${sql.raw(IS_SETTLED)}
         AND ${sql.raw(columnsMatchData(kind, pointers, textAt))}`,
    ),
  save: saveRecords,
  // Later dirty marks do not change `due_at`, so that a busy record does not move in its index at every event: `dueRecords` puts the record
  // off later.
  dirty(unit, dirtied, now, timing) {
    if (dirtied.length === 0) return;
    unit.send(
      sql`SELECT mark_dirty(${dirtyColumns(dirtied)}, 0, ${now.steady}, ${now.steady + timing.settleMs}, ${iso(now.wall)})`,
    );
  },
};

/** The text at a path of a row's document, or the whole number where one counts. */
function textAt(path: readonly string[], isNumber: boolean): string {
  const at = `ARRAY[${path.map(quoted).join(', ')}]`;
  const number = isNumber ? ` WHEN 'number' THEN substring(r.data #>> ${at} FROM '^-?[0-9]{1,15}$')` : '';
  return `CASE jsonb_typeof(r.data #> ${at}) WHEN 'string' THEN r.data #>> ${at}${number} END`;
}

/** Saves the states only of records that fulfil `hasNewState`. */
export function saveRecords(
  unit: Unit,
  records: Iterable<LoadedRecord>,
  changes: readonly Change[],
  nowIso: string,
  hasNewState: (record: LoadedRecord) => boolean = () => true,
): void {
  const sorted = sortedByKey(records);
  saveStates(unit, sorted.filter(hasNewState));
  for (const kind of new Set(sorted.map((record) => record.kind))) {
    const shown = sorted.filter((record) => record.kind === kind && record.row !== null);
    saveContent(
      unit,
      kind,
      shown.filter((record) => record.written),
    );
    saveVerification(
      unit,
      kind,
      shown.filter((record) => !record.written),
    );
  }
  saveChanges(unit, changes, nowIso);
}

function saveStates(unit: Unit, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  unit.send(
    sql`INSERT INTO record_state AS s (${STATE.names})
     SELECT ${STATE.values} FROM ${STATE.given(records.map(stateRow))}
     ON CONFLICT (kind, id) DO UPDATE SET ${STATE.updates}, sync_run_id = greatest(excluded.sync_run_id, s.sync_run_id)`,
  );
}

function saveContent(unit: Unit, kind: Kind, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  const { names, values, given, updates } = CONTENT[kind];
  unit.send(
    sql`INSERT INTO ${TABLE_OF[kind]} (${names})
     SELECT ${values} FROM ${given(records.map(contentRow))}
     ON CONFLICT (id) DO UPDATE SET ${updates}`,
  );
}

/**
 * Parts of a statement that writes rows from an array for each column into a table. `types` are the fields and their types in the
 * statement; `kept` are fields that an existing row keeps. Made once, and not for every batch.
 */
function partsOf(
  table: Table,
  types: Readonly<Record<string, keyof typeof ARRAY_OF>>,
  kept: readonly string[],
) {
  const of = table as unknown as Record<string, Column>;
  const columns = Object.entries(types).map(([field, type]) => ({ name: of[field]!.name, field, type }));
  const list = (parts: readonly string[]): SQL => sql.raw(parts.join(', '));
  const names = list(columns.map(({ name }) => name));
  return {
    names,
    given: (rows: readonly Readonly<Record<string, unknown>>[]): SQL => {
      const arrays = columns.map(({ field, type }) => ARRAY_OF[type](rows.map((row) => row[field] as never)));
      return sql`unnest(${sql.join(arrays)}) AS x (${names})`;
    },
    values: list(columns.map(({ name, type }) => (type === 'jsonb' ? `${name}::jsonb` : name))),
    updates: list(
      columns.flatMap(({ name, field }) => (kept.includes(field) ? [] : `${name} = excluded.${name}`)),
    ),
  };
}

const STATE = partsOf(
  recordState,
  {
    kind: 'text',
    id: 'text',
    error: 'text',
    syncRunId: 'bigint',
    ...Object.fromEntries(STATE_FIELDS.map((field) => [field, 'bigint'])),
    unverifiedSince: 'timestamptz',
    returned: 'boolean',
    proven: 'boolean',
  },
  ['kind', 'id', 'syncRunId'],
);

const VERIFIED = {
  id: 'text',
  lastEventId: 'text',
  verifiedAt: 'timestamptz',
  unverifiedSince: 'timestamptz',
  lastEventAt: 'timestamptz',
  shown: 'jsonb',
  provisionalCreated: 'bigint',
} as const;

const VERIFICATION = partsOf(TABLE_OF.policy, VERIFIED, []);

const contentOf = (kind: Kind) =>
  partsOf(
    TABLE_OF[kind],
    {
      ...VERIFIED,
      name: 'text',
      status: 'text',
      cause: 'text',
      causeId: 'text',
      ...(kind === 'policy' ? { version: 'text' } : {}),
      firstSeenAt: 'timestamptz',
      syncedAt: 'timestamptz',
      deletedAt: 'timestamptz',
      data: 'jsonb',
      changeSeq: 'bigint',
    },
    ['id', 'firstSeenAt'],
  );

const CONTENT = byKind(contentOf);

/** Saves the columns that change without new content: by a read that changed nothing, or an event that shows nothing new. */
function saveVerification(unit: Unit, kind: Kind, records: readonly LoadedRecord[]): void {
  if (records.length === 0) return;
  unit.send(
    sql`UPDATE ${TABLE_OF[kind]} AS r SET verified_at = x.verified_at, unverified_since = x.unverified_since,
       last_event_id = x.last_event_id, last_event_at = x.last_event_at, provisional_created = x.provisional_created,
       shown = x.shown::jsonb
     FROM ${VERIFICATION.given(records.map(verificationRow))} WHERE r.id = x.id`,
  );
}

const CHANGES = partsOf(
  changeTable,
  {
    seq: 'bigint',
    kind: 'text',
    recordId: 'text',
    operation: 'text',
    before: 'jsonb',
    after: 'jsonb',
    name: 'text',
    version: 'text',
    status: 'text',
    data: 'jsonb',
    cause: 'text',
    causeId: 'text',
  },
  [],
);

function saveChanges(unit: Unit, changes: readonly Change[], nowIso: string): void {
  if (changes.length === 0) return;
  const rows = changes.map(({ id, before, after, is: { name, version, status, data }, ...change }) => ({
    ...change,
    recordId: id,
    before: escapedJson(before),
    after: escapedJson(after),
    ...{ name, version, status },
    data: escapedJson(data),
  }));
  unit.send(
    sql`INSERT INTO changes (${CHANGES.names}, at)
     SELECT ${CHANGES.values}, ${nowIso}::timestamptz FROM ${CHANGES.given(rows)}`,
  );
  // After them, since a record may have changed twice in one unit.
  const ended = changes.flatMap(({ previous }) => (previous > 0 ? previous : []));
  if (ended.length === 0) return;
  unit.send(
    sql`UPDATE changes SET valid_to = ${nowIso}::timestamptz FROM unnest(${bigintArray(ended)}) AS ended (seq) WHERE changes.seq = ended.seq`,
  );
}

/** The first parameters of `mark_dirty`: kinds, ids and numbers. The latest of each record, sorted by key. */
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
  return sortedByKey(latest.values());
}

function stateRow({ kind, id, state, error, syncRunId }: LoadedRecord) {
  return { ...state, kind, id, error, syncRunId };
}

function contentRow(record: LoadedRecord) {
  const { row, state } = record;
  return {
    ...row,
    ...verificationRow(record),
    data: escapedJson(row?.data),
    firstSeenAt: wallOf(row?.firstSeenAt),
    syncedAt: wallOf(row?.syncedAt),
    deletedAt: wallOf(row?.deletedAt),
    changeSeq: state.write,
  };
}

function verificationRow({ id, row, state }: LoadedRecord) {
  return {
    id,
    lastEventId: row?.lastEventId,
    verifiedAt: wallOf(row?.verifiedAt),
    unverifiedSince: state.unverifiedSince,
    lastEventAt: wallOf(row?.lastEventAt),
    shown: state.shown === null ? null : escapedJson(state.shown),
    provisionalCreated: state.provisionalCreated,
  };
}

const wallOf = (iso: string | null | undefined) => (iso == null ? null : Date.parse(iso));

/** Every transaction writes rows in this order, so that two do not deadlock. No record is there twice. */
function sortedByKey<T extends Pick<LoadedRecord, 'kind' | 'id'>>(items: Iterable<T>): T[] {
  const byKey = new Map(Array.from(items, (item) => [keyOf(item.kind, item.id), item]));
  return [...byKey.keys()].sort().map((key) => byKey.get(key)!);
}
