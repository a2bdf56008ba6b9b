import type { Kind } from '../../compliance/kinds.ts';
import { idFieldsOf } from '../../compliance/pointers.ts';
import { decidePreview, standsInRow } from '../../mirror/decide.ts';
import { payloadIn, type Reading, readPayload } from '../../process/handlers.ts';
import type { ClaimedEvent, InboxStore, Now, PreviewOutcome, PreviewRules } from '../store.ts';
import type { Claims } from './claims.ts';
import type { Database, Sender, Sql, Unit } from './connection.ts';
import { bury } from './inbox.ts';
import { type Change, type Held, isoOf, keyOf, loadRecords, saveRecords, writeContent } from './records.ts';
import { rowsOf } from './rows.ts';
import { tally } from './tally.ts';
import { instantOf } from './types.ts';

interface Read {
  event: ClaimedEvent;
  reading: Reading | null;
}

/** Events into the mirror, a batch in one transaction: read, decided and written in a statement for each table. */
export function createPreviewVerb(database: Database, claims: Claims): Pick<InboxStore, 'previewEvents'> {
  return {
    async previewEvents(events, rules, now) {
      if (events.length === 0) return [];
      const read = events.map((event): Read => ({ event, reading: readingOf(event, rules) }));
      const load = (sql: Sql) => Promise.all([claims.finish(sql, events), loadAll(sql, read)]);
      return await database.transact(async (unit, [finished, records]) => {
        const held = new Set(finished);
        const mine = read.filter(({ event }) => held.has(event));
        if (mine.length === 0) return [];
        const touched = new Set<Held>();
        const changes: Change[] = [];
        const outcomes = mine.map((one) => previewOne(one, { records, touched, changes, rules, now, unit }));
        saveRecords(unit, touched, changes, instantOf(now.wall), hasNewState);
        finishEvents(unit, outcomes, now);
        const dead = outcomes.filter((outcome) => outcome.outcome === 'dead');
        tally(unit, {
          pending: -outcomes.length,
          dead: dead.length,
          done: outcomes.length - dead.length,
        });
        // After the states are saved: a death hints its record, and saving would undo that.
        await bury(
          unit,
          dead.map(({ event, error }) => ({ event, error: error ?? '' })),
          now,
          rules.timing,
        );
        return outcomes;
      }, load);
    },
  };
}

/** What an event moves of a state stands in the row, as a rule, and is not written twice. */
const hasNewState = (held: Held): boolean => !held.known || !standsInRow(held.stored, held);

const readingOf = (event: ClaimedEvent, rules: PreviewRules): Reading | null =>
  event.kind === null ? null : readPayload(event.kind, payloadIn(event.body), rules.pointers);

/** Every record that the events are about or name. */
async function loadAll(sql: Sql, read: readonly Read[]): Promise<Map<string, Held>> {
  const wanted = new Map<Kind, Set<string>>();
  const want = (kind: Kind, id: string) => wanted.set(kind, (wanted.get(kind) ?? new Set()).add(id));
  for (const { event, reading } of read) {
    if (event.kind === null || event.recordId === null || reading?.usable !== true) continue;
    want(event.kind, event.recordId);
    for (const id of reading.assessments) want('risk_assessment', id);
  }
  const loaded = await Promise.all([...wanted].map(([kind, ids]) => loadRecords(sql, kind, ids)));
  return new Map(
    loaded.flatMap((ofKind) => [...ofKind.values()]).map((held) => [keyOf(held.kind, held.id), held]),
  );
}

function finishEvents(unit: Sender, outcomes: readonly PreviewOutcome[], now: Now): void {
  unit.send(
    `UPDATE events e SET state = x.state, attempts = e.attempts + 1, processed_at = $2::timestamptz, error = x.error,
       next_attempt_at = NULL
     FROM json_to_recordset($1::json) AS x (seq bigint, state text, error text)
     WHERE e.seq = x.seq AND e.state = 'pending'`,
    [
      rowsOf(
        outcomes.map(({ event, outcome, error }) => ({
          seq: event.seq,
          state: outcome === 'dead' ? 'dead' : 'done',
          error,
        })),
      ),
      instantOf(now.wall),
    ],
  );
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
  for (const id of reading.assessments) makeAssessmentKnown(id, batch);
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
