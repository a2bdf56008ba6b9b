import type { DeliveryReport } from '../store/reports.ts';

/** Accepted deliveries whose answers' times are remembered, at least, the newest: two megabytes at most. */
const ACCEPTED_KEPT = 10_000;
/** Of others, which are few, or a flood of which nobody looks at each. */
const OTHERS_KEPT = 1_000;

export interface AnsweredDelivery {
  outcome: string;
  /** Of an accepted one. */
  eventId: string | null;
  address: string | null;
  /** Wall-clock milliseconds. */
  endedWall: number;
  /** From its headers to its answer. */
  milliseconds: number;
}

/** How long deliveries took, as this process answered them. In memory: to write it with each would cost a commit after its commit. */
export interface AnswerTimes {
  note(answered: AnsweredDelivery): void;
  /** Milliseconds, to the tenth. Null: it was answered by another process, or too long ago. */
  of(delivery: Pick<DeliveryReport, 'outcome' | 'event_id' | 'address' | 'received_at'>): number | null;
}

export function createAnswerTimes(): AnswerTimes {
  // Two halves: to take the oldest out of one map, again and again, is dear.
  let accepted = new Map<string, number>();
  let before = new Map<string, number>();
  const others: AnsweredDelivery[] = [];
  let place = 0;
  return {
    note(answered) {
      if (answered.outcome === 'accepted' && answered.eventId !== null) {
        if (accepted.size >= ACCEPTED_KEPT) [before, accepted] = [accepted, new Map()];
        accepted.set(answered.eventId, answered.milliseconds);
      } else {
        others[place] = answered;
        place = (place + 1) % OTHERS_KEPT;
      }
    },
    of({ outcome, event_id, address, received_at }) {
      if (outcome === 'accepted') return toTenth(accepted.get(event_id ?? '') ?? before.get(event_id ?? ''));
      // Its row was stamped while it was being answered.
      const wall = Date.parse(received_at);
      const isIt = (each: AnsweredDelivery) =>
        each.outcome === outcome &&
        each.address === address &&
        wall <= each.endedWall &&
        wall >= Math.floor(each.endedWall - each.milliseconds);
      return toTenth(others.find(isIt)?.milliseconds);
    },
  };
}

const toTenth = (milliseconds: number | undefined): number | null =>
  milliseconds === undefined ? null : Math.round(milliseconds * 10) / 10;
