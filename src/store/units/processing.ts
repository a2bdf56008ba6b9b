import { isKnownType, type Kind } from '../../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type JsonObject,
  recordIdIn,
  withLearned,
} from '../../compliance/pointers.ts';
import { DUE_BY_ID_ONLY, decideProvisional } from '../../mirror/decide.ts';
import { type Reading, readPayload } from '../../mirror/merge.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { events as eventTable } from '../schema.ts';
import type {
  AcceptOutcome,
  ClaimedEvent,
  DirtyTiming,
  IncomingEvent,
  Now,
  ProvisionalOutcome,
  ProvisionalRules,
} from '../values.ts';
import { learnedPointers } from './backfill.ts';
import { gapOfFailed, openGap } from './gaps.ts';
import {
  type Change,
  type Dirtied,
  keyOf,
  type LoadedRecord,
  type Records,
  writeContent,
} from './records.ts';
import { createdIn, iso, singleValue, sql, tally, update } from './sql.ts';

/** A claimed event, with what only the store needs. */
export interface PendingEvent extends ClaimedEvent {
  type: string;
  created: string;
  createdMs: number;
  body: string;
}

/**
 * Whether an accepted event waits for processing. An event of an unknown type does not: its record is only read. But if no record
 * is found in it either, processing reports that the event was not understood.
 */
export const waitsForProcessing = (event: Pick<IncomingEvent, 'known' | 'kind' | 'recordId'>): boolean =>
  event.known || (event.kind !== null && event.recordId === null);

/** A claim looks at this many times its limit of pending rows: a long queue of one record must not make it read the whole table. */
export const CLAIM_SCAN_FACTOR = 4;
/**
 * A claim ends with the event whose body brings the sum of the bodies to this size; on PostgreSQL also the records' rows count. A
 * batch is one transaction, for which others wait: one of 256 events of 0.9 MB took 37 s. 256 bodies of 16 KiB fit.
 */
export const CLAIM_BYTES = 4_194_304;

/** What each engine does in its own way, since here an event costs the most: storing it, claims, and saving a batch. */
export interface Engine {
  records: Records;
  /** The steady clock is the database's, so that instants stay valid when a process ends. */
  keepsTime: boolean;
  /** Accepts a group of new events in a cheaper way than `insertNew`. Null: nothing was done, and `insertNew` must do it. */
  acceptNew(events: readonly IncomingEvent[], now: Now, timing: DirtyTiming): Promise<AcceptOutcome[] | null>;
  /** Stores the events whose ids are new, and marks their records dirty. Returns their numbers; null: the id is known. */
  insertNew(
    unit: Unit,
    events: readonly IncomingEvent[],
    now: Now,
    timing: DirtyTiming,
  ): Promise<(number | null)[]>;
  /** Called when the unit that accepted them is committed. */
  accepted(events: readonly IncomingEvent[], outcomes: readonly AcceptOutcome[], receivedWall: number): void;
  payloadOf(event: PendingEvent): JsonObject;
  /** The whole events behind these claims; on SQLite without those whose claims are lost. */
  claimed(events: readonly ClaimedEvent[]): readonly PendingEvent[];
  /** Like `loadRecords`, but takes records from memory where the engine keeps them. */
  recall(sql: Sql, kind: Kind, ids: Iterable<string>): Promise<Map<string, LoadedRecord>>;
  /** Drops the records kept in memory, since a unit changes records in another way. */
  forgetRecords(): void;
  /** Like `records.save`, but saves only those states that are new. */
  saveProvisional(
    unit: Unit,
    records: Iterable<LoadedRecord>,
    changes: readonly Change[],
    nowIso: string,
  ): void;
  /** Ends the processing of pending events in the same way, with one statement for all. */
  finish(unit: Unit, seqs: readonly number[], end: Finished, nowIso: string): void;
  /** Returns the events whose claims are not lost. Those claims end with this unit. */
  finishClaims<T extends ClaimedEvent>(sql: Sql, events: readonly T[]): Promise<T[]>;
  /** Called when the unit that finished them is committed. */
  claimsFinished(events: readonly ClaimedEvent[]): void;
  /** Ends the claim of an event, whoever has it: that owner then skips the event. */
  revokeClaim(sql: Sql, seq: number): Promise<void>;
}

export interface Finished {
  state: 'processed' | 'ignored' | 'failed';
  error: string | null;
  /** For a failed event that names no record: when the search for its record begins. Null: there is none. */
  soughtFrom: string | null;
}

/** Claimed events are shown in the mirror, deferred, or failed. */
export function createProcessingVerbs(database: Database, engine: Engine) {
  return {
    /** Shows claimed events in the rows, and marks each as processed, ignored or failed, in one transaction. Skips lost claims. */
    async applyEvents(
      claimed: readonly ClaimedEvent[],
      rules: ProvisionalRules,
      now: Now,
    ): Promise<ProvisionalOutcome[]> {
      const events = engine.claimed(claimed);
      if (events.length === 0) return [];
      const read = events.map((event) => readEvent(engine, event, rules.pointers));
      const outcomes = await database.transact(
        async (unit, [record, records]: [ClaimedEvent[], Map<string, LoadedRecord>]) => {
          const mine = new Set<ClaimedEvent>(record);
          const ours = read.filter(({ event }) => mine.has(event));
          return await applyAll({ engine, unit, records, rules, now }, ours);
        },
        (to) => Promise.all([engine.finishClaims(to, events), recallAll(engine, to, read)]),
        true,
      );
      engine.claimsFinished(outcomes.map(({ event }) => event));
      return outcomes;
    },

    /** After an error of ours: the event is tried again at `retryAtMs` (steady). Null: it fails. */
    async deferEvent(
      { event, retryAtMs, error }: { event: ClaimedEvent; retryAtMs: number | null; error: string },
      now: Now,
      timing: DirtyTiming,
    ): Promise<void> {
      const finished = await database.transact(async (unit) => {
        const mine = await engine.finishClaims(unit, [event]);
        if (mine.length === 0) return mine;
        const nextAttemptAt = retryAtMs === null ? null : iso(now.wall + Math.max(0, retryAtMs - now.steady));
        const failed = retryAtMs === null ? { state: 'failed', processedAt: iso(now.wall) } : {};
        const deferred = { attempts: sql`${eventTable.attempts} + 1`, nextAttemptAt, error, ...failed };
        unit.send(update(eventTable, deferred, sql`seq = ${event.seq} AND state = 'pending'`));
        if (retryAtMs !== null) return mine;
        tally(unit, { pending: -1, failed: 1 });
        await askAboutFailed(engine, unit, [{ event, error }], now, timing);
        return mine;
      });
      engine.claimsFinished(finished);
    },

    /** When the next deferred event is due. */
    async nextAttemptWall(): Promise<number | null> {
      const at = await singleValue<string>(
        database.sql,
        sql`SELECT min(next_attempt_at) FROM events WHERE state = 'pending' AND next_attempt_at IS NOT NULL`,
      );
      return at === null ? null : Date.parse(at);
    },
  };
}

/** An event, and what its payload says. */
interface ReadEvent {
  event: PendingEvent;
  reading: Reading;
  /** With which it was read. */
  pointers: IdPointers;
}

export function readEvent(engine: Engine, event: PendingEvent, pointers: IdPointers): ReadEvent {
  return { event, reading: readPayload(event.kind, engine.payloadOf(event), pointers), pointers };
}

/** Loads every record that the events are about, or name. */
async function recallAll(
  engine: Engine,
  sql: Sql,
  read: readonly ReadEvent[],
): Promise<Map<string, LoadedRecord>> {
  const wanted = new Map<Kind, Set<string>>();
  const want = (kind: Kind, id: string) => {
    const ids = wanted.get(kind);
    if (ids === undefined) wanted.set(kind, new Set([id]));
    else ids.add(id);
  };
  for (const { event, reading } of read) {
    if (event.recordId !== null) want(event.kind, event.recordId);
    for (const id of reading.assessments) want('risk_assessment', id);
  }
  const recalled = await Promise.all([...wanted].map(([kind, ids]) => engine.recall(sql, kind, ids)));
  const records = new Map<string, LoadedRecord>();
  for (const ofKind of recalled) {
    for (const record of ofKind.values()) records.set(keyOf(record.kind, record.id), record);
  }
  return records;
}

/** A unit that shows events. */
interface Batch {
  engine: Engine;
  unit: Unit;
  /** Every record that the events are about, or name. */
  records: Map<string, LoadedRecord>;
  rules: ProvisionalRules;
  now: Now;
}

/** Shows events in their records, and marks each event as processed, ignored or failed. */
export async function applyAll(batch: Batch, read: readonly ReadEvent[]): Promise<AppliedEvent[]> {
  if (read.length === 0) return [];
  const { engine, unit, rules, now } = batch;
  const all = await readWithLearnedPointers(batch, read);
  const shown: Shown = { touched: new Set(), changes: [], nowIso: iso(now.wall) };
  const { touched, changes, nowIso } = shown;
  const outcomes = all.map((one) => applyOne(one, batch, shown));
  engine.saveProvisional(unit, touched, changes, nowIso);
  const moves = { processed: 0, ignored: 0, failed: 0 };
  for (const [state, ended] of Map.groupBy(outcomes, stateAfter)) {
    moves[state] = ended.length;
    if (state === 'failed') {
      for (const result of ended) {
        const end = { state, error: result.error, soughtFrom: soughtFrom(result, rules, now) };
        engine.finish(unit, [result.event.seq], end, nowIso);
      }
      continue;
    }
    const seqs = ended.map(({ event }) => event.seq);
    engine.finish(unit, seqs, { state, error: null, soughtFrom: null }, nowIso);
  }
  tally(unit, { ...moves, pending: -outcomes.length });
  // Only after the records' states are saved, which would undo the dirty marks.
  const failed = outcomes.filter(({ outcome }) => outcome === 'failed');
  await askAboutFailed(engine, unit, failed, now, rules.timing);
  return outcomes;
}

/** Marks the records of failed events dirty and opens gaps, so that the API is asked. */
async function askAboutFailed(
  { records }: Engine,
  unit: Unit,
  failed: readonly Pick<ProvisionalOutcome, 'event' | 'error'>[],
  now: Now,
  timing: DirtyTiming,
): Promise<void> {
  if (failed.length === 0) return;
  const dirtied = failed.flatMap(({ event: { kind, recordId } }): Dirtied[] =>
    recordId === null ? [] : [{ kind, id: recordId, number: unit.numbers.next() }],
  );
  records.dirty(unit, dirtied, now, timing);
  for (const { event, error } of failed) {
    const gap = gapOfFailed(event.kind, event.recordId);
    await openGap(unit, gap, `event ${event.id}: ${error}`, now, timing);
  }
}

function stateAfter({ event, outcome }: AppliedEvent): Finished['state'] {
  if (outcome === 'failed') return 'failed';
  return isKnownType(event.type) ? 'processed' : 'ignored';
}

function soughtFrom(
  { event, outcome }: ProvisionalOutcome,
  rules: ProvisionalRules,
  now: Now,
): string | null {
  const isSought = outcome === 'failed' && event.recordId === null && !rules.eventsOnly;
  return isSought ? iso(now.wall + rules.timing.settleMs) : null;
}

/**
 * Returns the same events, and reads those that name no record again with the learned pointers. Records that are found in this way
 * become dirty, and are added to `records`.
 */
async function readWithLearnedPointers(
  { engine, unit, records, rules, now }: Batch,
  read: readonly ReadEvent[],
): Promise<readonly ReadEvent[]> {
  const nameless = read.filter(({ event }) => event.recordId === null);
  if (nameless.length === 0) return read;
  const pointers = withLearned(rules.pointers, await learnedPointers(unit));
  const again = new Map<ReadEvent, ReadEvent>();
  const dirtied: Dirtied[] = [];
  for (const one of nameless) {
    const { kind, seq } = one.event;
    const recordId = recordIdIn(engine.payloadOf(one.event), kind, pointers);
    if (recordId === null) continue;
    unit.send(update(eventTable, { recordId }, sql`seq = ${seq}`));
    dirtied.push({ kind, id: recordId, number: unit.numbers.next() });
    again.set(one, readEvent(engine, { ...one.event, recordId }, pointers));
  }
  if (again.size === 0) return read;
  engine.records.dirty(unit, dirtied, now, rules.timing);
  for (const { event } of again.values()) {
    const { kind, recordId, seq } = event;
    // The event was not about this record until now: its data must still be searched for other ids.
    unit.send(
      sql`UPDATE record_state SET searched = ${seq - 1} WHERE kind = ${kind} AND id = ${recordId} AND searched >= ${seq}`,
    );
  }
  engine.forgetRecords();
  for (const [key, record] of await recallAll(engine, unit, [...again.values()])) records.set(key, record);
  return read.map((one) => again.get(one) ?? one);
}

type AppliedEvent = ProvisionalOutcome & { event: PendingEvent };

/** What the events of a batch have shown so far, to be saved. */
interface Shown {
  touched: Set<LoadedRecord>;
  changes: Change[];
  nowIso: string;
}

function applyOne(
  { event, reading, pointers }: ReadEvent,
  { records, rules, now, unit }: Batch,
  { touched, changes, nowIso }: Shown,
): AppliedEvent {
  const { kind, recordId } = event;
  // The assessments that an event names become known, even if the event itself cannot be used.
  for (const id of reading.assessments) {
    const record = records.get(keyOf('risk_assessment', id))!;
    if (record.stored !== null || touched.has(record)) continue;
    record.state = {
      ...record.state,
      dirtyAt: now.steady,
      firstDirtyAt: now.steady,
      unverifiedSince: now.wall,
      dueAt: DUE_BY_ID_ONLY,
    };
    touched.add(record);
  }
  // Nothing is known about the payload of an unknown type, so only the API is asked.
  if (recordId !== null && !isKnownType(event.type)) return { event, outcome: 'marked_dirty', error: null };
  if (!reading.usable) return { event, outcome: 'failed', error: reading.error };

  // A usable payload names a record, and the event has its id by now.
  const record = records.get(keyOf(kind, recordId!))!;
  touched.add(record);
  const verifiedAt = record.row?.verifiedAt;
  const decision = decideProvisional(
    { ...event, kind, content: reading.content, shows: reading.shows },
    { state: record.state, row: record.row, verifiedWall: verifiedAt ? Date.parse(verifiedAt) : null },
    { eventsOnly: rules.eventsOnly, toleranceMs: rules.toleranceMs, idFields: idFieldsOf(pointers) },
    nowIso,
  );
  record.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    const context = { cause: `event:${event.id}`, nowIso, numbers: unit.numbers };
    changes.push(writeContent(record, decision.row, decision.change, context));
  }
  if (record.row !== null) {
    record.row.lastEventId = event.id;
    record.row.lastEventAt = createdIn(event);
  }
  return { event, outcome: decision.outcome, error: null };
}
