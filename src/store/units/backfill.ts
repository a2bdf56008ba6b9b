import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import {
  assessmentsNamedIn,
  type IdPointers,
  type JsonObject,
  type LearnedPointer,
  mayNameAssessment,
} from '../../compliance/pointers.ts';
import { decideApply, isOnlyRead } from '../../mirror/decide.ts';
import { decideMissing, type MissingContext } from '../../mirror/deletions.ts';
import { differingNames } from '../../mirror/merge.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { learnedPointers as pointers, recordState as states } from '../schema.ts';
import { sql } from '../statement.ts';
import type {
  Applied,
  Cause,
  DirtyTiming,
  MissingOutcome,
  Now,
  ProvenPointer,
  ReadMoment,
  ReadObject,
  SyncRunProgress,
  UnreadEvent,
} from '../values.ts';
import { dropPending, saidOf } from './deletions.ts';
import { problemOfFailed } from './delivery-problems.ts';
import { makeKnown } from './due.ts';
import { isOpen, lastWhole, resolveRecords, setProblemError } from './problems.ts';
import { reading } from './reading.ts';
import {
  type Change,
  isRecord,
  type LastEvent,
  type LoadedRecord,
  loadRecords,
  nameEvents,
  TABLE_OF,
  writeContent,
} from './records.ts';
import { markDirty, saveRecords, settledAmong } from './saving.ts';
import { excluded, idsOf, iso, singleValue, update, upsert, writerOf } from './sql.ts';
import { saveProgress } from './sync-runs.ts';

interface ApplyContext {
  cause: Cause;
  syncRunId: number | null;
  timing: DirtyTiming;
  pointers: IdPointers;
  progress?: SyncRunProgress;
}

const UNREAD = sql.raw('seq, id, type, kind, attempts, body');

/** The verbs that make rows equal to what the API showed. */
export function createBackfillVerbs(database: Database) {
  const { sql: statements } = database;

  return {
    /** Applies the objects of one page or record. `progress` is saved in the same commit. */
    applyReads(
      kind: Kind,
      objects: readonly ReadObject[],
      read: ReadMoment,
      context: ApplyContext,
    ): Promise<Applied[]> {
      const nowIso = iso(read.endedWall);
      return database.transact(
        async (unit, { settled, loaded }) => {
          const before = new Map([...loaded.values()].map((record) => [record.id, record.state]));
          const rowless = [...loaded.values()].filter(
            (record) => record.row === null && record.state.dirty > 0,
          );
          const last = await lastEvents(unit, kind, rowless);
          const changes: Change[] = [];
          const applied = objects.map((object) => {
            const record = loaded.get(object.id);
            if (record === undefined) return { id: object.id, ...UNCHANGED };
            const lastEvent = last.get(object.id);
            return applyOne(record, object, read, { ...context, nowIso, unit, changes, lastEvent });
          });
          const changed: LoadedRecord[] = [];
          const confirmed = [...settled];
          for (const record of loaded.values()) {
            const isConfirmed = record.row?.verifiedAt === nowIso && !record.written;
            if (isConfirmed && isOnlyRead(before.get(record.id)!, record.state, read))
              confirmed.push(record.id);
            else changed.push(record);
          }
          await nameEvents(unit, changes, loaded);
          saveRecords(unit, changed, changes, nowIso);
          noteRead(unit, kind, confirmed, read, nowIso, context.syncRunId);
          const verified = applied.filter((one) => one.verified).map((one) => one.id);
          await resolveRecords(unit, kind, verified, nowIso);
          await dropPending(unit, kind, verified, nowIso);
          const named = objects.flatMap((object) => assessmentsIn(object, kind, context.pointers));
          await makeKnown(unit, 'risk_assessment', named, { wall: read.endedWall, steady: read.endedAt });
          const { syncRunId, progress } = context;
          if (syncRunId !== null && progress !== undefined) await saveProgress(unit, syncRunId, progress);
          return applied;
        },
        async (first: Sql) => {
          // Not worth a statement for a single record.
          const settled =
            objects.length > 1 ? await settledAmong(first, kind, objects, read.number, context.pointers) : [];
          const known = new Set(settled);
          const others = objects.filter(({ id }) => !known.has(id)).map(({ id }) => id);
          return { settled, loaded: await loadRecords(first, kind, others) };
        },
        'later',
      );
    },

    /** Notes that a read of the record was answered 404. */
    recordMissing(
      kind: Kind,
      id: string,
      read: ReadMoment,
      context: MissingContext & { timing: DirtyTiming },
    ): Promise<MissingOutcome> {
      const nowIso = iso(read.endedWall);
      return database.transact(
        async (unit, [loaded, said]) => {
          const record = loaded.get(id)!;
          if (record.stored === null) return 'known';
          const decision = decideMissing(read, record, { ...context, ...said.get(id) }, context.timing);
          record.state = decision.state;
          saveRecords(unit, [record], [], nowIso);
          return decision.outcome;
        },
        (first: Sql) => Promise.all([loadRecords(first, kind, [id]), saidOf(first, kind, [id], nowIso)]),
        'later',
      );
    },

    /**
     * Failed events without a record that are due for the search of it, the longest due first. An event about a policy waits for a complete
     * list begun a consistency window after it was accepted: if the policy itself were not listed yet, another one that the event names
     * would be taken for it. That list has been read once no problem waits for it, or if its instants say so (a clock set back makes them wrong).
     */
    unreadEvents: reading(
      (now: Now, limit: number, { settleMs }: DirtyTiming): Promise<UnreadEvent[]> =>
        statements.query<UnreadEvent>(
          sql`SELECT ${UNREAD} FROM events${statements.dialect.indexedBy('events_sought')}
          WHERE state = 'failed' AND next_attempt_at <= ${iso(now.wall)} AND record_id IS NULL
          AND body IS NOT NULL AND (kind <> 'policy' OR NOT EXISTS (SELECT 1 FROM problems WHERE ${isOpen(problemOfFailed('policy', null))})
            OR EXISTS (SELECT 1 FROM ${lastWhole('policy')} AS last WHERE last.number >= events.seq
              AND ${statements.dialect.millisecondsBetween(sql`events.received_at`, sql`last.started_at`)} > ${settleMs - 1}))
          ORDER BY next_attempt_at LIMIT ${limit}`,
        ),
    ),

    /** Makes searches due that were put off before the wall clock was set back, or never begun, since there were no credentials. */
    async seekAnew(now: Now): Promise<void> {
      const nowIso = iso(now.wall);
      await statements.change(
        sql`UPDATE events${statements.dialect.indexedBy('events_failed')}
          SET next_attempt_at = ${nowIso}, processed_at = CASE WHEN processed_at > ${nowIso} THEN ${nowIso} ELSE processed_at END
          WHERE state = 'failed' AND record_id IS NULL AND (next_attempt_at IS NULL OR processed_at > ${nowIso})`,
      );
    },

    /**
     * The record of the event was not found: puts its search off, and writes `error` into the event and its problem. A search that failed is no
     * attempt.
     */
    async putOffUnread(
      event: UnreadEvent,
      error: string,
      againWall: number,
      now: Now,
      attempts: 0 | 1 = 1,
    ): Promise<void> {
      await database.transact(async (unit) => {
        const left = await unit.change(
          sql`UPDATE events SET attempts = attempts + ${attempts}, error = ${error}, next_attempt_at = ${iso(againWall)},
              processed_at = ${iso(now.wall)}
            WHERE seq = ${event.seq} AND state = 'failed' AND record_id IS NULL`,
        );
        if (left > 0)
          await setProblemError(unit, problemOfFailed(event.kind, null), `event ${event.id}: ${error}`);
      });
    },

    /** Records whose own address last gave an unreadable answer, the oldest such answer first. */
    unreadableRecords: reading(
      (kind: Kind, limit: number): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT record_id AS id FROM problems WHERE reason = 'unreadable_answer' AND kind = ${kind} AND record_id IS NOT NULL
          AND resolved_at IS NULL ORDER BY number LIMIT ${limit}`,
        ),
    ),

    /** Ids, in order, that events have named and the API has never shown. They have no row. */
    neverShown: reading((kind: Kind, after: string, limit: number): Promise<string[]> => {
      return idsOf(
        statements,
        sql`SELECT s.id FROM record_state s WHERE s.kind = ${kind} AND NOT s.returned AND s.dirty > 0 AND s.id > ${after}
          AND NOT EXISTS (SELECT 1 FROM ${TABLE_OF[kind]} r WHERE r.id = s.id) ORDER BY s.id LIMIT ${limit}`,
      );
    }),

    /** Events about the record, in number order, without dismissed and trimmed ones. Default of `after`: the last that was searched. */
    eventsNaming: reading(
      async (
        kind: Kind,
        id: string,
        {
          after,
          through = Number.MAX_SAFE_INTEGER,
          limit,
        }: { after?: number | undefined; through?: number; limit: number },
      ): Promise<UnreadEvent[]> => {
        const searched = sql`SELECT searched FROM record_state WHERE ${isRecord(kind, id)}`;
        const above = after ?? (await singleValue<number>(statements, searched)) ?? 0;
        return await statements.query<UnreadEvent>(
          sql`SELECT ${UNREAD} FROM events WHERE record_id = ${id} AND kind = ${kind} AND seq > ${above} AND seq <= ${through}
            AND state <> 'dismissed' AND body IS NOT NULL ORDER BY seq LIMIT ${limit}`,
        );
      },
    ),

    /** The record's events up to `through` were searched. Ids `named` in `event` become dirty, if they have not since it was accepted. */
    async noteSearched(
      kind: Kind,
      id: string,
      { through, event, named }: { through: number; event: number; named: readonly string[] },
      now: Now,
      timing: DirtyTiming,
    ): Promise<void> {
      await database.transact(
        async (unit, loaded) => {
          unit.send(
            sql`UPDATE record_state SET searched = ${through} WHERE ${isRecord(kind, id)} AND searched < ${through}`,
          );
          const fresh = named.filter((other) => loaded.get(other)!.state.dirty <= event);
          const dirtied = fresh.map((other) => ({ kind, id: other, number: unit.numbers.next() }));
          markDirty(unit, dirtied, now, timing);
        },
        (first: Sql) => loadRecords(first, kind, named),
      );
    },

    /** Makes records dirty without an event, which could not be stored. */
    async markDirty(
      named: readonly { kind: Kind; id: string }[],
      now: Now,
      timing: DirtyTiming,
    ): Promise<void> {
      await database.transact(async (unit) => {
        const dirtied = named.map((record) => ({ ...record, number: unit.numbers.next() }));
        markDirty(unit, dirtied, now, timing);
      });
    },

    /** Those of `ids` that the API has ever shown as records of the kind. */
    shownIds: reading(
      (kind: Kind, ids: readonly string[]): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT id FROM record_state WHERE kind = ${kind} AND returned AND ${statements.dialect.isAmong(states.id, ids)}
          ORDER BY id`,
        ),
    ),

    learnedPointers: reading((): Promise<LearnedPointer[]> => learnedPointers(statements)),

    learnPointer({ isUsed, ...pointer }: ProvenPointer, now: Now): Promise<void> {
      const row = { ...pointer, learnedAt: iso(now.wall), used: isUsed ? sql`true` : sql`false` };
      const isEverUsed = sql`${pointers.used} OR ${excluded(pointers.used)}`;
      return writerOf(database)(upsert(pointers, ['kind', 'path'], row, { used: isEverUsed }));
    },
  };
}

/** The last processed event about each record, which may have come before the record had a row. */
async function lastEvents(
  unit: Unit,
  kind: Kind,
  records: readonly LoadedRecord[],
): Promise<Map<string, LastEvent>> {
  if (records.length === 0) return new Map();
  const last = sql`SELECT seq FROM events e
    WHERE e.record_id = listed.id AND e.kind = ${kind} AND e.state = 'processed' ORDER BY e.seq DESC LIMIT 1`;
  const rows = await unit.query<LastEvent & { recordId: string }>(
    sql`SELECT record_id AS "recordId", id, created_ms AS "createdMs" FROM events
      WHERE seq IN (SELECT (${last}) FROM ${unit.dialect.listed(records.map(({ id }) => id))})`,
  );
  return new Map(rows.map(({ recordId, ...event }) => [recordId, event]));
}

/** Pointers that events are read with, the latest first. */
export const learnedPointers = (unit: Sql) =>
  unit.query<LearnedPointer>(
    sql`SELECT kind, path FROM learned_pointers WHERE used ORDER BY learned_at DESC, path`,
  );

/** Notes that a read has confirmed these records, in two statements for all of them. The last sync run that saw a record stays noted. */
function noteRead(
  unit: Unit,
  kind: Kind,
  ids: readonly string[],
  read: ReadMoment,
  nowIso: string,
  syncRunId: number | null,
): void {
  if (ids.length === 0) return;
  const rows = TABLE_OF[kind];
  unit.send(
    sql`UPDATE record_state SET read_number = ${read.number}, read_ended_at = ${Math.round(read.endedAt)}, error = NULL,
        sync_run_id = CASE WHEN sync_run_id > ${syncRunId} THEN sync_run_id ELSE coalesce(CAST(${syncRunId} AS bigint), sync_run_id) END
      WHERE kind = ${kind} AND ${unit.dialect.isAmong(states.id, ids)}`,
  );
  unit.send(update(rows, { verifiedAt: nowIso }, unit.dialect.isAmong(rows.id, ids)));
}

/** The result for a record that was alive and verified, and that the read has shown unchanged. */
export const UNCHANGED: Omit<Applied, 'id'> = {
  outcome: 'unchanged',
  differences: [],
  verified: true,
  lagMs: null,
  witness: true,
  announced: false,
  lacks: false,
};

/** Most rows name no assessment. The text of their JSON shows that without parsing it. */
function assessmentsIn({ json }: ReadObject, kind: Kind, pointers: IdPointers): string[] {
  return mayNameAssessment(json, kind, pointers) ? assessmentsNamedIn(documentIn(json), kind, pointers) : [];
}

const documentIn = (json: string) => parseJson(json) as JsonObject;

interface ApplyOne extends ApplyContext {
  nowIso: string;
  unit: Unit;
  changes: Change[];
  lastEvent: LastEvent | undefined;
}

function applyOne(record: LoadedRecord, object: ReadObject, read: ReadMoment, context: ApplyOne): Applied {
  const { unverifiedSince } = record.state;
  const { numbers } = context.unit;
  const wasAlive = record.row !== null && record.row.deletedAt === null && record.state.returned;
  const isNew = record.row === null;
  const isBeforeLastRead = read.number < record.state.readNumber;
  const { timing, pointers } = context;
  const decision = decideApply(record.kind, documentIn(object.json), read, record, timing, pointers);
  record.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    context.changes.push(writeContent(record, decision.row, decision.change, { ...context, numbers }));
  } else if (decision.row !== null && record.row !== null) {
    record.row = { ...record.row, ...decision.row };
    record.written = true;
  }
  if (decision.confirmed && record.row !== null) {
    const wasVerifiedLater = isBeforeLastRead && (record.row.verifiedAt ?? '') > context.nowIso;
    if (!wasVerifiedLater) record.row.verifiedAt = context.nowIso;
  }
  record.syncRunId = context.syncRunId;
  const verified = record.state.unverifiedSince === null;
  return {
    id: object.id,
    outcome: decision.outcome,
    differences: decision.change === null || isNew ? [] : differingNames(decision.change),
    verified,
    lagMs: verified && unverifiedSince !== null ? read.endedWall - unverifiedSince : null,
    witness: wasAlive,
    announced: unverifiedSince !== null,
    lacks: decision.lacks,
  };
}
