import { DELETE_TYPES, type Kind } from '../../compliance/kinds.ts';
import { dueAt } from '../../mirror/decide.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { Column, SQL } from '../drizzle.ts';
import { events, gaps, recordState as states } from '../schema.ts';
import type { DirtyTiming, DueRecord, Now } from '../values.ts';
import { isRecord, TABLE_OF } from './records.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';
import { as, idsOf, isOneOf, iso, readFact, single, sql, update } from './sql.ts';

/** With a heartbeat within this time the service is running: some of them may be late. */
const ALIVE_MS = 60_000;

/** Which records are known, and when each is read. */
export function createDueVerbs(database: Database, { keepsTime }: { keepsTime: boolean }) {
  const { sql: statements, currentNumber } = database;

  async function countKnown(kind: Kind): Promise<number> {
    return (await single<number>(statements, sql`SELECT known FROM record_counts WHERE kind = ${kind}`)) ?? 0;
  }

  return {
    /** The counter: taken before a read begins. */
    currentNumber,

    /** At start: unverified records count as marked dirty now, since the steady clocks of two runs cannot be compared. */
    markUnverifiedDirty: (now: Now, timing: DirtyTiming): Promise<number> =>
      database.transact(async (unit) =>
        keepsTime && (await isServed(unit, now))
          ? await clampToClock(unit, now, timing)
          : await restartClocks(unit, now, timing),
      ),

    /** The longest due first. Records marked dirty since then are put off, not returned. */
    async dueRecords(kind: Kind, now: Now, timing: DirtyTiming, limit: number): Promise<DueRecord[]> {
      const { attempts, missingSince, dirtyAt, firstDirtyAt } = states;
      type Row = Record<'missingSince' | 'dirtyAt' | 'firstDirtyAt', number | null>;
      const rows = await statements.query<Row & { id: string; attempts: number }>(
        sql`SELECT ${as({ id: states.id, attempts, missingSince, dirtyAt, firstDirtyAt })} FROM ${states}
          WHERE kind = ${kind} AND due_at <= ${now.steady} ORDER BY due_at LIMIT ${limit}`,
      );
      const due: DueRecord[] = [];
      const later: SQL[] = [];
      for (const row of rows) {
        const at = dueAt(row, timing);
        const waits = at !== null && at > now.steady && row.attempts === 0 && row.missingSince === null;
        if (!waits)
          due.push({ kind, id: row.id, attempts: row.attempts, missing: row.missingSince !== null });
        // Unless another dirty mark came meanwhile, which sets the time itself.
        else
          later.push(
            sql`UPDATE record_state SET due_at = ${at}
              WHERE ${isRecord(kind, row.id)} AND dirty_at = ${row.dirtyAt} AND attempts = 0 AND missing_since IS NULL`,
          );
      }
      if (later.length > 0)
        await database.transact(async (unit) => {
          for (const statement of later) unit.send(statement);
        });
      return due;
    },

    async countDue(kind: Kind, now: Now, atMost: number): Promise<number> {
      const due = sql`SELECT 1 FROM record_state WHERE kind = ${kind} AND due_at <= ${now.steady} LIMIT ${atMost}`;
      return (await single<number>(statements, sql`SELECT count(*) FROM (${due}) AS due`))!;
    },

    nextDueAt: (kind: Kind): Promise<number | null> =>
      single<number>(
        statements,
        sql`SELECT min(due_at) FROM record_state WHERE kind = ${kind} AND due_at IS NOT NULL`,
      ),

    /** New ids become known and due. Returns how many were new. */
    makeKnown: (kind: Kind, ids: readonly string[], now: Now): Promise<number> =>
      database.transact((unit) => makeKnown(unit, kind, ids, now)),

    /** An operator asked, or a list scan missed them: due now. New ids become known. */
    async makeDue(kind: Kind, ids: readonly string[], now: Now): Promise<void> {
      await database.transact((unit) =>
        unit.change(
          sql`${knownRows(unit, kind, ids, now)} DO UPDATE SET due_at = excluded.due_at, attempts = 0`,
        ),
      );
    },

    /** A read, begun `since`, without a usable answer: the record is read again at `retryAtMs`, or as usual after an event that came since. */
    async recordReadFailure(
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
      await database.transact((unit) => unit.change(update(states, failed, isRecord(kind, id))));
    },

    /** Known ids, tombstones included, that this full sync has not tried: unverified first, then the longest unread. */
    cycleRecords: (kind: Kind, syncRunId: number, limit: number): Promise<string[]> =>
      idsOf(
        statements,
        sql`SELECT id FROM record_state WHERE kind = ${kind} AND sync_run_id IS DISTINCT FROM ${syncRunId}
          ORDER BY unverified_since IS NULL, read_number, id LIMIT ${limit}`,
      ),

    /** The full sync has tried this record, with any result. */
    async markSynced(kind: Kind, id: string, syncRunId: number): Promise<void> {
      await database.transact((unit) => unit.change(update(states, { syncRunId }, isRecord(kind, id))));
    },

    countKnown,

    /** All known ids after `after`, in order. Tombstones and ids without a row are not `alive`. */
    async knownIds(kind: Kind, after: string, limit: number): Promise<{ id: string; alive: boolean }[]> {
      const known = await statements.query<{ id: string; alive: boolean | 0 | 1 }>(
        sql`SELECT s.id, r.id IS NOT NULL AND r.deleted_at IS NULL AS alive
          FROM record_state s LEFT JOIN ${TABLE_OF[kind]} r ON r.id = s.id
          WHERE s.kind = ${kind} AND s.id > ${after} ORDER BY s.id LIMIT ${limit}`,
      );
      return known.map(({ id, alive }) => ({ id, alive: Boolean(alive) }));
    },

    /** Live rows and unverified ones, deleted included, that the sync run has not seen and nothing has touched since `number`. */
    unseenBy: (kind: Kind, syncRunId: number, number: number): Promise<string[]> =>
      idsOf(
        statements,
        sql`SELECT s.id FROM record_state s LEFT JOIN ${TABLE_OF[kind]} r ON r.id = s.id
          WHERE s.kind = ${kind} AND s.sync_run_id IS DISTINCT FROM ${syncRunId}
            AND s.dirty <= ${number} AND coalesce(r.change_seq, 0) <= ${number}
            AND ((r.id IS NOT NULL AND r.deleted_at IS NULL) OR s.unverified_since IS NOT NULL) ORDER BY s.id`,
      ),

    /** Ids marked dirty or written after `number`. */
    async touchedSince(kind: Kind, number: number): Promise<Set<string>> {
      const isShort = (await currentNumber()) - number < (await countKnown(kind));
      const markedDirty = await idsOf(
        statements,
        sql`SELECT id FROM record_state WHERE kind = ${kind} AND dirty > ${number}`,
      );
      // As a rule from the end of the feed. From the rows where they are fewer, or where retention has trimmed this part of the feed,
      // which is asked afterwards: another process may trim it meanwhile.
      const fed = isShort
        ? await idsOf(
            statements,
            sql`SELECT record_id AS id FROM changes WHERE seq > ${number} AND kind = ${kind}`,
          )
        : null;
      const trimmed = await readFact(statements, TRIMMED_CHANGES_FACT);
      const isWhole = trimmed === null || (JSON.parse(trimmed) as { through: number }).through <= number;
      const written =
        fed !== null && isWhole
          ? fed
          : await idsOf(statements, sql`SELECT id FROM ${TABLE_OF[kind]} WHERE change_seq > ${number}`);
      return new Set([...markedDirty, ...written]);
    },

    /** An event about a deletion was accepted after `number`, or at `wall` or later. */
    async hasAnnouncedDeletion(kind: Kind, number: number, wall: number): Promise<boolean> {
      // From the newest back to the time asked about: what is older is not looked at.
      const found = await statements.query(
        sql`SELECT 1 FROM events WHERE kind = ${kind} AND ${isOneOf(events.type, [...DELETE_TYPES])}
          AND (seq > ${number} OR seq > coalesce((SELECT seq FROM events WHERE ${events.receivedAt} < ${iso(wall)}
            ORDER BY seq DESC LIMIT 1), 0)) LIMIT 1`,
      );
      return found.length > 0;
    },
  };
}

export async function countLive(unit: Sql, kind: Kind): Promise<number> {
  return (await single<number>(unit, sql`SELECT live FROM record_counts WHERE kind = ${kind}`)) ?? 0;
}

/** Makes ids known that something named. Returns how many were new. */
export async function makeKnown(unit: Sql, kind: Kind, ids: readonly string[], now: Now): Promise<number> {
  if (ids.length === 0) return 0;
  return await unit.change(sql`${knownRows(unit, kind, ids, now)} DO NOTHING`);
}

const knownRows = ({ dialect }: Sql, kind: Kind, ids: readonly string[], { steady, wall }: Now) =>
  sql`INSERT INTO record_state (kind, id, dirty_at, first_dirty_at, unverified_since, due_at)
    SELECT ${kind}, listed.id, CAST(${steady} AS bigint), CAST(${steady} AS bigint), ${dialect.instant(iso(wall))},
      CAST(${steady} AS bigint)
    FROM ${dialect.listed([...new Set(ids)].sort())} WHERE true ON CONFLICT (kind, id)`;

/** The service was running just now: instants of the database's clock are valid for a replica that joins or takes over. */
async function isServed(unit: Unit, now: Now): Promise<boolean> {
  const beat = await readFact(unit, 'heartbeat');
  return beat !== null && Math.abs(now.wall - Date.parse(beat)) < ALIVE_MS;
}

/** Only instants ahead of this clock, which another one noted: they would keep a record waiting. */
async function clampToClock(unit: Unit, { steady }: Now, { settleMs }: DirtyTiming): Promise<number> {
  const { dirtyAt, firstDirtyAt, missingSince } = states;
  await unit.change(update(states, { readEndedAt: steady }, sql`read_ended_at > ${steady}`));
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

/** After a longer pause, or on another server: nothing says that the two clocks agree. */
async function restartClocks(unit: Unit, { steady }: Now, { settleMs }: DirtyTiming): Promise<number> {
  // All, not only those that seem to be ahead: after a clock was set forward the last read looks old.
  await unit.change(update(states, { readEndedAt: steady }, sql`read_ended_at IS NOT NULL`));
  // What events have shown and no read covers was shown now.
  for (const table of Object.values(TABLE_OF)) {
    const shown = unit.dialect.withEach(table.shown, steady);
    await unit.change(update(table, { shown }, sql`unverified_since IS NOT NULL AND shown IS NOT NULL`));
  }
  await unit.change(
    update(
      gaps,
      { coverableAt: Math.ceil(steady + settleMs) },
      sql`coverable_at IS NOT NULL AND resolved_at IS NULL`,
    ),
  );
  const dirty = { dirtyAt: steady, firstDirtyAt: steady, dueAt: steady + settleMs };
  const unread = { attempts: 0, missingSince: null, missingNumber: null, proven: sql`false` };
  return await unit.change(update(states, { ...dirty, ...unread }, sql`unverified_since IS NOT NULL`));
}
