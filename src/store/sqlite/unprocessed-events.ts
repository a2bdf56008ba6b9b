import type { JsonObject } from '../../compliance/pointers.ts';
import { payloadIn } from '../../process/payload.ts';
import type { AcceptOutcome, IncomingEvent } from '../store.ts';
import type { PendingEvent } from '../units/provisional.ts';

/** Of events that wait to be processed: half a second or so of them under load. What lies behind is read from the file. */
const ARRIVALS_KEPT = 4_096;

/** Of their bodies together: a pause with deliveries as large as they may be would fill the memory else. */
const CHARACTERS_KEPT = 8 * 2 ** 20;

export type Arrival = Omit<PendingEvent, 'owner'>;

/**
 * Events as they came in, until they are processed: most are claimed at once, and reading and parsing their bodies again was a
 * sixth of what processing one costs. Nothing depends on one being here, or on its not being here.
 */
export interface Arrivals {
  /** After the commit: a number of a transaction that is rolled back goes to another event. */
  accepted(events: readonly IncomingEvent[], outcomes: readonly AcceptOutcome[], receivedWall: number): void;
  get(seq: number): Arrival | undefined;
  payloadOf(event: PendingEvent): JsonObject;
  /** It is done, or is no longer what it was when it came. */
  forget(seq: number): void;
}

export function createArrivals(): Arrivals {
  const kept = new Map<number, Arrival & { data: JsonObject | undefined }>();
  let characters = 0;
  return {
    accepted(events, outcomes, receivedWall) {
      for (const [index, event] of events.entries()) {
        const outcome = outcomes[index];
        const { id, type, created, createdMs, kind, recordId, body, data, known } = event;
        if (!known || outcome?.status !== 'accepted') continue;
        if (kept.size >= ARRIVALS_KEPT) return;
        if (characters + body.length > CHARACTERS_KEPT) continue;
        characters += body.length;
        const { seq } = outcome;
        const attempts = 0;
        kept.set(seq, {
          seq,
          id,
          type,
          created,
          createdMs,
          kind,
          recordId,
          receivedWall,
          attempts,
          body,
          data,
        });
      }
    },
    get: (seq) => kept.get(seq),
    payloadOf: (event) => kept.get(event.seq)?.data ?? payloadIn(event.body),
    forget(seq) {
      characters -= kept.get(seq)?.body.length ?? 0;
      kept.delete(seq);
    },
  };
}
