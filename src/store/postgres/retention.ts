import { contentHashOf } from '../../inbox/content.ts';
import type { EventState } from '../reports.ts';
import type { RetentionStore, Trimmed, TrimStep } from '../store.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { readFact, writeFact } from './facts.ts';
import { rowsOf } from './rows.ts';
import { tally } from './tally.ts';
import { instantOf } from './types.ts';

/** Where the history begins, as `facts` keep it. */
export const TRIMMED_CHANGES_FACT = 'changes_trimmed';

/** How far bodies have been trimmed, as `facts` keep it: up to this number no event has one but dead ones. */
const TRIMMED_BODIES_FACT = 'bodies_trimmed';

/** For whoever takes an event out of a state that keeps its body: trimming comes back to it. Within a transaction. */
export async function trimBodiesAgainFrom(sql: Sql, seq: number): Promise<void> {
  // CASE, because the order of two conditions is the planner's choice, and other facts are no numbers.
  await sql.change(
    'UPDATE facts SET value = $1 WHERE CASE WHEN name = $2 THEN value::bigint >= $3 ELSE false END',
    [String(seq - 1), TRIMMED_BODIES_FACT, seq],
  );
}

interface Candidate {
  key: number;
  at: string;
  /** False: looked at, and to be left alone whatever its age. */
  ready: boolean;
}

/** What is looked at, a few of the oldest rows in the order in which they came. */
const EVENTS = `SELECT seq AS key, received_at AS at, state IN ('done', 'ignored', 'discarded') AS ready
  FROM events WHERE seq > $1`;
const QUARANTINED =
  'SELECT id AS key, received_at AS at, true AS ready FROM quarantine WHERE body IS NOT NULL AND id > $1';
const CHANGES = 'SELECT seq AS key, at, true AS ready FROM changes WHERE seq > $1';
const AUDIT = 'SELECT id AS key, at, true AS ready FROM audit WHERE id > $1';

/**
 * Of those that have a body still: what it comes to, by which a late redelivery is told from another event. Worked out
 * here and not at every arrival. Returns which they are.
 */
async function hashBodies(sql: Sql, keys: readonly number[]): Promise<number[]> {
  const rows = await sql.query<{ seq: number; body: string }>(
    'SELECT seq, body FROM events WHERE seq = ANY ($1::bigint[]) AND body IS NOT NULL ORDER BY seq',
    [keys],
  );
  await sql.change(
    `UPDATE events e SET content_hash = x.hash FROM json_to_recordset($1::json) AS x (seq bigint, hash text)
     WHERE e.seq = x.seq`,
    [rowsOf(rows.map(({ seq, body }) => ({ seq, hash: contentHashOf(body) })))],
  );
  return rows.map((row) => row.seq);
}

/** Each verb looks at a few of the oldest rows in the order in which they came, and is over at the first one too young. */
export function createRetentionVerbs(database: Database): RetentionStore {
  async function walk(
    { before, after, limit }: TrimStep,
    source: string,
    trim: (unit: Unit, keys: number[], last: Candidate) => Promise<unknown>,
  ): Promise<Trimmed> {
    return await database.transact(async (unit) => {
      const looked = await unit.query<Candidate>(`${source} ORDER BY key LIMIT $2`, [after, limit]);
      const tooYoung = looked.findIndex((row) => Date.parse(row.at) >= before);
      const old = tooYoung === -1 ? looked : looked.slice(0, tooYoung);
      const ready = old.filter((row) => row.ready);
      const last = ready.at(-1);
      if (last !== undefined)
        await trim(
          unit,
          ready.map((row) => row.key),
          last,
        );
      const isOver = tooYoung !== -1 || looked.length < limit;
      return { trimmed: ready.length, next: isOver ? null : (looked.at(-1)?.key ?? null) };
    });
  }

  return {
    async trimEventBodies({ before, limit }) {
      return await database.transact(async (unit) => {
        const from = Number((await readFact(unit, TRIMMED_BODIES_FACT)) ?? 0);
        const looked = await unit.query<{ key: number; at: string; state: EventState }>(
          'SELECT seq AS key, received_at AS at, state FROM events WHERE seq > $1 ORDER BY seq LIMIT $2',
          [from, limit],
        );
        // One that waits is worked off before trimming goes past it; a dead one brings trimming back when it is dead no more.
        const end = looked.findIndex((row) => Date.parse(row.at) >= before || row.state === 'pending');
        const past = end === -1 ? looked : looked.slice(0, end);
        const ready = past.filter((row) => row.state !== 'dead').map((row) => row.key);
        const trimmed = await hashBodies(unit, ready);
        await unit.change('UPDATE events SET body = NULL WHERE seq = ANY ($1::bigint[])', [trimmed]);
        const last = past.at(-1)?.key;
        if (last !== undefined) await writeFact(unit, TRIMMED_BODIES_FACT, String(last));
        return {
          trimmed: trimmed.length,
          next: end === -1 && looked.length === limit ? (last ?? null) : null,
        };
      });
    },

    trimQuarantineBodies: (step) =>
      walk(step, QUARANTINED, (sql, keys) =>
        sql.change('UPDATE quarantine SET body = NULL WHERE id = ANY ($1::bigint[])', [keys]),
      ),

    trimEvents: (step) =>
      walk(step, EVENTS, async (unit, keys) => {
        await hashBodies(unit, keys);
        const gone = await unit.query<{ state: EventState; n: number }>(
          `WITH gone AS (DELETE FROM events WHERE seq = ANY ($1::bigint[]) RETURNING id, content_hash, received_at, state),
             kept AS (INSERT INTO trimmed_events (id, content_hash, received_at) SELECT id, content_hash, received_at FROM gone)
           SELECT state, count(*) AS n FROM gone GROUP BY state`,
          [keys],
        );
        tally(unit, Object.fromEntries(gone.map(({ state, n }) => [state, -n])));
      }),

    trimChanges: (step) =>
      walk(step, CHANGES, async (sql, keys, { key, at }) => {
        await sql.change('DELETE FROM changes WHERE seq = ANY ($1::bigint[])', [keys]);
        // With the rows it speaks of: a follower that finds them gone must find this as well.
        await writeFact(sql, TRIMMED_CHANGES_FACT, JSON.stringify({ through: key, at }));
      }),

    trimAudit: (step) =>
      walk(step, AUDIT, (sql, keys) => sql.change('DELETE FROM audit WHERE id = ANY ($1::bigint[])', [keys])),

    async trimRegistrations({ before, limit }) {
      const trimmed = await database.transact((unit) =>
        unit.change(
          `DELETE FROM registrations WHERE upstream_id IN
             (SELECT upstream_id FROM registrations WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`,
          [instantOf(before), limit],
        ),
      );
      return { trimmed, next: trimmed < limit ? null : 0 };
    },

    async trimEventIds({ before, limit }) {
      const trimmed = await database.transact((unit) =>
        unit.change(
          `DELETE FROM trimmed_events WHERE id IN
             (SELECT id FROM trimmed_events WHERE received_at < $1 ORDER BY received_at LIMIT $2)`,
          [instantOf(before), limit],
        ),
      );
      return { trimmed, next: trimmed < limit ? null : 0 };
    },
  };
}
