import type { FullSyncResult, RunningSyncRun } from '../backfill/full-sync.ts';
import type { ObservedRequest } from '../compliance/client.ts';
import type { Kind } from '../compliance/kinds.ts';
import type { Clock } from '../platform/clock.ts';
import { type Logger, stage } from '../platform/logger.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { Applied, ClaimedEvent, Conclusion, GapChange, ProvisionalOutcome } from '../store/store.ts';

/**
 * Tells logs and metrics what the stages did, so that the stages need to know neither. The lines of events, full syncs and
 * gaps have the fields that a delivery's has, null where there is nothing to say.
 */
export interface Narrator {
  processed(outcome: ProvisionalOutcome): void;
  retried(event: ClaimedEvent, error: string, delayMs: number | null): void;
  applied(kind: Kind, applied: readonly Applied[], cause: string): void;
  concluded(kind: Kind, conclusion: Conclusion, cause: string): void;
  synced(result: FullSyncResult): void;
  /** `budgetLeft`: requests that the current minute still allows. */
  syncing(fullSync: RunningSyncRun, budgetLeft: number): void;
  gapChanged(change: GapChange): void;
  requested(request: ObservedRequest): void;
}

export function createNarrator(options: {
  logger: Logger;
  metrics: Metrics;
  clock: Pick<Clock, 'wall'>;
  /** Milliseconds from an arrival to its provisional row, or from a record becoming unverified to its verification. */
  onLag: (what: 'provisional' | 'verification', ms: number) => void;
  /** A record was verified, a full sync has ended, or a gap is resolved. */
  onRepaired: () => void;
}): Narrator {
  const { metrics, clock } = options;
  const process = stage(options.logger, 'process');
  const backfill = stage(options.logger, 'backfill');

  return {
    processed({ event, outcome, error }) {
      metrics.eventsProcessed.inc(outcome);
      const duration_ms = clock.wall() - event.receivedWall;
      if (outcome === 'provisional') {
        metrics.provisionalLagSeconds.observe(Math.max(0, duration_ms) / 1000);
        options.onLag('provisional', duration_ms);
      }
      const level = outcome === 'failed' ? 'warn' : 'info';
      if (!process.isLevelEnabled(level)) return;
      const { id: event_id, kind, recordId: record_id } = event;
      process[level]({ event_id, kind, record_id, outcome, reason: error, duration_ms }, 'event');
    },

    retried(event, error, delayMs) {
      if (delayMs === null) metrics.eventsProcessed.inc('failed');
      else metrics.eventRetries.inc();
      const { id: event_id, kind, recordId: record_id, attempts } = event;
      const outcome = delayMs === null ? 'failed' : 'deferred';
      const duration_ms = clock.wall() - event.receivedWall;
      process.warn(
        { event_id, kind, record_id, outcome, reason: error, duration_ms, attempts, delay_ms: delayMs },
        'event',
      );
    },

    applied(kind, applied, cause) {
      for (const { id: record_id, outcome, lagMs, differences } of applied) {
        if (lagMs !== null) {
          metrics.verificationLagSeconds.observe(Math.max(0, lagMs) / 1000);
          options.onLag('verification', lagMs);
          options.onRepaired();
        }
        if (outcome === 'unchanged') continue;
        if (backfill.isLevelEnabled('debug'))
          backfill.debug({ kind, record_id, outcome, cause, differences }, 'read');
      }
    },

    concluded(kind, conclusion, cause) {
      if (conclusion.deleted.length > 0) options.onRepaired();
      for (const { id: record_id, cause: reason } of conclusion.deleted) {
        backfill.info({ kind, record_id, outcome: 'deleted', reason, cause }, 'deletion');
      }
      if (conclusion.pending.length > 0) {
        backfill.warn({ kind, outcome: 'pending', count: conclusion.pending.length, cause }, 'deletion');
      }
    },

    synced(result) {
      options.onRepaired();
      const { kind, id: sync_run_id, outcome, reason, error, durationMs: duration_ms } = result;
      metrics.syncRuns.inc({ kind, outcome });
      metrics.fullSyncSeconds.observe({ kind }, duration_ms / 1000);
      for (const difference of ['missing', 'extra', 'different'] as const) {
        metrics.syncRunDifferences.inc({ kind, difference }, result.differences[difference]);
      }
      const { pages, seen, inserted, updated, deleted, unchanged } = result.progress;
      metrics.syncRunPages.inc({ kind }, pages);
      for (const [effect, count] of Object.entries({ inserted, updated, deleted, unchanged })) {
        metrics.syncRunRecords.inc({ kind, effect }, count);
      }
      const line = {
        event_id: null,
        kind,
        record_id: null,
        sync_run_id,
        outcome,
        reason,
        error,
        duration_ms,
      };
      const level = outcome === 'complete' || outcome === 'interrupted' ? 'info' : 'warn';
      const { missing, extra, different, repaired } = result.differences;
      const differences = { missing, extra, different, repaired };
      backfill[level](
        { ...line, pages, seen, inserted, updated, deleted, unchanged, ...differences },
        'sync',
      );
    },

    syncing(fullSync, budget_left) {
      const {
        kind,
        id: sync_run_id,
        reason,
        pages,
        seen,
        estimatedTotal: total,
        recordsPerSecond,
        leftMs,
      } = fullSync;
      const records_per_second = recordsPerSecond === null ? null : Math.round(recordsPerSecond * 10) / 10;
      const pace = { records_per_second, left_ms: leftMs, budget_left };
      const line = { event_id: null, kind, record_id: null, sync_run_id, outcome: 'running', reason };
      backfill.info({ ...line, duration_ms: null, pages, seen, total, ...pace }, 'sync');
    },

    gapChanged({ gap: { kind, recordId: record_id, reason }, what: outcome, error, openForMs }) {
      // A clock that was set back is no reason for a negative one.
      const duration_ms = openForMs === null ? null : Math.max(0, openForMs);
      const line = { event_id: null, kind, record_id, outcome, reason, duration_ms };
      if (outcome === 'opened') backfill.warn({ ...line, error }, 'gap');
      else {
        options.onRepaired();
        backfill.info(line, 'gap');
      }
    },

    requested(request) {
      const status = request.status === null ? (request.error ?? 'none') : String(request.status);
      metrics.upstreamRequests.inc({ route: request.route, status });
      metrics.upstreamRequestSeconds.observe(request.durationMs / 1000);
      if (request.dateHeaderSkewMs !== null) metrics.clockSkewSeconds.set(request.dateHeaderSkewMs / 1000);
    },
  };
}
