import type { Kind } from '../../compliance/kinds.ts';
import type { BackfillStore, SweepProgress } from '../store.ts';
import type { Database, Sql } from './connection.ts';
import { epochSettler } from './epoch.ts';
import { healAfterSweep, healGap, kindsWantingSweep, openGap, resolveGap } from './gaps.ts';
import { rowsOf } from './rows.ts';
import { keepJson } from './text.ts';
import { instantOf } from './types.ts';

type SweepVerbs = Pick<
  BackfillStore,
  | 'startSweep'
  | 'progressSweep'
  | 'finishSweep'
  | 'interruptSweeps'
  | 'openGap'
  | 'healGap'
  | 'resolveGap'
  | 'kindsWantingSweep'
  | 'noteAccess'
  | 'beat'
  | 'lastBeat'
  | 'lastDelivery'
>;

/** Fewer deliveries than this say nothing of what is usual. */
const FEWEST_FOR_USUAL = 10;

/** Sweeps, gaps and the heartbeat: the mirror's own diary. */
export function createSweepVerbs(database: Database): SweepVerbs {
  const { sql } = database;
  const settleEpoch = epochSettler(database);
  return {
    async startSweep(kind, reason, now) {
      return await database.transact(async (unit) => {
        const number = unit.numbers.current();
        await unit.change(
          "UPDATE sweeps SET finished_at = $2, outcome = 'interrupted' WHERE kind = $1 AND finished_at IS NULL",
          [kind, instantOf(now.wall)],
        );
        const [row] = await unit.query<{ id: number }>(
          'INSERT INTO sweeps (kind, reason, started_at, number, began_at) VALUES ($1, $2, $3, $4, $5) RETURNING id',
          [kind, reason, instantOf(now.wall), number, Math.floor(now.steady)],
        );
        return { id: row?.id ?? 0, number };
      });
    },

    async progressSweep(id, progress) {
      await database.transact((unit) => saveProgress(unit, id, progress));
    },

    async finishSweep(id, result, now) {
      await database.transact(async (unit) => {
        await saveProgress(unit, id, result.progress);
        const nowIso = instantOf(now.wall);
        const [sweep] = await unit.query<{ kind: Kind; number: number; beganAt: number }>(
          `UPDATE sweeps SET finished_at = $2, outcome = $3, error = $4, drift = $5::jsonb WHERE id = $1
           RETURNING kind, number, began_at AS "beganAt"`,
          [
            ...[id, nowIso, result.outcome, result.error],
            result.drift === undefined ? null : keepJson(result.drift),
          ],
        );
        if (sweep !== undefined && result.hasDrift) {
          await unit.change(
            'UPDATE kind_state SET in_step_since = $2 WHERE kind = $1 AND in_step_since IS NOT NULL',
            [sweep.kind, nowIso],
          );
        }
        if (sweep === undefined || result.outcome !== 'complete') return;
        await healAfterSweep(unit, sweep, nowIso);
      });
    },

    async interruptSweeps(now) {
      return await database.transact(async (unit) => {
        await unit.change(
          "UPDATE sweeps SET finished_at = $1, outcome = 'interrupted' WHERE finished_at IS NULL",
          [instantOf(now.wall)],
        );
        // Those that a stop broke off in good order as well as those that a crash left open: how far the last of a kind had come.
        return await unit.query<{ kind: Kind; pages: number }>(
          `SELECT kind, pages FROM sweeps
           WHERE id IN (SELECT max(id) FROM sweeps GROUP BY kind) AND outcome = 'interrupted' ORDER BY id`,
        );
      });
    },

    async openGap(gap, error, now) {
      await database.transact((unit) => openGap(unit, gap, error, instantOf(now.wall)));
    },

    async healGap(gap, now) {
      await database.transact((unit) => healGap(unit, gap, instantOf(now.wall)));
    },

    async resolveGap(id, now) {
      return await database.transact((unit) => resolveGap(unit, id, instantOf(now.wall)));
    },

    async kindsWantingSweep(now) {
      return await kindsWantingSweep(sql, now);
    },

    async noteAccess(kind, access, how, now) {
      const column = how === 'read' ? 'read_with' : 'probed_with';
      await database.transact((unit) =>
        unit.change(
          `INSERT INTO kind_state AS k (kind, ${column}, read_at) VALUES ($1, $2, $3)
           ON CONFLICT (kind) DO UPDATE SET read_at = excluded.read_at, ${column} = excluded.${column}
           WHERE k.${column} IS DISTINCT FROM excluded.${column}`,
          [kind, access, instantOf(now.wall)],
        ),
      );
    },

    async beat(now, service) {
      await settleEpoch();
      await database.transact(async (unit) => {
        const nowIso = instantOf(now.wall);
        const facts = {
          heartbeat: nowIso,
          events_only: service.eventsOnly ? '1' : '0',
          settle_ms: String(service.settleMs),
          sweep_ms: String(service.sweepMs),
          blocked: service.blocked ? '1' : '0',
          unreachable: service.unreachable ? '1' : '0',
          access: service.access,
        };
        const rows = Object.entries(facts).map(([name, value]) => ({ name, value }));
        await unit.change(
          `INSERT INTO facts (name, value) SELECT name, value FROM json_to_recordset($1::json) AS x (name text, value text)
           ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
          [rowsOf(rows)],
        );
        await unit.change(
          `INSERT INTO kind_state AS k (kind, in_step_since)
           SELECT kind, CASE WHEN verdict = 'in_step' THEN $1::timestamptz END FROM sync_status
           ON CONFLICT (kind) DO UPDATE SET in_step_since =
             CASE WHEN excluded.in_step_since IS NOT NULL THEN coalesce(k.in_step_since, excluded.in_step_since) END`,
          [nowIso],
        );
      });
    },

    async lastBeat() {
      const [row] = await sql.query<{ value: string }>("SELECT value FROM facts WHERE name = 'heartbeat'");
      return row === undefined ? null : Date.parse(row.value);
    },

    async lastDelivery(among) {
      // A late duplicate of an old event is the exception: the newest rows tell.
      const [row] = await sql.query<{ last: string | null; deliveries: number; pause: number | null }>(
        `SELECT max(last_delivered_at) AS last, count(*) AS deliveries,
           (extract(epoch FROM max(received_at - before)) * 1000)::float8 AS pause
         FROM (SELECT last_delivered_at, received_at, lag(received_at) OVER (ORDER BY seq) AS before
           FROM (SELECT seq, last_delivered_at, received_at FROM events ORDER BY seq DESC LIMIT $1) AS newest) AS paced`,
        [among],
      );
      const pause = row?.pause ?? null;
      return {
        wall: row?.last == null ? null : Date.parse(row.last),
        longestPauseMs:
          pause === null || (row?.deliveries ?? 0) < FEWEST_FOR_USUAL ? null : Math.round(pause),
      };
    },
  };
}

async function saveProgress(sql: Sql, id: number, p: SweepProgress): Promise<number> {
  return await sql.change(
    `UPDATE sweeps SET pages = $2, seen = $3, inserted = $4, updated = $5, deleted = $6, unchanged = $7 WHERE id = $1`,
    [id, p.pages, p.seen, p.inserted, p.updated, p.deleted, p.unchanged],
  );
}
