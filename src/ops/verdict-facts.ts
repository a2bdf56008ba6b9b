import type { GapReport } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';

export function gapOf(gaps: readonly GapReport[], reason: GapReason): GapReport | null {
  return gaps.findLast((gap) => gap.reason === reason) ?? null;
}

/** About a record that no read can verify, because the API does not show it: that keeps nothing from being in step. */
export function isUnreadable(gap: GapReport): boolean {
  return gap.reason === 'unresolved' || gap.reason === 'unaddressable';
}

export function instant(text: string | null): number | null {
  return text === null ? null : Date.parse(text);
}
