import type { ClaimedEvent, InboxStore } from '../store.ts';
import { CLAIM_SCAN_FACTOR, type Claims } from '../units/events.ts';
import type { PendingEvent } from '../units/provisional.ts';
import { iso } from '../units/sql.ts';
import type { Connection } from './connection.ts';
import type { Arrival, Arrivals } from './unprocessed-events.ts';

type ClaimVerbs = Pick<InboxStore, 'claimEvents' | 'releaseEvents' | 'recoverClaims'>;
type Claimable = Pick<ClaimedEvent, 'seq' | 'kind' | 'recordId'>;

/** Who works on which events. */
function createRegister() {
  const bySeq = new Map<number, { owner: string; until: number; record: string | null }>();
  const records = new Map<string, { owner: string; count: number }>();

  function release(seq: number): void {
    const claim = bySeq.get(seq);
    if (claim === undefined) return;
    bySeq.delete(seq);
    const record = claim.record === null ? undefined : records.get(claim.record);
    if (record === undefined || claim.record === null) return;
    record.count -= 1;
    if (record.count === 0) records.delete(claim.record);
  }

  return {
    /** False: taken, or another owner holds an event of the same record. */
    take(event: Claimable, owner: string, until: number): boolean {
      if (bySeq.has(event.seq)) return false;
      const key = event.kind === null || event.recordId === null ? null : `${event.kind} ${event.recordId}`;
      const record = key === null ? undefined : records.get(key);
      if (record !== undefined && record.owner !== owner) return false;
      bySeq.set(event.seq, { owner, until, record: key });
      if (record !== undefined) record.count += 1;
      else if (key !== null) records.set(key, { owner, count: 1 });
      return true;
    },
    holds: (event: ClaimedEvent): boolean => bySeq.get(event.seq)?.owner === event.owner,
    letGo(event: ClaimedEvent): void {
      if (bySeq.get(event.seq)?.owner === event.owner) release(event.seq);
    },
    revoke: release,
    expire(steady: number): void {
      for (const [seq, claim] of bySeq) if (claim.until <= steady) release(seq);
    },
    clear(): void {
      bySeq.clear();
      records.clear();
    },
  };
}

/**
 * Claims are kept in memory: one process writes a SQLite file, and its end is what ends every claim, so one written to disk
 * would cost a write per event and tell nothing.
 */
export function createClaims(db: Connection, arrivals: Arrivals): Claims & { verbs: ClaimVerbs } {
  const register = createRegister();
  const selectPending = db
    .prepare(
      `SELECT seq FROM events WHERE state = 'pending' AND seq > ? AND (next_attempt_at IS NULL OR next_attempt_at <= ?)
       ORDER BY seq LIMIT ?`,
    )
    .pluck();
  const selectEvent = db.prepare(
    `SELECT seq, id, type, created, created_ms AS createdMs, kind, record_id AS recordId, received_at, attempts, body
     FROM events WHERE seq = ?`,
  );
  const countPending = db.prepare("SELECT count(*) FROM events WHERE state = 'pending'").pluck();

  function readEvent(seq: number): Arrival {
    const row = selectEvent.get(seq) as Omit<Arrival, 'receivedWall'> & { received_at: string };
    const { received_at, ...event } = row;
    return { ...event, receivedWall: Date.parse(received_at) };
  }

  return {
    verbs: {
      async claimEvents(owner, limit, leaseMs, now) {
        register.expire(now.steady);
        const claimed: PendingEvent[] = [];
        const nowIso = iso(now.wall);
        let after = 0;
        for (let scanned = 0; scanned < CLAIM_SCAN_FACTOR && claimed.length < limit; scanned += 1) {
          const numbers = selectPending.all(after, nowIso, limit) as number[];
          for (const seq of numbers) {
            after = seq;
            if (claimed.length >= limit) break;
            const event = arrivals.get(seq) ?? readEvent(seq);
            if (register.take(event, owner, now.steady + leaseMs)) claimed.push({ ...event, owner });
          }
          if (numbers.length < limit) break;
        }
        return claimed;
      },

      async releaseEvents(events) {
        for (const event of events) register.letGo(event);
      },

      async recoverClaims() {
        register.clear();
        return countPending.get() as number;
      },
    },

    finish: async (_sql, events) => events.filter(register.holds),
    finished(events) {
      for (const event of events) {
        register.letGo(event);
        arrivals.forget(event.seq);
      }
    },
    async revoke(_sql, seq) {
      register.revoke(seq);
      arrivals.forget(seq);
    },
  };
}
