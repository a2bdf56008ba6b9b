import { DELETE_TYPES, type Kind } from '../../compliance/kinds.ts';
import { DEFAULT_ID_POINTERS } from '../../compliance/pointers.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { events, facts, kindState, type SQL, syncRuns } from '../schema.ts';
import type {
  GapKey,
  Lease,
  Now,
  ReadingFact,
  ServiceFacts,
  SyncRunEnd,
  SyncRunProgress,
} from '../values.ts';
import { countOf } from './due.ts';
import {
  hasUnnamed,
  kindsWantingFullSync,
  LAST_RUN_BEFORE_ACCESS,
  openGap,
  resolveAfterFullSync,
  resolveGap,
} from './gaps.ts';
import { TABLE_OF } from './records.ts';
import { requireLease } from './replicas.ts';
import {
  excluded,
  idsOf,
  insertInto,
  isOneOf,
  iso,
  readFact,
  singleValue,
  sql,
  update,
  upsert,
  writeFact,
  writerOf,
  writtenFact,
} from './sql.ts';
import { trimmedChanges } from './upkeep.ts';

/** With fewer deliveries the longest pause does not show what is usual. */
const FEWEST_FOR_USUAL = 10;

/** Sync runs, and what they have not seen; gaps and the heartbeat: what the mirror notes about itself. */
export function createFullSyncVerbs(database: Database) {
  const { sql: statements } = database;
  return {
    /**
     * Only one of a kind runs at a time: an open one becomes `interrupted`. `hasUnnamed`: a gap is open that a full list resolves.
     * If the `lease` is lost, rejects with MirrorError `lease_lost`, and the new owner's run goes on.
     */
    startSyncRun: (
      kind: Kind,
      reason: string,
      now: Now,
      lease?: Lease,
    ): Promise<{ id: number; number: number; hasUnnamed: boolean }> =>
      database.transact(async (unit) => {
        await requireLease(unit, lease);
        const number = unit.numbers.current();
        const startedAt = iso(now.wall);
        await unit.change(interrupted(startedAt, sql`kind = ${kind} AND finished_at IS NULL`));
        const began = { kind, reason, startedAt, number, beganAt: Math.floor(now.steady) };
        const id = await singleValue<number>(unit, sql`${insertInto(syncRuns, began)} RETURNING id`);
        return { id: id!, number, hasUnnamed: await hasUnnamed(unit, kind) };
      }),

    async progressSyncRun(id: number, progress: SyncRunProgress): Promise<void> {
      await database.transact((unit) => saveProgress(unit, id, progress));
    },

    /** A complete one resolves earlier gaps. If it found unannounced differences, the kind counts as in sync only from now on. */
    async finishSyncRun(
      id: number,
      { outcome, error, progress, differences, hasDifferences }: SyncRunEnd,
      now: Now,
    ): Promise<void> {
      await database.transact(async (unit) => {
        await saveProgress(unit, id, progress);
        const finishedAt = iso(now.wall);
        const end = { finishedAt, outcome, error, differences: unit.dialect.json(differences) };
        const [fullSync] = await unit.query<{ kind: Kind; number: number; beganAt: number }>(
          sql`${update(syncRuns, end, sql`id = ${id} AND finished_at IS NULL`)}
            RETURNING kind, number, began_at AS "beganAt"`,
        );
        // Another replica took over, and the run is `interrupted`.
        if (fullSync === undefined) return;
        if (hasDifferences) {
          const wasInSync = sql`kind = ${fullSync.kind} AND in_sync_since IS NOT NULL`;
          await unit.change(update(kindState, { inSyncSince: finishedAt }, wasInSync));
        }
        if (outcome === 'complete') await resolveAfterFullSync(unit, fullSync, finishedAt);
      });
    },

    /**
     * At start: open sync runs become `interrupted`. Returns the last run of each kind, if a crash or a stop interrupted it. `lease` as
     * for `startSyncRun`.
     */
    interruptSyncRuns: (now: Now, lease?: Lease): Promise<{ kind: Kind; pages: number }[]> =>
      database.transact(async (unit) => {
        await requireLease(unit, lease);
        await unit.change(interrupted(iso(now.wall), sql`finished_at IS NULL`));
        return await unit.query<{ kind: Kind; pages: number }>(
          sql`SELECT kind, pages FROM sync_runs WHERE id IN (SELECT max(id) FROM sync_runs GROUP BY kind)
            AND outcome = 'interrupted' ORDER BY id`,
        );
      }),

    /** Ids that are alive or unverified, which the sync run has not seen, and which nothing has touched since `number`. */
    unseenBy: (kind: Kind, syncRunId: number, number: number): Promise<string[]> =>
      idsOf(
        statements,
        sql`SELECT s.id FROM record_state s LEFT JOIN ${TABLE_OF[kind]} r ON r.id = s.id
          WHERE s.kind = ${kind} AND s.sync_run_id IS DISTINCT FROM ${syncRunId}
            AND s.dirty <= ${number} AND coalesce(r.change_seq, 0) <= ${number}
            AND ((r.id IS NOT NULL AND r.deleted_at IS NULL) OR s.unverified_since IS NOT NULL) ORDER BY s.id`,
      ),

    async touchedSince(kind: Kind, number: number): Promise<Set<string>> {
      const areChangesFewer =
        (await database.currentNumber()) - number < (await countOf(statements, kind, 'known'));
      const markedDirty = await idsOf(
        statements,
        sql`SELECT id FROM record_state WHERE kind = ${kind} AND dirty > ${number}`,
      );
      if (areChangesFewer) {
        const changed = await idsOf(
          statements,
          sql`SELECT record_id AS id FROM changes WHERE seq > ${number} AND kind = ${kind}`,
        );
        // Asked afterwards, since another process may trim changes meanwhile.
        const trimmed = await trimmedChanges(statements);
        if ((trimmed?.through ?? 0) <= number) return new Set([...markedDirty, ...changed]);
      }
      const written = sql`SELECT id FROM ${TABLE_OF[kind]} WHERE change_seq > ${number}`;
      return new Set([...markedDirty, ...(await idsOf(statements, written))]);
    },

    /** Whether an event about a deletion was accepted after `number`, or at `wall` or later. */
    async hasAnnouncedDeletion(kind: Kind, number: number, wall: number): Promise<boolean> {
      // The bound of `seq` spares a look at all older events.
      const found = await statements.query(
        sql`SELECT 1 FROM events WHERE kind = ${kind} AND ${isOneOf(events.type, [...DELETE_TYPES])}
          AND (seq > ${number} OR seq > coalesce((SELECT seq FROM events WHERE ${events.receivedAt} < ${iso(wall)}
            ORDER BY seq DESC LIMIT 1), 0)) LIMIT 1`,
      );
      return found.length > 0;
    },

    /** Opens the gap, or counts another occurrence if it is open. */
    async openGap(gap: GapKey, error: string | null, now: Now): Promise<void> {
      await database.transact((unit) => openGap(unit, gap, error, now));
    },

    /** False: it is not open. */
    resolveGap: (gap: GapKey, now: Now): Promise<boolean> =>
      database.transact((unit) => resolveGap(unit, gap, iso(now.wall))),

    /** Kinds with an open gap that a full sync begun now would resolve, or not read in full with the present credentials. */
    kindsWantingFullSync: (now: Now): Promise<Kind[]> => kindsWantingFullSync(statements, now),

    /** Notes that credentials (`access`: their fingerprint) can read the kind: by a read, or by the absence of an invented id. */
    noteAccess(kind: Kind, access: string, how: 'read' | 'absence', now: Now): Promise<void> {
      const name = how === 'read' ? 'readWith' : 'probedWith';
      const column = kindState[name];
      const noted = upsert(kindState, ['kind'], { kind, [name]: access, readAt: iso(now.wall) });
      return writerOf(database)(sql`${noted} WHERE ${column} IS DISTINCT FROM ${excluded(column)}`);
    },

    /**
     * Writes the fact `heartbeat` (ISO 8601), since time without heartbeats is downtime, and the other facts. Only the replica that reads
     * the API writes the facts about that. On another replica they stay, and those that `differ` from its own are returned. If it
     * reads with other credentials or from another address than was noted before (`otherAccess`), the sync runs so far do not count.
     */
    beat: (
      now: Now,
      { access, reader, ...facts }: ServiceFacts,
    ): Promise<{ differing: ReadingFact[]; otherAccess: boolean }> => {
      const reading: Record<ReadingFact, string> = {
        access,
        settle_ms: String(facts.settleMs),
        full_sync_ms: String(facts.fullSyncMs),
        events_only: String(Number(facts.eventsOnly)),
        id_pointers: JSON.stringify(facts.pointers ?? DEFAULT_ID_POINTERS),
      };
      return database.transact(
        async (unit, [stored, before]) => {
          const nowIso = iso(now.wall);
          const otherAccess = stored.length === 0 && before !== null && before !== access;
          if (otherAccess) {
            const last = await singleValue<number>(unit, sql`SELECT max(id) FROM sync_runs`);
            await writeFact(unit, LAST_RUN_BEFORE_ACCESS, String(last ?? 0));
          }
          const ofAll = { heartbeat: nowIso, ...facts.others };
          const own = stored.length > 0 ? {} : { ...reading, unreachable: String(Number(facts.unreachable)) };
          for (const [name, value] of Object.entries({ ...ofAll, ...own }))
            unit.send(writtenFact(name, value));
          unit.send(
            sql`INSERT INTO kind_state (kind, in_sync_since)
              SELECT kind, CASE WHEN verdict = 'in_sync' THEN ${unit.dialect.instant(nowIso)} END FROM sync_status WHERE true
              ON CONFLICT (kind) DO UPDATE SET in_sync_since =
                CASE WHEN excluded.in_sync_since IS NOT NULL THEN coalesce(kind_state.in_sync_since, excluded.in_sync_since) END`,
          );
          const differing = stored
            .filter(({ name, value }) => value !== reading[name])
            .map(({ name }) => name);
          return { differing, otherAccess };
        },
        (unit: Sql) =>
          Promise.all([readingOfAnother(unit, Object.keys(reading), reader, now), readFact(unit, 'access')]),
      );
    },

    /** When the last delivery came, and the longest pause between the newest `among` events; null with fewer than ten. */
    async lastDelivery(among: number): Promise<{ wall: number | null; longestPauseMs: number | null }> {
      const pause = statements.dialect.millisecondsBetween(sql`before`, sql`received_at`);
      // Only the newest events are looked at: duplicates of older ones are rare.
      const [row] = await statements.query<{ last: string | null; deliveries: number; pause: number | null }>(
        sql`SELECT max(last_delivered_at) AS last, count(*) AS deliveries, max(${pause}) AS pause
          FROM (SELECT last_delivered_at, received_at, lag(received_at) OVER (ORDER BY seq) AS before
            FROM (SELECT seq, last_delivered_at, received_at FROM events ORDER BY seq DESC LIMIT ${among}) AS newest
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

interface StoredReading {
  name: ReadingFact;
  value: string;
}

/** The facts of another replica that reads the API now. Empty: there is no such replica. */
async function readingOfAnother(
  unit: Sql,
  names: readonly string[],
  reader: ServiceFacts['reader'],
  now: Now,
): Promise<StoredReading[]> {
  if (reader === undefined) return [];
  return await unit.query(
    sql`SELECT name, value FROM facts WHERE ${isOneOf(facts.name, names)} AND EXISTS
      (SELECT 1 FROM leases WHERE name = ${reader.lease} AND owner <> ${reader.replica} AND lease_until > ${now.steady})
      ORDER BY name`,
  );
}

const interrupted = (finishedAt: string, which: SQL): SQL =>
  update(syncRuns, { finishedAt, outcome: 'interrupted' }, which);

export async function saveProgress(unit: Unit, id: number, progress: SyncRunProgress): Promise<void> {
  const { pages, seen, inserted, updated, deleted, unchanged } = progress;
  await unit.change(
    update(syncRuns, { pages, seen, inserted, updated, deleted, unchanged }, sql`id = ${id}`),
  );
}
