import { OpenAPIHono } from '@hono/zod-openapi';
import * as rows from '../../store/report-rows.ts';
import { recordColumns } from '../../store/reports.ts';
import type { OpsEnv } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { explained } from '../problems.ts';
import { type Snapshots, statusThen } from '../status.ts';
import { answerPage, asksForCsv, found, notFound, notKept } from './answers.ts';
import * as routes from './routes.ts';
import * as schemas from './schemas.ts';

/** As the row's declaration names them. */
const columnsOf = ({ shape }: { shape: object }): string[] => Object.keys(shape);

/**
 * The reading half of the JSON API. One page looks at a bounded number of rows. So a page of events may be short or empty and
 * still have a `next`; `looked_back_to` then says when the oldest row that it looked at came in.
 */
export function createReads({ store, clock, configuration, diagnose }: OpsContext, snapshots: Snapshots) {
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
    const page = await store.list('deliveries', c.req.valid('query'));
    return answerPage(c, page, columnsOf(rows.delivery));
  });
  api.openapi(routes.showDelivery, async (c) => {
    const delivery = found(await store.show('deliveries', c.req.valid('param').id));
    const diagnosis = delivery.outcome === 'rejected' ? await diagnose(delivery) : null;
    return c.json({ ...delivery, diagnosis }, 200);
  });
  api.openapi(routes.listRecords, async (c) => {
    const { typed = asksForCsv(c), ...query } = c.req.valid('query');
    const { kind } = c.req.valid('param');
    if (query.at !== undefined) await requireKept(query.at);
    const { columns, ...page } = await store.list('records', { ...query, kind, typed });
    return answerPage(c, page, [...recordColumns(kind), ...columns]);
  });
  api.openapi(routes.listView, async (c) => {
    const page = await store.list(c.req.valid('param').view, c.req.valid('query'));
    return answerPage(c, page, Object.keys(page.items[0] ?? {}));
  });
  api.openapi(routes.showRecord, async (c) => {
    return c.json(found(await store.show('records', c.req.valid('param'))), 200);
  });
  api.openapi(routes.recordHistory, async (c) => {
    const { kind, id } = c.req.valid('param');
    const page = await store.list('changes', { ...c.req.valid('query'), kind, record_id: id });
    // A record whose history was trimmed has no changes either.
    if (page.items.length === 0 && (await store.show('records', { kind, id })) === null) throw notFound();
    return answerPage(c, page, columnsOf(rows.change));
  });
  api.openapi(routes.listProblems, async (c) => {
    const { state, ...query } = c.req.valid('query');
    const open = state === 'all' ? undefined : state === 'open';
    const page = await store.list('problems', { ...query, open });
    return answerPage(c, { ...page, items: page.items.map(explained) }, columnsOf(schemas.problem));
  });
  api.openapi(routes.listSyncs, async (c) =>
    answerPage(c, await store.list('sync_runs', c.req.valid('query')), columnsOf(rows.syncRun)),
  );
  api.openapi(routes.showSync, async (c) =>
    c.json(found(await store.show('sync_runs', c.req.valid('param').id)), 200),
  );
  api.openapi(routes.listAudit, async (c) =>
    answerPage(c, await store.list('audit', c.req.valid('query')), columnsOf(rows.auditEntry)),
  );
  return api;
}
