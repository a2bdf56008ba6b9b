import type { PlacesGiven, ReplicaStore, StoredSession, SweepRequest } from '../replicas.ts';
import type { Connection, Transact } from './connection.ts';
import { iso } from './records.ts';

interface LeaseRow {
  owner: string;
  fence: number;
  leaseUntil: number;
}

/**
 * One process holds the file, so there is nobody to share with. Leases, requests and sessions are kept as on PostgreSQL
 * all the same, so that one suite can show what they promise; a command beside the service is a second process, too.
 */
export function createReplicaVerbs(db: Connection, transact: Transact): ReplicaStore {
  const beat = db.prepare(
    `INSERT INTO replicas (id, started_at, seen_at) VALUES (?, ?, ?)
     ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at`,
  );
  const forgetDead = db.prepare('DELETE FROM replicas WHERE seen_at <= ?');
  const countOthers = db.prepare('SELECT count(*) FROM replicas WHERE id <> ? AND seen_at > ?').pluck();
  const leave = db.prepare('DELETE FROM replicas WHERE id = ?');
  const readLease = db.prepare('SELECT owner, fence, lease_until AS leaseUntil FROM leases WHERE name = ?');
  const saveLease = db.prepare(
    `INSERT INTO leases (name, owner, fence, lease_until) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
     SET owner = excluded.owner, fence = excluded.fence, lease_until = excluded.lease_until`,
  );
  const endLease = db.prepare(
    "UPDATE leases SET owner = '', lease_until = 0 WHERE name = ? AND owner = ? AND fence = ?",
  );
  const askSweep = db.prepare(
    'INSERT INTO sweep_requests (kind, reason, requested_at) VALUES (?, ?, ?) ON CONFLICT (kind, reason) DO NOTHING',
  );
  const takeRequests = db.prepare('DELETE FROM sweep_requests RETURNING kind, reason');
  const givePlaces = db.prepare(
    `INSERT INTO request_places (replica, places, wanted, places_until) VALUES (@replica, @places, @wants, @until)
     ON CONFLICT (replica) DO UPDATE SET places = excluded.places, wanted = excluded.wanted, places_until = excluded.places_until`,
  );
  const endPlaces = db.prepare('DELETE FROM request_places WHERE places_until <= ?');
  const otherPlaces = db.prepare(
    `SELECT coalesce(sum(places), 0) AS taken, count(*) FILTER (WHERE wanted > places) AS wanting
     FROM request_places WHERE replica <> ?`,
  );
  const lostPlaces = db.prepare(
    `SELECT replica, places, places_until AS until FROM request_places
     WHERE replica <> ? AND places > 0 AND places_until <= ? ORDER BY places_until DESC, replica`,
  );
  const readPause = db.prepare("SELECT value FROM facts WHERE name = 'places_paused_until'").pluck();
  const writePause = db.prepare(
    `INSERT INTO facts (name, value) VALUES ('places_paused_until', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
  );
  const openSession = db.prepare(
    'INSERT INTO operator_sessions (hash, sealed, opened_at, used_at) VALUES (@hash, @sealed, @openedAt, @usedAt)',
  );
  const forgetSessions = db.prepare('DELETE FROM operator_sessions WHERE opened_at <= ? OR used_at <= ?');
  const capSessions = db.prepare(
    `DELETE FROM operator_sessions WHERE hash IN
     (SELECT hash FROM operator_sessions ORDER BY opened_at DESC, hash LIMIT -1 OFFSET ?)`,
  );
  const findSession = db.prepare(
    'SELECT hash, sealed, opened_at AS openedAt, used_at AS usedAt FROM operator_sessions WHERE hash = ?',
  );
  const touchSession = db.prepare('UPDATE operator_sessions SET used_at = ? WHERE hash = ?');
  const closeSession = db.prepare('DELETE FROM operator_sessions WHERE hash = ?');

  return {
    async sharedTime() {
      return null;
    },

    async beatReplica(id, lifeMs, now) {
      return transact(() => {
        forgetDead.run(now.steady - lifeMs);
        beat.run(id, iso(now.wall), now.steady);
        return { others: countOthers.get(id, now.steady - lifeMs) as number };
      });
    },
    async leaveReplicas(id) {
      transact(() => leave.run(id));
    },
    async countReplicas(lifeMs, now) {
      return countOthers.get('', now.steady - lifeMs) as number;
    },

    async takeLease(name, owner, leaseMs, now) {
      return transact(() => {
        const held = readLease.get(name) as LeaseRow | undefined;
        const isOver = held === undefined || held.leaseUntil <= now.steady;
        if (held !== undefined && held.owner !== owner && !isOver) return null;
        const isNew = held === undefined || held.owner !== owner || isOver;
        const fence = (held?.fence ?? 0) + (isNew ? 1 : 0);
        saveLease.run(name, owner, fence, now.steady + leaseMs);
        return { name, owner, fence, isTakeover: isNew && held !== undefined && held.owner !== '' };
      });
    },
    async releaseLease({ name, owner, fence }) {
      transact(() => endLease.run(name, owner, fence));
    },

    async requestSweeps(kinds, reason, now) {
      transact(() => {
        for (const kind of kinds) askSweep.run(kind, reason, iso(now.wall));
      });
    },
    async takeSweepRequests() {
      return transact(() => takeRequests.all() as SweepRequest[]);
    },

    async sharePlaces({ replica, limit, takes, wants, leaseMs, goodForMs }, now) {
      return transact(() => {
        endPlaces.run(now.steady);
        const { taken, wanting } = otherPlaces.get(replica) as { taken: number; wanting: number };
        const left = Math.max(0, limit - taken);
        const places = Math.min(left, takes);
        givePlaces.run({ replica, places, wants, until: now.steady + leaseMs });
        const paused = readPause.get() as string | undefined;
        return {
          ...{ places, othersWanting: wanting, free: left - places },
          pausedUntil: paused === undefined ? null : Number(paused),
          lost: lostPlaces.all(replica, now.steady + leaseMs - goodForMs) as PlacesGiven['lost'],
        };
      });
    },
    async pausePlaces(until) {
      transact(() => {
        const paused = readPause.get() as string | undefined;
        if (paused === undefined || Number(paused) < until) writePause.run(String(until));
      });
    },

    async openSession(session, { openedSince, usedSince, atMost }) {
      transact(() => {
        forgetSessions.run(openedSince, usedSince);
        capSessions.run(Math.max(0, atMost - 1));
        openSession.run(session);
      });
    },
    async findSession(hash) {
      return (findSession.get(hash) as StoredSession | undefined) ?? null;
    },
    async touchSession(hash, usedAt) {
      transact(() => touchSession.run(usedAt, hash));
    },
    async closeSession(hash) {
      transact(() => closeSession.run(hash));
    },

    async notify() {},
    async listen() {
      return { stop: async () => undefined };
    },
  };
}
