import type { KindStatus, OpenGaps } from '../store/reports.ts';
import { GAP_TEXTS } from './gap-texts.ts';
import {
  instant,
  isUnreadable,
  openSince,
  type Verdict,
  type VerdictInput,
  verdictOf,
} from './verdict-facts.ts';
import { age, figure, kindNoun, kindPlural } from './words.ts';

/** Twice the interval means that a full sync was missed altogether; the rest is the time that one may take. */
const FULL_SYNC_LATENESS_FACTOR = 2;
const FULL_SYNC_LENGTH_MS = 10 * 60_000;

/** A read falls due six times SETTLE after a dirty mark at the latest; this is far beyond, with room for a tight budget. */
const UNVERIFIED_SETTLES = 20;
const UNVERIFIED_FLOOR_MS = 30 * 60_000;

/** Events are worked off within seconds: this is far beyond what a burst of them takes. */
const BACKLOG_OVERDUE_MS = 5 * 60_000;

/** The heart beats more often than this; until then a fresh start has not told the database that it lives. */
const FIRST_BEAT_MS = 60_000;

/** What has gone out of date, or may have without anybody noticing. */
export function stale({ summary, gaps, live, now }: VerdictInput): Verdict | null {
  if (summary === null) return null;
  const action = live.eventsOnly ? null : ('sync' as const);
  const say = (reason: string, sentence: string, remedy: string, since: string | null) =>
    verdictOf('stale', reason, sentence, { remedy, since, action });

  if (!live.eventsOnly) {
    const overdue = summary.kinds.find((kind) => isFullSyncOverdue(kind, live, now));
    if (overdue !== undefined) {
      return say(
        'full_sync_overdue',
        overdue.last_full_sync_at === null
          ? `The ${kindPlural(overdue.kind)} have never been compared in full.`
          : `The ${kindPlural(overdue.kind)} were last compared in full ${age(now - instant(overdue.last_full_sync_at)!)} ago.`,
        'Sync runs fail or take too long. Look at the last ones below, then run a full sync.',
        overdue.last_full_sync_at,
      );
    }
    const lagging = summary.kinds.find((kind) => isLagging(kind, gaps, live.settleMs, now));
    if (lagging !== undefined) {
      return say(
        'verification_overdue',
        `${figure(lagging.unverified)} ${kindNoun(lagging.kind, lagging.unverified)} ${lagging.unverified === 1 ? 'has' : 'have'} been unverified for up to ${age(now - instant(lagging.oldest_unverified_at)!)}.`,
        'Repairs do not keep up. Look at the compliance service and its budget below, then run a full sync.',
        lagging.oldest_unverified_at,
      );
    }
  }
  const oldestPending = instant(summary.oldest_pending_at);
  if (oldestPending !== null && now - oldestPending > BACKLOG_OVERDUE_MS) {
    return {
      ...say(
        'backlog_overdue',
        `${figure(summary.events.pending)} ${summary.events.pending === 1 ? 'event waits' : 'events wait'}, the oldest for ${age(now - oldestPending)}.`,
        'Processing does not keep up. Look at the errors of the pending events and at the log.',
        summary.oldest_pending_at,
      ),
      action: null,
    };
  }
  const rejected = openSince(gaps, 'rejected_signatures');
  if (rejected !== null) {
    return say(
      'rejected_signatures',
      'Deliveries are rejected for their signature, so the mirror does not hear of changes.',
      GAP_TEXTS.rejected_signatures.remedy,
      rejected,
    );
  }
  const lastDelivery = instant(summary.last_delivery_at);
  const quietMs = now - Math.max(lastDelivery ?? 0, live.startedAt);
  if (openSince(gaps, 'silence') !== null || (live.silenceMs > 0 && quietMs > live.silenceMs)) {
    return say(
      'silence',
      lastDelivery === null
        ? 'No delivery has ever arrived.'
        : `No delivery has arrived for ${age(now - lastDelivery)}.`,
      GAP_TEXTS.silence.remedy,
      summary.last_delivery_at,
    );
  }
  // Sync runs are in time, and still the view calls it stale: then it is the service's heart that it misses.
  if (summary.kinds.some((kind) => kind.verdict === 'stale') && now - live.startedAt > FIRST_BEAT_MS) {
    return {
      ...say(
        'heartbeat_missed',
        'The service has stopped saying that it lives.',
        'Look at its log, then restart it. Nothing that was acknowledged is lost.',
        null,
      ),
      action: null,
    };
  }
  return null;
}

function isFullSyncOverdue(
  kind: KindStatus,
  { fullSyncMs, startedAt }: VerdictInput['live'],
  now: number,
): boolean {
  const last = instant(kind.last_full_sync_at);
  // Of one that was never whole the view knows since when it has been tried.
  if (last === null) return fullSyncMs > 0 && kind.verdict === 'stale' && now - startedAt > FIRST_BEAT_MS;
  return fullSyncMs > 0 && now - last > FULL_SYNC_LATENESS_FACTOR * fullSyncMs + FULL_SYNC_LENGTH_MS;
}

function isLagging(kind: KindStatus, gaps: readonly OpenGaps[], settleMs: number, now: number): boolean {
  const oldest = instant(kind.oldest_unverified_at);
  if (kind.unverified === 0 || oldest === null) return false;
  // The oldest one may be a record that no read can verify, and then says nothing about the others.
  if (gaps.some((gap) => gap.kind === kind.kind && isUnreadable(gap))) return false;
  return now - oldest > Math.max(UNVERIFIED_FLOOR_MS, UNVERIFIED_SETTLES * settleMs);
}
