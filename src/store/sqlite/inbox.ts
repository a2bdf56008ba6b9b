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
  const retry = db.prepare(
    `UPDATE events SET state = 'pending', attempts = 0, next_attempt_at = NULL, processed_at = NULL, error = NULL
     WHERE id = ? AND state = 'dead' AND body IS NOT NULL RETURNING seq`,
  );
  const discard = db.prepare(
    "UPDATE events SET state = 'discarded', processed_at = ? WHERE id = ? AND state IN ('dead', 'pending') RETURNING seq",
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

    async retryEvent(id) {
      return transact(() => {
        const moved = retry.get(id) as { seq: number } | undefined;
        if (moved === undefined) return false;
        tally({ dead: -1, pending: 1 });
        trimAgainFrom(moved.seq);
        return true;
      });
    },

    async discardEvent(id, now) {
      return transact(() => {
        const state = stateOf.get(id) as EventState | undefined;
        const discarded = discard.get(iso(now.wall), id) as { seq: number } | undefined;
        if (state === undefined || discarded === undefined) return false;
        // Whoever works on it finds the claim lost, and leaves it.
        claims.revoke(discarded.seq);
        arrivals.forget(discarded.seq);
        tally({ [state]: -1, discarded: 1 });
        trimAgainFrom(discarded.seq);
        return true;
      });
    },
  };
}
