import { parseJson } from '../../compliance/json.ts';
import type { Kind } from '../../compliance/kinds.ts';
import {
  assessmentsNamedIn,
  type IdPointers,
  type JsonObject,
  type LearnedPointer,
  mayNameAssessment,
  payloadIn,
  recordIdIn,
  withLearned,
} from '../../compliance/pointers.ts';
import { decideMissing, type MissingContext } from '../../mirror/deletions.ts';
import { differingNames } from '../../mirror/merge.ts';
import { decideApply, isBackInSpite } from '../../mirror/reads.ts';
import { isOnlyRead } from '../../mirror/state.ts';
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
  Unknown,
  UnknownEvent,
} from '../values.ts';
import { makeKnown } from './due.ts';
import { dropPending, saidOf } from './pending-deletions.ts';
import { isAskedAbout, openProblem, resolveRecords } from './problems.ts';
import { reading } from './reading.ts';
import {
  type Change,
  type LastEvent,
  type LoadedRecord,
  loadRecords,
  nameEvents,
  TABLE_OF,
  writeContent,
} from './records.ts';
import { markDirty, saveRecords, settledAmong } from './saving.ts';
import { excluded, idsOf, iso, update, upsert, writerOf } from './sql.ts';
import { saveProgress } from './sync-runs.ts';

interface ApplyContext {
  cause: Cause;
  syncRunId: number | null;
  timing: DirtyTiming;
  pointers: IdPointers;
  progress?: SyncRunProgress;
  /** The answer is older than SETTLE, which is a problem of its own. */
  isTooOld?: boolean;
}

/** The verbs that make rows equal to what the API showed. */
export function createBackfillVerbs(database: Database) {
  const { sql: statements } = database;

  return {
    /**
     * Applies the objects of one page or record. `progress` is saved in the same commit. Returns what became of each, without those that were
     * alive and verified, and that a page has shown unchanged: most of a full sync.
     */
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
          const applied = objects.flatMap((object) => {
            const record = loaded.get(object.id);
            if (record === undefined) return [];
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
          const verified = [...settled, ...applied.filter((one) => one.verified).map((one) => one.id)];
          await resolveRecords(unit, kind, verified, nowIso);
          // Only an answer of its own address shows that it can be understood again.
          if (read.isOfList !== true && context.isTooOld !== true)
            await resolveRecords(unit, kind, idsIn(applied.filter(isUnderstood)), nowIso, [
              'unreadable_answer',
            ]);
          await dropPending(unit, kind, verified, nowIso);
          const back = applied.find(({ id, outcome }) => isBackInSpite(kind, read, before.get(id)!, outcome));
          // A full sync has just read the list.
          if (back !== undefined && context.syncRunId === null) {
            const text = `an event has reported the removal of ${back.id}, and its own address still shows it: the list decides`;
            const problem = { reason: 'incomplete_list', kind, recordId: null } as const;
            const now = { wall: read.endedWall, steady: read.endedAt };
            await openProblem(unit, problem, text, now, context.timing);
          }
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

    /** Notes that a read of the record was answered 404, which can be understood. */
    recordMissing(
      kind: Kind,
      id: string,
      read: ReadMoment,
      context: MissingContext & { timing: DirtyTiming },
    ): Promise<MissingOutcome> {
      const nowIso = iso(read.endedWall);
      return database.transact(
        async (unit, [loaded, said, unreadable]) => {
          const record = loaded.get(id)!;
          // While its witness was read, this very record may have been answered with what nobody understands.
          if (context.isUnusable !== true && unreadable.some(({ number }) => number > read.number))
            return 'first';
          await resolveRecords(unit, kind, unreadable.length > 0 ? [id] : [], nowIso, ['unreadable_answer']);
          if (record.stored === null) return 'known';
          const { dirty, returned } = record.state;
          const isAsked = !returned && dirty > 0 && (await isAskedAbout(unit, kind, id, dirty));
          const told = { ...context, ...said.get(id), isAsked };
          const decision = decideMissing(read, record, told, context.timing);
          record.state = decision.state;
          saveRecords(unit, [record], [], nowIso);
          return decision.outcome;
        },
        (first: Sql) =>
          Promise.all([
            loadRecords(first, kind, [id]),
            saidOf(first, kind, [id], nowIso),
            first.query<{ number: number }>(
              sql`SELECT number FROM problems WHERE ${isUnreadable(kind)} AND record_id = ${id}`,
            ),
          ]),
        'later',
      );
    },

    /** Records whose own address last gave an unreadable answer, the oldest such answer first. */
    unreadableRecords: reading(
      (kind: Kind, limit: number): Promise<string[]> =>
        idsOf(
          statements,
          sql`SELECT record_id AS id FROM problems WHERE ${isUnreadable(kind)} AND record_id IS NOT NULL ORDER BY number LIMIT ${limit}`,
        ),
    ),

    /**
     * Events whose record cannot be found, the newest first, before the number `before`; `about` null: of all kinds. Not those that were
     * dismissed, whose body is not kept, or that a list or a person has settled.
     */
    unknownEvents: reading(
      async (
        about: Unknown | null,
        { before = Number.MAX_SAFE_INTEGER, limit }: { before?: number; limit: number },
        settings: IdPointers,
      ): Promise<UnknownEvent[]> => {
        const columns = sql.raw('e.seq, e.id, e.type, e.kind, e.record_id AS "recordId", e.body');
        const isOf = about === null ? sql`true` : sql`e.kind = ${about.kind}`;
        const unnamed = sql`SELECT ${columns} FROM events AS e${statements.dialect.indexedBy('events_failed')}
          WHERE e.state = 'failed' AND e.record_id IS NULL AND e.body IS NOT NULL AND ${isOf} AND e.seq < ${before}`;
        const isId = about === null ? sql`true` : sql`s.id = ${about.recordId}`;
        const unshown = sql`SELECT ${columns} FROM record_state s JOIN events e ON e.record_id = s.id AND e.kind = s.kind
          WHERE NOT s.returned AND s.dirty > 0 AND s.unverified_since IS NOT NULL AND ${isId} AND ${isOf}
            AND e.state <> 'dismissed' AND e.body IS NOT NULL AND e.seq < ${before}`;
        const wanted =
          about === null
            ? sql`SELECT * FROM (${unnamed} UNION ALL ${unshown}) AS found`
            : about.recordId === null
              ? unnamed
              : unshown;
        const found = await statements.query<Omit<UnknownEvent, 'named'>>(
          sql`${wanted} ORDER BY seq DESC LIMIT ${limit}`,
        );
        const pointers = withLearned(settings, await learnedPointers(statements));
        return found.map((event) => ({
          ...event,
          named: recordIdIn(payloadIn(event.body), event.kind, pointers),
        }));
      },
    ),

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

    /** From now on events of the kind are read with it. */
    learnPointer({ leads, ...pointer }: ProvenPointer, now: Now): Promise<void> {
      const row = { ...pointer, learnedAt: iso(now.wall), leads: leads ? sql`true` : sql`false` };
      const doesLead = sql`${pointers.leads} OR ${excluded(pointers.leads)}`;
      return writerOf(database)(upsert(pointers, ['kind', 'path'], row, { leads: doesLead }));
    },
  };
}

const isUnreadable = (kind: Kind) =>
  sql`reason = 'unreadable_answer' AND kind = ${kind} AND resolved_at IS NULL`;

const idsIn = (objects: readonly { id: string }[]) => objects.map(({ id }) => id);
const isUnderstood = ({ outcome }: Applied) => outcome !== 'unlike';

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
export async function learnedPointers(unit: Sql): Promise<LearnedPointer[]> {
  const rows = await unit.query<Omit<LearnedPointer, 'leads'> & { leads: boolean | 0 | 1 }>(
    sql`SELECT kind, path, leads FROM learned_pointers ORDER BY learned_at DESC, path`,
  );
  return rows.map((row) => ({ ...row, leads: Boolean(row.leads) }));
}

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
  const endedAt = Math.round(read.endedAt);
  const ofAddress = read.isOfList === true ? sql.raw('') : sql`address_read_at = ${endedAt},`;
  unit.send(
    sql`UPDATE record_state SET read_number = ${read.number}, read_ended_at = ${endedAt}, ${ofAddress} error = NULL,
        sync_run_id = CASE WHEN sync_run_id > ${syncRunId} THEN sync_run_id ELSE coalesce(CAST(${syncRunId} AS bigint), sync_run_id) END
      WHERE kind = ${kind} AND ${unit.dialect.isAmong(states.id, ids)}`,
  );
  unit.send(update(rows, { verifiedAt: nowIso }, unit.dialect.isAmong(rows.id, ids)));
}

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
  const isLike = decision.outcome !== 'unlike';
  if (isLike) record.syncRunId = context.syncRunId;
  const verified = isLike && record.state.unverifiedSince === null;
  return {
    id: object.id,
    outcome: decision.outcome,
    differences: decision.change === null || isNew ? [] : differingNames(decision.change),
    verified,
    lagMs: verified && unverifiedSince !== null ? read.endedWall - unverifiedSince : null,
    witness: isLike && wasAlive,
    announced: unverifiedSince !== null,
    lacks: decision.lacks,
  };
}
