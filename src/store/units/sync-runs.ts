import type { Kind } from '../../compliance/kinds.ts';
import type { Database, Unit } from '../database.ts';
import { events, kindState, syncRuns } from '../schema.ts';
import type { BackfillStore, SyncRunProgress } from '../store.ts';
import {
  hasUnnamed,
  kindsWantingFullSync,
  openGap,
  resolveAfterFullSync,
  resolveGap,
  resolveGapById,
} from './gaps.ts';
import { as, excluded, insertInto, iso, set, single, sql, update, upsert, writtenFact } from './sql.ts';

/** Fewer deliveries than this say nothing of what is usual. */
const FEWEST_FOR_USUAL = 10;

/** Sync runs, gaps and the heartbeat: the mirror's own diary. */
export function createFullSyncVerbs(database: Database) {
  const { sql: statements } = database;
  return {
    startSyncRun: (kind, reason, now) =>
      database.transact(async (unit) => {
        const number = unit.numbers.current();
        const startedAt = iso(now.wall);
        await unit.change(
          sql`UPDATE ${syncRuns} SET ${set(syncRuns, { finishedAt: startedAt, outcome: 'interrupted' })}
            WHERE ${syncRuns.kind} = ${kind} AND ${syncRuns.finishedAt} IS NULL`,
        );
        const began = insertInto(syncRuns, {
          kind,
          reason,
          startedAt,
          number,
          beganAt: Math.floor(now.steady),
        });
        const id = await single<number>(unit, sql`${began} RETURNING ${syncRuns.id}`);
        return { id: id!, number, hasUnnamed: await hasUnnamed(unit, kind) };
      }),

    async progressSyncRun(id, progress) {
      await database.transact((unit) => saveProgress(unit, id, progress));
    },

    async finishSyncRun(id, { outcome, error, progress, differences, hasDifferences }, now) {
      await database.transact(async (unit) => {
        await saveProgress(unit, id, progress);
        const finishedAt = iso(now.wall);
        const { kind, number, beganAt } = syncRuns;
        const [fullSync] = await unit.query<{ kind: Kind; number: number; beganAt: number }>(
          sql`UPDATE ${syncRuns} SET ${set(syncRuns, { finishedAt, outcome, error, differences: unit.dialect.json(differences) })}
            WHERE ${syncRuns.id} = ${id} RETURNING ${as({ kind, number, beganAt })}`,
        );
        if (fullSync === undefined) return;
        if (hasDifferences) {
          await unit.change(
            sql`UPDATE ${kindState} SET ${set(kindState, { inSyncSince: finishedAt })}
              WHERE ${kindState.kind} = ${fullSync.kind} AND ${kindState.inSyncSince} IS NOT NULL`,
          );
        }
        if (outcome === 'complete') await resolveAfterFullSync(unit, fullSync, finishedAt);
      });
    },

    interruptSyncRuns: (now) =>
      database.transact(async (unit) => {
        await unit.change(
          sql`UPDATE ${syncRuns} SET ${set(syncRuns, { finishedAt: iso(now.wall), outcome: 'interrupted' })}
            WHERE ${syncRuns.finishedAt} IS NULL`,
        );
        // Those that a stop broke off in good order as well as those that a crash left open: how far the last of a kind had come.
        const { id, kind, pages } = syncRuns;
        return await unit.query<{ kind: Kind; pages: number }>(
          sql`SELECT ${as({ kind, pages })} FROM ${syncRuns} WHERE ${id} IN (SELECT max(${id}) FROM ${syncRuns} GROUP BY ${kind})
            AND ${syncRuns.outcome} = 'interrupted' ORDER BY ${id}`,
        );
      }),

    async openGap(gap, error, now) {
      await database.transact((unit) => openGap(unit, gap, error, now));
    },

    async resolveGap(gap, now) {
      await database.transact((unit) => resolveGap(unit, gap, iso(now.wall)));
    },

    resolveGapById: (id, now) => database.transact((unit) => resolveGapById(unit, id, iso(now.wall))),

    kindsWantingFullSync: (now) => kindsWantingFullSync(statements, now),

    async noteAccess(kind, access, how, now) {
      const name = how === 'read' ? 'readWith' : 'probedWith';
      const column = kindState[name];
      await database.transact((unit) =>
        unit.change(
          sql`${upsert(kindState, ['kind'], { kind, [name]: access, readAt: iso(now.wall) })}
            WHERE ${column} IS DISTINCT FROM ${excluded(column)}`,
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
          full_sync_ms: String(service.fullSyncMs),
          blocked: service.blocked ? '1' : '0',
          unreachable: service.unreachable ? '1' : '0',
          access: service.access,
        };
        for (const [name, value] of Object.entries(facts)) unit.send(writtenFact(name, value));
        const since = excluded(kindState.inSyncSince);
        unit.send(
          sql`INSERT INTO ${kindState} (kind, in_sync_since)
            SELECT kind, CASE WHEN verdict = 'in_sync' THEN ${unit.dialect.instant(nowIso)} END FROM sync_status WHERE true
            ON CONFLICT (kind) DO UPDATE SET ${set(kindState, {
              inSyncSince: sql`CASE WHEN ${since} IS NOT NULL THEN coalesce(${kindState.inSyncSince}, ${since}) END`,
            })}`,
        );
      });
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
  } satisfies Partial<BackfillStore>;
}

export async function saveProgress(unit: Unit, id: number, progress: SyncRunProgress): Promise<void> {
  const { pages, seen, inserted, updated, deleted, unchanged } = progress;
  await unit.change(
    update(syncRuns, { pages, seen, inserted, updated, deleted, unchanged }, sql`${syncRuns.id} = ${id}`),
  );
}
