import { Hono } from 'hono';
import type { z } from 'zod';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import { idFromPath } from '../api/ids.ts';
import { queries } from '../api/query.ts';
import type { OpsContext } from '../context.ts';
import type { Operations } from '../operations.ts';
import type { Snapshots } from '../snapshot.ts';
import { createAnswers } from './answers.tsx';
import { deliveriesList } from './deliveries-page.tsx';
import { eventPage, quarantinedPage, rejectionPage } from './delivery-pages.tsx';
import { eventsList } from './events-page.tsx';
import { createForms } from './forms.ts';
import { type List, listHandlers } from './list-page.tsx';
import { auditList, gapsList, quarantineList, rejectionsList } from './lists.tsx';
import { numberCursor, pageQuery } from './query.ts';
import { recordsPages } from './records-page.tsx';
import { statusPages } from './status-page.tsx';
import { createStream } from './stream.ts';
import { syncRunPage } from './sync-run-page.tsx';
import { createDryRuns, syncRunsPages } from './sync-runs-page.tsx';

/** The addresses of the pages and of their forms. Every request here is already authenticated. */
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
  const answers = createAnswers(context, snapshots);
  const dryRuns = createDryRuns(operations, context);
  const stream = createStream(context, parts.mayGoOn);
  const status = statusPages(context, snapshots, answers);
  const records = recordsPages(context, snapshots, answers);
  const syncRuns = syncRunsPages(context, snapshots, dryRuns, answers);
  const event = eventPage(context, answers);

  const pages = new Hono<OpsEnv>();
  const addList = <Filters extends z.ZodObject, Row>(path: string, list: List<Filters, Row>) => {
    const handlers = listHandlers(path, list, answers);
    pages.get(path, handlers.page);
    pages.get(`/stream${path}`, stream(handlers.stream, handlers.streamQuery));
  };

  pages.get('/', status.page);
  pages.get('/stream', stream(status.stream));
  addList('/deliveries', deliveriesList(context));
  const events = eventsList(context);
  // The filter's form has a field for the id of one event.
  const eventQuery = events.filters.extend({
    after: numberCursor.optional(),
    id: queries.events.shape.record_id.unwrap(),
  });
  pages.get('/events', (c, next) => (c.req.query('id') ? event(c, pageQuery(c, eventQuery).id) : next()));
  addList('/events', events);
  pages.get('/events/:id', (c) => event(c, idFromPath(c.req.param('id'))));
  pages.get('/records/:kind', records.records);
  pages.get('/download/records/:kind', records.download);
  pages.get('/records/:kind/:id', records.record);
  addList('/gaps', gapsList(context));
  pages.get('/sync-runs', syncRuns.page);
  pages.get('/stream/sync-runs', stream(syncRuns.stream));
  pages.get('/sync-runs/:id', syncRunPage(context, answers));
  addList('/quarantine', quarantineList(context));
  pages.get('/quarantine/:id', quarantinedPage(context, answers));
  addList('/rejections', rejectionsList(context));
  pages.get('/rejections/:id', rejectionPage(context, answers));
  addList('/audit', auditList(context));

  for (const [path, handler] of createForms(context, operations, dryRuns)) pages.post(path, handler);
  return pages;
}
