import { standsInRow } from '../../mirror/decide.ts';
import type { Finished, HotPath } from '../units/provisional.ts';
import type { StoredHeld } from './busy-records.ts';
import type { Connection } from './connection.ts';
import type { SqliteRecords } from './records.ts';
import type { Arrivals } from './unprocessed-events.ts';

/** How a batch of events is loaded and saved: by prepared statements, and from what the batch before it has left. */
export function createHotPath(db: Connection, records: SqliteRecords, arrivals: Arrivals): HotPath {
  // One statement for a whole batch: a call for each of them costs as much as its work. OR FAIL, since SQLite otherwise
  // copies every page aside first, in order to undo this statement alone; ours always fall with their transaction.
  const finishAll = db.prepare(
    `UPDATE OR FAIL events SET state = ?, attempts = attempts + 1, processed_at = ?, error = NULL, next_attempt_at = NULL
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );
  const finishFailed = db.prepare(
    `UPDATE events SET state = 'failed', attempts = attempts + 1, processed_at = ?, error = ?, next_attempt_at = ?
     WHERE seq = ? AND state = 'pending'`,
  );

  return {
    records: records.shared,
    payloadOf: arrivals.payloadOf,
    async recall(_sql, kind, ids) {
      records.busy.check();
      return new Map([...ids].map((id) => [id, records.recall(kind, id)]));
    },
    forgetRecords: records.busy.clear,

    saveProvisional(_unit, touched, changes, nowIso) {
      for (const held of touched as Iterable<StoredHeld>) {
        const { state } = held.stored;
        if (state === null || !standsInRow(state, held)) records.saveState(held);
        records.busy.keep(held, records.saveRow(held));
      }
      for (const change of changes) records.addChange(change, nowIso);
    },

    saveFinished(_unit, finished, nowIso) {
      const seqs: Record<Exclude<Finished['state'], 'failed'>, number[]> = { processed: [], ignored: [] };
      for (const { seq, state, error, soughtFrom } of finished) {
        if (state === 'failed') finishFailed.run(nowIso, error, soughtFrom, seq);
        else seqs[state].push(seq);
      }
      for (const state of ['processed', 'ignored'] as const) {
        if (seqs[state].length > 0) finishAll.run(state, nowIso, JSON.stringify(seqs[state]));
      }
    },
  };
}
