import { CONFLICTING, type DeliveryReport } from '../store/reports.ts';
import { tenth } from './words.ts';

/** At least so many of the newest accepted deliveries are remembered, in two megabytes at most. */
const ACCEPTED_KEPT = 10_000;
/** So many others are remembered. They are few, or a flood that nobody reads one by one. */
const OTHERS_KEPT = 1_000;

/** Whether a delivery's signature was right. `not_checked`: the delivery was rejected before that. */
export const SIGNATURES = ['valid', 'invalid', 'missing', 'not_checked'] as const;

/** Reasons of rejections that are not answered 401. */
const STATUS_OF: Readonly<Record<string, number>> = {
  too_large: 413,
  too_many_chunks: 413,
  content_encoding: 415,
  no_signing_secret: 503,
};
/** The MAC was right, and the time was not. */
const SIGNED_AT_ANOTHER_TIME = ['timestamp_too_old', 'timestamp_too_new', 'timestamp_milliseconds'];

/** How a delivery was answered, and whether its signature was valid: both follow from its outcome. Pure. */
export function answerTo({ outcome, reason }: Pick<DeliveryReport, 'outcome' | 'reason'>): {
  status: number;
  signature: (typeof SIGNATURES)[number];
} {
  if (outcome === 'accepted') return { status: 202, signature: 'valid' };
  if (outcome === 'duplicate') return { status: 200, signature: 'valid' };
  if (outcome === 'quarantined') return { status: reason === CONFLICTING ? 200 : 400, signature: 'valid' };
  const status = STATUS_OF[reason ?? ''];
  if (status !== undefined) return { status, signature: 'not_checked' };
  if (reason === 'missing_header') return { status: 401, signature: 'missing' };
  const signature = SIGNED_AT_ANOTHER_TIME.includes(reason ?? '') ? 'valid' : 'invalid';
  return { status: 401, signature };
}

interface AnsweredDelivery {
  outcome: string;
  /** Of an accepted one. */
  eventId: string | null;
  address: string | null;
  /** Wall-clock milliseconds. */
  endedWall: number;
  /** From its headers to its answer. */
  milliseconds: number;
}

type TimedDelivery = Pick<DeliveryReport, 'outcome' | 'event_id' | 'address' | 'received_at'>;

export type AnswerTimes = ReturnType<typeof createAnswerTimes>;

/** How long this process took to answer deliveries. In memory: to store the time would cost a second commit for each delivery. */
export function createAnswerTimes() {
  // Two maps, the older of which is dropped: to take the oldest out of one map again and again is slow.
  let accepted = new Map<string, number>();
  let before = new Map<string, number>();
  const others: AnsweredDelivery[] = [];
  let place = 0;
  return {
    note(answered: AnsweredDelivery): void {
      if (answered.outcome === 'accepted' && answered.eventId !== null) {
        if (accepted.size >= ACCEPTED_KEPT) [before, accepted] = [accepted, new Map()];
        accepted.set(answered.eventId, answered.milliseconds);
      } else {
        others[place] = answered;
        place = (place + 1) % OTHERS_KEPT;
      }
    },
    /** Milliseconds, to the tenth. Null: it was answered by another process, or too long ago. */
    of({ outcome, event_id, address, received_at }: TimedDelivery): number | null {
      if (outcome === 'accepted')
        return tenth(accepted.get(event_id ?? '') ?? before.get(event_id ?? '') ?? null);
      // The time of its row is between the beginning and the end of its answer.
      const wall = Date.parse(received_at);
      const isIt = (each: AnsweredDelivery) =>
        each.outcome === outcome &&
        each.address === address &&
        wall <= each.endedWall &&
        wall >= Math.floor(each.endedWall - each.milliseconds);
      return tenth(others.find(isIt)?.milliseconds ?? null);
    },
  };
}
