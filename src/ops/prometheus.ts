import { KINDS } from '../compliance/kinds.ts';
import type { Metrics } from '../platform/metrics.ts';
import { verdictName } from '../store/report-rows.ts';
import type { StoreSummary } from '../store/reports.ts';
import type { OpsStore } from './context.ts';
import type { Snapshot } from './snapshot.ts';
import { sumOf } from './verdict.ts';

/**
 * Sets the gauges when somebody scrapes, to the figures of the status page. The counter of opened gaps is set too, from their
 * rows, because the store opens some gaps itself.
 */
export async function scrape(
  metrics: Metrics,
  snapshot: Snapshot,
  store: Pick<OpsStore, 'countGapsOpened'>,
): Promise<string> {
  setLive(metrics, snapshot);
  if (snapshot.summary !== null) {
    setStored(metrics, snapshot, snapshot.summary);
    const opened = await store.countGapsOpened();
    metrics.gapsOpened.reset();
    for (const { reason, count } of opened) metrics.gapsOpened.inc({ reason }, count);
  }
  return await metrics.registry.metrics();
}

/** What only the running process knows. */
function setLive(metrics: Metrics, { live, verdict }: Snapshot): void {
  const { upstream } = live;
  for (const name of verdictName.options)
    metrics.verdict.set({ verdict: name }, name === verdict.verdict ? 1 : 0);
  metrics.paused.set(live.pausedSince === null ? 0 : 1);
  metrics.upstreamBudget.set(upstream.budget_per_minute);
  metrics.upstreamBudgetLeft.set(upstream.budget_left);
  metrics.upstreamFailures.set(upstream.consecutive_failures);
  // Until the first answer nobody knows, and 0 would say that it is down.
  if (upstream.ok !== null) metrics.upstreamUp.set(upstream.ok ? 1 : 0);
  if (upstream.skew_ms !== null) metrics.clockSkewSeconds.set(upstream.skew_ms / 1000);
  metrics.secretLastUsed.reset();
  for (const { position, lastUsedAt } of live.secrets) {
    if (lastUsedAt !== null) metrics.secretLastUsed.set({ position }, Math.floor(lastUsedAt / 1000));
  }
  for (const kind of KINDS) {
    const running = live.runningSyncRuns.filter((syncRun) => syncRun.kind === kind);
    metrics.syncRunsRunning.set({ kind }, running.length);
  }
}

/** From the database. While it cannot be read, the gauges keep their values. */
function setStored(metrics: Metrics, { pending, at }: Snapshot, summary: StoreSummary): void {
  const ageSeconds = (instant: string | null) =>
    instant === null ? 0 : Math.max(0, at - Date.parse(instant)) / 1000;
  for (const [state, count] of Object.entries(summary.events)) metrics.events.set({ state }, count);
  metrics.backlogEvents.set(summary.events.pending);
  metrics.backlogOldestSeconds.set(ageSeconds(summary.oldest_pending_at));
  if (summary.last_delivery_at !== null) {
    metrics.lastDelivery.set(Date.parse(summary.last_delivery_at) / 1000);
  }
  metrics.quarantined.set(summary.quarantined);
  for (const each of summary.kinds) {
    const { kind, records, verified, deleted } = each;
    metrics.records.set({ kind, state: 'verified' }, verified);
    metrics.records.set({ kind, state: 'unverified' }, records - verified);
    metrics.records.set({ kind, state: 'deleted' }, deleted);
    // Only records that a read can verify count. The age of others would grow for ever, and raise an alert.
    const oldest = each.unverified === 0 ? null : each.oldest_unverified_at;
    metrics.oldestUnverifiedSeconds.set({ kind }, ageSeconds(oldest));
    if (each.last_full_sync_at !== null) {
      metrics.lastFullSync.set({ kind }, Date.parse(each.last_full_sync_at) / 1000);
    }
    const waiting = pending.filter((deletions) => deletions.kind === kind);
    metrics.deletionsPending.set({ kind }, sumOf(waiting));
  }
  metrics.gapsOpen.reset();
  for (const { reason, count } of summary.open_gaps_by) metrics.gapsOpen.inc({ reason }, count);
  metrics.databaseBytes.set({ file: 'main' }, summary.database_bytes);
  metrics.databaseBytes.set({ file: 'wal' }, summary.wal_bytes);
}
