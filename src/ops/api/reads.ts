import { OpenAPIHono } from '@hono/zod-openapi';
import * as rows from '../../store/report-rows.ts';
import { type ListPaging, type NumberedTable, recordColumns } from '../../store/reports.ts';
import type { OpsEnv } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { explained } from '../problems.ts';
import { type Snapshots, statusThen } from '../status.ts';
import { answerPage, asksForCsv, found, nextKey, notFound, notKept } from './answers.ts';
import * as routes from './routes.ts';
import * as schemas from './schemas.ts';

/** As the row's declaration names them. */
const columnsOf = ({ shape }: { shape: object }): string[] => Object.keys(shape);

/**
 * The reading half of the JSON API. One page looks at a bounded number of rows. So a page of events may be short or empty and
 * still have a `next`; `looked_back_to` then says when the oldest row that it looked at came in.
 */
export function createReads({ store, clock, configuration, diagnose }: OpsContext, snapshots: Snapshots) {
  const listed = async <Name extends NumberedTable>(table: Name, paging: ListPaging) => {
    const items = await store.list(table, paging);
    return { items, next: nextKey(items, paging.limit, ({ id }) => id) };
  };
  const shown = async <Name extends NumberedTable>(table: Name, { id }: { id: number }) =>
    found(await store.show(table, id));

  /** Of a time that nothing is kept of, an empty list would be untrue. */
  async function requireKept(at: string): Promise<void> {
    const from = (await store.feed()).begins;
    if (from === null || at < from || Date.parse(at) > clock.wall()) {
      const kept = from === null ? 'nothing is known yet' : `what is known begins at ${from}, and ends now`;
      throw notKept(`${at} cannot be told: ${kept}`);
    }
  }

  const api = new OpenAPIHono<OpsEnv>();
  api.openapi(routes.status, async (c) => {
    const { at } = c.req.valid('query');
    if (at === undefined) return c.json((await snapshots.current()).status, 200);
    await requireKept(at);
    const then = await statusThen(store, at);
    if (then === null) throw notKept(`${at} cannot be told: no verdict is kept from then`);
    return c.json(then, 200);
  });
  api.openapi(routes.configuration, async (c) =>
    c.json(await configuration(c.get('identity').role === 'operate'), 200),
  );
  api.openapi(routes.listDeliveries, async (c) => {
    const { limit, after, record_id: recordId, ...filter } = c.req.valid('query');
    const { newest: _, ...page } = await store.listDeliveries({ ...filter, recordId }, { limit, after });
    return answerPage(c, page, columnsOf(rows.delivery));
  });
  api.openapi(routes.showDelivery, async (c) => {
    const delivery = found(await store.showDelivery(c.req.valid('param').id));
    const diagnosis = delivery.outcome === 'rejected' ? await diagnose(delivery) : null;
    return c.json({ ...delivery, diagnosis }, 200);
  });
  api.openapi(routes.listRecords, async (c) => {
    const { limit, after, typed, ...filter } = c.req.valid('query');
    const { kind } = c.req.valid('param');
    if (filter.at !== undefined) await requireKept(filter.at);
    const page = await store.listRecords(kind, filter, { limit, after });
    if (!(typed ?? asksForCsv(c))) return answerPage(c, page, recordColumns(kind));
    const ids = page.items.map(({ id }) => id);
    const { columns, values } = await store.typedColumns(kind, ids, filter.at);
    const byId = new Map(values.map((row) => [row.id, row]));
    const items = page.items.map((record) => ({ ...byId.get(record.id), ...record }));
    return answerPage(c, { ...page, items }, [...recordColumns(kind), ...columns]);
  });
  api.openapi(routes.listView, async (c) => {
    const { view } = c.req.valid('param');
    const { limit, after } = c.req.valid('query');
    const items = await store.list(view, { limit, after });
    const next = items.length < limit ? null : String(Number(after ?? 0) + limit);
    return answerPage(c, { items, next }, Object.keys(items[0] ?? {}));
  });
  api.openapi(routes.showRecord, async (c) => {
    const { kind, id } = c.req.valid('param');
    return c.json(found(await store.showRecord(kind, id)), 200);
  });
  api.openapi(routes.recordHistory, async (c) => {
    const { kind, id } = c.req.valid('param');
    const page = await store.recordHistory(kind, id, c.req.valid('query'));
    // A record whose history was trimmed has no changes either.
    if (page.items.length === 0 && (await store.showRecord(kind, id)) === null) throw notFound();
    return answerPage(c, page, columnsOf(rows.change));
  });
  api.openapi(routes.listProblems, async (c) => {
    const { state, ...paging } = c.req.valid('query');
    const open = state === 'all' ? undefined : state === 'open';
    const page = await listed('problems', { ...paging, open });
    return answerPage(c, { ...page, items: page.items.map(explained) }, columnsOf(schemas.problem));
  });
  api.openapi(routes.listSyncs, async (c) =>
    answerPage(c, await listed('sync_runs', c.req.valid('query')), columnsOf(rows.syncRun)),
  );
  api.openapi(routes.showSync, async (c) => c.json(await shown('sync_runs', c.req.valid('param')), 200));
  api.openapi(routes.listAudit, async (c) =>
    answerPage(c, await listed('audit', c.req.valid('query')), columnsOf(rows.auditEntry)),
  );
  return api;
}
