import type { Kind } from '../../compliance/kinds.ts';
import { MirrorError } from '../../platform/errors.ts';
import type { Database, Sql } from '../database.ts';
import { leases, operatorSessions, syncRequests } from '../schema.ts';
import { type SQL, sql } from '../statement.ts';
import type { Lease, Now, StoredSession, SyncRequest } from '../values.ts';
import { columnsOf, firstRow, insertInto, iso, singleValue, update, upsert } from './sql.ts';

/**
 * What several processes share in one database: leases, requested sync runs and operators' sessions. Instants are of the steady clock,
 * which on PostgreSQL is the database's time. No verb here locks the counter, so that a lease can be extended while a batch has the lock.
 */
export function createSharedVerbs(database: Database) {
  const { sql: statements } = database;
  const change = async (statement: SQL): Promise<void> => void (await statements.change(statement));
  return {
    /**
     * Takes the lease, or extends it if this owner has it. Null: another owner has it. `at`: by a clock that all who want it share. One that
     * ends later than any can was taken before that clock was set back, and is over; twice the length, since two clocks may differ a little.
     */
    async takeLease(name: string, owner: string, leaseMs: number, at: number): Promise<Lease | null> {
      const taken = { name, owner, fence: 1, leaseUntil: at + leaseMs };
      const isOver = sql`(${leases.leaseUntil} <= ${at} OR ${leases.leaseUntil} > ${at + 2 * leaseMs})`;
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

    /** Also deletes sessions that were last used before `usedSince`, and the oldest ones of this name beyond `atMost`. */
    async openSession(
      session: StoredSession,
      { usedSince, atMost }: { usedSince: number; atMost: number },
    ): Promise<void> {
      await database.transactApart(operatorSessions, async (unit) => {
        await unit.change(sql`DELETE FROM operator_sessions WHERE used_at <= ${usedSince}`);
        await unit.change(
          sql`DELETE FROM operator_sessions WHERE name = ${session.name} AND hash NOT IN (SELECT hash FROM operator_sessions
            WHERE name = ${session.name} ORDER BY opened_at DESC, hash LIMIT ${Math.max(0, atMost - 1)})`,
        );
        await unit.change(insertInto(operatorSessions, { ...session }));
      });
    },

    /** The session as it was before this use, which is noted if the last one is `noteMs` ago. */
    async useSession(hash: string, now: number, noteMs: number): Promise<StoredSession | null> {
      const session = await firstRow<StoredSession>(
        statements,
        sql`SELECT ${columnsOf(operatorSessions)} FROM operator_sessions WHERE hash = ${hash}`,
      );
      if (session !== null && now - session.usedAt >= noteMs)
        await change(update(operatorSessions, { usedAt: now }, sql`hash = ${hash}`));
      return session;
    },

    closeSession: (hash: string): Promise<void> =>
      change(sql`DELETE FROM operator_sessions WHERE hash = ${hash}`),
  };
}

/** The condition for a row of `leases`. */
const isHeld = ({ name, owner, fence }: Lease) =>
  sql`name = ${name} AND owner = ${owner} AND fence = ${fence}`;

/** Rejects with MirrorError `lease_lost` if another process has taken over. */
export async function requireLease(to: Sql, lease: Lease): Promise<void> {
  const rows = await to.query(sql`SELECT 1 FROM leases WHERE ${isHeld(lease)}`);
  if (rows.length === 0) {
    throw new MirrorError('lease_lost', `another process has taken over "${lease.name}"`);
  }
}
