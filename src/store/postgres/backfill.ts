import type { LearnedPointer } from '../../compliance/pointers.ts';
import { compareRead, decideApply, decideMissing } from '../../mirror/decide.ts';
import { differingNames } from '../../mirror/merge.ts';
import { assessmentsNamedIn } from '../../process/handlers.ts';
import { gapOfFailed } from '../healing.ts';
import { TABLES } from '../record-rows.ts';
import type { Applied, BackfillStore, ReadMoment, ReadObject, UnreadEvent } from '../store.ts';
import type { Database, Sql, Unit } from './connection.ts';
import { isConsented, letGo } from './deletions.ts';
import { makeKnown } from './due.ts';
import { healRecords, tellMoreOfGap } from './gaps.ts';
import {
  type Change,
  type Held,
  hintRecords,
  isoOf,
  lastEvents,
  loadRecords,
  saveRecords,
  writeContent,
} from './records.ts';
import { instantOf } from './types.ts';

type ReadVerbs = Pick<
  BackfillStore,
  | 'applyReads'
  | 'compareReads'
  | 'recordMissing'
  | 'unreadEvents'
  | 'putOffUnread'
  | 'seekAnew'
  | 'neverShown'
  | 'unreadableRecords'
  | 'eventsNaming'
  | 'noteSearched'
  | 'shownIds'
  | 'learnedPointers'
  | 'learnPointer'
>;
type ApplyContext = Parameters<BackfillStore['applyReads']>[3];

/** The verbs that bring rows into step with what the API showed. */
export function createBackfillVerbs(database: Database): ReadVerbs {
  return {
    async applyReads(kind, objects, read, context) {
      const nowIso = isoOf(read.endedWall);
      const ids = objects.map((object) => object.id);
      return await database.transact(
        async (unit, records) => {
          const rowless = [...records.values()].filter((held) => held.known && held.row === null);
          const events = await lastEvents(
            unit,
            kind,
            rowless.map((held) => held.id),
          );
          const changes: Change[] = [];
          const applied = objects.map((object) => {
            const held = records.get(object.id)!;
            return applyOne(held, object, read, {
              ...{ ...context, nowIso, numbers: unit.numbers, changes },
              lastEvent: events.get(object.id),
            });
          });
          saveRecords(unit, records.values(), changes, nowIso);
          const verified = applied.filter((one) => one.verified).map((one) => one.id);
          await healRecords(unit, kind, verified, nowIso);
          await letGo(unit, kind, verified, nowIso);
          const named = objects.flatMap((object) => assessmentsNamedIn(object.data, kind, context.pointers));
          await makeKnown(unit, 'risk_assessment', named, { wall: read.endedWall, steady: read.endedAt });
          return applied;
        },
        (sql: Sql) => loadRecords(sql, kind, ids),
      );
    },

    async unreadEvents(now, limit) {
      return await database.sql.query<UnreadEvent>(
        `SELECT seq, id, type, kind, attempts, body FROM events
         WHERE state = 'dead' AND next_attempt_at <= $1 AND kind IS NOT NULL AND record_id IS NULL AND body IS NOT NULL
         ORDER BY next_attempt_at LIMIT $2`,
        [instantOf(now.wall), limit],
      );
    },

    async seekAnew(now) {
      await database.sql.change(
        `UPDATE events SET next_attempt_at = $1, processed_at = $1
         WHERE state = 'dead' AND next_attempt_at IS NOT NULL AND processed_at > $1`,
        [instantOf(now.wall)],
      );
    },

    async putOffUnread(event, error, againWall, now) {
      await database.transact(async (unit) => {
        const left = await unit.change(
          `UPDATE events SET attempts = attempts + 1, error = $2, next_attempt_at = $3, processed_at = $4
           WHERE seq = $1 AND state = 'dead' AND record_id IS NULL`,
          [event.seq, error, instantOf(againWall), instantOf(now.wall)],
        );
        if (left > 0) await tellMoreOfGap(unit, gapOfFailed(event.kind, null), `event ${event.id}: ${error}`);
      });
    },

    async unreadableRecords(kind, limit) {
      const rows = await database.sql.query<{ id: string }>(
        `SELECT record_id AS id FROM gaps WHERE reason = 'unreadable_answer' AND kind = $1 AND record_id IS NOT NULL AND healed_at IS NULL
         ORDER BY number LIMIT $2`,
        [kind, limit],
      );
      return rows.map(({ id }) => id);
    },

    async neverShown(kind, after, limit) {
      const rows = await database.sql.query<{ id: string }>(
        `SELECT id FROM record_state s WHERE kind = $1 AND NOT returned AND hint > 0 AND id > $2
         AND NOT EXISTS (SELECT 1 FROM ${TABLES[kind]} r WHERE r.id = s.id) ORDER BY id LIMIT $3`,
        [kind, after, limit],
      );
      return rows.map(({ id }) => id);
    },

    async eventsNaming(kind, id, { after, through, limit }) {
      return await database.sql.query<UnreadEvent>(
        `SELECT seq, id, type, kind, attempts, body FROM events WHERE record_id = $2 AND kind = $1
         AND seq > coalesce($3::bigint, (SELECT searched FROM record_state WHERE kind = $1 AND id = $2), 0)
         AND ($4::bigint IS NULL OR seq <= $4) AND state <> 'discarded' AND body IS NOT NULL ORDER BY seq LIMIT $5`,
        [kind, id, after ?? null, through ?? null, limit],
      );
    },

    async noteSearched(kind, id, { through, event, named }, now, timing) {
      await database.transact(
        async (unit, records) => {
          unit.send('UPDATE record_state SET searched = greatest(searched, $3) WHERE kind = $1 AND id = $2', [
            kind,
            id,
            through,
          ]);
          const fresh = named.filter((other) => (records.get(other)?.state.hint ?? 0) <= event);
          const hints = fresh.map((other) => ({ kind, id: other, number: unit.numbers.next() }));
          hintRecords(unit, hints, now, timing);
        },
        (sql: Sql) => loadRecords(sql, kind, named),
      );
    },

    async shownIds(kind, ids) {
      const rows = await database.sql.query<{ id: string }>(
        'SELECT id FROM record_state WHERE kind = $1 AND returned AND id = ANY ($2::text[]) ORDER BY id',
        [kind, ids],
      );
      return rows.map(({ id }) => id);
    },

    async learnedPointers() {
      return await learnedPointers(database.sql);
    },

    async learnPointer({ kind, path, eventId, recordId, isUsed }, now) {
      await database.transact((unit) =>
        unit.change(
          `INSERT INTO learned_pointers AS l (kind, path, event_id, record_id, learned_at, used) VALUES ($1, $2, $3, $4, $5, $6)
           ON CONFLICT (kind, path) DO UPDATE SET event_id = excluded.event_id, record_id = excluded.record_id,
             learned_at = excluded.learned_at, used = l.used OR excluded.used`,
          [kind, path, eventId, recordId, instantOf(now.wall), isUsed],
        ),
      );
    },

    async compareReads(kind, objects, read) {
      const records = await loadRecords(
        database.sql,
        kind,
        objects.map((object) => object.id),
      );
      return objects.map((object) => compareRead(kind, object, read, records.get(object.id)!));
    },

    async recordMissing(kind, id, read, context) {
      const load = (sql: Sql) =>
        Promise.all([loadRecords(sql, kind, [id]), isConsented(sql, kind, id, isoOf(read.endedWall))]);
      return await database.transact(async (unit, [records, agreed]) => {
        const held = records.get(id)!;
        if (!held.known) return 'known';
        const decision = decideMissing(read, held, { ...context, agreed }, context.timing);
        held.state = decision.state;
        saveRecords(unit, [held], [], isoOf(read.endedWall));
        return decision.outcome;
      }, load);
    },
  };
}

/** The latest first. */
export const learnedPointers = (sql: Sql) =>
  sql.query<LearnedPointer>(
    'SELECT kind, path FROM learned_pointers WHERE used ORDER BY learned_at DESC, path',
  );

interface ApplyOne extends ApplyContext {
  nowIso: string;
  numbers: Unit['numbers'];
  changes: Change[];
  lastEvent: { id: string; createdMs: number } | undefined;
}

function applyOne(held: Held, object: ReadObject, read: ReadMoment, context: ApplyOne): Applied {
  const { unverifiedSince } = held.state;
  const wasAlive = held.row !== null && held.row.deletedAt === null && held.state.returned;
  const decision = decideApply(held.kind, object.data, read, held, context.timing);
  held.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    context.changes.push(writeContent(held, decision.row, decision.change, context));
  }
  if (decision.confirmed && held.row !== null) held.row.verifiedAt = context.nowIso;
  held.sweepId = context.sweepId;
  const verified = held.state.unverifiedSince === null;
  return {
    id: object.id,
    outcome: decision.outcome,
    differences: decision.change === null ? [] : differingNames(decision.change),
    verified,
    lagMs: verified && unverifiedSince !== null ? read.endedWall - unverifiedSince : null,
    witness: wasAlive,
    announced: unverifiedSince !== null,
    lacks: decision.lacks,
  };
}
