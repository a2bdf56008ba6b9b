import type { Kind } from '../../compliance/kinds.ts';
import { PAGE_LIMIT_MAX, type Paging } from '../../store/reports.ts';
import type { Reports } from '../reports.ts';

export interface ExportedTable {
  /** As in the database, in the order of the columns there. */
  columns: readonly string[];
  read(reports: Reports, paging: Paging): Promise<object[]>;
  /** What the next page goes on behind. */
  key(row: object): string;
  /** About how many rows there are, where that is known without counting them. */
  total?(reports: Reports): Promise<number>;
  /** Whole rows, where lists leave a body out. */
  whole?(reports: Reports, row: object): Promise<object | null>;
}

const record = (columns: readonly string[]) => [
  ...columns,
  ...['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since', 'deleted_at'],
  ...['last_event_id', 'last_event_at', 'cause'],
];

function recordsOf(kind: Kind, columns: readonly string[]): ExportedTable {
  return {
    columns: record(columns),
    read: (reports, paging) => reports.listRecords(kind, {}, paging),
    key: (row) => (row as { id: string }).id,
    async total(reports) {
      const counts = (await reports.summary()).kinds.find((one) => one.kind === kind);
      return (counts?.records ?? 0) + (counts?.deleted ?? 0);
    },
  };
}

const byNumber = (name: 'id' | 'seq') => (row: object) => String((row as Record<string, unknown>)[name]);

/** The tables that CONTRACT's readers know, by their names there. */
export const EXPORTED_TABLES: Readonly<Record<string, ExportedTable>> = {
  policies: recordsOf('policy', ['id', 'name', 'version']),
  risk_assessments: recordsOf('risk_assessment', ['id', 'name']),
  vendors: recordsOf('vendor', ['id', 'name']),
  changes: {
    columns: ['seq', 'kind', 'record_id', 'operation', 'before', 'after', 'cause', 'at'],
    read: async (reports, { limit, after }) =>
      reports.listChanges(Number(after ?? (await reports.trimmedChanges())?.through ?? 0), limit),
    key: byNumber('seq'),
  },
  events: {
    columns: [
      ...['seq', 'id', 'type', 'created', 'kind', 'record_id', 'received_at', 'deliveries'],
      ...['last_delivered_at', 'state', 'attempts', 'next_attempt_at', 'processed_at', 'error', 'body'],
    ],
    // Without a filter a page is short only where it is the last.
    read: async (reports, paging) => (await reports.listEvents({}, paging)).items,
    key: byNumber('seq'),
    async total(reports) {
      return Object.values((await reports.summary()).events).reduce((sum, count) => sum + count, 0);
    },
    whole: (reports, row) => reports.showEvent((row as { id: string }).id),
  },
  gaps: {
    columns: ['id', 'kind', 'record_id', 'reason', 'opened_at', 'resolved_at', 'attempts', 'error'],
    read: (reports, paging) => reports.listGaps({}, paging),
    key: byNumber('id'),
  },
  sync_runs: {
    columns: [
      ...['id', 'kind', 'reason', 'started_at', 'finished_at', 'pages', 'seen', 'inserted', 'updated'],
      ...['deleted', 'unchanged', 'outcome', 'error', 'differences'],
    ],
    read: (reports, paging) => reports.listSyncRuns(paging),
    key: byNumber('id'),
  },
  quarantine: {
    columns: ['id', 'received_at', 'reason', 't', 'body_sha256', 'released_at', 'body', 'body_base64'],
    read: (reports, paging) => reports.listQuarantine(paging),
    key: byNumber('id'),
    whole: (reports, row) => reports.showQuarantined((row as { id: number }).id),
  },
  rejections: {
    columns: ['id', 'at', 'reason', 't', 'bytes', 'body_sha256', 'header', 'body', 'body_base64'],
    read: (reports, paging) => reports.listRejections(paging),
    key: byNumber('id'),
    whole: (reports, row) => reports.showRejection((row as { id: number }).id),
  },
  audit: {
    columns: ['id', 'at', 'actor', 'action', 'outcome', 'target'],
    read: (reports, paging) => reports.listAudit(paging),
    key: byNumber('id'),
  },
};

/** Every row, a page in memory at a time. What is written meanwhile may or may not be among them. */
export async function* rowsOf(
  table: ExportedTable,
  reports: Reports,
  options: { bodies: boolean },
): AsyncGenerator<Record<string, unknown>> {
  let after: string | undefined;
  for (;;) {
    const page = await table.read(reports, { limit: PAGE_LIMIT_MAX, after });
    for (const row of page) {
      const whole = options.bodies && table.whole ? await table.whole(reports, row) : null;
      yield (whole ?? row) as Record<string, unknown>;
    }
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE_LIMIT_MAX) return;
    after = table.key(last);
  }
}
