import type { Kind } from '../../compliance/kinds.ts';
import { dueAt } from '../../mirror/decide.ts';
import { TABLES } from '../record-rows.ts';
import type { BackfillStore, DueRecord, HintTiming, Now } from '../store.ts';
import type { Database, Sql } from './connection.ts';
import { rowsOf } from './rows.ts';
import { instantOf } from './types.ts';

type DueVerbs = Pick<
  BackfillStore,
  | 'currentNumber'
  | 'rehintUnverified'
  | 'dueRecords'
  | 'countDue'
  | 'nextDueAt'
  | 'makeKnown'
  | 'makeDue'
  | 'recordReadFailure'
  | 'cycleRecords'
  | 'markSwept'
  | 'countKnown'
  | 'knownIds'
  | 'countLive'
  | 'unseenBy'
  | 'touchedSince'
>;

/** Somebody has said within this time that the service lives: several of its beats. */
const ALIVE_MS = 60_000;

/** Which records are known, and when each is to be read. */
export function createDueVerbs(database: Database): DueVerbs {
  const { sql } = database;
  return {
    async currentNumber() {
      const [row] = await sql.query<{ value: number }>('SELECT value FROM counter WHERE one = 1');
      return row?.value ?? 0;
    },

    async rehintUnverified(now, timing) {
      return await database.transact(async (unit) =>
        (await isServed(unit, now)) ? await pullBack(unit, now, timing) : await layAnew(unit, now, timing),
      );
    },

    async dueRecords(kind, now, timing, limit) {
      const rows = await sql.query<{
        id: string;
        attempts: number;
        missing_since: number | null;
        hintAt: number | null;
        firstHintAt: number | null;
      }>(
        `SELECT id, attempts, missing_since, hint_at AS "hintAt", first_hint_at AS "firstHintAt" FROM record_state
         WHERE kind = $1 AND due_at <= $2 ORDER BY due_at LIMIT $3`,
        [kind, now.steady, limit],
      );
      const due: DueRecord[] = [];
      const later: { id: string; at: number; hintAt: number }[] = [];
      for (const row of rows) {
        const at = dueAt(row, timing);
        const waits = at !== null && at > now.steady && row.attempts === 0 && row.missing_since === null;
        if (waits) later.push({ id: row.id, at: Math.round(at), hintAt: row.hintAt ?? 0 });
        else due.push({ kind, id: row.id, attempts: row.attempts, missing: row.missing_since !== null });
      }
      if (later.length > 0) await putOff(database, kind, later);
      return due;
    },

    async countDue(kind, now, atMost) {
      const [row] = await sql.query<{ n: number }>(
        `SELECT count(*) AS n FROM
           (SELECT 1 FROM record_state WHERE kind = $1 AND due_at <= $2 LIMIT $3) AS due`,
        [kind, now.steady, atMost],
      );
      return row?.n ?? 0;
    },

    async nextDueAt(kind) {
      const [row] = await sql.query<{ at: number | null }>(
        'SELECT min(due_at) AS at FROM record_state WHERE kind = $1 AND due_at IS NOT NULL',
        [kind],
      );
      return row?.at ?? null;
    },

    async makeKnown(kind, ids, now) {
      return await database.transact((unit) => makeKnown(unit, kind, ids, now));
    },

    async makeDue(kind, ids, now) {
      await database.transact((unit) =>
        unit.change(
          `${MAKE_KNOWN} DO UPDATE SET due_at = excluded.due_at, attempts = 0`,
          knownValues(kind, ids, now),
        ),
      );
    },

    async recordReadFailure(kind, id, error, retryAtMs) {
      await database.transact((unit) =>
        unit.change(
          'UPDATE record_state SET attempts = attempts + 1, error = $1, due_at = $2 WHERE kind = $3 AND id = $4',
          [error, retryAtMs, kind, id],
        ),
      );
    },

    async cycleRecords(kind, sweepId, limit) {
      const rows = await sql.query<{ id: string }>(
        `SELECT id FROM record_state WHERE kind = $1 AND sweep_id IS DISTINCT FROM $2::bigint
         ORDER BY unverified_since IS NULL, read_number, id LIMIT $3`,
        [kind, sweepId, limit],
      );
      return rows.map((row) => row.id);
    },

    async markSwept(kind, id, sweepId) {
      await database.transact((unit) =>
        unit.change('UPDATE record_state SET sweep_id = $1 WHERE kind = $2 AND id = $3', [sweepId, kind, id]),
      );
    },

    async countKnown(kind) {
      const [row] = await sql.query<{ known: number }>('SELECT known FROM record_counts WHERE kind = $1', [
        kind,
      ]);
      return row?.known ?? 0;
    },

    async knownIds(kind, after, limit) {
      return await sql.query<{ id: string; alive: boolean }>(
        `SELECT s.id, r.id IS NOT NULL AND r.deleted_at IS NULL AS alive FROM record_state s
         LEFT JOIN ${TABLES[kind]} r ON r.id = s.id WHERE s.kind = $1 AND s.id > $2 ORDER BY s.id LIMIT $3`,
        [kind, after, limit],
      );
    },

    async countLive(kind) {
      return await countLive(sql, kind);
    },

    async unseenBy(kind, sweepId, number) {
      const rows = await sql.query<{ id: string }>(
        `SELECT s.id FROM record_state s LEFT JOIN ${TABLES[kind]} r ON r.id = s.id
         WHERE s.kind = $1 AND s.sweep_id IS DISTINCT FROM $2::bigint AND s.hint <= $3 AND coalesce(r.change_seq, 0) <= $3
         AND ((r.id IS NOT NULL AND r.deleted_at IS NULL) OR s.unverified_since IS NOT NULL) ORDER BY s.id`,
        [kind, sweepId, number],
      );
      return rows.map((row) => row.id);
    },

    async touchedSince(kind, number) {
      const rows = await sql.query<{ id: string }>(
        `SELECT id FROM record_state WHERE kind = $1 AND hint > $2
         UNION SELECT id FROM ${TABLES[kind]} WHERE change_seq > $2`,
        [kind, number],
      );
      return new Set(rows.map((row) => row.id));
    },
  };
}

export async function countLive(sql: Sql, kind: Kind): Promise<number> {
  const [row] = await sql.query<{ live: number }>('SELECT live FROM record_counts WHERE kind = $1', [kind]);
  return row?.live ?? 0;
}

/** Makes ids known that something named. Returns how many were new. */
export async function makeKnown(sql: Sql, kind: Kind, ids: readonly string[], now: Now): Promise<number> {
  if (ids.length === 0) return 0;
  return await sql.change(`${MAKE_KNOWN} DO NOTHING`, knownValues(kind, ids, now));
}

const MAKE_KNOWN = `INSERT INTO record_state (kind, id, hint_at, first_hint_at, unverified_since, due_at)
  SELECT $1, id, $3::bigint, $3::bigint, $4::timestamptz, $3::bigint FROM unnest($2::text[]) AS id ON CONFLICT (kind, id)`;

const knownValues = (kind: Kind, ids: readonly string[], now: Now) => [
  ...[kind, [...new Set(ids)].sort()],
  ...[now.steady, instantOf(now.wall)],
];

/** Unless another hint came between: then it is due when that one says. */
async function putOff(
  database: Database,
  kind: Kind,
  later: readonly { id: string; at: number; hintAt: number }[],
): Promise<void> {
  await database.transact((unit) =>
    unit.change(
      `UPDATE record_state s SET due_at = x.at FROM json_to_recordset($2::json) AS x (id text, at bigint, "hintAt" bigint)
       WHERE s.kind = $1 AND s.id = x.id AND s.hint_at = x."hintAt" AND s.attempts = 0 AND s.missing_since IS NULL`,
      [kind, rowsOf(later)],
    ),
  );
}

/**
 * Whether the service was heard of lately, so that a replica joins others or takes up at once where one was killed. The
 * clock of the database goes on meanwhile: what was noted in its time still holds.
 */
async function isServed(sql: Sql, now: Now): Promise<boolean> {
  const [row] = await sql.query<{ value: string }>("SELECT value FROM facts WHERE name = 'heartbeat'");
  return row !== undefined && Math.abs(now.wall - Date.parse(row.value)) < ALIVE_MS;
}

/** Only what lies ahead of this clock, which another one noted: it would keep a record waiting. */
async function pullBack(sql: Sql, now: Now, timing: HintTiming): Promise<number> {
  await sql.change('UPDATE record_state SET read_ended_at = $1 WHERE read_ended_at > $1', [now.steady]);
  return await sql.change(
    `UPDATE record_state SET hint_at = least(hint_at, $1::bigint), first_hint_at = least(first_hint_at, $1::bigint),
       missing_since = least(missing_since, $1::bigint), due_at = least(due_at, $2::bigint) WHERE unverified_since IS NOT NULL
       AND (hint_at > $1::bigint OR first_hint_at > $1::bigint OR missing_since > $1::bigint)`,
    [now.steady, now.steady + timing.settleMs],
  );
}

/** After a longer pause, or on another server: nothing says that the clocks of then and of now are one. */
async function layAnew(sql: Sql, now: Now, timing: HintTiming): Promise<number> {
  // All of them, not only those that seem to lie ahead: a clock set forward makes the last read look old.
  await sql.change('UPDATE record_state SET read_ended_at = $1 WHERE read_ended_at IS NOT NULL', [
    now.steady,
  ]);
  for (const table of Object.values(TABLES)) {
    await sql.change(
      `UPDATE ${table} SET shown = (SELECT jsonb_object_agg(key, $1::bigint) FROM jsonb_object_keys(shown) AS key)
       WHERE unverified_since IS NOT NULL AND shown IS NOT NULL`,
      [now.steady],
    );
  }
  await sql.change('UPDATE gaps SET coverable_at = $1 WHERE coverable_at IS NOT NULL AND healed_at IS NULL', [
    Math.ceil(now.steady + timing.settleMs),
  ]);
  return await sql.change(
    `UPDATE record_state SET hint_at = $1, first_hint_at = $1, due_at = $2, attempts = 0, missing_since = NULL,
       missing_number = NULL, proven = false WHERE unverified_since IS NOT NULL`,
    [now.steady, now.steady + timing.settleMs],
  );
}
