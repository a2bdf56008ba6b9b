import { randomUUID } from 'node:crypto';
import type { ClaimedEvent, InboxStore } from '../store.ts';
import { CLAIM_SCAN_FACTOR } from '../units/events.ts';
import type { PendingEvent } from '../units/provisional.ts';
import type { Database, Sql } from './connection.ts';
import { rowsOf } from './text.ts';
import { instantOf } from './types.ts';

/** Claimers of one mirror take turns, and hold up nobody else: two at once could each take an event of one record. */
const IN_TURN =
  "SELECT pg_advisory_xact_lock(hashtextextended('compliance-mirror claims ' || current_schema(), 0))";
/** A claim that a crash of the server takes away is taken again, so nothing waits for the disk. */
const NOT_AWAITED = 'SET LOCAL synchronous_commit = off';

type ClaimVerbs = Pick<InboxStore, 'claimEvents' | 'releaseEvents' | 'recoverClaims'>;

/**
 * Who works on which events, over all replicas. A claim is a row of its own, so that taking one neither rewrites the
 * event nor waits for the counter. Whoever has the row may finish the event, and takes the row away as it does so; once
 * the lease is over, whoever claims next takes it away first.
 */
export function createClaims(database: Database) {
  const opening = randomUUID();

  const verbs: ClaimVerbs = {
    async claimEvents(owner, limit, leaseMs, now) {
      return await database.transactApart(`${NOT_AWAITED}; ${IN_TURN}`, async (sql) => {
        // Those that another transaction is about to finish are locked by it: they are no longer for taking.
        await sql.change(
          'DELETE FROM claims WHERE seq IN (SELECT seq FROM claims WHERE until <= $1 FOR UPDATE SKIP LOCKED)',
          [now.steady],
        );
        const rows = await sql.query<Omit<PendingEvent, 'receivedWall' | 'owner'> & { received_at: string }>(
          `WITH head AS (
             SELECT seq FROM events e WHERE state = 'pending' AND (next_attempt_at IS NULL OR next_attempt_at <= $3)
               AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.seq = e.seq) ORDER BY seq LIMIT $5::bigint
           ), taken AS (
             SELECT e.seq, e.id, e.type, e.created, e.created_ms AS "createdMs", e.kind, e.record_id AS "recordId",
               e.received_at, e.attempts, e.body
             FROM head JOIN events e ON e.seq = head.seq WHERE e.state = 'pending' AND NOT EXISTS
               (SELECT 1 FROM claims c WHERE c.record_id = e.record_id AND c.kind = e.kind AND c.owner <> $1)
             ORDER BY e.seq LIMIT $4::bigint FOR UPDATE OF e SKIP LOCKED
           ), noted AS (
             INSERT INTO claims (seq, kind, record_id, owner, opening, until)
             SELECT seq, kind, "recordId", $1, $2, $6::bigint FROM taken
           ) SELECT * FROM taken ORDER BY seq`,
          [owner, opening, instantOf(now.wall), limit, limit * CLAIM_SCAN_FACTOR, now.steady + leaseMs],
        );
        return rows.map(({ received_at, ...row }) => ({
          ...row,
          receivedWall: Date.parse(received_at),
          owner,
        }));
      });
    },

    async releaseEvents(events) {
      await database.sql.change(TAKE_AWAY, [claimsOf(events)]);
    },

    // Those of other replicas are theirs; where one has died, its lease ends them.
    async recoverClaims() {
      await database.sql.change('DELETE FROM claims WHERE opening = $1', [opening]);
      const [row] = await database.sql.query<{ pending: number }>(
        "SELECT count(*) AS pending FROM events WHERE state = 'pending'",
      );
      return row?.pending ?? 0;
    },
  };

  return {
    verbs,
    /** Within the transaction that finishes them: those of `events` whose claim still stands, which ends with this. */
    async finish<T extends ClaimedEvent>(sql: Sql, events: readonly T[]): Promise<T[]> {
      if (events.length === 0) return [];
      const rows = await sql.query<{ seq: number }>(`${TAKE_AWAY} RETURNING c.seq`, [claimsOf(events)]);
      const held = new Set(rows.map((row) => row.seq));
      return events.filter((event) => held.delete(event.seq));
    },
    finished: () => undefined,
    /** Whoever works on it finds the claim lost, and leaves it. */
    async revoke(sql: Sql, seq: number): Promise<void> {
      await sql.change('DELETE FROM claims WHERE seq = $1', [seq]);
    },
    /** At the end: nobody has to wait for the leases. */
    async letGoAll(): Promise<void> {
      await database.sql.change('DELETE FROM claims WHERE opening = $1', [opening]);
    },
  };
}

const TAKE_AWAY = `DELETE FROM claims c USING json_to_recordset($1::json) AS x (seq bigint, owner text)
  WHERE c.seq = x.seq AND c.owner = x.owner`;

const claimsOf = (events: readonly ClaimedEvent[]) =>
  rowsOf(events.map(({ seq, owner }) => ({ seq, owner })).sort((a, b) => a.seq - b.seq));
