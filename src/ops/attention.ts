import type { Snapshot } from './snapshot.ts';
import { count, figure, kindPlural } from './words.ts';

/** Something that a person should see to, and where. */
export interface Attention {
  what: string;
  href: string;
  /** What the link says. */
  action: string;
}

/** All that waits for a person, whatever the verdict is: a mirror may be in sync, and still hold what nobody has looked at. Pure. */
export function attentionOf({
  summary,
  pending,
  live,
}: Pick<Snapshot, 'summary' | 'pending' | 'live'>): Attention[] {
  const list: Attention[] = pending.map(({ syncRunId, kind, count: waiting }) => ({
    what: `${count(waiting, 'deletion')} of ${kindPlural(kind)} ${waiting === 1 ? 'waits' : 'wait'} for approval`,
    href: `/sync-runs/${syncRunId}#pending`,
    action: 'Look at them',
  }));
  const failed = summary?.events.failed ?? 0;
  if (failed > 0) {
    list.push({
      what: `${count(failed, 'event')} failed`,
      href: '/events?state=failed',
      action: 'Retry or discard',
    });
  }
  const quarantined = summary?.quarantined ?? 0;
  if (quarantined > 0) {
    list.push({
      what: `${count(quarantined, 'signed delivery', 'signed deliveries')} could not be used`,
      href: '/quarantine',
      action: 'Look and release',
    });
  }
  const { rejected } = live.deliveries.lastHour;
  const times = Object.values(rejected).reduce((sum, each) => sum + each, 0);
  if (times > 0) {
    const reasons = Object.keys(rejected).length;
    list.push({
      what: `${count(times, 'delivery', 'deliveries')} rejected in the last hour${reasons > 1 ? `, for ${figure(reasons)} reasons` : ''}`,
      href: '/deliveries?outcome=rejected',
      action: 'See why',
    });
  }
  return list;
}
