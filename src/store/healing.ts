import type { GapChange, GapKey, GapReason } from './store.ts';

/** Which gaps end by what: the same on every engine. */

/** What a complete reading of the kind makes good, begun after the gap last occurred. */
export const HEALED_BY_SWEEP: readonly GapReason[] = [
  'downtime',
  'upstream_unavailable',
  'rejected_timestamp',
  'unusable_delivery',
  'conflicting_content',
  'dead_letter',
  'total_mismatch',
  'walk_incomplete',
  'unreadable_answer',
];

/** What a verified record makes good. */
export const HEALED_BY_READ: readonly GapReason[] = [
  'unresolved',
  'deletions_unproven',
  'dead_letter',
  'conflicting_content',
  'unusable_delivery',
  'unreadable_answer',
];

/** A gap that was healed, as the database gives it back. */
export interface HealedGap extends GapKey {
  /** ISO 8601. */
  openedAt: string;
}

export function healedChange({ openedAt, ...gap }: HealedGap, nowIso: string): GapChange {
  return { gap, what: 'healed', error: null, openForMs: Date.parse(nowIso) - Date.parse(openedAt) };
}
