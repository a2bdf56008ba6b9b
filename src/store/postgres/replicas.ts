import type { Notice, PlacesGiven, ReplicaStore, StoredSession, SweepRequest } from '../replicas.ts';
import type { Database } from './connection.ts';
import { createListener, NOTICE_CHANNEL } from './listener.ts';
import { instantOf } from './types.ts';

/** A database this much behind its processes was set back, or is another server; less is how clocks drift. */
const BEHIND_MS = 250;
/** How far the steady time of all replicas is ahead of the server's clock. */
export const CLOCK_FACT = 'clock_ahead_ms';
const PAUSE_FACT = 'places_paused_until';

/**
 * None of these takes a number or needs the counter's lock: a lease must be prolonged while a batch holds it. Each
 * locks its own row or its own small table.
 */
export function createReplicaVerbs(db: Database): ReplicaStore {
  const { sql } = db;

  return {
    async sharedTime(atLeast) {
      const [row] = await sql.query<{ wall: number; ahead: string | null }>(
        `SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS wall,
           (SELECT value FROM facts WHERE name = $1) AS ahead`,
        [CLOCK_FACT],
      );
      if (row === undefined) return null;
      const ahead = Number(row.ahead ?? 0);
      if (atLeast === null || atLeast - (row.wall + ahead) < BEHIND_MS) {
        return { wall: row.wall, steady: row.wall + ahead };
      }
      const [mended] = await sql.query<{ value: string }>(
        `INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE
         SET value = greatest(facts.value::float8, excluded.value::float8)::text RETURNING value`,
        [CLOCK_FACT, String(atLeast - row.wall)],
      );
      return { wall: row.wall, steady: row.wall + Number(mended?.value ?? 0) };
    },

    async beatReplica(id, lifeMs, now) {
      return await db.transactApart('LOCK TABLE replicas IN SHARE ROW EXCLUSIVE MODE', async (tx) => {
        const lived = now.steady - lifeMs;
        await tx.change('DELETE FROM replicas WHERE seen_at <= $1', [lived]);
        await tx.change(
          `INSERT INTO replicas (id, started_at, seen_at) VALUES ($1, $2, $3)
           ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
          [id, instantOf(now.wall), now.steady],
        );
        const [row] = await tx.query<{ others: number }>(
          'SELECT count(*) AS others FROM replicas WHERE id <> $1',
          [id],
        );
        return { others: row?.others ?? 0 };
      });
    },
    async leaveReplicas(id) {
      await sql.change('DELETE FROM replicas WHERE id = $1', [id]);
    },
    async countReplicas(lifeMs, now) {
      const [row] = await sql.query<{ living: number }>(
        'SELECT count(*) AS living FROM replicas WHERE seen_at > $1',
        [now.steady - lifeMs],
      );
      return row?.living ?? 0;
    },

    async takeLease(name, owner, leaseMs, now) {
      const until = now.steady + leaseMs;
      const [kept] = await sql.query<{ fence: number }>(
        `UPDATE leases SET lease_until = $3 WHERE name = $1 AND owner = $2 AND lease_until > $4 RETURNING fence`,
        [name, owner, until, now.steady],
      );
      if (kept !== undefined) return { name, owner, fence: kept.fence, isTakeover: false };
      return await db.transactApart('', async (tx) => {
        await tx.change(
          `INSERT INTO leases (name, owner, fence, lease_until) VALUES ($1, '', 0, 0) ON CONFLICT (name) DO NOTHING`,
          [name],
        );
        const [held] = await tx.query<{ owner: string; fence: number; lease_until: number }>(
          'SELECT owner, fence, lease_until FROM leases WHERE name = $1 FOR UPDATE',
          [name],
        );
        if (held === undefined || held.lease_until > now.steady) return null;
        const fence = held.fence + 1;
        await tx.change('UPDATE leases SET owner = $2, fence = $3, lease_until = $4 WHERE name = $1', [
          ...[name, owner, fence, until],
        ]);
        return { name, owner, fence, isTakeover: held.owner !== '' };
      });
    },
    async releaseLease({ name, owner, fence }) {
      await sql.change(
        "UPDATE leases SET owner = '', lease_until = 0 WHERE name = $1 AND owner = $2 AND fence = $3",
        [name, owner, fence],
      );
    },

    async requestSweeps(kinds, reason, now) {
      await sql.change(
        `INSERT INTO sweep_requests (kind, reason, requested_at) SELECT kind, $2, $3 FROM unnest($1::text[]) AS kind
         ON CONFLICT (kind, reason) DO NOTHING`,
        [[...kinds].sort(), reason, instantOf(now.wall)],
      );
    },
    async takeSweepRequests() {
      return await sql.query<SweepRequest>('DELETE FROM sweep_requests RETURNING kind, reason');
    },

    async sharePlaces({ replica, limit, takes, wants, leaseMs, goodForMs }, now) {
      return await db.transactApart('LOCK TABLE request_places IN SHARE ROW EXCLUSIVE MODE', async (tx) => {
        await tx.change('DELETE FROM request_places WHERE places_until <= $1', [now.steady]);
        const [others] = await tx.query<{ taken: number; wanting: number; paused: string | null }>(
          `SELECT coalesce(sum(places), 0) AS taken, count(*) FILTER (WHERE wanted > places) AS wanting,
             (SELECT value FROM facts WHERE name = $2) AS paused
           FROM request_places WHERE replica <> $1`,
          [replica, PAUSE_FACT],
        );
        const left = Math.max(0, limit - (others?.taken ?? 0));
        const places = Math.min(left, takes);
        await tx.change(
          `INSERT INTO request_places (replica, places, wanted, places_until) VALUES ($1, $2, $3, $4)
           ON CONFLICT (replica) DO UPDATE SET places = excluded.places, wanted = excluded.wanted,
             places_until = excluded.places_until`,
          [replica, places, wants, now.steady + leaseMs],
        );
        const lost = await tx.query<PlacesGiven['lost'][number]>(
          `SELECT replica, places, places_until AS until FROM request_places
           WHERE replica <> $1 AND places > 0 AND places_until <= $2 ORDER BY places_until DESC, replica`,
          [replica, now.steady + leaseMs - goodForMs],
        );
        return {
          ...{ places, othersWanting: others?.wanting ?? 0, free: left - places, lost },
          pausedUntil: others?.paused == null ? null : Number(others.paused),
        };
      });
    },
    async pausePlaces(until) {
      await sql.change(
        `INSERT INTO facts (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
         WHERE facts.value::float8 < excluded.value::float8`,
        [PAUSE_FACT, String(until)],
      );
    },

    async openSession(session, { openedSince, usedSince, atMost }) {
      await db.transactApart('LOCK TABLE operator_sessions IN SHARE ROW EXCLUSIVE MODE', async (tx) => {
        await tx.change('DELETE FROM operator_sessions WHERE opened_at <= $1 OR used_at <= $2', [
          ...[openedSince, usedSince],
        ]);
        await tx.change(
          `DELETE FROM operator_sessions WHERE hash IN
           (SELECT hash FROM operator_sessions ORDER BY opened_at DESC, hash OFFSET $1)`,
          [Math.max(0, atMost - 1)],
        );
        await tx.change(
          'INSERT INTO operator_sessions (hash, sealed, opened_at, used_at) VALUES ($1, $2, $3, $4)',
          [session.hash, session.sealed, session.openedAt, session.usedAt],
        );
      });
    },
    async findSession(hash) {
      const [row] = await sql.query<StoredSession>(
        `SELECT hash, sealed, opened_at AS "openedAt", used_at AS "usedAt" FROM operator_sessions WHERE hash = $1`,
        [hash],
      );
      return row ?? null;
    },
    async touchSession(hash, usedAt) {
      await sql.change('UPDATE operator_sessions SET used_at = $2 WHERE hash = $1', [hash, usedAt]);
    },
    async closeSession(hash) {
      await sql.change('DELETE FROM operator_sessions WHERE hash = $1', [hash]);
    },

    async notify(notice) {
      await sql.query('SELECT pg_notify($1, $2)', [NOTICE_CHANNEL, `${db.schema} ${notice}`]);
    },
    async listen(onNotice: (notice: Notice) => void) {
      return createListener(db, onNotice);
    },
  };
}
