import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError } from '../../platform/errors.ts';
import type { Database, Sql } from '../database.ts';
import { leases, operatorSessions, replicas, requestPlaces, type SQL, syncRequests } from '../schema.ts';
import type { Lease, Now, PlacesAsked, PlacesGiven, StoredSession, SyncRequest } from '../values.ts';
import { firstRow, insertInto, iso, readFact, singleValue, sql, update, upsert, writtenFact } from './sql.ts';

const PAUSE_FACT = 'places_paused_until';

/**
 * What several processes share in one database: replicas, leases, requested sync runs, the request budget and operators' sessions.
 * Instants are of the steady clock, which on PostgreSQL is the database's time. No verb here locks the counter, so that a lease can be
 * extended while a batch has the lock.
 */
export function createReplicaVerbs(database: Database) {
  const { sql: statements } = database;
  const change = async (statement: SQL): Promise<void> => void (await statements.change(statement));
  return {
    /** Deletes replicas without a beat within `lifeMs`, and counts the others. */
    beatReplica: (id: string, lifeMs: number, now: Now): Promise<{ others: number }> =>
      database.transactApart(replicas, async (unit) => {
        await unit.change(sql`DELETE FROM replicas WHERE seen_at <= ${now.steady - lifeMs}`);
        const own = { id, startedAt: iso(now.wall), seenAt: now.steady };
        await unit.change(upsert(replicas, ['id'], own, { startedAt: replicas.startedAt }));
        const others = await singleValue<number>(unit, sql`SELECT count(*) FROM replicas WHERE id <> ${id}`);
        return { others: others! };
      }),

    leaveReplicas: (id: string): Promise<void> => change(sql`DELETE FROM replicas WHERE id = ${id}`),

    /** Replicas with a beat within `lifeMs`. */
    async countReplicas(lifeMs: number, now: Now): Promise<number> {
      const living = sql`SELECT count(*) FROM replicas WHERE seen_at > ${now.steady - lifeMs}`;
      return (await singleValue<number>(statements, living))!;
    },

    /** Takes the lease, or extends it if this owner has it. Null: another owner has it. */
    async takeLease(name: string, owner: string, leaseMs: number, now: Now): Promise<Lease | null> {
      const taken = { name, owner, fence: 1, leaseUntil: now.steady + leaseMs };
      const isOver = sql`${leases.leaseUntil} <= ${now.steady}`;
      const nextFence = sql`${leases.fence} + CASE WHEN ${isOver} THEN 1 ELSE 0 END`;
      // Locks only the row of this lease: `concludeDeletions` locks it too, and other leases must be extended meanwhile.
      const fence = await database.transactApart(null, (unit) =>
        singleValue<number>(
          unit,
          sql`${upsert(leases, ['name'], taken, { fence: nextFence })}
            WHERE ${isOver} OR ${leases.owner} = ${owner} RETURNING ${leases.fence}`,
        ),
      );
      return fence === null ? null : { name, owner, fence };
    },

    /** Releases the lease, if it still has this owner and fence. */
    releaseLease: (lease: Lease): Promise<void> =>
      change(sql`UPDATE leases SET owner = '', lease_until = 0 WHERE ${isHeld(lease)}`),

    async requestSyncRuns(kinds: readonly Kind[], reason: string, now: Now): Promise<void> {
      await database.transactApart(null, async (unit) => {
        for (const kind of [...kinds].sort()) {
          await unit.change(
            sql`${insertInto(syncRequests, { kind, reason, requestedAt: iso(now.wall) })} ON CONFLICT (kind, reason) DO NOTHING`,
          );
        }
      });
    },

    /** Returns all requests and deletes them; none if the lease is lost, since they are the new owner's. */
    takeSyncRequests: (lease: Lease): Promise<SyncRequest[]> =>
      statements.query<SyncRequest>(
        sql`DELETE FROM sync_requests WHERE EXISTS (SELECT 1 FROM leases WHERE ${isHeld(lease)}) RETURNING kind, reason`,
      ),

    /** Gives the replica its part of the requests that are allowed in a minute. */
    sharePlaces: (
      { replica, limit, takes, wants, leaseMs, goodForMs }: PlacesAsked,
      now: Now,
    ): Promise<PlacesGiven> =>
      database.transactApart(requestPlaces, async (unit) => {
        await unit.change(sql`DELETE FROM request_places WHERE places_until <= ${now.steady}`);
        const [others] = await unit.query<{ taken: number; wanting: number }>(
          sql`SELECT coalesce(sum(places), 0) AS taken, count(*) FILTER (WHERE wanted > places) AS wanting
            FROM request_places WHERE replica <> ${replica}`,
        );
        const { taken, wanting } = others!;
        const left = Math.max(0, limit - taken);
        const places = Math.min(left, takes);
        const own = { places, wanted: wants, placesUntil: now.steady + leaseMs };
        await unit.change(upsert(requestPlaces, ['replica'], { replica, ...own }));
        const lost = await unit.query<PlacesGiven['lost'][number]>(
          sql`SELECT replica, places, places_until AS until FROM request_places
            WHERE replica <> ${replica} AND places > 0 AND places_until <= ${now.steady + leaseMs - goodForMs}
            ORDER BY places_until DESC, replica`,
        );
        const paused = await readFact(unit, PAUSE_FACT);
        return {
          places,
          othersWanting: wanting,
          free: left - places,
          lost,
          pausedUntil: paused === null ? null : Number(paused),
        };
      }),

    /** No process sends before `until` (steady). The latest `until` wins. */
    pausePlaces: (until: number): Promise<void> =>
      change(
        sql`${writtenFact(PAUSE_FACT, String(until))}
          WHERE CAST(facts.value AS double precision) < CAST(excluded.value AS double precision)`,
      ),

    /** Also deletes sessions that were last used before `usedSince`, and the oldest ones beyond `atMost`. */
    async openSession(
      session: StoredSession,
      { usedSince, atMost }: { usedSince: number; atMost: number },
    ): Promise<void> {
      await database.transactApart(operatorSessions, async (unit) => {
        await unit.change(sql`DELETE FROM operator_sessions WHERE used_at <= ${usedSince}`);
        await unit.change(
          sql`DELETE FROM operator_sessions WHERE hash NOT IN
            (SELECT hash FROM operator_sessions ORDER BY opened_at DESC, hash LIMIT ${Math.max(0, atMost - 1)})`,
        );
        await unit.change(insertInto(operatorSessions, { ...session }));
      });
    },

    findSession: (hash: string): Promise<StoredSession | null> =>
      firstRow<StoredSession>(
        statements,
        sql`SELECT hash, sealed, opened_at AS "openedAt", used_at AS "usedAt" FROM operator_sessions WHERE hash = ${hash}`,
      ),

    touchSession: (hash: string, usedAt: number): Promise<void> =>
      change(update(operatorSessions, { usedAt }, sql`hash = ${hash}`)),

    closeSession: (hash: string): Promise<void> =>
      change(sql`DELETE FROM operator_sessions WHERE hash = ${hash}`),
  };
}

/** The condition for a row of `leases`. */
const isHeld = ({ name, owner, fence }: Lease) =>
  sql`name = ${name} AND owner = ${owner} AND fence = ${fence}`;

/** Rejects with MirrorError `lease_lost` if another process has taken over. Absent: there is no other process. */
export async function requireLease(unit: Sql, lease: Lease | undefined): Promise<void> {
  if (lease === undefined) return;
  const rows = await unit.query(sql`SELECT 1 FROM leases WHERE ${isHeld(lease)} ${unit.dialect.forUpdate}`);
  if (rows.length === 0) {
    throw new MirrorError('lease_lost', `another process has taken over "${lease.name}"`);
  }
}
