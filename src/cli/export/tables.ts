import type { Kind } from '../../compliance/kinds.ts';
import { type ApiClient, answered, at, found } from '../../ops/api/client.ts';
import { PAGE_LIMIT_MAX } from '../../store/reports.ts';

interface Page {
  items: object[];
  next: string | null;
}

export interface ExportedTable {
  /** As in the database, in the order of the columns there. */
  columns: readonly string[];
  read(api: ApiClient, query: { limit: number; after?: string | undefined }): Promise<Page>;
  /** What the first page goes on behind, where it is not the first row that ever was. */
  start?(api: ApiClient): Promise<string | undefined>;
  /** About how many rows there are, where that is known without counting them. */
  total?(api: ApiClient): Promise<number>;
  /** Whole rows, where lists leave a body out. */
  whole?(api: ApiClient, row: object): Promise<object | null>;
}

const record = (columns: readonly string[]) => [
  ...columns,
  ...['status', 'data', 'first_seen_at', 'synced_at', 'verified_at', 'unverified_since', 'deleted_at'],
  ...['last_event_id', 'last_event_at', 'cause'],
];

function recordsOf(kind: Kind, columns: readonly string[]): ExportedTable {
  return {
    columns: record(columns),
    read: (api, query) => answered(api.records[':kind'].$get({ param: { kind }, query })),
    async total(api) {
      const counts = (await answered(api.status.$get())).kinds?.find((one) => one.kind === kind);
      return (counts?.records ?? 0) + (counts?.deleted ?? 0);
    },
  };
}

/** The tables that users read, by their names. */
export const EXPORTED_TABLES: Readonly<Record<string, ExportedTable>> = {
  policies: recordsOf('policy', ['id', 'name', 'version']),
  risk_assessments: recordsOf('risk_assessment', ['id', 'name']),
  vendors: recordsOf('vendor', ['id', 'name']),
  changes: {
    columns: ['seq', 'kind', 'record_id', 'operation', 'before', 'after', 'cause', 'at'],
    async read(api, { limit, after = '0' }) {
      const page = await answered(api.changes.$get({ query: { limit, after } }));
      return { items: page.items, next: page.items.length < limit ? null : page.next };
    },
    start: async (api) => {
      const { trimmed } = await answered(api.snapshot.$get({ query: { limit: 1 } }));
      return trimmed === null ? undefined : String(trimmed.through);
    },
  },
  events: {
    columns: [
      ...['seq', 'id', 'type', 'created', 'kind', 'record_id', 'received_at', 'deliveries'],
      ...['last_delivered_at', 'state', 'attempts', 'next_attempt_at', 'processed_at', 'error', 'body'],
    ],
    read: (api, query) => answered(api.events.$get({ query })),
    async total(api) {
      const { events } = await answered(api.status.$get());
      return Object.values(events ?? {}).reduce((sum, count) => sum + count, 0);
    },
    whole: (api, row) => found(api.events[':id'].$get(at((row as { id: string }).id))),
  },
  gaps: {
    columns: ['id', 'kind', 'record_id', 'reason', 'opened_at', 'resolved_at', 'attempts', 'error'],
    read: (api, query) => answered(api.gaps.$get({ query })),
  },
  sync_runs: {
    columns: [
      ...['id', 'kind', 'reason', 'started_at', 'finished_at', 'pages', 'seen', 'inserted', 'updated'],
      ...['deleted', 'unchanged', 'outcome', 'error', 'differences'],
    ],
    read: (api, query) => answered(api['sync-runs'].$get({ query })),
  },
  quarantine: {
    columns: ['id', 'received_at', 'reason', 't', 'body_sha256', 'released_at', 'body', 'body_base64'],
    read: (api, query) => answered(api.quarantine.$get({ query })),
    whole: (api, row) => found(api.quarantine[':id'].$get(at((row as { id: number }).id))),
  },
  rejections: {
    columns: ['id', 'at', 'reason', 't', 'bytes', 'body_sha256', 'header', 'body', 'body_base64'],
    read: (api, query) => answered(api.rejections.$get({ query })),
    whole: (api, row) => found(api.rejections[':id'].$get(at((row as { id: number }).id))),
  },
  audit: {
    columns: ['id', 'at', 'actor', 'action', 'outcome', 'target'],
    read: (api, query) => answered(api.audit.$get({ query })),
  },
};

/** Every row, a page in memory at a time. What is written meanwhile may or may not be among them. */
export async function* rowsOf(
  table: ExportedTable,
  api: ApiClient,
  options: { bodies: boolean },
): AsyncGenerator<Record<string, unknown>> {
  for (let after = await table.start?.(api); ; ) {
    const { items, next } = await table.read(api, { limit: PAGE_LIMIT_MAX, after });
    for (const row of items) {
      const whole = options.bodies && table.whole ? await table.whole(api, row) : null;
      yield (whole ?? row) as Record<string, unknown>;
    }
    if (next === null) return;
    after = next;
  }
}
