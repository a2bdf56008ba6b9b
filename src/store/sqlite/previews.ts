import { decidePreview } from '../../mirror/decide.ts';
import { readPayload } from '../../process/handlers.ts';
import type { ClaimedEvent, Now, PreviewOutcome, PreviewRules } from '../store.ts';
import type { Arrivals } from './arrivals.ts';
import type { Numbers } from './connection.ts';
import { type Held, iso, type Records } from './records.ts';

/** An instant, known to be one, that is written as we write it. */
const IN_MILLISECONDS = /^\d{4}-[-0-9T:]{14}\.\d{3}Z$/;

export interface Moment {
  now: Now;
  nowIso: string;
  numbers: Numbers;
}

/** Shows events in the records that a batch has touched. Saving them is the caller's. */
export function createPreviewer(records: Records, arrivals: Arrivals) {
  function previewOne(
    event: ClaimedEvent,
    touched: Map<string, Held>,
    rules: PreviewRules & { idFields: ReadonlySet<string> },
    { now, nowIso, numbers }: Moment,
  ): PreviewOutcome {
    if (event.kind === null) return { event, outcome: 'dead', error: 'the event is of no known family' };
    const reading = readPayload(event.kind, arrivals.payloadOf(event), rules.pointers);
    // Whatever it is about, what it refers to is looked for.
    for (const id of reading.assessments) makeAssessmentKnown(id, touched, now);
    if (!reading.usable) return { event, outcome: 'dead', error: reading.error };
    if (event.recordId === null)
      return { event, outcome: 'dead', error: 'the event was stored without a record' };

    const key = `${event.kind} ${event.recordId}`;
    let held = touched.get(key);
    if (held === undefined) {
      held = records.recall(event.kind, event.recordId);
      touched.set(key, held);
    }
    const verifiedAt = held.row?.verifiedAt;
    const decision = decidePreview(
      { ...event, kind: event.kind, content: reading.content, shows: reading.shows },
      { state: held.state, row: held.row, verifiedWall: verifiedAt ? Date.parse(verifiedAt) : null },
      rules,
      nowIso,
    );
    held.state = decision.state;
    if (decision.row !== null && decision.change !== null) {
      records.write(held, decision.row, decision.change, `event:${event.id}`, nowIso, numbers);
    }
    if (held.row !== null) {
      held.row.lastEventId = event.id;
      held.row.lastEventAt = IN_MILLISECONDS.test(event.created) ? event.created : iso(event.createdMs);
    }
    return { event, outcome: decision.outcome, error: null };
  }

  function makeAssessmentKnown(id: string, touched: Map<string, Held>, now: Now): void {
    const key = `risk_assessment ${id}`;
    if (touched.has(key)) return;
    const held = records.recall('risk_assessment', id);
    if (held.known) return;
    held.state = {
      ...held.state,
      hintAt: now.steady,
      firstHintAt: now.steady,
      unverifiedSince: now.wall,
      dueAt: now.steady,
    };
    touched.set(key, held);
  }

  return previewOne;
}
