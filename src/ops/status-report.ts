import { pointersToSet } from '../compliance/pointers.ts';
import { cycleOf } from './cycle.ts';
import type { Snapshot } from './snapshot.ts';

/** What `/api/status` answers: the status page's figures, instants as ISO 8601 UTC text. */
export function statusReport({ at, live, summary, gaps, pending, syncRuns, verdict }: Snapshot) {
  const { upstream } = live;
  return {
    at: instant(at),
    verdict: verdict.verdict,
    reason: verdict.reason,
    sentence: verdict.sentence,
    remedy: verdict.remedy,
    since: verdict.since,
    service: {
      version: live.version,
      state: live.state,
      started_at: instant(live.startedAt),
      paused: live.paused,
      paused_since: instant(live.pausedSince),
      events_only: live.eventsOnly,
      signing_secrets: live.signingSecrets,
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
    deliveries: { last_minute: live.deliveries.lastMinute, last_hour: live.deliveries.lastHour },
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
    pending_deletions: pending.map(({ syncRunId, kind, count }) => ({ sync_run_id: syncRunId, kind, count })),
    sync_runs: {
      running: live.runningSyncRuns.map((fullSync) => ({
        id: fullSync.id,
        kind: fullSync.kind,
        pages: fullSync.pages,
        seen: fullSync.seen,
        estimated_total: fullSync.estimatedTotal,
        records_per_second: rounded(fullSync.recordsPerSecond),
        seconds_left: rounded(fullSync.leftMs == null ? null : fullSync.leftMs / 1000),
        started_at: instant(fullSync.startedAt),
      })),
      last: syncRuns,
    },
    /** How long it takes to read every known risk assessment once. */
    assessment_cycle: cycleIn({ summary, live, at }),
    upstream: {
      configured: upstream.configured,
      origin: upstream.origin,
      ok: upstream.ok,
      last_ok_at: instant(upstream.lastOkAt),
      last_error_at: instant(upstream.lastErrorAt),
      last_error: upstream.lastError,
      consecutive_failures: upstream.consecutiveFailures,
      waits_until: instant(upstream.waitsUntil),
      budget_left: upstream.budgetLeft,
      budget_per_minute: upstream.budgetPerMinute,
      budget_waits_for: upstream.budgetLost.map(({ replica, places, until }) => ({
        ...{ replica, requests: places, until: instant(until) },
      })),
      skew_ms: upstream.skewMs,
    },
    database: summary === null ? null : { bytes: summary.database_bytes, wal_bytes: summary.wal_bytes },
  };
}

export function cycleIn({ summary, live, at }: Pick<Snapshot, 'summary' | 'live' | 'at'>) {
  const assessments = summary?.kinds.find(({ kind }) => kind === 'risk_assessment');
  const running = live.runningSyncRuns.find(({ kind }) => kind === 'risk_assessment');
  const way = running === undefined ? null : { ...running, total: running.estimatedTotal };
  return cycleOf(assessments?.last_full_sync_seconds ?? null, way, at);
}

/** The rest is under `/api/gaps`. */
const GAPS_SHOWN = 50;

/** A tenth is as good as an estimate gets. */
function rounded(value: number | null | undefined): number | null {
  return value == null ? null : Math.round(value * 10) / 10;
}

function instant(ms: number): string;
function instant(ms: number | null): string | null;
function instant(ms: number | null): string | null {
  return ms === null ? null : new Date(ms).toISOString();
}
