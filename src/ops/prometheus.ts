import type { Metrics } from '../metrics.ts';
import type { OpsStore } from './context.ts';
import type { Snapshot } from './snapshot.ts';

/**
 * Gauges that show a state rather than count events are set when somebody scrapes, from the figures the page shows.
 * So is the count of gaps, because some are opened by the very commit that finds them: their rows are the count.
 */
export async function scrape(
  metrics: Metrics,
  { live, summary, gaps, at }: Snapshot,
  store: Pick<OpsStore, 'countGapsOpened'>,
): Promise<Response> {
  metrics.upstreamBudgetLeft.set(live.upstream.budgetLeft);
  if (live.upstream.skewMs !== null) metrics.clockSkewSeconds.set(live.upstream.skewMs / 1000);
  if (summary !== null) {
    metrics.backlogEvents.set(summary.events.pending);
    const oldest = summary.oldest_pending_at;
    metrics.backlogOldestSeconds.set(oldest === null ? 0 : Math.max(0, at - Date.parse(oldest)) / 1000);
    for (const { kind, records, unverified, deleted } of summary.kinds) {
      metrics.records.set({ kind, state: 'verified' }, Math.max(0, records - unverified));
      metrics.records.set({ kind, state: 'unverified' }, unverified);
      metrics.records.set({ kind, state: 'deleted' }, deleted);
    }
    metrics.gapsOpen.reset();
    for (const { reason } of gaps) metrics.gapsOpen.inc({ reason });
    metrics.gapsOpened.reset();
    for (const { reason, count } of await store.countGapsOpened()) metrics.gapsOpened.inc({ reason }, count);
    metrics.databaseBytes.set({ file: 'main' }, summary.database_bytes);
    metrics.databaseBytes.set({ file: 'wal' }, summary.wal_bytes);
  }
  return new Response(await metrics.registry.metrics(), {
    headers: { 'content-type': metrics.registry.contentType },
  });
}
