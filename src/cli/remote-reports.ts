import type { EventState, Paging, ReportStore, StoreSummary, TrimmedChanges } from '../store/reports.ts';
import type { OpsClient } from './ops-client.ts';

/** What commands read with: all of it can be had from the database and through an operators' listener alike. */
export type Reports = Pick<
  ReportStore,
  | 'summary'
  | 'listEvents'
  | 'showEvent'
  | 'listRecords'
  | 'showRecord'
  | 'recordHistory'
  | 'listChanges'
  | 'trimmedChanges'
  | 'listGaps'
  | 'listPendingDeletions'
  | 'listSyncRuns'
  | 'showSyncRun'
  | 'listQuarantine'
  | 'showQuarantined'
  | 'listRejections'
  | 'showRejection'
  | 'listAudit'
>;

type Value = string | number | boolean | undefined;

/** The same reports from an operators' listener, by its JSON API. */
export function remoteReports(service: OpsClient): Reports {
  async function page<Page>(path: string, query: Record<string, Value>): Promise<Page> {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const search = new URLSearchParams(
      Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
    );
    return (await service.get(`${path}?${search}`)) as Page;
  }
  const list = async <Item>(path: string, query: Record<string, Value>) =>
    (await page<{ items: Item[] }>(path, query)).items;
  const one = async <Item>(path: string) => (await service.getIfFound(path)) as Item | null;
  const paged = ({ limit, after }: Paging) => ({ limit, after });
  const id = encodeURIComponent;

  return {
    async summary() {
      return summaryOf((await service.get('/api/status')) as StatusAnswer);
    },
    listEvents: ({ recordId, ...filter }, paging) =>
      page('/api/events', { ...filter, record_id: recordId, ...paged(paging) }),
    showEvent: (event) => one(`/api/events/${id(event)}`),
    listRecords: (kind, filter, paging) => list(`/api/records/${kind}`, { ...filter, ...paged(paging) }),
    showRecord: (kind, record) => one(`/api/records/${kind}/${id(record)}`),
    recordHistory: (kind, record, paging) =>
      list(`/api/records/${kind}/${id(record)}/history`, paged(paging)),
    listChanges: (after, limit) => list('/api/changes', { after, limit }),
    async trimmedChanges() {
      const { trimmed } = (await service.get('/api/snapshot?limit=1')) as { trimmed: TrimmedChanges | null };
      return trimmed;
    },
    listGaps: (filter, paging) => list('/api/gaps', { ...filter, ...paged(paging) }),
    listPendingDeletions: ({ syncRunId }, paging) =>
      list('/api/deletions', { sync_run: syncRunId, ...paged(paging) }),
    listSyncRuns: (paging) => list('/api/sync-runs', paged(paging)),
    showSyncRun: (fullSync) => one(`/api/sync-runs/${fullSync}`),
    listQuarantine: (paging) => list('/api/quarantine', paged(paging)),
    showQuarantined: (delivery) => one(`/api/quarantine/${delivery}`),
    listRejections: (paging) => list('/api/rejections', paged(paging)),
    showRejection: (rejection) => one(`/api/rejections/${rejection}`),
    listAudit: (paging) => list('/api/audit', paged(paging)),
  };
}

/** Of `/api/status`, what a summary is made of; null where the service cannot read its database. */
interface StatusAnswer {
  kinds: StoreSummary['kinds'] | null;
  events: Record<EventState, number> | null;
  backlog: { oldest_at: string | null } | null;
  last_delivery_at: string | null;
  quarantined: number | null;
  learned_pointers?: StoreSummary['learned_pointers'] | null;
  gaps: { open: number; by?: StoreSummary['open_gaps_by']; resolved_last_day?: number } | null;
  database: { bytes: number; wal_bytes: number } | null;
}

function summaryOf(status: StatusAnswer): StoreSummary {
  return {
    kinds: status.kinds ?? [],
    events: status.events ?? { pending: 0, processed: 0, ignored: 0, failed: 0, discarded: 0 },
    oldest_pending_at: status.backlog?.oldest_at ?? null,
    last_delivery_at: status.last_delivery_at,
    quarantined: status.quarantined ?? 0,
    open_gaps: status.gaps?.open ?? 0,
    open_gaps_by: status.gaps?.by ?? [],
    learned_pointers: status.learned_pointers ?? [],
    resolved_gaps_last_day: status.gaps?.resolved_last_day ?? 0,
    database_bytes: status.database?.bytes ?? 0,
    wal_bytes: status.database?.wal_bytes ?? 0,
  };
}
