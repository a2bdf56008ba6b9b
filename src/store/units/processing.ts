import { isKnownType, type Kind } from '../../compliance/kinds.ts';
import {
  type IdPointers,
  idFieldsOf,
  type LearnedPointer,
  payloadIn,
  recordIdIn,
  withLearned,
} from '../../compliance/pointers.ts';
import { type Reading, readPayload } from '../../mirror/merge.ts';
import { announcesDeletion, decideProvisional, type ProvisionalSettings } from '../../mirror/provisional.ts';
import { DUE_BY_ID_ONLY } from '../../mirror/state.ts';
import { describeError, MirrorError } from '../../platform/errors.ts';
import type { Database, Sql, Unit } from '../database.ts';
import { events as eventTable } from '../schema.ts';
import { sql } from '../statement.ts';
import type {
  DirtyTiming,
  IncomingEvent,
  NamedEvent,
  Now,
  ProvisionalOutcome,
  ProvisionalRules,
} from '../values.ts';
import { learnedPointers } from './backfill.ts';
import { forgetUnnamed, problemOfFailed } from './delivery-problems.ts';
import { guardAnnounced, noteAnnounced } from './pending-deletions.ts';
import { openProblem } from './problems.ts';
import { type Change, type Dirtied, keyOf, type LoadedRecord, loadRecords, writeContent } from './records.ts';
import { markDirty, saveRecords } from './saving.ts';
import { createdIn, iso, update } from './sql.ts';

/** A pending event, with what only the store needs. */
export interface PendingEvent extends NamedEvent {
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

/**
 * A batch ends with the event whose body brings the sum of the bodies to this size. A batch is one transaction, for which others wait:
 * one of 256 events of 0.9 MB took 37 s. 256 bodies of 16 KiB fit.
 */
const BATCH_BYTES = 4_194_304;

interface Finished {
  state: 'processed' | 'ignored' | 'failed';
  error: string | null;
}

/** How one turn of the worker goes. */
export interface Turn {
  /** The most events in it. */
  limit: number;
  rules: ProvisionalRules;
  /** After the first failure of ours, the second, and so on; after one more the event fails. Milliseconds. */
  retryDelaysMs: readonly number[];
}

/** What became of the events of a turn. */
export interface Processed {
  outcomes: ProvisionalOutcome[];
  /** The one on which our own code failed. `delayMs` null: the event has failed. */
  deferred: { event: NamedEvent; error: string; delayMs: number | null } | null;
  /** More events may be due. */
  isFull: boolean;
}

/** Pending events are shown in the mirror, deferred, or failed. */
export function createProcessingVerbs(database: Database) {
  /** One unit: the next due events are shown in their rows and finished. `onTaken` gets them before anything can fail on one. */
  const show = (
    limit: number,
    rules: ProvisionalRules,
    now: Now,
    onTaken: (events: PendingEvent[]) => void,
  ) =>
    database.transact(
      async (unit, [{ events, isFull }, learned]) => {
        onTaken(events);
        const read = events.map((event) => readEvent(event, rules.pointers));
        const records = await loadAll(unit, read);
        const shown = await applyAll({ unit, records, learned, rules, now }, read);
        const outcomes = shown.map(({ event, ...outcome }) => ({ event: nameOf(event), ...outcome }));
        return { outcomes, isFull };
      },
      (to: Sql) => Promise.all([nextPending(to, limit, now), learnedPointers(to)]),
      'later',
    );

  /** After an error of ours: the event is tried again later, or fails after the last delay. */
  async function defer(
    event: PendingEvent,
    error: string,
    delayMs: number | null,
    { timing }: ProvisionalRules,
    now: Now,
  ): Promise<void> {
    await database.transact(async (unit) => {
      const nextAttemptAt = delayMs === null ? null : iso(now.wall + delayMs);
      const failed = delayMs === null ? { state: 'failed', processedAt: iso(now.wall) } : {};
      const deferred = { attempts: sql`${eventTable.attempts} + 1`, nextAttemptAt, error, ...failed };
      const isOurs = sql`seq = ${event.seq} AND state = 'pending'`;
      if ((await unit.change(update(eventTable, deferred, isOurs))) === 0 || delayMs !== null) return;
      await askAboutFailed(unit, [{ event, error }], now, timing);
    });
  }

  return {
    /**
     * Shows the next due events in their rows, and marks each as processed, ignored or failed, in one unit. An event that breaks it is found
     * by halving: half as many are taken, down to the event itself, which is deferred.
     */
    async processPending({ limit, rules, retryDelaysMs }: Turn, now: Now): Promise<Processed> {
      for (let size = limit; ; size = Math.ceil(size / 2)) {
        let taken: PendingEvent[] = [];
        try {
          const { outcomes, isFull } = await show(size, rules, now, (events) => {
            taken = events;
          });
          return { outcomes, deferred: null, isFull: isFull || size < limit };
        } catch (failure) {
          const [event, ...others] = taken;
          // The database failed, or another process is the worker now: no event is at fault.
          if (failure instanceof MirrorError || event === undefined) throw failure;
          size = taken.length;
          if (others.length > 0) continue;
          const error = describeError(failure);
          const delayMs = retryDelaysMs[event.attempts] ?? null;
          await defer(event, error, delayMs, rules, now);
          return { outcomes: [], deferred: { event: nameOf(event), error, delayMs }, isFull: true };
        }
      }
    },
  };
}

/** The next events that are due, in number order. */
async function nextPending(to: Sql, limit: number, now: Now) {
  type Row = Omit<PendingEvent, 'receivedWall'> & { received_at: string };
  const { rows, isFull } = await to.page<Row>(
    sql`SELECT seq, id, type, created, created_ms AS "createdMs", kind, record_id AS "recordId", received_at, attempts, body
      FROM events WHERE state = 'pending'
        AND (next_attempt_at IS NULL OR next_attempt_at <= ${to.dialect.instant(iso(now.wall))}) ORDER BY seq`,
    [eventTable.body],
    limit,
    BATCH_BYTES,
  );
  const events = rows.map(({ received_at, ...event }) => ({
    ...event,
    receivedWall: Date.parse(received_at),
  }));
  return { events, isFull };
}

const nameOf = ({ seq, id, kind, recordId, receivedWall, attempts }: NamedEvent): NamedEvent => ({
  seq,
  id,
  kind,
  recordId,
  receivedWall,
  attempts,
});

/** An event, and what its payload says. */
interface ReadEvent {
  event: PendingEvent;
  reading: Reading;
  /** With which it was read. */
  pointers: IdPointers;
}

export function readEvent(event: PendingEvent, pointers: IdPointers): ReadEvent {
  return { event, reading: readPayload(event.kind, payloadIn(event.body), pointers), pointers };
}

/** Loads every record that the events are about, or name. */
async function loadAll(sql: Sql, read: readonly ReadEvent[]): Promise<Map<string, LoadedRecord>> {
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
  const loaded = await Promise.all([...wanted].map(([kind, ids]) => loadRecords(sql, kind, ids)));
  const records = new Map<string, LoadedRecord>();
  for (const ofKind of loaded) {
    for (const record of ofKind.values()) records.set(keyOf(record.kind, record.id), record);
  }
  return records;
}

/** A unit that shows events. */
interface Batch {
  unit: Unit;
  /** Every record that the events are about, or name. */
  records: Map<string, LoadedRecord>;
  learned: readonly LearnedPointer[];
  rules: ProvisionalRules;
  now: Now;
}

/** Shows events in their records, and marks each event as processed, ignored or failed. */
export async function applyAll(batch: Batch, read: readonly ReadEvent[]): Promise<AppliedEvent[]> {
  if (read.length === 0) return [];
  const { unit, rules, now } = batch;
  const all = await readWithLearnedPointers(batch, read);
  const announced = announcedIn(all, batch);
  const waiting = await guardAnnounced(unit, announced, rules.guardPercent, now);
  const shown: Shown = { touched: new Set(), changes: [], nowIso: iso(now.wall), waiting };
  const { touched, changes, nowIso } = shown;
  const outcomes = all.map((one) => applyOne(one, batch, shown));
  saveRecords(unit, touched, changes, nowIso, { onlyNew: true });
  await noteAnnounced(unit, announced, now);
  for (const [state, ended] of Map.groupBy(outcomes, stateAfter)) {
    if (state === 'failed') {
      for (const result of ended) {
        finish(unit, [result.event.seq], { state, error: result.error }, nowIso);
      }
      continue;
    }
    const seqs = ended.map(({ event }) => event.seq);
    finish(unit, seqs, { state, error: null }, nowIso);
  }
  // Only after the records' states are saved, which would undo the dirty marks.
  const failed = outcomes.filter(({ outcome }) => outcome === 'failed');
  await askAboutFailed(unit, failed, now, rules.timing);
  return outcomes;
}

/** Ends the processing of pending events in the same way. */
const finish = (unit: Unit, seqs: readonly number[], end: Finished, processedAt: string): void => {
  const attempts = sql`${eventTable.attempts} + 1`;
  const ended = { ...end, attempts, processedAt, nextAttemptAt: null };
  const isOurs = sql`${unit.dialect.isAmong(eventTable.seq, seqs)} AND state = 'pending'`;
  unit.send(update(eventTable, ended, isOurs));
};

/** Marks the records of failed events dirty and opens problems, so that the API is asked. */
async function askAboutFailed(
  unit: Unit,
  failed: readonly Pick<ProvisionalOutcome, 'event' | 'error'>[],
  now: Now,
  timing: DirtyTiming,
): Promise<void> {
  if (failed.length === 0) return;
  const dirtied = failed.flatMap(({ event: { kind, recordId } }): Dirtied[] =>
    recordId === null ? [] : [{ kind, id: recordId, number: unit.numbers.next() }],
  );
  markDirty(unit, dirtied, now, timing);
  for (const { event, error } of failed) {
    const problem = problemOfFailed(event.kind, event.recordId);
    const stays = event.recordId === null ? event.id : undefined;
    await openProblem(unit, problem, `event ${event.id}: ${error}`, now, { ...timing, stays });
  }
}

function stateAfter({ event, outcome }: AppliedEvent): Finished['state'] {
  if (outcome === 'failed') return 'failed';
  return isKnownType(event.type) ? 'processed' : 'ignored';
}

/**
 * Returns the same events, and reads again those in which the learned pointers find another id than the settings. Records that are found in
 * this way become dirty, and are added to `records`; a record that was named only by mistake is forgotten.
 */
async function readWithLearnedPointers(
  { unit, records, learned, rules, now }: Batch,
  read: readonly ReadEvent[],
): Promise<readonly ReadEvent[]> {
  if (learned.length === 0 && read.every(({ event }) => event.recordId !== null)) return read;
  const pointers = withLearned(rules.pointers, learned);
  const again = new Map<ReadEvent, ReadEvent>();
  const dirtied: Dirtied[] = [];
  for (const one of read) {
    const { kind, seq } = one.event;
    // Pointers behind those of the settings find nothing else.
    if (one.event.recordId !== null && pointers[kind][0] === rules.pointers[kind][0]) continue;
    const recordId = recordIdIn(payloadIn(one.event.body), kind, pointers);
    if (recordId === null || recordId === one.event.recordId) continue;
    unit.send(update(eventTable, { recordId }, sql`seq = ${seq}`));
    dirtied.push({ kind, id: recordId, number: unit.numbers.next() });
    again.set(one, readEvent({ ...one.event, recordId }, pointers));
  }
  if (again.size === 0) return read;
  markDirty(unit, dirtied, now, rules.timing);
  for (const { event } of again.keys())
    if (event.recordId !== null) await forgetUnnamed(unit, event.kind, event.recordId, iso(now.wall));
  for (const [key, record] of await loadAll(unit, [...again.values()])) records.set(key, record);
  return read.map((one) => again.get(one) ?? one);
}

type AppliedEvent = ProvisionalOutcome & { event: PendingEvent };

/** What the events of a batch have shown so far, to be saved. */
interface Shown {
  touched: Set<LoadedRecord>;
  changes: Change[];
  nowIso: string;
  /** Their deletions wait for a person. */
  waiting: ReadonlySet<LoadedRecord>;
}

/** The living records whose deletion these events announce. Those of one batch are judged together. */
function announcedIn(read: readonly ReadEvent[], { records, rules }: Batch): LoadedRecord[] {
  const announced = read.flatMap(({ event, reading, pointers }) => {
    const record = event.recordId === null ? undefined : records.get(keyOf(event.kind, event.recordId));
    if (record === undefined || !reading.usable) return [];
    return announcesDeletion(event, heldOf(record), settingsOf(rules, pointers)) ? [record] : [];
  });
  return [...new Set(announced)];
}

const heldOf = ({ state, row }: LoadedRecord) => ({
  state,
  row,
  verifiedWall: row?.verifiedAt ? Date.parse(row.verifiedAt) : null,
});

const settingsOf = (
  { eventsOnly, toleranceMs }: ProvisionalRules,
  pointers: IdPointers,
): ProvisionalSettings => ({
  eventsOnly,
  toleranceMs,
  idFields: idFieldsOf(pointers),
  pointers,
});

function applyOne(
  { event, reading, pointers }: ReadEvent,
  { records, rules, now, unit }: Batch,
  { touched, changes, nowIso, waiting }: Shown,
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
  const decision = decideProvisional(
    { ...event, kind, content: reading.content, shows: reading.shows },
    heldOf(record),
    { ...settingsOf(rules, pointers), deletionWaits: waiting.has(record) },
    nowIso,
  );
  record.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    const cause = { cause: 'event', causeId: event.id } as const;
    const context = { cause, nowIso, numbers: unit.numbers };
    changes.push(writeContent(record, decision.row, decision.change, context));
  }
  if (record.row !== null) {
    record.row.lastEventId = event.id;
    record.row.lastEventAt = createdIn(event);
  }
  return { event, outcome: decision.outcome, error: null };
}
