import { Hono } from 'hono';
import type { Child } from 'hono/jsx';
import type { z } from 'zod';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import type { Operations } from '../api/changes.ts';
import { idFromPath } from '../api/ids.ts';
import { numberCursor, queries } from '../api/query.ts';
import { waitingIn } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import { createDryRuns } from '../dry-runs.ts';
import type { Snapshots } from '../snapshot.ts';
import { createCharts } from '../traffic.ts';
import { deliveriesList } from './deliveries-page.tsx';
import { eventPage, quarantinedPage, rejectionPage } from './delivery-pages.tsx';
import { eventsList } from './events-page.tsx';
import { createForms, type Outcome, takeOutcome } from './forms.ts';
import { fragment, type PageName, Pages, page } from './layout.tsx';
import { type List, listHandlers } from './list-page.tsx';
import { auditList, gapsList, quarantineList, rejectionsList } from './lists.tsx';
import type { Visit } from './pieces.tsx';
import { pageQuery } from './query.ts';
import { recordPage } from './record-page.tsx';
import { recordsDownload, recordsPage } from './records-page.tsx';
import { statusPage, statusStream } from './status-page.tsx';
import { createStream } from './stream.ts';
import { syncRunPage } from './sync-run-page.tsx';
import { syncRunsPage, syncRunsStream } from './sync-runs-page.tsx';

/**
 * The addresses of the pages and of their forms. A page is a function from a request to its content; this file makes the
 * answer. Every request here is already authenticated.
 */
export function createPages(
  context: OpsContext,
  parts: {
    operations: Operations;
    snapshots: Snapshots;
    /** Whether the reader of an open page may still see it. */
    mayGoOn: (c: OpsHandlerContext) => Promise<boolean>;
  },
): Hono<OpsEnv> {
  const { operations, snapshots } = parts;
  const dryRuns = createDryRuns(operations, context);
  const sources = { ...context, snapshots, dryRuns, charts: createCharts(context) };
  const stream = createStream(context, parts.mayGoOn);
  const pages = new Hono<OpsEnv>();

  const visit = async (c: OpsHandlerContext, outcome: Outcome | null): Promise<Visit> => {
    const waiting = waitingIn(await snapshots.current());
    return { identity: c.get('identity'), now: context.clock.wall(), outcome, waiting };
  };
  const html = async (c: OpsHandlerContext, content: Child): Promise<Response> =>
    c.html(page(content, await visit(c, takeOutcome(c, context.publicUrl))));

  const addPage = (path: string, contentOf: (c: OpsHandlerContext) => Promise<Child>) =>
    pages.get(path, async (c) => html(c, await contentOf(c)));
  /** What a page's stream sends: the parts that change, and the navigation with its counts. */
  const addStream = (
    path: string,
    current: PageName,
    start: (c: OpsHandlerContext) => () => Promise<Child>,
  ) => {
    const startSending = (c: OpsHandlerContext) => {
      const partsOf = start(c);
      return async (): Promise<string> => {
        const all = (
          <>
            {await partsOf()}
            <Pages current={current} />
          </>
        );
        return fragment(all, await visit(c, null));
      };
    };
    pages.get(path, stream(startSending));
  };
  const addList = <Filters extends z.ZodObject, Row>(path: string, list: List<Filters, Row>) => {
    const handlers = listHandlers(path, list);
    addPage(path, handlers.page);
    addStream(`/stream${path}`, list.name, handlers.stream);
  };

  addPage('/', (c) => statusPage(sources, c));
  addStream('/stream', 'Status', (c) => () => statusStream(sources, c));
  addList('/deliveries', deliveriesList(context));
  const events = eventsList(context);
  // With the id of an event, the filter leads to that event.
  const eventQuery = events.filters.extend({
    after: numberCursor.optional(),
    id: queries.events.shape.record_id.unwrap(),
  });
  pages.get('/events', async (c, next) =>
    c.req.query('id') ? html(c, await eventPage(context, pageQuery(c, eventQuery).id)) : await next(),
  );
  addList('/events', events);
  addPage('/events/:id', (c) => eventPage(context, idFromPath(c.req.param('id') ?? '')));
  addPage('/records/:kind', (c) => recordsPage(sources, c));
  pages.get('/download/records/:kind', (c) => recordsDownload(context, c));
  addPage('/records/:kind/:id', (c) => recordPage(context, c));
  addList('/gaps', gapsList(context));
  addPage('/sync-runs', (c) => syncRunsPage(sources, c));
  addStream('/stream/sync-runs', 'Sync runs', (c) => () => syncRunsStream(sources, c));
  addPage('/sync-runs/:id', (c) => syncRunPage(context, c));
  addList('/quarantine', quarantineList(context));
  addPage('/quarantine/:id', (c) => quarantinedPage(context, c));
  addList('/rejections', rejectionsList(context));
  addPage('/rejections/:id', (c) => rejectionPage(context, c));
  addList('/audit', auditList(context));

  for (const [path, handler] of createForms(context, operations, dryRuns)) pages.post(path, handler);
  return pages;
}
