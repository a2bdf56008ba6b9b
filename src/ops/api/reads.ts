import type { z } from 'zod';
import { isKind, type Kind } from '../../compliance/kinds.ts';
import { problem } from '../../platform/problem.ts';
import { pendingDeletionKey } from '../../store/reports.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { pendingBySyncRun } from '../deletions.ts';
import type { Snapshots } from '../snapshot.ts';
import { statusReport } from '../status-report.ts';
import { parseQuery, queries } from './query.ts';

type Handler = (c: OpsHandlerContext) => Promise<Response>;

/**
 * The reading half of the JSON API. Lists answer `{items, next}`; `next` is what `after` takes for the following
 * page, and null on the last. A page of events may be short, or empty, and still have a next: then it ended at the most
 * rows that one page looks at, and `looked_back_to` says when the oldest of those came in.
 */
export function createApi({ store, clock }: Pick<OpsContext, 'store' | 'clock'>, snapshots: Snapshots) {
  const byNumber =
    <T>(
      read: (paging: { limit: number; after?: string | undefined }) => Promise<T[]>,
      key: (row: T) => unknown,
    ): Handler =>
    (c) =>
      list(c, queries.byNumber, (query) => read(query), key);

  return {
    status: async (c) => c.json(statusReport(await snapshots.current())),

    async events(c) {
      const query = parseQuery(c, queries.events);
      if (!query.ok) return query.response;
      const { limit, after, record_id, ...filter } = query.value;
      return c.json(await store.listEvents({ ...filter, recordId: record_id }, { limit, after }));
    },
    event: async (c) => found(c, await store.showEvent(idParam(c))),

    records: (c) =>
      withKind(c, (kind) =>
        list(
          c,
          queries.records,
          ({ limit, after, ...filter }) => store.listRecords(kind, filter, { limit, after }),
          (record) => record.id,
        ),
      ),
    record: (c) => withKind(c, async (kind) => found(c, await store.showRecord(kind, idParam(c)))),
    history: (c) =>
      withKind(c, async (kind) => {
        const query = parseQuery(c, queries.byNumber);
        if (!query.ok) return query.response;
        const id = idParam(c);
        const changes = await store.recordHistory(kind, id, query.value);
        // A record whose history has been trimmed has none either.
        if (changes.length === 0 && (await store.showRecord(kind, id)) === null) return notFound();
        return listed(c, changes, query.value.limit, (change) => change.seq);
      }),

    gaps: (c) =>
      list(
        c,
        queries.gaps,
        ({ limit, after, open }) => store.listGaps({ open }, { limit, after }),
        (gap) => gap.id,
      ),
    syncRuns: byNumber(store.listSyncRuns.bind(store), (fullSync) => fullSync.id),
    fullSync: async (c) => {
      const id = numberParam(c);
      return found(c, id === null ? null : await store.showSyncRun(id));
    },
    deletions: async (c) => {
      const query = parseQuery(c, queries.deletions);
      if (!query.ok) return query.response;
      const { sync_run: syncRunId, limit, after } = query.value;
      const pending = await pendingBySyncRun(store, clock.wall(), syncRunId);
      const items = await store.listPendingDeletions({ syncRunId }, { limit, after });
      return c.json({
        sync_runs: pending.map(({ syncRunId: sync_run_id, kind, waiting, approved, digest }) => ({
          ...{ sync_run_id, kind, waiting, approved, digest },
        })),
        ...pageOf(items, limit, pendingDeletionKey),
      });
    },
    quarantine: byNumber(store.listQuarantine.bind(store), (delivery) => delivery.id),
    quarantined: async (c) => {
      const id = numberParam(c);
      return found(c, id === null ? null : await store.showQuarantined(id));
    },
    rejections: byNumber(store.listRejections.bind(store), (rejection) => rejection.id),
    rejection: async (c) => {
      const id = numberParam(c);
      return found(c, id === null ? null : await store.showRejection(id));
    },
    audit: byNumber(store.listAudit.bind(store), (entry) => entry.id),
  } satisfies Record<string, Handler>;
}

async function list<Schema extends z.ZodType<{ limit: number }>, Row>(
  c: OpsHandlerContext,
  schema: Schema,
  read: (query: z.output<Schema>) => Promise<Row[]>,
  key: (row: Row) => unknown,
): Promise<Response> {
  const query = parseQuery(c, schema);
  if (!query.ok) return query.response;
  return listed(c, await read(query.value), query.value.limit, key);
}

function listed<Row>(
  c: OpsHandlerContext,
  items: Row[],
  limit: number,
  key: (row: Row) => unknown,
): Response {
  return c.json(pageOf(items, limit, key));
}

function pageOf<Row>(items: Row[], limit: number, key: (row: Row) => unknown) {
  const last = items.length < limit ? undefined : items.at(-1);
  return { items, next: last === undefined ? null : String(key(last)) };
}

export async function withKind(
  c: OpsHandlerContext,
  then: (kind: Kind) => Promise<Response>,
): Promise<Response> {
  const kind = c.req.param('kind') ?? '';
  return isKind(kind)
    ? then(kind)
    : problem(404, 'unknown_kind', 'There is no such kind.', 'Kinds are policy, risk_assessment and vendor.');
}

/** An event's or a record's id: any text, percent-encoded in the path. */
export function idParam(c: OpsHandlerContext): string {
  return c.req.param('id') ?? '';
}

/** The id of a row that the database numbered; null when it cannot be one. */
export function numberParam(c: OpsHandlerContext): number | null {
  const text = idParam(c);
  return /^[1-9]\d{0,14}$/.test(text) ? Number(text) : null;
}

export function notFound(): Response {
  return problem(404, 'not_found', 'There is no such thing here.');
}

function found(c: OpsHandlerContext, report: object | null): Response {
  return report === null ? notFound() : c.json(report);
}
