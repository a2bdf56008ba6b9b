import { KINDS } from '../compliance/kinds.ts';
import type { Metrics } from '../platform/metrics.ts';
import type { StoreSummary } from '../store/reports.ts';
import type { Upstream } from './api/schemas.ts';
import { DATABASE, DATABASE_ID } from './problems.ts';
import type { Snapshot } from './status.ts';

/** Sets the gauges when somebody scrapes, to the figures of the status page. */
export async function scrape(metrics: Metrics, snapshot: Snapshot, upstream: Upstream): Promise<string> {
  setVerdicts(metrics, snapshot);
  metrics.upstreamBudget.set(upstream.budget_per_minute);
  metrics.upstreamBudgetLeft.set(upstream.budget_left);
  metrics.upstreamFailures.set(upstream.consecutive_failures);
  if (upstream.skew_ms !== null) metrics.clockSkewSeconds.set(upstream.skew_ms / 1000);
  // While the database cannot be read, the gauges keep their values.
  if (snapshot.summary !== null) setStored(metrics, Date.parse(snapshot.status.at), snapshot.summary);
  return await metrics.registry.metrics();
}

function setVerdicts(metrics: Metrics, { status, summary }: Snapshot): void {
  const { kinds, problems, verdict } = status;
  metrics.verdict.reset();
  // Of kinds that could not be read the service's own is known.
  const known = kinds.length > 0 ? kinds : KINDS.map((kind) => ({ kind, verdict }));
  for (const each of known) metrics.verdict.set({ kind: each.kind, verdict: each.verdict }, 1);
  metrics.problemsOpen.reset();
  for (const { reason, count } of summary?.open_problems_by ?? [])
    metrics.problemsOpen.inc({ reason }, count);
  if (problems.some(({ id }) => id === DATABASE_ID)) metrics.problemsOpen.inc({ reason: DATABASE });
}

function setStored(metrics: Metrics, at: number, summary: StoreSummary): void {
  const ageSeconds = (instant: string | null) =>
    instant === null ? 0 : Math.max(0, at - Date.parse(instant)) / 1000;
  for (const [state, count] of Object.entries(summary.events)) metrics.events.set({ state }, count);
  metrics.backlogOldestSeconds.set(ageSeconds(summary.oldest_pending_at));
  if (summary.last_delivery_at !== null) {
    metrics.lastDelivery.set(Date.parse(summary.last_delivery_at) / 1000);
  }
  for (const each of summary.kinds) {
    const { kind, records, unverified, deleted } = each;
    metrics.records.set({ kind, state: 'live' }, records);
    metrics.records.set({ kind, state: 'unverified' }, unverified);
    metrics.records.set({ kind, state: 'deleted' }, deleted);
    metrics.oldestUnverifiedSeconds.set({ kind }, ageSeconds(each.oldest_unverified_at));
    if (each.last_full_sync_at !== null) {
      metrics.lastFullSync.set({ kind }, Date.parse(each.last_full_sync_at) / 1000);
    }
  }
  metrics.databaseBytes.set({ file: 'main' }, summary.database_bytes);
  metrics.databaseBytes.set({ file: 'wal' }, summary.wal_bytes);
}
