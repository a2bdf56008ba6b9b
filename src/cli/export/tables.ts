import { setTimeout as sleep } from 'node:timers/promises';
import type { Kind } from '../../compliance/kinds.ts';
import { type ApiClient, answered, at, found } from '../../ops/api/client.ts';
import { MirrorError } from '../../platform/errors.ts';
import { PAGE_LIMIT_MAX, type Paging, type Period, recordColumns } from '../../store/reports.ts';

/** How long one request for changes waits until there are some. Seconds. */
const WAIT_SECONDS = 10;
/** After which a request that waits is given up. Milliseconds. */
const WAIT_TIMEOUT_MS = 2 * WAIT_SECONDS * 1000;
/** Pause before a service that is gone is asked again, as while it restarts. Milliseconds. */
const AGAIN_MS = 1_000;

interface Page {
  items: object[];
  next: string | null;
}

type Rows = typeof import('../../store/report-rows.ts');

export interface ExportedTable {
  /** As in the database, in the order of the columns there. */
  columns(): Promise<readonly string[]>;
  read(api: ApiClient, query: Paging & Pick<Period, 'since'>): Promise<Page>;
  /** In the order of time, so that a part of it can be asked for. */
  byTime?: true;
  /** The key that the first page comes after, where older rows have been trimmed. */
  start?(api: ApiClient): Promise<string | undefined>;
  /** About how many rows there are, where that is known without counting them. */
  total?(api: ApiClient): Promise<number>;
  /** Whole rows, where lists leave a body out. */
  whole?(api: ApiClient, row: object): Promise<object | null>;
}

function recordsOf(kind: Kind): ExportedTable {
  return {
    columns: async () => recordColumns(kind),
    read: (api, query) => answered(api.records[':kind'].$get({ param: { kind }, query })),
    async total(api) {
      const counts = (await answered(api.status.$get())).kinds?.find((one) => one.kind === kind);
      return (counts?.records ?? 0) + (counts?.deleted ?? 0);
    },
  };
}

/** `row` names the declaration of its rows, which is loaded when it is needed: help should not cost it. */
function byTime(
  row: { [Name in keyof Rows]: Rows[Name] extends { shape: object } ? Name : never }[keyof Rows],
  read: ExportedTable['read'],
  more: Pick<ExportedTable, 'start' | 'total' | 'whole'> = {},
): ExportedTable {
  const columns = async () => Object.keys((await import('../../store/report-rows.ts'))[row].shape);
  return { columns, read, byTime: true, ...more };
}

const idOf = (row: object) => at((row as { id: string | number }).id);

/** The tables that users read, by their names. */
export const EXPORTED_TABLES: Readonly<Record<string, ExportedTable>> = {
  policies: recordsOf('policy'),
  risk_assessments: recordsOf('risk_assessment'),
  vendors: recordsOf('vendor'),
  changes: byTime(
    'change',
    async (api, query) => {
      const { items, next } = await answered(api.changes.$get({ query }));
      return { items, next: items.length < query.limit ? null : next };
    },
    {
      start: async (api) => {
        const { trimmed } = await answered(api.snapshot.$get({ query: { limit: 1 } }));
        return trimmed === null ? undefined : String(trimmed.through);
      },
    },
  ),
  events: byTime('event', (api, query) => answered(api.events.$get({ query })), {
    async total(api) {
      const { events } = await answered(api.status.$get());
      return Object.values(events ?? {}).reduce((sum, count) => sum + count, 0);
    },
    whole: (api, row) => found(api.events[':id'].$get(idOf(row))),
  }),
  gaps: byTime('gap', (api, query) => answered(api.gaps.$get({ query }))),
  sync_runs: byTime('syncRun', (api, query) => answered(api['sync-runs'].$get({ query }))),
  quarantine: byTime('quarantined', (api, query) => answered(api.quarantine.$get({ query })), {
    whole: (api, row) => found(api.quarantine[':id'].$get(idOf(row))),
  }),
  rejections: byTime('rejection', (api, query) => answered(api.rejections.$get({ query })), {
    whole: (api, row) => found(api.rejections[':id'].$get(idOf(row))),
  }),
  audit: byTime('auditEntry', (api, query) => answered(api.audit.$get({ query }))),
};

/** Every row, a page in memory at a time. What is written meanwhile may or may not be among them. */
export async function* rowsOf(
  table: ExportedTable,
  api: ApiClient,
  options: { bodies: boolean; since?: string | undefined },
): AsyncGenerator<Record<string, unknown>> {
  const { since } = options;
  for (let after = since === undefined ? await table.start?.(api) : undefined; ; ) {
    const { items, next } = await table.read(api, { limit: PAGE_LIMIT_MAX, after, since });
    for (const row of items) {
      const whole = options.bodies && table.whole ? await table.whole(api, row) : null;
      yield (whole ?? row) as Record<string, unknown>;
    }
    if (next === null) return;
    after = next;
  }
}

/** Every change, oldest first, and those that are made while it waits, until `signal` aborts. */
export async function* changesAsTheyCome(
  api: ApiClient,
  { since, signal }: { since: string | undefined; signal: AbortSignal },
): AsyncGenerator<Record<string, unknown>> {
  const { start } = EXPORTED_TABLES['changes']!;
  for (let after = since === undefined ? await start?.(api) : undefined; !signal.aborted; ) {
    const query = { limit: PAGE_LIMIT_MAX, after, since: after === undefined ? since : undefined };
    const init = { signal: AbortSignal.any([signal, AbortSignal.timeout(WAIT_TIMEOUT_MS)]) };
    try {
      const page = await answered(api.changes.$get({ query: { ...query, wait: WAIT_SECONDS } }, { init }));
      yield* page.items as unknown as Record<string, unknown>[];
      after = page.next;
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof MirrorError) || !error.retryable) throw error;
      await sleep(AGAIN_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}
