import type { OpenGaps } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';

/** When the oldest open gap of that reason was opened; null: none is open. ISO 8601. */
export function openSince(gaps: readonly OpenGaps[], reason: GapReason): string | null {
  return oldestOf(gaps.filter((gap) => gap.reason === reason));
}

export function oldestOf(gaps: readonly OpenGaps[]): string | null {
  return gaps.map((gap) => gap.oldest_at).sort()[0] ?? null;
}

/** About records that no read can verify, because the API does not show them: that keeps nothing from being in sync. */
export function isUnreadable(gap: OpenGaps): boolean {
  return gap.reason === 'unresolved' || gap.reason === 'unaddressable';
}

/**
 * Whether a person's word ends it, because nobody else can know that nothing is missing any more. What has a list is read
 * again in full instead, where there is an API to read.
 */
export function isEndedByPerson(
  { reason, kind }: Pick<OpenGaps, 'reason' | 'kind'>,
  eventsOnly: boolean,
): boolean {
  return reason === 'restored' && (eventsOnly || kind === 'risk_assessment');
}

export function instant(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}
