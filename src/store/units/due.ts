import { DELETE_TYPES, type Kind } from '../../compliance/kinds.ts';
import { dueAt } from '../../mirror/decide.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { Column, SQL } from '../drizzle.ts';
import { changes, events, gaps, recordCounts, recordState as states } from '../schema.ts';
import type { BackfillStore, DirtyTiming, DueRecord, Now } from '../store.ts';
import { readFact } from './facts.ts';
import { isRecord, type Records, TABLE_OF } from './records.ts';
import { TRIMMED_CHANGES_FACT } from './retention.ts';
import { as, excluded, idsOf, isOneOf, iso, set, single, sql, update } from './sql.ts';

/** Somebody has said within this time that the service lives: several of its beats. */
const ALIVE_MS = 60_000;

/**
 * Which records are known, and when each is to be read. `keepsTime`: the steady clock is the database's, and goes on while
 * processes come and go.
 */
export function createDueVerbs(database: Database, records: Records, { keepsTime }: { keepsTime: boolean }) {
  const { sql: statements, currentNumber } = database;

  async function countKnown(kind: Kind): Promise<number> {
    const known = sql`SELECT ${recordCounts.known} FROM ${recordCounts} WHERE ${recordCounts.kind} = ${kind}`;
    return (await single<number>(statements, known)) ?? 0;
  }

  return {
    currentNumber,

    markUnverifiedDirty: (now, timing) =>
      database.transact(async (unit) =>
        keepsTime && (await isServed(unit, now))
          ? await pullBack(unit, now, timing)
          : await layAnew(unit, records, now, timing),
      ),

    async dueRecords(kind, now, timing, limit) {
      const { id, attempts, missingSince, dirtyAt, firstDirtyAt } = states;
      const rows = await statements.query<{
        id: string;
        attempts: number;
        missingSince: number | null;
        dirtyAt: number | null;
        firstDirtyAt: number | null;
      }>(
        sql`SELECT ${as({ id, attempts, missingSince, dirtyAt, firstDirtyAt })} FROM ${states}
          WHERE ${states.kind} = ${kind} AND ${states.dueAt} <= ${now.steady} ORDER BY ${states.dueAt} LIMIT ${limit}`,
      );
      const due: DueRecord[] = [];
      const later: SQL[] = [];
      for (const row of rows) {
        const at = dueAt(row, timing);
        const waits = at !== null && at > now.steady && row.attempts === 0 && row.missingSince === null;
        if (!waits)
          due.push({ kind, id: row.id, attempts: row.attempts, missing: row.missingSince !== null });
        // Unless another dirty mark comes between: then it is due when that one says.
        else
          later.push(
            sql`UPDATE ${states} SET ${set(states, { dueAt: at })}
              WHERE ${states.kind} = ${kind} AND ${id} = ${row.id}
                AND ${dirtyAt} = ${row.dirtyAt} AND ${attempts} = 0 AND ${missingSince} IS NULL`,
          );
      }
      if (later.length > 0)
        await database.transact(async (unit) => {
          for (const statement of later) unit.send(statement);
        });
      return due;
    },

    async countDue(kind, now, atMost) {
      const due = sql`SELECT 1 FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.dueAt} <= ${now.steady} LIMIT ${atMost}`;
      return (await single<number>(statements, sql`SELECT count(*) FROM (${due}) AS due`))!;
    },

    nextDueAt: (kind) =>
      single<number>(
        statements,
        sql`SELECT min(${states.dueAt}) FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.dueAt} IS NOT NULL`,
      ),

    makeKnown: (kind, ids, now) => database.transact((unit) => makeKnown(unit, kind, ids, now)),

    async makeDue(kind, ids, now) {
      await database.transact((unit) =>
        unit.change(
          sql`${knownRows(unit, kind, ids, now)} DO UPDATE SET ${set(states, { dueAt: excluded(states.dueAt), attempts: 0 })}`,
        ),
      );
    },

    async recordReadFailure(kind, id, error, retryAtMs) {
      await database.transact((unit) =>
        unit.change(
          sql`UPDATE ${states} SET ${set(states, {
            attempts: sql`${states.attempts} + 1`,
            error,
            dueAt: retryAtMs,
          })} WHERE ${isRecord(kind, id)}`,
        ),
      );
    },

    cycleRecords: (kind, syncRunId, limit) =>
      idsOf(
        statements,
        sql`SELECT ${states.id} FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.syncRunId} IS DISTINCT FROM ${syncRunId}
          ORDER BY ${states.unverifiedSince} IS NULL, ${states.readNumber}, ${states.id} LIMIT ${limit}`,
      ),

    async markSynced(kind, id, syncRunId) {
      await database.transact((unit) => unit.change(update(states, { syncRunId }, isRecord(kind, id))));
    },

    countKnown,

    async knownIds(kind, after, limit) {
      const rows = TABLE_OF[kind];
      const known = await statements.query<{ id: string; alive: boolean | 0 | 1 }>(
        sql`SELECT ${as({ id: states.id, alive: sql`${rows.id} IS NOT NULL AND ${rows.deletedAt} IS NULL` })} FROM ${states}
          LEFT JOIN ${rows} ON ${rows.id} = ${states.id}
          WHERE ${states.kind} = ${kind} AND ${states.id} > ${after} ORDER BY ${states.id} LIMIT ${limit}`,
      );
      return known.map(({ id, alive }) => ({ id, alive: Boolean(alive) }));
    },

    unseenBy(kind, syncRunId, number) {
      const rows = TABLE_OF[kind];
      return idsOf(
        statements,
        sql`SELECT ${states.id} FROM ${states} LEFT JOIN ${rows} ON ${rows.id} = ${states.id}
          WHERE ${states.kind} = ${kind} AND ${states.syncRunId} IS DISTINCT FROM ${syncRunId}
          AND ${states.dirty} <= ${number} AND coalesce(${rows.changeSeq}, 0) <= ${number}
          AND ((${rows.id} IS NOT NULL AND ${rows.deletedAt} IS NULL) OR ${states.unverifiedSince} IS NOT NULL)
          ORDER BY ${states.id}`,
      );
    },

    async touchedSince(kind, number) {
      const rows = TABLE_OF[kind];
      const isShort = (await currentNumber()) - number < (await countKnown(kind));
      const markedDirty = await idsOf(
        statements,
        sql`SELECT ${states.id} FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.dirty} > ${number}`,
      );
      // The feed's end as a rule. Each row is asked where they are fewer, or where retention has taken some of the feed, which
      // is looked at afterwards: another process may trim it meanwhile.
      const fed = isShort
        ? await idsOf(
            statements,
            sql`SELECT ${as({ id: changes.recordId })} FROM ${changes} WHERE ${changes.seq} > ${number} AND ${changes.kind} = ${kind}`,
          )
        : null;
      const trimmed = await readFact(statements, TRIMMED_CHANGES_FACT);
      const isWhole = trimmed === null || (JSON.parse(trimmed) as { through: number }).through <= number;
      const written =
        fed !== null && isWhole
          ? fed
          : await idsOf(statements, sql`SELECT ${rows.id} FROM ${rows} WHERE ${rows.changeSeq} > ${number}`);
      return new Set([...markedDirty, ...written]);
    },

    async hasAnnouncedDeletion(kind, number, wall) {
      const { seq, type, receivedAt } = events;
      // From the newest back to the time asked about: what is older is not looked at.
      const [row] = await statements.query(
        sql`SELECT 1 AS found FROM ${events} WHERE ${events.kind} = ${kind} AND ${isOneOf(type, [...DELETE_TYPES])}
          AND (${seq} > ${number} OR ${seq} > coalesce((SELECT ${seq} FROM ${events} WHERE ${receivedAt} < ${iso(wall)}
            ORDER BY ${seq} DESC LIMIT 1), 0)) LIMIT 1`,
      );
      return row !== undefined;
    },
  } satisfies Partial<BackfillStore>;
}

export async function countLive(unit: Sql, kind: Kind): Promise<number> {
  const live = sql`SELECT ${recordCounts.live} FROM ${recordCounts} WHERE ${recordCounts.kind} = ${kind}`;
  return (await single<number>(unit, live)) ?? 0;
}

/** Makes ids known that something named. Returns how many were new. */
export async function makeKnown(unit: Sql, kind: Kind, ids: readonly string[], now: Now): Promise<number> {
  if (ids.length === 0) return 0;
  return await unit.change(sql`${knownRows(unit, kind, ids, now)} DO NOTHING`);
}

const knownRows = ({ dialect }: Sql, kind: Kind, ids: readonly string[], { steady, wall }: Now) =>
  sql`INSERT INTO ${states} (kind, id, dirty_at, first_dirty_at, unverified_since, due_at)
    SELECT ${kind}, listed.id, CAST(${steady} AS bigint), CAST(${steady} AS bigint), ${dialect.instant(iso(wall))},
      CAST(${steady} AS bigint)
    FROM ${dialect.listed([...new Set(ids)].sort())} WHERE true ON CONFLICT (kind, id)`;

/**
 * Whether the service was heard of lately, so that a replica joins others or takes up at once where one was killed. The
 * clock of the database goes on meanwhile: what was noted in its time still holds.
 */
async function isServed(unit: Unit, now: Now): Promise<boolean> {
  const beat = await readFact(unit, 'heartbeat');
  return beat !== null && Math.abs(now.wall - Date.parse(beat)) < ALIVE_MS;
}

/** Only what lies ahead of this clock, which another one noted: it would keep a record waiting. */
async function pullBack(unit: Unit, { steady }: Now, { settleMs }: DirtyTiming): Promise<number> {
  const { readEndedAt, dirtyAt, firstDirtyAt, missingSince, unverifiedSince } = states;
  await unit.change(update(states, { readEndedAt: steady }, sql`${readEndedAt} > ${steady}`));
  const noLaterThan = (column: Column, latest: number) =>
    sql`CASE WHEN ${column} > ${latest} THEN ${latest} ELSE ${column} END`;
  return await unit.change(
    sql`UPDATE ${states} SET ${set(states, {
      dirtyAt: noLaterThan(dirtyAt, steady),
      firstDirtyAt: noLaterThan(firstDirtyAt, steady),
      missingSince: noLaterThan(missingSince, steady),
      dueAt: noLaterThan(states.dueAt, steady + settleMs),
    })} WHERE ${unverifiedSince} IS NOT NULL
      AND (${dirtyAt} > ${steady} OR ${firstDirtyAt} > ${steady} OR ${missingSince} > ${steady})`,
  );
}

/** After a longer pause, or on another server: nothing says that the clocks of then and of now are one. */
async function layAnew(
  unit: Unit,
  records: Records,
  { steady }: Now,
  { settleMs }: DirtyTiming,
): Promise<number> {
  // All of them, not only those that seem to lie ahead: a clock set forward makes the last read look old.
  await unit.change(update(states, { readEndedAt: steady }, sql`${states.readEndedAt} IS NOT NULL`));
  await records.showAnew(unit, steady);
  await unit.change(
    sql`UPDATE ${gaps} SET ${set(gaps, { coverableAt: Math.ceil(steady + settleMs) })}
      WHERE ${gaps.coverableAt} IS NOT NULL AND ${gaps.resolvedAt} IS NULL`,
  );
  return await unit.change(
    sql`UPDATE ${states} SET ${set(states, {
      dirtyAt: steady,
      firstDirtyAt: steady,
      dueAt: steady + settleMs,
      attempts: 0,
      missingSince: null,
      missingNumber: null,
      proven: sql`false`,
    })} WHERE ${states.unverifiedSince} IS NOT NULL`,
  );
}
