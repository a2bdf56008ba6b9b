import type { OpenGaps, StoreSummary, VerdictName } from '../store/reports.ts';
import type { GapReason } from '../store/store.ts';
import type { LiveFacts, PendingDeletions } from './context.ts';

/** The one button that may end it, where one does. */
export type RemedyAction = 'resume' | 'sync' | 'approve' | 'retry' | 'resolve' | null;

export interface Verdict {
  verdict: VerdictName;
  /** Stable code of what decided it. */
  reason: string;
  /** One sentence in plain words. */
  sentence: string;
  /** What to do; null when there is nothing to do. */
  remedy: string | null;
  action: RemedyAction;
  /** Since when, ISO 8601; null where nobody can say. */
  since: string | null;
}

/** One with nothing to do about it, but for what `rest` says. */
export function verdictOf(
  verdict: VerdictName,
  reason: string,
  sentence: string,
  rest: Partial<Pick<Verdict, 'remedy' | 'action' | 'since'>> = {},
): Verdict {
  return { verdict, reason, sentence, remedy: null, action: null, since: null, ...rest };
}

export interface VerdictInput {
  /** Null: the database could not be read. */
  summary: StoreSummary | null;
  /** All that are open. */
  gaps: readonly OpenGaps[];
  pending: readonly PendingDeletions[];
  live: Pick<
    LiveFacts,
    | 'state'
    | 'startedAt'
    | 'paused'
    | 'pausedSince'
    | 'unwritableSince'
    | 'eventsOnly'
    | 'signingSecrets'
    | 'settleMs'
    | 'fullSyncMs'
    | 'silenceMs'
    | 'runningSyncRuns'
    | 'upstream'
  >;
  /** Wall-clock milliseconds. */
  now: number;
}

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
