import type { Kind } from '../../compliance/kinds.ts';
import type { EventState } from '../reports.ts';
import type { InboxStore } from '../store.ts';
import { createAcceptVerbs } from './accept.ts';
import { type Arrivals, createArrivals } from './arrivals.ts';
import { createClaims } from './claims.ts';
import type { Connection, Transact } from './connection.ts';
import type { Gaps } from './gaps.ts';
import { createProcessVerbs } from './process.ts';
import { iso, type Records } from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';

/** What the inbox's verbs share. */
export interface InboxParts {
  db: Connection;
  transact: Transact;
  records: Records;
  gaps: Gaps;
  claims: ReturnType<typeof createClaims>;
  arrivals: Arrivals;
  /** Moves the counts of events by state. */
  tally: (moves: Partial<Record<EventState, number>>) => void;
}

export function createInboxVerbs(
  db: Connection,
  transact: Transact,
  records: Records,
  gaps: Gaps,
): InboxStore {
  const discard = db.prepare(
    `UPDATE events SET state = 'discarded', processed_at = ?, next_attempt_at = NULL
     WHERE id = ? AND state IN ('dead', 'pending') RETURNING seq, kind, record_id AS recordId`,
  );
  const stateOf = db.prepare('SELECT state FROM events WHERE id = ?').pluck();

  const trimAgainFrom = trimBodiesAgainFrom(db);
  const adjust = db.prepare('UPDATE event_counts SET count = count + ? WHERE state = ?');
  const claims = createClaims();
  const arrivals = createArrivals();

  function tally(moves: Partial<Record<EventState, number>>): void {
    for (const [state, by] of Object.entries(moves)) if (by !== 0) adjust.run(by, state);
  }
  const parts: InboxParts = { db, transact, records, gaps, claims, arrivals, tally };

  return {
    ...createAcceptVerbs(parts),
    ...createProcessVerbs(parts),

    async discardEvent(id, now) {
      return transact(() => {
        const state = stateOf.get(id) as EventState | undefined;
        const nowIso = iso(now.wall);
        const discarded = discard.get(nowIso, id) as
          | { seq: number; kind: Kind | null; recordId: string | null }
          | undefined;
        if (state === undefined || discarded === undefined) return false;
        // Whoever works on it finds the claim lost, and leaves it.
        claims.revoke(discarded.seq);
        arrivals.forget(discarded.seq);
        tally({ [state]: -1, discarded: 1 });
        trimAgainFrom(discarded.seq);
        if (state === 'dead' && discarded.kind !== null) {
          gaps.healSettled(discarded.kind, discarded.recordId, nowIso);
        }
        return true;
      });
    },
  };
}
