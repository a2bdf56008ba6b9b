import type { Kind } from '../../compliance/kinds.ts';
import { type IdPointers, idFieldsOf, withLearned } from '../../compliance/pointers.ts';
import { describeError, StoreUnavailable } from '../../errors.ts';
import { decidePreview, standsInRow } from '../../mirror/decide.ts';
import {
  noRecordIn,
  payloadIn,
  type Reading,
  readPayload,
  recordOf,
  stateAfter,
} from '../../process/handlers.ts';
import { TABLES } from '../record-rows.ts';
import type { EventState } from '../reports.ts';
import type { ClaimedEvent, InboxStore, Now, PreviewOutcome, PreviewRules, RetryOutcome } from '../store.ts';
import { learnedPointers } from './backfill.ts';
import type { Claims } from './claims.ts';
import type { Database, Sender, Sql, Unit } from './connection.ts';
import { healGap, healRecords, healSettled } from './gaps.ts';
import { bury } from './inbox.ts';
import {
  type Change,
  type Held,
  hintRecords,
  isoOf,
  keyOf,
  loadRecords,
  saveRecords,
  writeContent,
} from './records.ts';
import { trimBodiesAgainFrom } from './retention.ts';
import { rowsOf } from './rows.ts';
import { tally } from './tally.ts';
import { instantOf } from './types.ts';

interface Read {
  event: ClaimedEvent;
  reading: Reading | null;
}

/** Events into the mirror, a batch in one transaction: read, decided and written in a statement for each table. */
export function createPreviewVerbs(
  database: Database,
  claims: Claims,
): Pick<InboxStore, 'previewEvents' | 'retryEvent'> {
  return {
    async previewEvents(events, rules, now) {
      if (events.length === 0) return [];
      const read = events.map((event): Read => ({ event, reading: readingOf(event, rules.pointers) }));
      const load = (sql: Sql) => Promise.all([claims.finish(sql, events), loadAll(sql, read)]);
      return await database.transact(async (unit, [finished, records]) => {
        const held = new Set(finished);
        const mine = read.filter(({ event }) => held.has(event));
        return await previewAll(unit, mine, records, rules, now);
      }, load);
    },

    async retryEvent(id, rules, now) {
      const nowIso = instantOf(now.wall);
      const failAgain = (sql: Sql, error: string) =>
        sql.change(
          `UPDATE events SET attempts = attempts + 1, error = $2, processed_at = $3 WHERE id = $1 AND state = 'dead'`,
          [id, error, nowIso],
        );
      try {
        return await database.transact(async (unit): Promise<RetryOutcome> => {
          const [row] = await unit.query<FailedRow>(`${FAILED_ROW} WHERE id = $1 FOR UPDATE`, [id]);
          if (row === undefined) return { outcome: 'unknown' };
          const { state, received_at, ...stored } = row;
          if (state !== 'dead' && !(await isAboutNothing(unit, stored, state)))
            return { outcome: 'other_state', state };
          if (stored.body === null) return { outcome: 'trimmed' };
          const record = recordOf(stored, withLearned(rules.pointers, await learnedPointers(unit)));
          if (state !== 'dead' && (record === null || record.recordId === stored.recordId))
            return { outcome: 'other_state', state };
          if (record === null) {
            const error =
              stored.kind === null
                ? 'the event is of no known family'
                : noRecordIn(stored.kind, rules.pointers);
            await failAgain(unit, error);
            return { outcome: 'failed', error };
          }
          unit.send(
            "UPDATE events SET state = 'pending', attempts = 0, next_attempt_at = NULL WHERE seq = $1",
            [stored.seq],
          );
          tally(unit, { [state]: -1, pending: 1 });
          // As one that names none yet, so that it is shown by what was learned as well, and its record becomes dirty.
          const event = { ...stored, recordId: null, receivedWall: Date.parse(received_at), owner: '' };
          const [result] = await previewAll(unit, [{ event, reading: null }], new Map(), rules, now);
          if (result === undefined || result.outcome === 'dead') {
            return { outcome: 'failed', error: result?.error ?? 'it was not processed' };
          }
          await trimBodiesAgainFrom(unit, stored.seq);
          if (stored.kind !== null) await healSettled(unit, stored.kind, stored.recordId, nowIso);
          if (stored.kind !== null && stored.recordId !== null)
            await forgetUnnamed(unit, stored.kind, stored.recordId, nowIso);
          return { outcome: 'processed', ...record };
        });
      } catch (failure) {
        if (failure instanceof StoreUnavailable) throw failure;
        const error = describeError(failure);
        await database.transact((unit) => failAgain(unit, error));
        return { outcome: 'failed', error };
      }
    },
  };
}

/** It was processed, and what it was taken to be about is nothing that the API or an event has ever shown. */
async function isAboutNothing(
  sql: Sql,
  { kind, recordId }: Pick<FailedRow, 'kind' | 'recordId'>,
  state: EventState,
): Promise<boolean> {
  if (kind === null || recordId === null || (state !== 'done' && state !== 'ignored')) return false;
  const held = (await loadRecords(sql, kind, [recordId])).get(recordId);
  return held?.state.returned === false && held.row === null;
}

/** The API has never shown it, and nothing is left that names it: its gaps go with it. */
async function forgetUnnamed(unit: Unit, kind: Kind, id: string, nowIso: string): Promise<void> {
  const forgotten = await unit.change(
    `DELETE FROM record_state s WHERE kind = $1 AND id = $2 AND NOT returned
     AND NOT EXISTS (SELECT 1 FROM ${TABLES[kind]} r WHERE r.id = s.id)
     AND NOT EXISTS (SELECT 1 FROM events e WHERE e.record_id = s.id AND e.kind = s.kind)
     AND NOT EXISTS (SELECT 1 FROM quarantine q WHERE q.released_at IS NULL AND q.kind = s.kind AND q.record_id = s.id)`,
    [kind, id],
  );
  if (forgotten === 0) return;
  await healRecords(unit, kind, [id], nowIso);
  await healGap(unit, { reason: 'unreadable_answer', kind, recordId: id }, nowIso);
}

type FailedRow = Omit<ClaimedEvent, 'receivedWall' | 'owner'> & { received_at: string; state: EventState };

const FAILED_ROW = `SELECT seq, id, type, created, created_ms AS "createdMs", kind, record_id AS "recordId", received_at,
  attempts, body, state FROM events`;

/** Shows events in their records, which `records` holds as they stand now, and marks each done, ignored or dead. */
async function previewAll(
  unit: Unit,
  read: readonly Read[],
  records: Map<string, Held>,
  rules: PreviewRules,
  now: Now,
): Promise<PreviewOutcome[]> {
  if (read.length === 0) return [];
  const renamed = await readAnew(unit, read, records, rules, now);
  const touched = new Set<Held>();
  const changes: Change[] = [];
  const outcomes = read.map((one) => {
    const again = renamed.get(one);
    if (again === undefined) return previewOne(one, { records, touched, changes, rules, now, unit });
    const { event } = again.read;
    // All that one of an unknown type does is to have its record read.
    if (stateAfter({ event, outcome: 'hinted' }) === 'ignored')
      return { event, outcome: 'hinted' as const, error: null };
    return previewOne(again.read, { records, touched, changes, now, unit, rules: again.rules });
  });
  saveRecords(unit, touched, changes, instantOf(now.wall), hasNewState);
  finishEvents(unit, outcomes, rules, now);
  const finished = Map.groupBy(outcomes, stateAfter);
  const dead = finished.get('dead') ?? [];
  tally(unit, {
    pending: -outcomes.length,
    dead: dead.length,
    done: finished.get('done')?.length ?? 0,
    ignored: finished.get('ignored')?.length ?? 0,
  });
  // After the states are saved: a death hints its record, and saving would undo that.
  await bury(
    unit,
    dead.map(({ event, error }) => ({ event, error: error ?? '' })),
    now,
    rules.timing,
  );
  return outcomes;
}

/**
 * Events that named no record as they came, read anew, by what was learned as well: those that name one now. Their records
 * become dirty by them, and `records` then holds them so.
 */
async function readAnew(
  unit: Unit,
  read: readonly Read[],
  records: Map<string, Held>,
  rules: PreviewRules,
  now: Now,
): Promise<Map<Read, { read: Read; rules: PreviewRules }>> {
  const nameless = read.filter(({ event }) => event.kind !== null && event.recordId === null);
  if (nameless.length === 0) return new Map();
  const pointers = withLearned(rules.pointers, await learnedPointers(unit));
  const named = nameless.flatMap((one) => {
    const record = recordOf(one.event, pointers);
    if (record === null) return [];
    const event = { ...one.event, ...record };
    return [{ one, record, again: { event, reading: readingOf(event, pointers) } }];
  });
  if (named.length === 0) return new Map();
  unit.send(
    `UPDATE events e SET kind = x.kind, record_id = x.record FROM json_to_recordset($1::json) AS x (seq bigint, kind text, record text)
     WHERE e.seq = x.seq`,
    [
      rowsOf(
        named.map(({ one, record }) => ({ seq: one.event.seq, kind: record.kind, record: record.recordId })),
      ),
    ],
  );
  const hints = named.map(({ record }) => ({
    kind: record.kind,
    id: record.recordId,
    number: unit.numbers.next(),
  }));
  hintRecords(unit, hints, now, rules.timing);
  // Such an event was not thought to be about it: other ids are looked for in its data as well.
  unit.send(
    `UPDATE record_state s SET searched = least(s.searched, x.before) FROM
       (SELECT kind, id, min(before) AS before FROM json_to_recordset($1::json) AS x (kind text, id text, before bigint)
        GROUP BY kind, id) AS x WHERE s.kind = x.kind AND s.id = x.id`,
    [
      rowsOf(
        named.map(({ one, record }) => ({
          kind: record.kind,
          id: record.recordId,
          before: one.event.seq - 1,
        })),
      ),
    ],
  );
  const loaded = await loadAll(
    unit,
    named.map(({ again }) => again),
  );
  for (const [key, held] of loaded) records.set(key, held);
  return new Map(named.map(({ one, again }) => [one, { read: again, rules: { ...rules, pointers } }]));
}

/** What an event moves of a state stands in the row, as a rule, and is not written twice. */
const hasNewState = (held: Held): boolean => !held.known || !standsInRow(held.stored, held);

const readingOf = (event: ClaimedEvent, pointers: IdPointers): Reading | null =>
  event.kind === null ? null : readPayload(event.kind, payloadIn(event.body), pointers);

/** Every record that the events are about or name. */
async function loadAll(sql: Sql, read: readonly Read[]): Promise<Map<string, Held>> {
  const wanted = new Map<Kind, Set<string>>();
  const want = (kind: Kind, id: string) => wanted.set(kind, (wanted.get(kind) ?? new Set()).add(id));
  for (const { event, reading } of read) {
    if (event.kind === null || reading === null) continue;
    if (event.recordId !== null && reading.usable) want(event.kind, event.recordId);
    for (const id of reading.assessments) want('risk_assessment', id);
  }
  const loaded = await Promise.all([...wanted].map(([kind, ids]) => loadRecords(sql, kind, ids)));
  return new Map(
    loaded.flatMap((ofKind) => [...ofKind.values()]).map((held) => [keyOf(held.kind, held.id), held]),
  );
}

function finishEvents(
  unit: Sender,
  outcomes: readonly PreviewOutcome[],
  rules: PreviewRules,
  now: Now,
): void {
  unit.send(
    `UPDATE events e SET state = x.state, attempts = e.attempts + 1, processed_at = $2::timestamptz, error = x.error,
       next_attempt_at = x.sought
     FROM json_to_recordset($1::json) AS x (seq bigint, state text, error text, sought timestamptz)
     WHERE e.seq = x.seq AND e.state = 'pending'`,
    [
      rowsOf(
        outcomes.map((result) => ({
          seq: result.event.seq,
          state: stateAfter(result),
          error: result.error,
          sought: soughtFrom(result, rules, now),
        })),
      ),
      instantOf(now.wall),
    ],
  );
}

/** Of a failed event that names no record: from when on it is sought. Null: nobody can, or need. */
function soughtFrom({ event, outcome }: PreviewOutcome, rules: PreviewRules, now: Now): string | null {
  const isSought = outcome === 'dead' && event.kind !== null && event.recordId === null && !rules.eventsOnly;
  return isSought ? instantOf(now.wall + rules.timing.settleMs) : null;
}

interface Batch {
  records: Map<string, Held>;
  touched: Set<Held>;
  changes: Change[];
  rules: PreviewRules;
  now: Now;
  unit: Unit;
}

function previewOne({ event, reading }: Read, batch: Batch): PreviewOutcome {
  const { kind, recordId } = event;
  if (kind === null || reading === null)
    return { event, outcome: 'dead', error: 'the event is of no known family' };
  // Whatever it is about, what it refers to is looked for.
  for (const id of reading.assessments) makeAssessmentKnown(id, batch);
  if (!reading.usable) return { event, outcome: 'dead', error: reading.error };
  if (recordId === null) return { event, outcome: 'dead', error: 'the event was stored without a record' };

  const { rules, now, unit } = batch;
  const nowIso = isoOf(now.wall);
  const held = batch.records.get(keyOf(kind, recordId))!;
  batch.touched.add(held);
  const verifiedAt = held.row?.verifiedAt;
  const decision = decidePreview(
    { ...event, kind, content: reading.content, shows: reading.shows },
    { state: held.state, row: held.row, verifiedWall: verifiedAt ? Date.parse(verifiedAt) : null },
    {
      eventsOnly: rules.eventsOnly,
      toleranceMs: rules.toleranceMs,
      idFields: idFieldsOf(rules.pointers),
    },
    nowIso,
  );
  held.state = decision.state;
  if (decision.row !== null && decision.change !== null) {
    const context = { cause: `event:${event.id}`, nowIso, numbers: unit.numbers };
    batch.changes.push(writeContent(held, decision.row, decision.change, context));
  }
  if (held.row !== null) {
    held.row.lastEventId = event.id;
    held.row.lastEventAt = isoOf(event.createdMs);
  }
  return { event, outcome: decision.outcome, error: null };
}

function makeAssessmentKnown(id: string, { records, touched, now }: Batch): void {
  const held = records.get(keyOf('risk_assessment', id))!;
  if (held.known || touched.has(held)) return;
  held.state = {
    ...held.state,
    hintAt: now.steady,
    firstHintAt: now.steady,
    unverifiedSince: now.wall,
    dueAt: now.steady,
  };
  touched.add(held);
}
