import type { Kind } from '../../compliance/kinds.ts';
import type { Database, Unit } from '../database.ts';
import { events, kindState, sweeps } from '../schema.sqlite.ts';
import type { BackfillStore, SweepProgress } from '../store.ts';
import { readFact, writtenFact } from './facts.ts';
import { hasUnnamed, healAfterSweep, healGap, kindsWantingSweep, openGap, resolveGap } from './gaps.ts';
import { as, excluded, insertInto, iso, set, sql } from './sql.ts';

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
  const { sql: statements } = database;
  return {
    startSweep: (kind, reason, now) =>
      database.transact(async (unit) => {
        const number = unit.numbers.current();
        const startedAt = iso(now.wall);
        await unit.change(
          sql`UPDATE ${sweeps} SET ${set(sweeps, { finishedAt: startedAt, outcome: 'interrupted' })}
            WHERE ${sweeps.kind} = ${kind} AND ${sweeps.finishedAt} IS NULL`,
        );
        const began = insertInto(sweeps, {
          kind,
          reason,
          startedAt,
          number,
          beganAt: Math.floor(now.steady),
        });
        const [row] = await unit.query<{ id: number }>(sql`${began} RETURNING ${sweeps.id}`);
        return { id: row!.id, number, hasUnnamed: await hasUnnamed(unit, kind) };
      }),

    async progressSweep(id, progress) {
      await database.transact((unit) => saveProgress(unit, id, progress));
    },

    async finishSweep(id, { outcome, error, progress, drift, hasDrift }, now) {
      await database.transact(async (unit) => {
        await saveProgress(unit, id, progress);
        const finishedAt = iso(now.wall);
        const { kind, number, beganAt } = sweeps;
        const [sweep] = await unit.query<{ kind: Kind; number: number; beganAt: number }>(
          sql`UPDATE ${sweeps} SET ${set(sweeps, { finishedAt, outcome, error, drift: unit.dialect.json(drift) })}
            WHERE ${sweeps.id} = ${id} RETURNING ${as({ kind, number, beganAt })}`,
        );
        if (sweep === undefined) return;
        if (hasDrift) {
          await unit.change(
            sql`UPDATE ${kindState} SET ${set(kindState, { inStepSince: finishedAt })}
              WHERE ${kindState.kind} = ${sweep.kind} AND ${kindState.inStepSince} IS NOT NULL`,
          );
        }
        if (outcome === 'complete') await healAfterSweep(unit, sweep, finishedAt);
      });
    },

    interruptSweeps: (now) =>
      database.transact(async (unit) => {
        await unit.change(
          sql`UPDATE ${sweeps} SET ${set(sweeps, { finishedAt: iso(now.wall), outcome: 'interrupted' })}
            WHERE ${sweeps.finishedAt} IS NULL`,
        );
        // Those that a stop broke off in good order as well as those that a crash left open: how far the last of a kind had come.
        const { id, kind, pages } = sweeps;
        return await unit.query<{ kind: Kind; pages: number }>(
          sql`SELECT ${as({ kind, pages })} FROM ${sweeps} WHERE ${id} IN (SELECT max(${id}) FROM ${sweeps} GROUP BY ${kind})
            AND ${sweeps.outcome} = 'interrupted' ORDER BY ${id}`,
        );
      }),

    async openGap(gap, error, now) {
      await database.transact((unit) => openGap(unit, gap, error, iso(now.wall)));
    },

    async healGap(gap, now) {
      await database.transact((unit) => healGap(unit, gap, iso(now.wall)));
    },

    resolveGap: (id, now) => database.transact((unit) => resolveGap(unit, id, iso(now.wall))),

    kindsWantingSweep: (now) => kindsWantingSweep(statements, now),

    async noteAccess(kind, access, how, now) {
      const name = how === 'read' ? 'readWith' : 'probedWith';
      const column = kindState[name];
      await database.transact((unit) =>
        unit.change(
          sql`${insertInto(kindState, { kind, [name]: access, readAt: iso(now.wall) })}
            ON CONFLICT (kind) DO UPDATE SET ${set(kindState, {
              [name]: excluded(column),
              readAt: excluded(kindState.readAt),
            })} WHERE ${column} IS DISTINCT FROM ${excluded(column)}`,
        ),
      );
    },

    async beat(now, service) {
      await database.transact(async (unit) => {
        const nowIso = iso(now.wall);
        const facts = {
          heartbeat: nowIso,
          events_only: service.eventsOnly ? '1' : '0',
          settle_ms: String(service.settleMs),
          sweep_ms: String(service.sweepMs),
          blocked: service.blocked ? '1' : '0',
          unreachable: service.unreachable ? '1' : '0',
          access: service.access,
        };
        for (const [name, value] of Object.entries(facts)) unit.send(writtenFact(name, value));
        const since = excluded(kindState.inStepSince);
        unit.send(
          sql`INSERT INTO ${kindState} (kind, in_step_since)
            SELECT kind, CASE WHEN verdict = 'in_step' THEN ${unit.dialect.instant(nowIso)} END FROM sync_status WHERE true
            ON CONFLICT (kind) DO UPDATE SET ${set(kindState, {
              inStepSince: sql`CASE WHEN ${since} IS NOT NULL THEN coalesce(${kindState.inStepSince}, ${since}) END`,
            })}`,
        );
      });
    },

    async lastBeat() {
      const at = await readFact(statements, 'heartbeat');
      return at === null ? null : Date.parse(at);
    },

    async lastDelivery(among) {
      const { seq, receivedAt, lastDeliveredAt } = events;
      const pause = statements.dialect.millisecondsBetween(sql`before`, sql`received_at`);
      // A late duplicate of an old event is the exception: the newest rows tell.
      const [row] = await statements.query<{ last: string | null; deliveries: number; pause: number | null }>(
        sql`SELECT max(last_delivered_at) AS last, count(*) AS deliveries, max(${pause}) AS pause
          FROM (SELECT last_delivered_at, received_at, lag(received_at) OVER (ORDER BY seq) AS before
            FROM (SELECT ${seq}, ${lastDeliveredAt}, ${receivedAt} FROM ${events} ORDER BY ${seq} DESC LIMIT ${among}) AS newest
          ) AS paced`,
      );
      const { last = null, deliveries = 0, pause: longest = null } = row ?? {};
      return {
        wall: last === null ? null : Date.parse(last),
        longestPauseMs: longest === null || deliveries < FEWEST_FOR_USUAL ? null : Math.round(longest),
      };
    },
  };
}

async function saveProgress(unit: Unit, id: number, progress: SweepProgress): Promise<void> {
  const { pages, seen, inserted, updated, deleted, unchanged } = progress;
  await unit.change(
    sql`UPDATE ${sweeps} SET ${set(sweeps, { pages, seen, inserted, updated, deleted, unchanged })} WHERE ${sweeps.id} = ${id}`,
  );
}
