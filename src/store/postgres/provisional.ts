import { standsInRow } from '../../mirror/decide.ts';
import { payloadIn } from '../../process/payload.ts';
import type { HotPath } from '../units/provisional.ts';
import type { Sender } from './connection.ts';
import { type StoredHeld as Held, loadRecords, RECORDS, saveRecords } from './records.ts';
import { rowsOf } from './text.ts';

const hasNewState = (held: Held): boolean => !held.known || !standsInRow(held.stored, held);

/** How a batch of events is loaded and saved: by a statement for each table. */
export const HOT_PATH: HotPath = {
  records: RECORDS,
  payloadOf: ({ body }) => payloadIn(body),
  recall: loadRecords,
  // Nothing is: another replica may write.
  forgetRecords: () => undefined,
  saveProvisional: (unit: Sender, touched, changes, nowIso) =>
    saveRecords(unit, touched, changes, nowIso, hasNewState),
  saveFinished(unit: Sender, finished, nowIso) {
    unit.send(
      `UPDATE events e SET state = x.state, attempts = e.attempts + 1, processed_at = $2::timestamptz, error = x.error,
         next_attempt_at = x.sought
       FROM json_to_recordset($1::json) AS x (seq bigint, state text, error text, sought timestamptz)
       WHERE e.seq = x.seq AND e.state = 'pending'`,
      [rowsOf(finished.map(({ soughtFrom, ...row }) => ({ ...row, sought: soughtFrom }))), nowIso],
    );
  },
};
