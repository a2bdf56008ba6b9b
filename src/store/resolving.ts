import type { Kind } from '../compliance/kinds.ts';
import type { DirtyTiming, GapChange, GapKey, GapReason, Now } from './store.ts';

/** Which gaps end by what: the same on every engine. */

/**
 * What resolves a gap besides the one who opened it:
 *
 * - `read`: a read that verifies the very record it names. Of a gap that names none there is no such read.
 * - `full_sync`: a complete full sync of the kind, begun after it last occurred. Of risk assessments, which have no list,
 *   that reads the ids that are known and proves nothing of others; so it resolves only what says that deliveries may
 *   have been lost. An event that was lost whole, about an id that nothing else names, cannot be found by anybody: that
 *   limit is told by `coverage`, and a gap that stood for ever would say no more.
 * - `full_list`: the same, of a kind that has a list, and begun when what the event speaks of can be missing from no page
 *   any more. Every record of the kind was read then, and so the one that the event did not name, whichever it is. Of
 *   risk assessments it stays open: what was accepted and not understood is a difference that we know of.
 * - nothing: whoever opened it closes it, or a person.
 */
type Resolution = 'read' | 'full_sync' | 'full_list';

const RESOLVED_BY: Readonly<Record<GapReason, readonly Resolution[]>> = {
  // Lost deliveries. What they spoke of is read again as far as it can be found.
  downtime: ['full_sync'],
  upstream_unavailable: ['full_sync'],
  rejected_timestamp: ['full_sync'],
  // A full sync that went wrong, by one that did not.
  total_mismatch: ['full_sync'],
  list_incomplete: ['full_sync'],
  // Signed, and not to be understood. Without an id but with a kind it is `no_record_id`; without a kind nothing was
  // accepted (the sender was answered 400), and nothing says that it was about a record at all.
  unusable_delivery: ['read', 'full_sync'],
  conflicting_content: ['read', 'full_sync'],
  // Events that were accepted, and what they said is not in. A retry that succeeds and a discard resolve them too.
  failed_event: ['read'],
  no_record_id: ['full_list'],
  // What lists show comes back with them. Of assessments nobody but a person can know that none is missing.
  restored: ['full_list'],
  unresolved: ['read'],
  // Or by a 404 beside another record of the kind that could be read: then it is `unresolved`.
  unproven_id: ['read'],
  deletions_unproven: ['read'],
  // By a usable answer to that very request. Of a record that is one from its own address, which whoever asks for it tells:
  // that a list shows the record as well says nothing of the address, which nobody would ask again then.
  unreadable_answer: ['full_sync'],
  unaddressable: [],
  // By the first read that is accepted; the first delivery; an approval.
  credentials_rejected: [],
  rejected_signatures: [],
  no_signing_secret: [],
  silence: [],
  deletion_pending: [],
};

const resolvedBy = (resolution: Resolution): readonly GapReason[] =>
  (Object.keys(RESOLVED_BY) as GapReason[]).filter((reason) => RESOLVED_BY[reason].includes(resolution));

/** What a complete reading of the kind makes good, begun after the gap last occurred. */
const RESOLVED_BY_FULL_SYNC = resolvedBy('full_sync');

/** What a verified record makes good. */
export const RESOLVED_BY_READ = resolvedBy('read');

/** What names no record, and is made good by a list that shows every one. */
export const RESOLVED_BY_LIST = resolvedBy('full_list');

/** Of which kind a complete full sync makes what good: `kind` is that of the full sync. */
export function resolvedByFullSyncOf(kind: Kind): readonly GapReason[] {
  return kind === 'risk_assessment' ? RESOLVED_BY_FULL_SYNC : [...RESOLVED_BY_FULL_SYNC, ...RESOLVED_BY_LIST];
}

/** Of the whole mirror, so that every kind must have been read. */
export const RESOLVED_BY_ALL_SYNC_RUNS = RESOLVED_BY_FULL_SYNC;

/** The gap of an event that could not be processed: by its record, where it names one. */
export function gapOfFailed(kind: Kind | null, recordId: string | null): GapKey {
  if (kind === null) return { reason: 'failed_event', kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : 'failed_event', kind, recordId };
}

/** The gap of a delivery that is in quarantine. */
export function gapOfQuarantined(
  reason: 'unusable_delivery' | 'conflicting_content',
  kind: Kind | null,
  recordId: string | null,
): GapKey {
  if (kind === null) return { reason, kind: null, recordId: null };
  return { reason: recordId === null ? 'no_record_id' : reason, kind, recordId };
}

/** From when on (steady) a full sync may begin that resolves a gap which opens now: what it reads may be as old as SETTLE. */
export function coverableAt(gap: GapKey, now: Now, timing: DirtyTiming): number | null {
  return gap.reason === 'no_record_id' ? Math.ceil(now.steady + timing.settleMs) : null;
}

/** A gap that was resolved, as the database gives it back. */
export interface ResolvedGap extends GapKey {
  /** ISO 8601. */
  openedAt: string;
}

export function resolvedChange({ openedAt, ...gap }: ResolvedGap, nowIso: string): GapChange {
  return { gap, what: 'resolved', error: null, openForMs: Date.parse(nowIso) - Date.parse(openedAt) };
}
