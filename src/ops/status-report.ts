import { pointersToSet } from '../compliance/pointers.ts';
import type { Status } from './api/schemas.ts';
import type { Snapshot } from './snapshot.ts';
import { span, tenth } from './words.ts';

/** What `/api/status` answers: the status page's figures, instants as ISO 8601 UTC text. */
export function statusReport({ at, live, summary, gaps, pending, syncRuns, verdict }: Snapshot) {
  return {
    at: new Date(at).toISOString(),
    verdict: verdict.verdict,
    reason: verdict.reason,
    sentence: verdict.sentence,
    remedy: verdict.remedy,
    since: verdict.since,
    service: {
      version: live.version,
      state: live.state,
      started_at: new Date(live.startedAt).toISOString(),
      paused: live.pausedSince !== null,
      paused_since: live.pausedSince === null ? null : new Date(live.pausedSince).toISOString(),
      events_only: live.eventsOnly,
      signing_secrets: live.secrets.length,
      settle_seconds: live.settleMs / 1000,
      full_sync_minutes: live.fullSyncMs / 60_000,
      silence_hours: live.silenceMs / 3_600_000,
    },
    /** Null, as everything below that comes from the database, when it could not be read. */
    kinds: summary?.kinds ?? null,
    events: summary?.events ?? null,
    backlog:
      summary === null ? null : { events: summary.events.pending, oldest_at: summary.oldest_pending_at },
    last_delivery_at: summary?.last_delivery_at ?? null,
    deliveries: live.deliveries,
    quarantined: summary?.quarantined ?? null,
    gaps:
      summary === null
        ? null
        : {
            open: summary.open_gaps,
            by: summary.open_gaps_by,
            resolved_last_day: summary.resolved_gaps_last_day,
            newest: gaps.slice(0, GAPS_SHOWN),
          },
    learned_pointers: summary === null ? null : pointersToSet(summary.learned_pointers, live.idPointers),
    pending_deletions: pending,
    sync_runs: { running: live.runningSyncRuns, last: syncRuns },
    assessment_sync: assessmentSyncOf({ summary, live, at }),
    upstream: live.upstream,
    database: summary === null ? null : { bytes: summary.database_bytes, wal_bytes: summary.wal_bytes },
  };
}

/** How long it takes to read every known risk assessment once: a change that no event announced may stay unseen for so long. */
type AssessmentSync = Status['assessment_sync'];

/** The estimate is made from what has been read so far. */
export function assessmentSyncOf({
  summary,
  live,
  at,
}: Pick<Snapshot, 'summary' | 'live' | 'at'>): AssessmentSync {
  const assessments = summary?.kinds.find(({ kind }) => kind === 'risk_assessment');
  const last_seconds = assessments?.last_full_sync_seconds ?? null;
  const running = live.runningSyncRuns.find(({ kind }) => kind === 'risk_assessment');
  if (running === undefined) return { last_seconds, running: null };
  const { started_at, seen, estimated_total: total } = running;
  const elapsed = Math.max(0, at - Date.parse(started_at)) / 1000;
  const estimated = seen === 0 || total === null ? null : elapsed * Math.max(1, total / seen);
  return {
    last_seconds,
    running: { elapsed_seconds: tenth(elapsed), estimated_seconds: tenth(estimated) },
  };
}

export function assessmentSyncWords({ last_seconds, running }: AssessmentSync): string {
  const last = last_seconds === null ? 'none completed yet' : `the last took ${span(last_seconds)}`;
  if (running === null) return last;
  const { elapsed_seconds: elapsed, estimated_seconds: estimated } = running;
  const whole = estimated === null ? 'its length not known yet' : `about ${span(estimated)} in all`;
  return `${last}; one under way for ${span(elapsed)}, ${whole}`;
}

/** The rest is under `/api/gaps`. */
const GAPS_SHOWN = 50;
