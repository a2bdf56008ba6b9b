import { type SQL, sql } from '../statement.ts';
import type { DirtyTiming, IncomingEvent, Now } from '../store.ts';
import { type Engine, waitsForProcessing } from '../units/processing.ts';
import { hasNewState } from '../units/records.ts';
import { idsOf, iso } from '../units/sql.ts';
import type { PostgresDatabase } from './connection.ts';
import { bigintArray, textArray, timestampArray } from './dialect.ts';
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

/** How PostgreSQL stores and finishes events. */
export function createEngine(database: PostgresDatabase): Engine {
  return {
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
        sql`SELECT id FROM events WHERE id = ANY (${ids}) UNION ALL SELECT id FROM trimmed_events WHERE id = ANY (${ids})`,
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
    saveProvisional: (unit, touched, changes, nowIso) =>
      saveRecords(unit, touched, changes, nowIso, hasNewState),
    finish(unit, seqs, { state, error, soughtFrom }, nowIso) {
      unit.send(
        sql`UPDATE events SET state = ${state}, attempts = attempts + 1, processed_at = ${nowIso}::timestamptz, error = ${error},
            next_attempt_at = ${soughtFrom}::timestamptz
          WHERE seq = ANY (${bigintArray(seqs)}) AND state = 'pending'`,
      );
    },
  };
}
