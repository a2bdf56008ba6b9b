import { randomUUID } from 'node:crypto';
import { KINDS } from '../../compliance/kinds.ts';
import { payloadIn } from '../../compliance/pointers.ts';
import type { Sql } from '../database.ts';
import type { SQL } from '../schema.ts';
import type { ClaimedEvent, ClaimStore, DirtyTiming, IncomingEvent, Now } from '../store.ts';
import {
  CLAIM_BYTES,
  CLAIM_SCAN_FACTOR,
  type Engine,
  type PendingEvent,
  waitsForProcessing,
} from '../units/processing.ts';
import { hasNewState, loadRecords, TABLE_OF } from '../units/records.ts';
import { idsOf, iso, sql } from '../units/sql.ts';
import type { PostgresDatabase } from './connection.ts';
import { bigintArray, bytesOf, type Counted, textArray, timestampArray, uncounted, upTo } from './dialect.ts';
import { dirtyColumns, RECORDS, saveRecords } from './records.ts';

/** The event is never processed, so the assessments that it names must become known when it is accepted. */
const isNotProcessed = (event: IncomingEvent) => event.kind !== null && !waitsForProcessing(event);

/**
 * Stores events and marks their records dirty. They get the numbers after the counter, which the function locks. The result is the counter
 * before; null, and nothing is done: one of the ids is known.
 */
function acceptedBy(events: readonly IncomingEvent[], now: Now, timing: DirtyTiming): SQL {
  const dirtied = events.flatMap(({ kind, recordId }, index) =>
    kind === null || recordId === null ? [] : [{ kind, id: recordId, number: index + 1 }],
  );
  return sql`accept_events(${textArray(events.map((event) => event.id))}, ${textArray(events.map((event) => event.type))},
    ${timestampArray(events.map((event) => event.createdMs))}, ${bigintArray(events.map((event) => event.createdMs))},
    ${textArray(events.map((event) => event.kind))}, ${textArray(events.map((event) => event.recordId))},
    ${textArray(events.map((event) => (waitsForProcessing(event) ? 'pending' : 'ignored')))},
    ${textArray(events.map((event) => event.body))}, ${dirtyColumns(dirtied)}, ${now.steady}, ${now.steady + timing.settleMs},
    ${iso(now.wall)}, ${textArray(events.map((event) => event.address ?? null))})`;
}

/**
 * Makes the claims of one mirror run one after another, because two at once could each take an event of the same record. The lock mode
 * excludes only itself and a vacuum, which this table hardly needs, since it is seldom written. Not an advisory lock, because anyone
 * who may connect could hold it.
 */
const IN_TURN = 'LOCK TABLE tokens IN SHARE UPDATE EXCLUSIVE MODE';
/** A claim does not wait for the disk: if it is lost in a crash of the server, the event is claimed again. */
const NOT_AWAITED = 'SET LOCAL synchronous_commit = off';

/** The size of an event's body and of its record's row, which is read and written for it. For the columns of `taken` in `claimEvents`. */
const BYTES_OF_EVENT = sql`octet_length(body) + coalesce(CASE kind ${sql.join(
  KINDS.map((kind) => {
    const rows = TABLE_OF[kind];
    return sql`WHEN ${sql.raw(`'${kind}'`)} THEN (SELECT ${bytesOf(rows.data)} FROM ${rows} WHERE ${rows.id} = "recordId")`;
  }),
  sql` `,
)} END, 0)`;

/**
 * How PostgreSQL stores, claims and finishes events, for all replicas. A claim is a row of its own table, so that it neither rewrites
 * the event nor waits for the counter. Its owner deletes the row in the transaction that finishes the event. If the lease is over
 * before, the next claim deletes it.
 */
export function createEvents(database: PostgresDatabase) {
  /** Marks the claims of this store. */
  const opening = randomUUID();

  const verbs: ClaimStore = {
    async claimEvents(owner, limit, leaseMs, now) {
      return await database.transactApart(`${NOT_AWAITED}; ${IN_TURN}`, async (unit) => {
        // Skips claims that another transaction has locked, to finish their events. Below, a weak lock skips an event that is being
        // discarded or retried, but not one whose redelivery is being counted: a later event of its record would go before it.
        await unit.change(
          sql`DELETE FROM claims WHERE seq IN (SELECT seq FROM claims WHERE until <= ${now.steady} FOR UPDATE SKIP LOCKED)`,
        );
        type Row = Omit<PendingEvent, 'receivedWall' | 'owner'> & { received_at: string };
        const rows = await unit.query<Row & Counted>(
          sql`WITH head AS (
             SELECT seq FROM events e WHERE state = 'pending' AND (next_attempt_at IS NULL OR next_attempt_at <= ${iso(now.wall)})
               AND NOT EXISTS (SELECT 1 FROM claims c WHERE c.seq = e.seq) ORDER BY seq LIMIT ${limit * CLAIM_SCAN_FACTOR}::bigint
           ), taken AS (
             SELECT e.seq, e.id, e.type, e.created, e.created_ms AS "createdMs", e.kind, e.record_id AS "recordId",
               e.received_at, e.attempts, e.body
             FROM head JOIN events e ON e.seq = head.seq WHERE e.state = 'pending' AND NOT EXISTS
               (SELECT 1 FROM claims c WHERE c.record_id = e.record_id AND c.kind = e.kind AND c.owner <> ${owner})
             ORDER BY e.seq LIMIT ${limit}::bigint FOR KEY SHARE OF e SKIP LOCKED
           ), fitting AS (
             ${upTo(CLAIM_BYTES, sql`SELECT * FROM taken ORDER BY seq`, BYTES_OF_EVENT, limit)}
           ), noted AS (
             INSERT INTO claims (seq, kind, record_id, owner, opening, until)
             SELECT seq, kind, "recordId", ${owner}, ${opening}, ${now.steady + leaseMs}::bigint FROM fitting
           ) SELECT * FROM fitting ORDER BY seq`,
        );
        return rows.map(uncounted).map(({ received_at, ...row }) => ({
          ...row,
          receivedWall: Date.parse(received_at),
          owner,
        }));
      });
    },

    async releaseEvents(events) {
      await database.sql.change(deleteClaims(events));
    },

    // Claims of other replicas stay. Those of a dead one end with their leases.
    async recoverClaims() {
      await database.sql.change(sql`DELETE FROM claims WHERE opening = ${opening}`);
    },
  };

  const engine: Engine = {
    records: RECORDS,
    keepsTime: true,
    // With one statement and one round trip, because all replicas wait while the counter is locked. Not for the few groups in which an id
    // is known or there twice, or an event is not processed.
    async acceptNew(events, now, timing) {
      const ids = new Set(events.map((event) => event.id));
      if (events.length === 0 || ids.size < events.length || events.some(isNotProcessed)) return null;
      const { result: before, durable } = await database.transactAtOnce<number | null>(
        acceptedBy(events, now, timing),
      );
      if (before === null) return null;
      await durable;
      return events.map((_, index) => ({ status: 'accepted', seq: before + index + 1 }));
    },
    // While this transaction has the counter locked, no other one accepts events. It has taken no number yet.
    async insertNew(unit, events, now, timing) {
      if (events.length === 0) return [];
      const ids = textArray(events.map((event) => event.id));
      const known = await idsOf(
        unit,
        sql`SELECT id FROM events WHERE id = ANY (${ids}::text[]) UNION ALL SELECT id FROM trimmed_events WHERE id = ANY (${ids}::text[])`,
      );
      const seen = new Set(known);
      const numbers = events.map(({ id }) => {
        if (seen.has(id)) return null;
        seen.add(id);
        return unit.numbers.next();
      });
      const fresh = events.filter((_, nth) => numbers[nth] !== null);
      if (fresh.length > 0) unit.send(sql`SELECT ${acceptedBy(fresh, now, timing)}`);
      return numbers;
    },
    accepted: () => undefined,
    payloadOf: ({ body }) => payloadIn(body),
    // The worker passes back the objects that `claimEvents` returned.
    claimed: (events) => events as readonly PendingEvent[],
    recall: loadRecords,
    // No records are kept in memory, since other replicas write too.
    forgetRecords: () => undefined,
    saveProvisional: (unit, touched, changes, nowIso) =>
      saveRecords(unit, touched, changes, nowIso, hasNewState),
    finish(unit, seqs, { state, error, soughtFrom }, nowIso) {
      unit.send(
        sql`UPDATE events SET state = ${state}, attempts = attempts + 1, processed_at = ${nowIso}::timestamptz, error = ${error},
            next_attempt_at = ${soughtFrom}::timestamptz
          WHERE seq = ANY (${bigintArray(seqs)}::bigint[]) AND state = 'pending'`,
      );
    },

    async finishClaims<T extends ClaimedEvent>(unit: Sql, events: readonly T[]): Promise<T[]> {
      const rows = await unit.query<{ seq: number }>(sql`${deleteClaims(events)} RETURNING c.seq`);
      const ours = new Set(rows.map((row) => row.seq));
      return events.filter((event) => ours.delete(event.seq));
    },
    claimsFinished: () => undefined,
    async revokeClaim(unit, seq) {
      await unit.change(sql`DELETE FROM claims WHERE seq = ${seq}`);
    },
  };

  return { verbs, engine };
}

function deleteClaims(events: readonly ClaimedEvent[]): SQL {
  const claims = events.toSorted((a, b) => a.seq - b.seq);
  return sql`DELETE FROM claims c USING unnest(${bigintArray(claims.map(({ seq }) => seq))}::bigint[],
      ${textArray(claims.map(({ owner }) => owner))}::text[]) AS x (seq, owner)
    WHERE c.seq = x.seq AND c.owner = x.owner`;
}
