import type { Kind } from '../../compliance/kinds.ts';
import { withLearned } from '../../compliance/pointers.ts';
import { describeError, StoreUnavailable } from '../../platform/errors.ts';
import { noRecordIn, recordOf } from '../../process/payload.ts';
import type { Database, Sql, Unit } from '../database.ts';
import type { EventState } from '../reports.ts';
import { events, quarantine, recordState as states } from '../schema.ts';
import type { InboxStore, RetryOutcome, UnreadEvent } from '../store.ts';
import { learnedPointers } from './backfill.ts';
import { tally } from './facts.ts';
import {
  coverableAt,
  gapOfQuarantined,
  openGap,
  resolveGap,
  resolveRecords,
  resolveSettled,
} from './gaps.ts';
import { applyAll, type EventEngine, type PendingEvent } from './processing.ts';
import { TABLE_OF } from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';
import { as, iso, set, sql } from './sql.ts';

type StoredEvent = Omit<PendingEvent, 'receivedWall' | 'owner'> & { receivedAt: string; state: EventState };

const STORED = {
  ...{ seq: events.seq, id: events.id, type: events.type, created: events.created },
  ...{ createdMs: events.createdMs, kind: events.kind, recordId: events.recordId, body: events.body },
  ...{ attempts: events.attempts, receivedAt: events.receivedAt, state: events.state },
};

/** What people do about an event that was not understood: it is tried again, discarded, released from quarantine. */
export function createEventVerbs(database: Database, engine: EventEngine) {
  const failAgain = (to: Sql, id: string, error: string, nowIso: string) =>
    to.change(
      sql`UPDATE ${events} SET ${set(events, { attempts: sql`${events.attempts} + 1`, error, processedAt: nowIso })}
        WHERE ${events.id} = ${id} AND ${events.state} = 'failed'`,
    );

  return {
    async retryEvent(id, rules, now) {
      const nowIso = iso(now.wall);
      try {
        return await database.transact(async (unit): Promise<RetryOutcome> => {
          engine.forgetRecords();
          const [row] = await unit.query<StoredEvent>(
            sql`SELECT ${as(STORED)} FROM ${events} WHERE ${events.id} = ${id} ${unit.dialect.forUpdate}`,
          );
          if (row === undefined) return { outcome: 'unknown' };
          const { state, receivedAt, ...stored } = row;
          if (state !== 'failed' && !(await isAboutNothing(engine, unit, stored, state)))
            return { outcome: 'other_state', state };
          if (stored.body === null) return { outcome: 'trimmed' };
          const record = recordOf(stored, withLearned(rules.pointers, await learnedPointers(unit)));
          if (state !== 'failed' && (record === null || record.recordId === stored.recordId))
            return { outcome: 'other_state', state };
          if (record === null) {
            const error =
              stored.kind === null
                ? 'the event is of no known family'
                : noRecordIn(stored.kind, rules.pointers);
            await failAgain(unit, id, error, nowIso);
            return { outcome: 'failed', error };
          }
          unit.send(
            sql`UPDATE ${events} SET ${set(events, { state: 'pending', attempts: 0, nextAttemptAt: null })}
              WHERE ${events.seq} = ${stored.seq}`,
          );
          tally(unit, { [state]: -1, pending: 1 });
          // As one that names none yet, so that it is shown by what was learned as well, and its record becomes dirty.
          const event = { ...stored, recordId: null, receivedWall: Date.parse(receivedAt), owner: '' };
          const [result] = await applyAll(engine, unit, [{ event, reading: null }], new Map(), rules, now);
          if (result === undefined || result.outcome === 'failed') {
            return { outcome: 'failed', error: result?.error ?? 'it was not processed' };
          }
          await trimBodiesAgainFrom(unit, stored.seq);
          if (stored.kind !== null) await resolveSettled(unit, stored.kind, stored.recordId, nowIso);
          if (stored.kind !== null && stored.recordId !== null)
            await forgetUnnamed(engine, unit, stored.kind, stored.recordId, nowIso);
          return { outcome: 'processed', ...record };
        });
      } catch (failure) {
        if (failure instanceof StoreUnavailable) throw failure;
        const error = describeError(failure);
        await database.transact((unit) => failAgain(unit, id, error, nowIso));
        return { outcome: 'failed', error };
      }
    },

    async failedWithoutRecord(after, limit) {
      const { seq, id, type, kind, attempts, body } = events;
      return await database.sql.query<UnreadEvent>(
        sql`SELECT ${as({ seq, id, type, kind, attempts, body })}
          FROM ${events}${database.sql.dialect.indexedBy('events_failed')}
          WHERE ${events.state} = 'failed' AND ${kind} IS NOT NULL AND ${events.recordId} IS NULL AND ${body} IS NOT NULL
            AND ${seq} > ${after} ORDER BY ${seq} LIMIT ${limit}`,
      );
    },

    async discardEvent(id, now) {
      const nowIso = iso(now.wall);
      return await database.transact(async (unit) => {
        const [event] = await unit.query<Pick<StoredEvent, 'seq' | 'state' | 'kind' | 'recordId'>>(
          sql`SELECT ${as({ seq: events.seq, state: events.state, kind: events.kind, recordId: events.recordId })}
            FROM ${events} WHERE ${events.id} = ${id} AND ${events.state} IN ('failed', 'pending') ${unit.dialect.forUpdate}`,
        );
        if (event === undefined) return false;
        await unit.change(
          sql`UPDATE ${events} SET ${set(events, { state: 'discarded', processedAt: nowIso, nextAttemptAt: null })}
            WHERE ${events.seq} = ${event.seq}`,
        );
        await trimBodiesAgainFrom(unit, event.seq);
        await engine.revokeClaim(unit, event.seq);
        tally(unit, { [event.state]: -1, discarded: 1 });
        if (event.state === 'failed' && event.kind !== null)
          await resolveSettled(unit, event.kind, event.recordId, nowIso);
        return true;
      });
    },

    async releaseQuarantined(id, now, timing) {
      const nowIso = iso(now.wall);
      return await database.transact(async (unit) => {
        const [row] = await unit.query<{ kind: Kind | null; recordId: string | null }>(
          sql`UPDATE ${quarantine} SET ${set(quarantine, { releasedAt: nowIso })}
            WHERE ${quarantine.id} = ${id} AND ${quarantine.releasedAt} IS NULL
            RETURNING ${as({ kind: quarantine.kind, recordId: quarantine.recordId })}`,
        );
        if (row === undefined) return false;
        const { kind, recordId } = row;
        if (kind !== null && recordId !== null) {
          engine.records.dirty(unit, [{ kind, id: recordId, number: unit.numbers.next() }], now, timing);
        } else if (kind === 'risk_assessment') {
          // There is no list to read: that a person has seen to it is all that can settle it.
          await resolveSettled(unit, kind, null, nowIso);
        } else {
          const gap = gapOfQuarantined('unusable_delivery', kind, null);
          await openGap(unit, gap, `quarantine ${id} released`, nowIso, coverableAt(gap, now, timing));
        }
        return true;
      });
    },
  } satisfies Partial<InboxStore>;
}

/** It was processed, and what it was taken to be about is nothing that the API or an event has ever shown. */
async function isAboutNothing(
  { records }: EventEngine,
  unit: Unit,
  { kind, recordId }: Pick<StoredEvent, 'kind' | 'recordId'>,
  state: EventState,
): Promise<boolean> {
  if (kind === null || recordId === null || (state !== 'processed' && state !== 'ignored')) return false;
  const held = (await records.load(unit, kind, [recordId])).get(recordId);
  return held?.state.returned === false && held.row === null;
}

/** The API has never shown it, and nothing is left that names it: its gaps go with it. */
async function forgetUnnamed(
  { records }: EventEngine,
  unit: Unit,
  kind: Kind,
  id: string,
  nowIso: string,
): Promise<void> {
  const rows = TABLE_OF[kind];
  const about = await records.eventsAbout(unit, kind, id, {
    after: 0,
    through: unit.numbers.current(),
  });
  const forgotten = await unit.change(
    sql`DELETE FROM ${states} WHERE ${states.kind} = ${kind} AND ${states.id} = ${id} AND NOT ${states.returned}
      AND NOT EXISTS (SELECT 1 FROM ${rows} WHERE ${rows.id} = ${id})
      AND NOT EXISTS (SELECT 1 FROM ${events} WHERE ${about})
      AND NOT EXISTS (SELECT 1 FROM ${quarantine} WHERE ${quarantine.releasedAt} IS NULL
        AND ${quarantine.kind} = ${kind} AND ${quarantine.recordId} = ${id})`,
  );
  if (forgotten === 0) return;
  await resolveRecords(unit, kind, [id], nowIso);
  await resolveGap(unit, { reason: 'unreadable_answer', kind, recordId: id }, nowIso);
}
