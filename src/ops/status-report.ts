import { pointersToSet } from '../compliance/pointers.ts';
import type { Snapshot } from './snapshot.ts';

/** What `/api/status` answers. Instants are ISO 8601 UTC text. */
export function statusReport(snapshot: Snapshot) {
  const { at, live, summary, kinds, problems, pending, syncRuns, traffic, verdict } = snapshot;
  const { accepted, duplicate, quarantined, rejected } = traffic.total;
  return {
    at: new Date(at).toISOString(),
    ...verdict,
    kinds,
    problems,
    service: {
      version: live.version,
      state: live.state,
      started_at: new Date(live.startedAt).toISOString(),
      events_only: live.eventsOnly,
    },
    events: summary && { ...summary.events, oldest_pending_at: summary.oldest_pending_at },
    deliveries: {
      last_at: summary?.last_delivery_at ?? null,
      quarantined: summary?.quarantined ?? null,
      last_hour: { accepted, duplicate, quarantined, rejected },
    },
    learned_pointers: pointersToSet(summary?.learned_pointers ?? [], live.idPointers),
    pending_deletions: pending,
    sync_runs: { running: live.runningSyncRuns, last: syncRuns },
    upstream: live.upstream,
    database: summary && { bytes: summary.database_bytes },
  };
}
