import { Hono } from 'hono';
import type { OpsEnv, OpsHandlerContext } from '../access.ts';
import { waitingIn } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import type { Operations } from '../operations.ts';
import { createCharts, isRange } from '../series.ts';
import type { Snapshots } from '../snapshot.ts';
import { createDryRuns } from './dry-runs.ts';
import { createForms, TICKED_PATH } from './forms.ts';
import { fragment, Pages, page } from './layout.tsx';
import { createListPages } from './lists.tsx';
import { pageQueries } from './query.ts';
import { StatusPage, StatusParts } from './status-page.tsx';
import { createStream } from './stream.ts';

/** What people look at, and what their buttons post. Who asks is known before a request comes here. */
export function createPages(
  context: OpsContext,
  parts: {
    operations: Operations;
    snapshots: Snapshots;
    /** Whether who opened a page may still see it change. */
    mayGoOn: (c: OpsHandlerContext) => Promise<boolean>;
  },
): Hono<OpsEnv> {
  const { operations, snapshots } = parts;
  const dryRuns = createDryRuns(operations, context);
  const lists = createListPages(context, snapshots, dryRuns);
  const forms = createForms(context, operations, dryRuns);
  const stream = createStream(context, parts.mayGoOn);
  const charts = createCharts(context);
  const status = async (c: OpsHandlerContext) => {
    const asked = c.req.query('range') ?? '';
    const range = isRange(asked) ? asked : 'hour';
    const [snapshot, series] = await Promise.all([snapshots.current(), charts(range)]);
    const waiting = waitingIn(snapshot);
    return {
      view: { snapshot, traffic: { range, series } },
      visit: { identity: c.get('identity'), now: snapshot.at, notice: null, waiting },
    };
  };

  const pages = new Hono<OpsEnv>();
  pages.get('/', async (c) => {
    const { view, visit } = await status(c);
    return c.html(page(<StatusPage {...view} />, visit));
  });
  pages.get(
    '/stream',
    stream(async (c) => {
      const { view, visit } = await status(c);
      const parts = (
        <>
          <StatusParts {...view} />
          <Pages current="Status" />
        </>
      );
      return fragment(parts, visit);
    }),
  );
  pages.get('/deliveries', lists.deliveries);
  pages.get('/stream/deliveries', stream(lists.newDeliveries, pageQueries.newDeliveries));
  pages.get('/events', lists.events);
  pages.get('/stream/events', stream(lists.newEvents, pageQueries.newEvents));
  pages.get('/events/:id', lists.event);
  pages.get('/records/:kind', lists.records);
  pages.get('/download/records/:kind', lists.download);
  pages.get('/records/:kind/:id', lists.record);
  pages.get('/gaps', lists.gaps);
  pages.get('/stream/gaps', stream(lists.newGaps, pageQueries.newRows));
  pages.get('/sync-runs', lists.syncRuns);
  pages.get('/stream/sync-runs', stream(lists.syncRunsParts));
  pages.get('/sync-runs/:id', lists.syncRun);
  pages.get('/quarantine', lists.quarantine);
  pages.get('/stream/quarantine', stream(lists.newQuarantined, pageQueries.newRows));
  pages.get('/quarantine/:id', lists.quarantined);
  pages.get('/rejections', lists.rejections);
  pages.get('/stream/rejections', stream(lists.newRejections, pageQueries.newRows));
  pages.get('/rejections/:id', lists.rejection);
  pages.get('/audit', lists.audit);

  pages.post('/actions/sync', forms.fullSync);
  pages.post('/actions/retry', forms.retryWithoutRecord);
  pages.post('/actions/sync-runs', forms.syncRuns);
  pages.post('/actions/pause', forms.pause);
  pages.post('/actions/resume', forms.resume);
  pages.post(TICKED_PATH, forms.events);
  pages.post('/actions/refetch', forms.refetch);
  pages.post('/actions/release', forms.release);
  pages.post('/actions/approve-deletions', forms.approveDeletions);
  pages.post('/actions/resolve-gap', forms.resolveGap);
  return pages;
}
