import type { ChangeReport, EventReport, RecordReport } from '../store/reports.ts';
import { fieldChanges } from './body-text.ts';

/** Whether the API confirmed what an event said about its record. */
export interface Aftermath {
  /** The change that the event made; null: none, or it is not kept. */
  change: ChangeReport | null;
  /** `replaced`: another event changed the same fields before the API was read. `open`: the API has not been read since. */
  verdict: 'confirmed' | 'corrected' | 'replaced' | 'open';
  /** When the API was read, or the other event changed the record; null: not yet. */
  at: string | null;
  /** The change that corrected or replaced it. */
  by: ChangeReport | null;
}

/** `later`: the record's changes since the event was accepted, oldest first. Pure. */
export function aftermathOf(
  event: Pick<EventReport, 'id' | 'received_at'>,
  later: readonly ChangeReport[],
  record: Pick<RecordReport, 'verified_at' | 'unverified_since'> | null,
): Aftermath {
  const own = later.findIndex(({ cause }) => cause === `event:${event.id}`);
  const change = later[own] ?? null;
  if (change !== null) {
    const shown = fieldsOf(change);
    const by = later.slice(own + 1).find((other) => fieldsOf(other).some((field) => shown.includes(field)));
    if (by !== undefined) {
      const verdict = by.cause.startsWith('event:') ? 'replaced' : 'corrected';
      // Whether it was confirmed before `by` is not known any more.
      return { change, verdict, at: by.at, by };
    }
  }
  const since = change?.at ?? event.received_at;
  const verifiedAt = record?.verified_at ?? null;
  const isCovered =
    verifiedAt !== null &&
    verifiedAt >= since &&
    (record?.unverified_since == null || record.unverified_since > event.received_at);
  return { change, verdict: isCovered ? 'confirmed' : 'open', at: isCovered ? verifiedAt : null, by: null };
}

const fieldsOf = ({ before, after }: ChangeReport): string[] =>
  fieldChanges(before, after).map(({ field }) => field);
