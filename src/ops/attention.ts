import type { GapReason } from '../store/store.ts';
import { gapText } from './gap-texts.ts';
import type { Snapshot } from './snapshot.ts';
import type { Verdict } from './verdict.ts';
import { count, figure, kindPlural } from './words.ts';

/** Something that needs a person, and where it is shown. */
export interface Attention {
  what: string;
  href: string;
  /** What the link says. */
  action: string;
}

/** How much waits for a person, from counters alone. Rejections are those of the last hour. */
export interface Waiting {
  pendingDeletions: number;
  failed: number;
  quarantined: number;
  rejected: number;
  /** Open gaps that a person must see to, but for those of what is counted above. */
  gaps: number;
}

/** Gaps that come with failed events, with quarantine, with rejections, and with deletions that wait. */
const COUNTED_BY_THEIR_ROWS: ReadonlySet<string> = new Set<GapReason>([
  ...(['failed_event', 'unusable_delivery', 'rejected_signatures', 'deletion_pending'] as const),
]);

export function waitingIn({
  summary,
  pending,
  rejected,
}: Pick<Snapshot, 'summary' | 'pending' | 'rejected'>): Waiting {
  return {
    pendingDeletions: pending.reduce((sum, deletions) => sum + deletions.count, 0),
    failed: summary?.events.failed ?? 0,
    quarantined: summary?.quarantined ?? 0,
    rejected: rejected.reduce((sum, [, times]) => sum + times, 0),
    gaps: (summary?.open_gaps_by ?? [])
      .filter(({ reason }) => gapText(reason).needsPerson && !COUNTED_BY_THEIR_ROWS.has(reason))
      // An event that failed for it is counted as failed.
      .filter(({ reason }) => reason !== 'no_record_id' || summary?.events.failed === 0)
      .reduce((sum, each) => sum + each.count, 0),
  };
}

/**
 * All that waits for a person, also in a mirror that is in sync. What the headline already says with its button, paused or
 * unreachable, is not repeated. Pure.
 */
export function attentionOf(
  snapshot: Pick<Snapshot, 'summary' | 'pending' | 'rejected' | 'live'> & {
    verdict: Pick<Verdict, 'reason'>;
  },
): Attention[] {
  const { pending, live, verdict } = snapshot;
  const { failed, quarantined, rejected, gaps } = waitingIn(snapshot);
  const list: Attention[] = pending.map(({ syncRunId, kind, count: waiting }) => ({
    what: `${count(waiting, 'deletion')} of ${kindPlural(kind)} ${waiting === 1 ? 'waits' : 'wait'} for approval`,
    href: `/sync-runs/${syncRunId}#pending`,
    action: 'Look at them',
  }));
  if (live.paused && verdict.reason !== 'paused') {
    list.push({ what: 'The mirror is paused', href: '#resume', action: 'Resume' });
  }
  if (live.unreachableSince !== null && verdict.reason !== 'upstream_unreachable') {
    list.push({
      what: 'The compliance service gives no usable answer',
      href: '#upstream-title',
      action: 'See its answer',
    });
  }
  if (gaps > 0) {
    list.push({
      what: `${count(gaps, 'gap')} ${gaps === 1 ? 'needs' : 'need'} a person`,
      href: '/gaps',
      action: 'See what to do',
    });
  }
  if (failed > 0) {
    list.push({
      what: `${count(failed, 'event')} failed`,
      href: '/events?state=failed',
      action: 'Retry or discard',
    });
  }
  if (quarantined > 0) {
    list.push({
      what: `${count(quarantined, 'signed delivery', 'signed deliveries')} could not be used`,
      href: '/quarantine',
      action: 'Look and release',
    });
  }
  if (rejected > 0) {
    const reasons = snapshot.rejected.length;
    list.push({
      what: `${count(rejected, 'delivery', 'deliveries')} rejected in the last hour${reasons > 1 ? `, for ${figure(reasons)} reasons` : ''}`,
      href: '/deliveries?outcome=rejected',
      action: 'See why',
    });
  }
  return list;
}
