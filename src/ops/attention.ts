import { gapText } from './gap-texts.ts';
import { pendingWords } from './pending-deletions.ts';
import type { Snapshot } from './snapshot.ts';
import { sumOf, type Verdict } from './verdict.ts';
import { count, figure } from './words.ts';

/** Gaps of failed events, quarantine, rejections and pending deletions, whose rows are counted instead. */
const COUNTED_BY_ROWS = ['failed_event', 'unusable_delivery', 'rejected_signatures', 'deletion_pending'];

export type Waiting = ReturnType<typeof waitingIn>;

/** How much waits for a person, from counters alone. Rejections are those of the last hour. */
export function waitingIn({
  summary,
  pending,
  rejected,
}: Pick<Snapshot, 'summary' | 'pending' | 'rejected'>) {
  return {
    pendingDeletions: sumOf(pending),
    failed: summary?.events.failed ?? 0,
    quarantined: summary?.quarantined ?? 0,
    rejected: rejected.reduce((sum, [, times]) => sum + times, 0),
    /** Open ones that a person must see to, but for those of what is counted above. */
    gaps: sumOf(
      (summary?.open_gaps_by ?? [])
        .filter(({ reason }) => gapText(reason).needsPerson && !COUNTED_BY_ROWS.includes(reason))
        // An event that failed for it is counted as failed.
        .filter(({ reason }) => reason !== 'no_record_id' || summary?.events.failed === 0),
    ),
  };
}

/**
 * All that waits for a person, also in a mirror that is in sync. What the headline already says with its button, paused or
 * unreachable, is not repeated. Each with where it is shown, and what the link says. Pure.
 */
export function attentionOf(
  snapshot: Pick<Snapshot, 'summary' | 'pending' | 'rejected' | 'live'> & {
    verdict: Pick<Verdict, 'reason'>;
  },
) {
  const { pending, live, verdict } = snapshot;
  const { failed, quarantined, rejected, gaps } = waitingIn(snapshot);
  const reasons = snapshot.rejected.length > 1 ? `, for ${figure(snapshot.rejected.length)} reasons` : '';
  const list: readonly (readonly [holds: boolean, what: string, href: string, action: string])[] = [
    ...pending.map(
      (each) => [true, pendingWords(each), `/sync-runs/${each.sync_run_id}#pending`, 'Look at them'] as const,
    ),
    [live.pausedSince !== null && verdict.reason !== 'paused', 'The mirror is paused', '#resume', 'Resume'],
    [
      live.unreachableSince !== null && verdict.reason !== 'upstream_unreachable',
      'The compliance service gives no usable answer',
      '#upstream-title',
      'See its answer',
    ],
    [gaps > 0, `${count(gaps, 'gap needs', 'gaps need')} a person`, '/gaps', 'See what to do'],
    [failed > 0, `${count(failed, 'event')} failed`, '/events?state=failed', 'Retry or discard'],
    [
      quarantined > 0,
      `${count(quarantined, 'signed delivery', 'signed deliveries')} could not be used`,
      '/quarantine',
      'Look and release',
    ],
    [
      rejected > 0,
      `${count(rejected, 'delivery', 'deliveries')} rejected in the last hour${reasons}`,
      '/deliveries?outcome=rejected',
      'See why',
    ],
  ];
  return list.filter(([holds]) => holds).map(([, what, href, action]) => ({ what, href, action }));
}
