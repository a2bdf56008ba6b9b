import type { Database } from '../database.ts';
import type { PlacesGiven, ReplicaStore, StoredSession, SyncRequest } from '../replicas.ts';
import {
  facts,
  leases,
  replicas,
  operatorSessions as sessions,
  requestPlaces as shares,
  syncRequests,
} from '../schema.ts';
import {
  as,
  excluded,
  insertInto,
  iso,
  one,
  readFact,
  set,
  single,
  sql,
  update,
  upsert,
  writtenFact,
} from './sql.ts';

/** What only the engine can say stays with it: its clock, and how processes hear of each other. */
type ReplicaVerbs = Omit<ReplicaStore, 'sharedTime' | 'notify' | 'listen'>;

const PAUSE_FACT = 'places_paused_until';

/**
 * None of these takes a number or needs the counter's lock: a lease must be prolonged while a batch holds it. In a file,
 * which one process holds, they are kept all the same: a command beside the service is a second process.
 */
export function createReplicaVerbs(database: Database): ReplicaVerbs {
  const { sql: statements } = database;
  return {
    beatReplica: (id, lifeMs, now) =>
      database.transactApart(replicas, async (unit) => {
        await unit.change(sql`DELETE FROM ${replicas} WHERE ${replicas.seenAt} <= ${now.steady - lifeMs}`);
        await unit.change(
          upsert(
            replicas,
            ['id'],
            { id, startedAt: iso(now.wall), seenAt: now.steady },
            { startedAt: replicas.startedAt },
          ),
        );
        const others = sql`SELECT count(*) FROM ${replicas} WHERE ${replicas.id} <> ${id}`;
        return { others: (await single<number>(unit, others))! };
      }),

    async leaveReplicas(id) {
      await statements.change(sql`DELETE FROM ${replicas} WHERE ${replicas.id} = ${id}`);
    },

    async countReplicas(lifeMs, now) {
      const living = sql`SELECT count(*) FROM ${replicas} WHERE ${replicas.seenAt} > ${now.steady - lifeMs}`;
      return (await single<number>(statements, living))!;
    },

    async takeLease(name, owner, leaseMs, now) {
      const leaseUntil = now.steady + leaseMs;
      const [kept] = await statements.query<{ fence: number }>(
        sql`UPDATE ${leases} SET ${set(leases, { leaseUntil })} WHERE ${leases.name} = ${name}
          AND ${leases.owner} = ${owner} AND ${leases.leaseUntil} > ${now.steady} RETURNING ${leases.fence}`,
      );
      if (kept !== undefined) return { name, owner, fence: kept.fence, isTakeover: false };
      // Its own row alone: whoever prolongs another lease must not wait for one whose holder is in the middle of a unit.
      return await database.transactApart(null, async (unit) => {
        await unit.change(
          sql`${insertInto(leases, { name, owner: '', fence: 0, leaseUntil: 0 })} ON CONFLICT (name) DO NOTHING`,
        );
        const [held] = await unit.query<{ owner: string; fence: number; leaseUntil: number }>(
          sql`SELECT ${as({ owner: leases.owner, fence: leases.fence, leaseUntil: leases.leaseUntil })}
            FROM ${leases} WHERE ${leases.name} = ${name} ${unit.dialect.forUpdate}`,
        );
        if (held!.leaseUntil > now.steady) return null;
        const fence = held!.fence + 1;
        await unit.change(
          sql`UPDATE ${leases} SET ${set(leases, { owner, fence, leaseUntil })} WHERE ${leases.name} = ${name}`,
        );
        return { name, owner, fence, isTakeover: held!.owner !== '' };
      });
    },

    async releaseLease({ name, owner, fence }) {
      await statements.change(
        sql`UPDATE ${leases} SET ${set(leases, { owner: '', leaseUntil: 0 })}
          WHERE ${leases.name} = ${name} AND ${leases.owner} = ${owner} AND ${leases.fence} = ${fence}`,
      );
    },

    async requestSyncRuns(kinds, reason, now) {
      await database.transactApart(null, async (unit) => {
        for (const kind of [...kinds].sort()) {
          await unit.change(
            sql`${insertInto(syncRequests, { kind, reason, requestedAt: iso(now.wall) })} ON CONFLICT (kind, reason) DO NOTHING`,
          );
        }
      });
    },

    async takeSyncRequests() {
      const { kind, reason } = syncRequests;
      return await statements.query<SyncRequest>(
        sql`DELETE FROM ${syncRequests} RETURNING ${as({ kind, reason })}`,
      );
    },

    sharePlaces: ({ replica, limit, takes, wants, leaseMs, goodForMs }, now) =>
      database.transactApart(shares, async (unit) => {
        await unit.change(sql`DELETE FROM ${shares} WHERE ${shares.placesUntil} <= ${now.steady}`);
        const [others] = await unit.query<{ taken: number; wanting: number }>(
          sql`SELECT coalesce(sum(${shares.places}), 0) AS taken,
              count(*) FILTER (WHERE ${shares.wanted} > ${shares.places}) AS wanting
            FROM ${shares} WHERE ${shares.replica} <> ${replica}`,
        );
        const { taken, wanting } = others!;
        const left = Math.max(0, limit - taken);
        const places = Math.min(left, takes);
        const own = { places, wanted: wants, placesUntil: now.steady + leaseMs };
        await unit.change(upsert(shares, ['replica'], { replica, ...own }));
        const lost = await unit.query<PlacesGiven['lost'][number]>(
          sql`SELECT ${as({ replica: shares.replica, places: shares.places, until: shares.placesUntil })} FROM ${shares}
            WHERE ${shares.replica} <> ${replica} AND ${shares.places} > 0
              AND ${shares.placesUntil} <= ${now.steady + leaseMs - goodForMs}
            ORDER BY ${shares.placesUntil} DESC, ${shares.replica}`,
        );
        const paused = await readFact(unit, PAUSE_FACT);
        return {
          ...{ places, othersWanting: wanting, free: left - places, lost },
          pausedUntil: paused === null ? null : Number(paused),
        };
      }),

    async pausePlaces(until) {
      const value = excluded(facts.value);
      await statements.change(
        sql`${writtenFact(PAUSE_FACT, String(until))}
          WHERE CAST(${facts.value} AS double precision) < CAST(${value} AS double precision)`,
      );
    },

    async openSession(session, { openedSince, usedSince, atMost }) {
      const { hash, openedAt, usedAt } = sessions;
      await database.transactApart(sessions, async (unit) => {
        await unit.change(
          sql`DELETE FROM ${sessions} WHERE ${openedAt} <= ${openedSince} OR ${usedAt} <= ${usedSince}`,
        );
        await unit.change(
          sql`DELETE FROM ${sessions} WHERE ${hash} NOT IN
            (SELECT ${hash} FROM ${sessions} ORDER BY ${openedAt} DESC, ${hash} LIMIT ${Math.max(0, atMost - 1)})`,
        );
        await unit.change(insertInto(sessions, { ...session }));
      });
    },

    async findSession(id) {
      const { hash, sealed, openedAt, usedAt } = sessions;
      return await one<StoredSession>(
        statements,
        sql`SELECT ${as({ hash, sealed, openedAt, usedAt })} FROM ${sessions} WHERE ${hash} = ${id}`,
      );
    },

    async touchSession(hash, usedAt) {
      await statements.change(update(sessions, { usedAt }, sql`${sessions.hash} = ${hash}`));
    },

    async closeSession(hash) {
      await statements.change(sql`DELETE FROM ${sessions} WHERE ${sessions.hash} = ${hash}`);
    },
  };
}
