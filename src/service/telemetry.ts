import type { FullSyncResult } from '../backfill/full-sync.ts';
import type { ObservedRequest } from '../compliance/client.ts';
import type { Kind } from '../compliance/kinds.ts';
import { stage } from '../platform/logger.ts';
import type {
  Applied,
  Cause,
  Conclusion,
  NamedEvent,
  ProblemChange,
  ProvisionalOutcome,
} from '../store/store.ts';
import type { Base } from './opening.ts';

export type Telemetry = ReturnType<typeof createTelemetry>;

/**
 * Logs and metrics of what the stages did, so that the stages need not know them. The lines of events, full syncs
 * and problems have the same fields as a delivery's line; a field without a value is null.
 */
export function createTelemetry({
  logger,
  metrics,
  clock,
  onRepaired,
}: Pick<Base, 'logger' | 'metrics' | 'clock'> & {
  /** A record was verified, a full sync has ended, or a problem is resolved. */
  onRepaired: () => void;
}) {
  const process = stage(logger, 'process');
  const backfill = stage(logger, 'backfill');

  return {
    processed({ event, outcome, error }: ProvisionalOutcome): void {
      metrics.eventsProcessed.inc({ outcome });
      const duration_ms = clock.wall() - event.receivedWall;
      if (outcome === 'provisional') metrics.provisionalLagSeconds.observe(Math.max(0, duration_ms) / 1000);
      const level = outcome === 'failed' ? 'warn' : 'info';
      if (!process.isLevelEnabled(level)) return;
      process[level]({ ...namesOf(event), outcome, reason: error, duration_ms }, 'event');
    },

    /** `delay_ms` null: the event is not tried again. */
    deferred(event: NamedEvent, reason: string, delay_ms: number | null): void {
      const outcome = delay_ms === null ? 'failed' : 'deferred';
      if (delay_ms === null) metrics.eventsProcessed.inc({ outcome });
      const duration_ms = clock.wall() - event.receivedWall;
      const { attempts } = event;
      process.warn({ ...namesOf(event), outcome, reason, duration_ms, attempts, delay_ms }, 'event');
    },

    applied(kind: Kind, applied: readonly Applied[], { cause, causeId: cause_id }: Cause): void {
      for (const { id: record_id, outcome, lagMs, differences } of applied) {
        if (lagMs !== null) {
          metrics.verificationLagSeconds.observe(Math.max(0, lagMs) / 1000);
          onRepaired();
        }
        if (outcome === 'unchanged') continue;
        if (backfill.isLevelEnabled('debug'))
          backfill.debug({ kind, record_id, outcome, cause, cause_id, differences }, 'read');
      }
    },

    concluded(kind: Kind, { deleted, pending }: Conclusion, { cause, causeId: cause_id }: Cause): void {
      if (deleted.length > 0) onRepaired();
      for (const { id: record_id, cause: reason } of deleted)
        backfill.info({ kind, record_id, outcome: 'deleted', reason, cause, cause_id }, 'deletion');
      if (pending.length > 0)
        backfill.warn({ kind, outcome: 'pending', count: pending.length, cause, cause_id }, 'deletion');
    },

    synced({ kind, id, outcome, reason, error, progress, differences, durationMs }: FullSyncResult): void {
      onRepaired();
      metrics.syncRuns.inc({ kind, outcome });
      metrics.fullSyncSeconds.observe({ kind }, durationMs / 1000);
      const { new: fresh, deleted_upstream, different, repaired } = differences;
      const found = { new: fresh, deleted_upstream, different };
      for (const [difference, count] of Object.entries(found))
        metrics.syncRunDifferences.inc({ kind, difference }, count);
      const { pages, seen, inserted, updated, deleted, unchanged } = progress;
      const effects = { inserted, updated, deleted, unchanged };
      const level = outcome === 'complete' || outcome === 'interrupted' ? 'info' : 'warn';
      const line = {
        event_id: null,
        kind,
        record_id: null,
        sync_run_id: id,
        reason,
        pages,
        seen,
        outcome,
        error,
        duration_ms: durationMs,
      };
      backfill[level]({ ...line, ...effects, ...found, repaired }, 'sync');
    },

    problemChanged({ problem, what: outcome, error, openForMs }: ProblemChange): void {
      const { kind, recordId: record_id, reason } = problem;
      // Never negative, even where a clock was set back.
      const duration_ms = openForMs === null ? null : Math.max(0, openForMs);
      const line = { event_id: null, kind, record_id, outcome, reason, duration_ms };
      if (outcome === 'opened') {
        metrics.problemsOpened.inc({ reason });
        backfill.warn({ ...line, error }, 'problem');
      } else {
        onRepaired();
        backfill.info(line, 'problem');
      }
    },

    requested({ route, status, error, durationMs }: ObservedRequest): void {
      metrics.upstreamRequests.inc({ route, status: String(status ?? error ?? 'none') });
      metrics.upstreamRequestSeconds.observe(durationMs / 1000);
    },
  };
}

function namesOf({ id, kind, recordId }: Pick<NamedEvent, 'id' | 'kind' | 'recordId'>) {
  return { event_id: id, kind, record_id: recordId };
}
