import { gapsHref, gapText } from './gap-texts.ts';
import { pendingWords } from './pending-deletions.ts';
import type { Snapshot } from './snapshot.ts';
import { sumOf, type Verdict } from './verdict.ts';
import { count, figure } from './words.ts';

/** Gaps whose events, deliveries or deletions are counted themselves. */
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
    gaps: sumOf(gapsForPerson(summary)),
  };
}

/** Open gaps that need a person and are not counted by rows. */
const gapsForPerson = (summary: Snapshot['summary']) =>
  (summary?.open_gaps_by ?? [])
    .filter(({ reason }) => gapText(reason).needsPerson && !COUNTED_BY_ROWS.includes(reason))
    // Its failed events are counted.
    .filter(({ reason }) => reason !== 'no_record_id' || summary?.events.failed === 0);

/**
 * All that waits for a person, even if the mirror is in sync, each with a link. A pause or an outage that the verdict
 * already names is left out. Pure.
 */
export function attentionOf(
  snapshot: Pick<Snapshot, 'summary' | 'pending' | 'rejected' | 'live'> & {
    verdict: Pick<Verdict, 'reason'>;
  },
) {
  const { summary, pending, live, verdict } = snapshot;
  const gapReasons = gapsForPerson(summary).map(({ reason }) => reason);
  const { failed, quarantined, rejected, gaps } = waitingIn(snapshot);
  const reasons = snapshot.rejected.length > 1 ? `, for ${figure(snapshot.rejected.length)} reasons` : '';
  const list = [
    ...pending.map((each) =>
      link(pendingWords(each), `/sync-runs/${each.sync_run_id}#pending`, 'Look at them'),
    ),
    live.pausedSince !== null &&
      verdict.reason !== 'paused' &&
      link('The mirror is paused', '#resume', 'Resume'),
    live.unreachableSince !== null &&
      verdict.reason !== 'upstream_unreachable' &&
      link('The compliance service gives no usable answer', '#upstream-title', 'See its answer'),
    gaps > 0 &&
      link(`${count(gaps, 'gap needs', 'gaps need')} a person`, gapsHref(...gapReasons), 'See what to do'),
    failed > 0 && link(`${count(failed, 'event')} failed`, '/events?state=failed', 'Retry or discard'),
    quarantined > 0 &&
      link(
        `${count(quarantined, 'signed delivery', 'signed deliveries')} could not be used`,
        '/quarantine',
        'Look and release',
      ),
    rejected > 0 &&
      link(
        `${count(rejected, 'delivery', 'deliveries')} rejected in the last hour${reasons}`,
        '/deliveries?outcome=rejected',
        'See why',
      ),
  ];
  return list.filter((each) => each !== false);
}

/** `action`: the words of the link. */
const link = (what: string, href: string, action: string) => ({ what, href, action });
