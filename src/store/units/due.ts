import type { Kind } from '../../compliance/kinds.ts';
import { LONGEST_LAG_IN_SETTLES } from '../../mirror/reads.ts';
import { DUE_ASKED, DUE_BY_ID_ONLY } from '../../mirror/state.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { type Column, problems, recordState as states } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import type { DirtyTiming, Now } from '../values.ts';
import { resolveRecords } from './problems.ts';
import { reading } from './reading.ts';
import { isRecord, TABLE_OF } from './records.ts';
import { idsOf, iso, readFact, singleValue, update, writerOf } from './sql.ts';

/** With a heartbeat this recent the service counts as running. Longer than its interval, since a heartbeat may be late. */
export const ALIVE_MS = 60_000;

/** What reads have found counts no more. */
const UNREAD = { attempts: 0, missingSince: null, missingNumber: null, proven: sql`false` };

/** Which records are known, and when each is read. */
export function createDueVerbs(database: Database) {
  const { sql: statements } = database;
  const write = writerOf(database);

  return {
    /** The counter: taken before a read begins. */
    currentNumber: database.currentNumber,

    /** The counter as it was then, by the instants of what was committed: for an answer that is older than its request. */
    numberAt: reading(async (wall: number): Promise<number> => {
      const at = iso(wall);
      const last = (table: SQL, instant: SQL) =>
        sql`coalesce((SELECT seq FROM ${table} WHERE ${instant} <= ${at} ORDER BY seq DESC LIMIT 1), 0)`;
      const [event, change] = [last(sql`events`, sql`received_at`), last(sql`changes`, sql`at`)];
      return (await singleValue<number>(
        statements,
        sql`SELECT CASE WHEN e > c THEN e ELSE c END FROM (SELECT ${event} AS e, ${change} AS c) AS last`,
      ))!;
    }),

    /** At start: unverified records count as marked dirty now, since one run cannot compare instants of another's steady clock. */
    markUnverifiedDirty: (now: Now, timing: DirtyTiming): Promise<number> =>
      database.transact(async (unit) =>
        database.keepsTime && (await isServed(unit, now))
          ? await clampToClock(unit, now, timing)
          : await restartClocks(unit, now, timing),
      ),

    /** New ids become known and due. Returns how many were new. */
    makeKnown: (kind: Kind, ids: readonly string[], now: Now): Promise<number> =>
      database.transact((unit) => makeKnown(unit, kind, ids, now)),

    /** Makes records due now, since a person asked or a list scan missed them. New ids become known. */
    makeDue: (kind: Kind, ids: readonly string[], now: Now): Promise<void> =>
      write(
        sql`${knownRows(statements, kind, ids, now, DUE_ASKED)} DO UPDATE SET due_at = excluded.due_at, attempts = 0`,
      ),

    /** A read gave no usable answer: the record is due at `retryAtMs`, or earlier if it was marked dirty after `since`, when the read began. */
    recordReadFailure(
      kind: Kind,
      id: string,
      error: string,
      retryAtMs: number,
      { since, settleMs }: DirtyTiming & { since: number },
    ): Promise<void> {
      const { dirtyAt } = states;
      const dueAt = sql`CASE WHEN ${dirtyAt} > ${since} AND ${dirtyAt} + ${settleMs} < ${retryAtMs} THEN ${dirtyAt} + ${settleMs}
        ELSE ${retryAtMs} END`;
      const failed = { attempts: sql`${states.attempts} + 1`, error, dueAt };
      return write(update(states, failed, isRecord(kind, id)));
    },

    /** Known ids, tombstones included, that this full sync has not tried yet: unverified ones first, then the longest unread. */
    untriedRecords: reading(
      (kind: Kind, syncRunId: number, limit: number): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT id FROM record_state WHERE kind = ${kind} AND sync_run_id IS DISTINCT FROM ${syncRunId}
          ORDER BY unverified_since IS NULL, read_number, id LIMIT ${limit}`,
        ),
    ),

    /** Notes that the full sync has tried to read this record. */
    markSynced: (kind: Kind, id: string, syncRunId: number): Promise<void> =>
      write(update(states, { syncRunId }, isRecord(kind, id))),

    countKnown: reading((kind: Kind): Promise<number> => countOf(statements, kind, 'known')),
  };
}

/**
 * There are no such records, as a person says or a list shows: until an event names them again, or the API shows them. Not of those that a
 * row shows alive. `number`: nothing is said of events that were accepted later.
 */
export async function settleUnknown(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  number: number,
  nowIso: string,
): Promise<void> {
  if (ids.length === 0) return;
  const rows = TABLE_OF[kind];
  const undue = { dirtyAt: null, firstDirtyAt: null, unverifiedSince: null, dueAt: null };
  const isNone = sql`kind = ${kind} AND ${unit.dialect.isAmong(states.id, ids)} AND ${states.dirty} < ${number}
    AND NOT EXISTS (SELECT 1 FROM ${rows} r WHERE r.id = ${states.id} AND r.deleted_at IS NULL)`;
  const none = { ...undue, ...UNREAD, error: null };
  const settled = await idsOf(unit, sql`${update(states, none, isNone)} RETURNING id`);
  if (settled.length === 0) return;
  // A tombstone stays.
  await unit.change(
    update(rows, { unverifiedSince: null, shown: null }, unit.dialect.isAmong(rows.id, settled)),
  );
  await resolveRecords(unit, kind, settled, nowIso);
}

export async function countOf(from: Sql, kind: Kind, what: 'live' | 'known'): Promise<number> {
  const rows = TABLE_OF[kind];
  const count =
    what === 'known'
      ? sql`SELECT count(*) FROM record_state WHERE kind = ${kind}`
      : // The smallest index counts all rows, and that of the deleted counts those.
        sql`SELECT (SELECT count(*) FROM ${rows}) - (SELECT count(*) FROM ${rows} WHERE deleted_at IS NOT NULL)`;
  return (await singleValue<number>(from, count))!;
}

/** Returns how many ids were new. */
export async function makeKnown(unit: Sql, kind: Kind, ids: readonly string[], now: Now): Promise<number> {
  if (ids.length === 0) return 0;
  return await unit.change(sql`${knownRows(unit, kind, ids, now, DUE_BY_ID_ONLY)} DO NOTHING`);
}

const knownRows = (
  { dialect }: Sql,
  kind: Kind,
  ids: readonly string[],
  { steady, wall }: Now,
  dueAt: number,
) =>
  sql`INSERT INTO record_state (kind, id, dirty_at, first_dirty_at, unverified_since, due_at)
    SELECT ${kind}, listed.id, CAST(${steady} AS bigint), CAST(${steady} AS bigint), ${dialect.instant(iso(wall))},
      CAST(${dueAt} AS bigint)
    FROM ${dialect.listed([...new Set(ids)].sort())} WHERE true ON CONFLICT (kind, id)`;

/** The service was running just now. Then instants of the database's clock are valid for a replica that joins or takes over. */
async function isServed(unit: Unit, now: Now): Promise<boolean> {
  const beat = await readFact(unit, 'heartbeat');
  return beat !== null && Math.abs(now.wall - Date.parse(beat)) < ALIVE_MS;
}

/** Sets back instants that are ahead of this clock, which another clock wrote: they would keep a record waiting. */
async function clampToClock(unit: Unit, { steady }: Now, { settleMs }: DirtyTiming): Promise<number> {
  const { dirtyAt, firstDirtyAt, missingSince } = states;
  await unit.change(update(states, { readEndedAt: steady }, sql`read_ended_at > ${steady}`));
  await unit.change(update(states, { addressReadAt: steady }, sql`address_read_at > ${steady}`));
  await unit.change(
    update(states, { earlyAt: null, movedAt: null }, sql`early_at > ${steady} OR moved_at > ${steady}`),
  );
  const noLaterThan = (column: Column, latest: number) =>
    sql`CASE WHEN ${column} > ${latest} THEN ${latest} ELSE ${column} END`;
  const back = {
    dirtyAt: noLaterThan(dirtyAt, steady),
    firstDirtyAt: noLaterThan(firstDirtyAt, steady),
    missingSince: noLaterThan(missingSince, steady),
    dueAt: noLaterThan(states.dueAt, steady + settleMs),
  };
  const isAhead = sql`dirty_at > ${steady} OR first_dirty_at > ${steady} OR missing_since > ${steady}`;
  return await unit.change(update(states, back, sql`unverified_since IS NOT NULL AND (${isAhead})`));
}

/** After a longer pause, or on another server, the clock may have been set: all that waits begins to wait now. */
async function restartClocks(unit: Unit, { steady, wall }: Now, { settleMs }: DirtyTiming): Promise<number> {
  // Not only those ahead of the clock: if it was set forward, the last read looks older than it is.
  await unit.change(update(states, { readEndedAt: steady }, sql`read_ended_at IS NOT NULL`));
  // A list may still be behind what had changed lately as the service last ran: nobody knows for how long it did not. All that is older, the
  // next full sync may repair.
  const beat = await readFact(unit, 'heartbeat');
  const ranAt = Math.min(wall, beat === null ? wall : Date.parse(beat));
  const since = unit.dialect.instant(iso(ranAt - LONGEST_LAG_IN_SETTLES * settleMs));
  const isRecent = sql`EXISTS (SELECT 1 FROM vendors WHERE vendors.id = record_state.id AND synced_at > ${since})`;
  const addressReadAt = sql`CASE WHEN kind = 'vendor' AND ${isRecent} THEN CAST(${steady} AS bigint) END`;
  await unit.change(update(states, { addressReadAt }, sql`address_read_at IS NOT NULL`));
  // What events have shown, and no read covers, counts as shown now.
  for (const table of Object.values(TABLE_OF)) {
    const shown = unit.dialect.withEach(table.shown, 'at', steady);
    await unit.change(update(table, { shown }, sql`unverified_since IS NOT NULL AND shown IS NOT NULL`));
  }
  const isWaiting = sql`coverable_at IS NOT NULL AND resolved_at IS NULL`;
  await unit.change(update(problems, { coverableAt: Math.ceil(steady + settleMs) }, isWaiting));
  const dueAt = sql`CASE WHEN ${states.dueAt} <= ${DUE_ASKED} THEN ${states.dueAt} ELSE ${steady + settleMs} END`;
  const dirty = { dirtyAt: steady, firstDirtyAt: steady, dueAt, earlyAt: null, movedAt: null };
  return await unit.change(update(states, { ...dirty, ...UNREAD }, sql`unverified_since IS NOT NULL`));
}
