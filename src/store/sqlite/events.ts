import { type Engine, waitsForProcessing } from '../units/processing.ts';
import { createdIn, iso } from '../units/sql.ts';
import type { Connection } from './connection.ts';
import { createRecords } from './records.ts';

/** How SQLite stores and finishes events. */
export function createEngine(db: Connection): Engine {
  const records = createRecords(db);
  const insertEvent = db.prepare(
    `INSERT INTO events (seq, id, type, created, created_ms, kind, record_id, received_at, last_delivered_at, state,
       processed_at, address, body)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
  );
  const anyTrimmed = db.prepare('SELECT EXISTS (SELECT 1 FROM trimmed_events)').pluck();
  const selectTrimmed = db.prepare('SELECT 1 FROM trimmed_events WHERE id = ?');
  // One statement for a whole batch, since a call costs as much as the work for one event. OR FAIL, because otherwise SQLite copies
  // every page first, to be able to undo this statement alone. If ours fails, the whole transaction is rolled back.
  const finish = db.prepare(
    `UPDATE OR FAIL events SET state = ?, attempts = attempts + 1, processed_at = ?, error = ?, next_attempt_at = ?
     WHERE seq IN (SELECT value FROM json_each(?)) AND state = 'pending'`,
  );

  return {
    ...records.engine,
    keepsTime: false,
    acceptNew: async () => null,
    async insertNew({ numbers }, arrived, now, timing) {
      const nowIso = iso(now.wall);
      // Asked once for the whole group: most databases have trimmed nothing, and a look-up for each event costs time.
      const isTrimmed =
        anyTrimmed.get() === 1 ? (id: string) => selectTrimmed.get(id) !== undefined : () => false;
      return arrived.map((event) => {
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
        if (kind !== null && recordId !== null) records.dirty(kind, recordId, seq, now, nowIso, timing);
        return seq;
      });
    },
    finish: (_unit, seqs, { state, error, soughtFrom }, nowIso) => {
      finish.run(state, nowIso, error, soughtFrom, JSON.stringify(seqs));
    },
  };
}
