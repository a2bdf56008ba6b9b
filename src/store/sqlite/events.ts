import { type JsonObject, payloadIn } from '../../compliance/pointers.ts';
import type { AcceptOutcome, ClaimedEvent, ClaimStore, IncomingEvent } from '../store.ts';
import {
  CLAIM_BYTES,
  CLAIM_SCAN_FACTOR,
  type Engine,
  type PendingEvent,
  waitsForProcessing,
} from '../units/processing.ts';
import { keyOf } from '../units/records.ts';
import { createdIn, iso } from '../units/sql.ts';
import type { Connection } from './connection.ts';
import { createRecords } from './records.ts';

/** How many pending events are kept in memory: about as many as arrive in half a second under load. Others are read from the file. */
const ARRIVALS_KEPT = 4_096;

/** The limit for all their bodies together, since large deliveries during a pause would fill the memory. */
const CHARACTERS_KEPT = 8 * 2 ** 20;

type Arrival = Omit<PendingEvent, 'owner'>;

/**
 * Keeps events in memory from their arrival until they are processed. Most are claimed at once, and to read and parse their bodies
 * again was a sixth of the cost of processing. It is only a cache: any event may be missing.
 */
export function createArrivals() {
  const kept = new Map<number, Arrival & Pick<IncomingEvent, 'data'>>();
  let characters = 0;
  return {
    /** Called after the commit, because the number of a transaction that is rolled back goes to another event. */
    accepted(
      events: readonly IncomingEvent[],
      outcomes: readonly AcceptOutcome[],
      receivedWall: number,
    ): void {
      for (const [index, event] of events.entries()) {
        const outcome = outcomes[index];
        const { body, known } = event;
        if (!known || outcome?.status !== 'accepted') continue;
        if (kept.size >= ARRIVALS_KEPT) return;
        if (characters + body.length > CHARACTERS_KEPT) continue;
        characters += body.length;
        kept.set(outcome.seq, { ...event, seq: outcome.seq, kind: event.kind!, receivedWall, attempts: 0 });
      }
    },
    get: (seq: number): Arrival | undefined => kept.get(seq),
    payloadOf: (event: PendingEvent): JsonObject => kept.get(event.seq)?.data ?? payloadIn(event.body),
    /** Called when the event is finished or changed. */
    forget(seq: number): void {
      characters -= kept.get(seq)?.body.length ?? 0;
      kept.delete(seq);
    },
  };
}

/** Who works on which events. */
function createClaims() {
  const bySeq = new Map<number, { event: PendingEvent; until: number; record: string | null }>();
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

  /** The claimed event; undefined: its claim is lost. */
  function get({ seq, owner }: ClaimedEvent): PendingEvent | undefined {
    const event = bySeq.get(seq)?.event;
    return event?.owner === owner ? event : undefined;
  }

  return {
    /** False: the event is claimed already, or another owner has claimed one of the same record. */
    take(event: PendingEvent, until: number): boolean {
      if (bySeq.has(event.seq)) return false;
      const { owner } = event;
      const key = event.recordId === null ? null : keyOf(event.kind, event.recordId);
      const record = key === null ? undefined : records.get(key);
      if (record !== undefined && record.owner !== owner) return false;
      bySeq.set(event.seq, { event, until, record: key });
      if (record !== undefined) record.count += 1;
      else if (key !== null) records.set(key, { owner, count: 1 });
      return true;
    },
    get,
    letGo(event: ClaimedEvent): void {
      if (get(event) !== undefined) release(event.seq);
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
 * How SQLite stores, claims and finishes events. Claims are kept in memory, since only one process writes the file and all claims end
 * with it. On disk each claim would cost a write for nothing.
 */
export function createEvents(db: Connection): { verbs: ClaimStore; engine: Engine } {
  const records = createRecords(db);
  const arrivals = createArrivals();
  const claims = createClaims();
  const count = db.prepare('UPDATE event_counts SET count = count + ? WHERE state = ?');
  const insertEvent = db.prepare(
    `INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
       processed_at, address, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const anyTrimmed = db.prepare('SELECT EXISTS (SELECT 1 FROM trimmed_events)').pluck();
  const selectTrimmed = db.prepare('SELECT 1 FROM trimmed_events WHERE id = ?');
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
  // One statement for a whole batch, since a call costs as much as the work for one event. OR FAIL, because otherwise SQLite copies
  // every page first, to be able to undo this statement alone. If ours fails, the whole transaction is rolled back.
  const finish = db.prepare(
    `UPDATE OR FAIL events SET state = ?, attempts = attempts + 1, processed_at = ?, error = ?, next_attempt_at = ?
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );

  function readEvent(seq: number): Arrival {
    const row = selectEvent.get(seq) as Omit<Arrival, 'receivedWall'> & { received_at: string };
    const { received_at, ...event } = row;
    return { ...event, receivedWall: Date.parse(received_at) };
  }

  const verbs: ClaimStore = {
    async claimEvents(owner, limit, leaseMs, now) {
      claims.expire(now.steady);
      const claimed: PendingEvent[] = [];
      const nowIso = iso(now.wall);
      let after = 0;
      let bytes = 0;
      const isFull = () => claimed.length >= limit || bytes >= CLAIM_BYTES;
      for (let scanned = 0; scanned < CLAIM_SCAN_FACTOR && !isFull(); scanned += 1) {
        const numbers = selectPending.all(after, nowIso, limit) as number[];
        for (const seq of numbers) {
          after = seq;
          if (isFull()) break;
          const event = { ...(arrivals.get(seq) ?? readEvent(seq)), owner };
          if (!claims.take(event, now.steady + leaseMs)) continue;
          claimed.push(event);
          bytes += event.body.length;
        }
        if (numbers.length < limit) break;
      }
      return claimed;
    },

    async releaseEvents(events) {
      for (const event of events) claims.letGo(event);
    },

    async recoverClaims() {
      claims.clear();
    },
  };

  const engine: Engine = {
    ...records.engine,
    keepsTime: false,
    acceptNew: async () => null,
    async insertNew({ numbers }, arrived, now, timing) {
      const nowIso = iso(now.wall);
      // Asked once for the whole group: most databases have trimmed nothing, and a look-up for each event costs time.
      const isTrimmed =
        anyTrimmed.get() === 1 ? (id: string) => selectTrimmed.get(id) !== undefined : () => false;
      const inserted = { pending: 0, ignored: 0 };
      const seqs = arrived.map((event) => {
        if (isTrimmed(event.id)) return null;
        const { id, type, createdMs, kind, recordId, address = null, body } = event;
        const seq = numbers.current() + 1;
        const state = waitsForProcessing(event) ? 'pending' : 'ignored';
        const processedAt = state === 'pending' ? null : nowIso;
        // biome-ignore format: in the order of the columns
        const { changes } = insertEvent.run(
          seq, id, type, createdIn(event), createdMs, kind, recordId, nowIso, nowIso, state, processedAt, address, body,
        );
        if (changes === 0) return null;
        numbers.next();
        inserted[state] += 1;
        if (kind !== null && recordId !== null) records.dirty(kind, recordId, seq, now, nowIso, timing);
        return seq;
      });
      for (const state of ['pending', 'ignored'] as const)
        if (inserted[state] > 0) count.run(inserted[state], state);
      return seqs;
    },
    accepted: arrivals.accepted,
    payloadOf: arrivals.payloadOf,
    claimed: (events) => events.flatMap((event) => claims.get(event) ?? []),
    finish: (_unit, seqs, { state, error, soughtFrom }, nowIso) => {
      finish.run(state, nowIso, error, soughtFrom, JSON.stringify(seqs));
    },

    finishClaims: async (_sql, events) => events.filter((event) => claims.get(event) !== undefined),
    claimsFinished(events) {
      for (const event of events) {
        claims.letGo(event);
        arrivals.forget(event.seq);
      }
    },
    async revokeClaim(_sql, seq) {
      claims.revoke(seq);
      arrivals.forget(seq);
    },
  };

  return { verbs, engine };
}
