import { OpenAPIHono } from '@hono/zod-openapi';
import { type ListPaging, type NumberedTable, pendingDeletionKey } from '../../store/reports.ts';
import type { OpsEnv } from '../access.ts';
import type { ApiContext } from '../context.ts';
import { answerTo } from '../delivery-answers.ts';
import { pendingBySyncRun } from '../pending-deletions.ts';
import type { Snapshots } from '../snapshot.ts';
import { statusReport } from '../status-report.ts';
import { found, nextKey, notFound } from './answers.ts';
import * as routes from './routes.ts';

/**
 * The reading half of the JSON API. One page looks at a bounded number of rows. So a page of events may be short or empty and
 * still have a `next`; `looked_back_to` then says when the oldest row that it looked at came in.
 */
export function createReads({ store, clock, answerTimes }: ApiContext, snapshots: Snapshots) {
  const listed = async <Name extends NumberedTable>(table: Name, paging: ListPaging) => {
    const items = await store.list(table, paging);
    return { items, next: nextKey(items, paging.limit, ({ id }) => id) };
  };
  const shown = async <Name extends NumberedTable>(table: Name, { id }: { id: number }) =>
    found(await store.show(table, id));

  return new OpenAPIHono<OpsEnv>()
    .openapi(routes.status, async (c) => c.json(statusReport(await snapshots.current()), 200))

    .openapi(routes.listEvents, async (c) => {
      const { limit, after, record_id: recordId, ...filter } = c.req.valid('query');
      return c.json(await store.listEvents({ ...filter, recordId }, { limit, after }), 200);
    })
    .openapi(routes.showEvent, async (c) =>
      c.json(found(await store.showEvent(c.req.valid('param').id)), 200),
    )

    .openapi(routes.listDeliveries, async (c) => {
      const { limit, after, above, ...filter } = c.req.valid('query');
      const page = await store.listDeliveries(filter, { limit, after, above });
      const items = page.items.map((delivery) => {
        const { status: answer, signature } = answerTo(delivery);
        return { ...delivery, answer, answered_in_ms: answerTimes.of(delivery), signature };
      });
      return c.json({ ...page, items }, 200);
    })

    .openapi(routes.listRecords, async (c) => {
      const { limit, after, order, ...filter } = c.req.valid('query');
      return c.json(await store.listRecords(c.req.valid('param').kind, filter, { limit, after, order }), 200);
    })
    .openapi(routes.showRecord, async (c) => {
      const { kind, id } = c.req.valid('param');
      return c.json(found(await store.showRecord(kind, id)), 200);
    })
    .openapi(routes.recordHistory, async (c) => {
      const { kind, id } = c.req.valid('param');
      const page = await store.recordHistory(kind, id, c.req.valid('query'));
      // A record whose history was trimmed has no changes either.
      if (page.items.length === 0 && (await store.showRecord(kind, id)) === null) throw notFound();
      return c.json(page, 200);
    })

    .openapi(routes.listGaps, async (c) => c.json(await listed('gaps', c.req.valid('query')), 200))
    .openapi(routes.listSyncRuns, async (c) => c.json(await listed('sync_runs', c.req.valid('query')), 200))
    .openapi(routes.showSyncRun, async (c) => c.json(await shown('sync_runs', c.req.valid('param')), 200))
    .openapi(routes.listPendingDeletions, async (c) => {
      const { sync_run: syncRunId, ...paging } = c.req.valid('query');
      // The digests need all pending deletions, so only the first page has them.
      const pending =
        paging.after === undefined ? await pendingBySyncRun(store, clock.wall(), syncRunId) : [];
      const items = await store.listPendingDeletions({ syncRunId }, paging);
      const sync_runs = pending.map(({ ids: _, ...counts }) => counts);
      return c.json({ sync_runs, items, next: nextKey(items, paging.limit, pendingDeletionKey) }, 200);
    })
    .openapi(routes.listQuarantine, async (c) =>
      c.json(await listed('quarantine', c.req.valid('query')), 200),
    )
    .openapi(routes.showQuarantined, async (c) =>
      c.json(await shown('quarantine', c.req.valid('param')), 200),
    )
    .openapi(routes.listRejections, async (c) =>
      c.json(await listed('rejections', c.req.valid('query')), 200),
    )
    .openapi(routes.showRejection, async (c) => c.json(await shown('rejections', c.req.valid('param')), 200))
    .openapi(routes.listAudit, async (c) => c.json(await listed('audit', c.req.valid('query')), 200));
}
