import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { describeError, MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { problem } from '../platform/problem.ts';
import { createAccess, type OpsEnv } from './access.ts';
import { createApiChanges } from './api/changes.ts';
import { openApiDocument } from './api/document.ts';
import { createFeed } from './api/feed.ts';
import { createApi, notFound } from './api/reads.ts';
import { createAuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';
import { securityHeaders } from './headers.ts';
import { createReadiness } from './health.ts';
import { ownHosts } from './hosts.ts';
import { createOperations } from './operations.ts';
import { script, serveAsset, styleSheet } from './pages/assets.ts';
import { createDryRuns } from './pages/dry-runs.ts';
import { createForms, TICKED_BYTES, TICKED_PATH } from './pages/forms.ts';
import { createListPages } from './pages/lists.tsx';
import { problemPages } from './pages/problems.tsx';
import { createPages } from './pages/sign-in.tsx';
import { createStream } from './pages/stream.ts';
import { scrape } from './prometheus.ts';
import { createSnapshots } from './snapshot.ts';

/** Enough for every form and JSON body but one, whose size follows from its own limits. */
const MAX_BODY_BYTES = 32 * 1024;

/**
 * The operators' listener: every route, in the order in which requests meet them. What stands below `identify`
 * is denied without a token, whatever it is and however it is spelled, because nothing is reached but through it.
 */
export function createOps(context: OpsContext): Hono<OpsEnv> {
  const audit = createAuditLog(context);
  const access = createAccess(context, audit);
  const snapshots = createSnapshots(context);
  const operations = createOperations(context, audit);
  const ready = createReadiness(context);
  const dryRuns = createDryRuns(operations, context);
  const pages = createPages(access, snapshots);
  const lists = createListPages(context, snapshots, dryRuns);
  const forms = createForms(context, operations, dryRuns);
  const api = createApi(context, snapshots);
  const changes = createApiChanges(operations);
  const feed = createFeed(context);
  const stream = createStream(context, access.stillSignedIn);

  const app = new Hono<OpsEnv>();

  app.onError((error) => {
    const { logger, lines } = context;
    const reason = error instanceof MirrorError ? error.code : null;
    if (lines.admits(logger, 'error', 'operators’ request failed', { outcome: 'failed', reason }))
      logger.error({ outcome: 'failed', error: describeError(error) }, 'operators’ request failed');
    if (error instanceof StoreUnavailable) {
      return problem(503, error.code, 'The database cannot be used now.', error.remedy, {
        'retry-after': '5',
      });
    }
    return problem(500, 'internal_error', 'Something went wrong here.', 'The log says what.');
  });
  app.use(securityHeaders(context.publicUrl));
  app.use(problemPages(context));
  app.use(methodNotAllowed({ app, onMethodNotAllowed: notTaken }));
  const limited = (maxSize: number) =>
    bodyLimit({ maxSize, onError: () => problem(413, 'too_large', 'The body is too large.') });
  const [small, ticked] = [limited(MAX_BODY_BYTES), limited(MAX_BODY_BYTES + TICKED_BYTES)];
  app.use((c, next) => (c.req.path === TICKED_PATH ? ticked(c, next) : small(c, next)));

  // ─── open to anyone ───
  app.get('/livez', (c) => c.json({ status: 'live' }));
  app.get('/readyz', async (c) => {
    const readiness = await ready();
    return readiness.ready
      ? c.json({ status: 'ready' })
      : c.json({ status: 'not_ready', reason: readiness.reason }, 503);
  });

  // ─── open to anyone who came under a name of ours ───
  app.use(ownHosts(context));
  app.get('/sign-in', pages.signInForm);
  app.post('/sign-in', pages.signIn);
  app.get(styleSheet.path, serveAsset(styleSheet));
  app.get(script.path, serveAsset(script));

  // ─── with a token of either role ───
  app.use(access.identify);
  app.post('/sign-out', pages.signOut);

  // ─── reading with either role, changing with `operate` ───
  app.use(access.operateToChange);
  app.use(async (c, next) => {
    await next();
    if (c.req.method === 'POST') snapshots.forget();
  });
  app.get('/', pages.status);
  app.get('/stream', stream(pages.statusParts));
  app.get('/events', lists.events);
  app.get('/events/:id', lists.event);
  app.get('/records/:kind', lists.records);
  app.get('/records/:kind/:id', lists.record);
  app.get('/gaps', lists.gaps);
  app.get('/sync-runs', lists.syncRuns);
  app.get('/stream/sync-runs', stream(lists.syncRunsParts));
  app.get('/sync-runs/:id', lists.syncRun);
  app.get('/quarantine', lists.quarantine);
  app.get('/quarantine/:id', lists.quarantined);
  app.get('/rejections', lists.rejections);
  app.get('/rejections/:id', lists.rejection);
  app.get('/audit', lists.audit);
  app.get('/metrics', async () => {
    // What the process itself knows costs nothing to ask for again.
    const snapshot = { ...(await snapshots.current()), live: context.facts() };
    return await scrape(context.metrics, snapshot, context.store);
  });

  app.post('/actions/sync', forms.fullSync);
  app.post('/actions/retry', forms.retryWithoutRecord);
  app.post('/actions/sync-runs', forms.syncRuns);
  app.post('/actions/pause', forms.pause);
  app.post('/actions/resume', forms.resume);
  app.post(TICKED_PATH, forms.events);
  app.post('/actions/refetch', forms.refetch);
  app.post('/actions/release', forms.release);
  app.post('/actions/approve-deletions', forms.approveDeletions);
  app.post('/actions/resolve-gap', forms.resolveGap);

  app.get('/openapi.json', (c) =>
    c.json(
      openApiDocument({
        version: context.facts().version,
        origin: context.publicUrl?.origin ?? new URL(c.req.url).origin,
      }),
    ),
  );
  app.get('/api/status', api.status);
  app.get('/api/events', api.events);
  app.get('/api/events/:id', api.event);
  app.get('/api/records/:kind', api.records);
  app.get('/api/records/:kind/:id', api.record);
  app.get('/api/records/:kind/:id/history', api.history);
  app.get('/api/changes', feed.changes);
  app.get('/api/snapshot', feed.snapshot);
  app.get('/api/gaps', api.gaps);
  app.get('/api/sync-runs', api.syncRuns);
  app.get('/api/sync-runs/:id', api.fullSync);
  app.get('/api/deletions', api.deletions);
  app.get('/api/quarantine', api.quarantine);
  app.get('/api/quarantine/:id', api.quarantined);
  app.get('/api/rejections', api.rejections);
  app.get('/api/rejections/:id', api.rejection);
  app.get('/api/audit', api.audit);

  app.post('/api/events/retry', changes.retryEvents);
  app.post('/api/events/:id/retry', changes.retryEvent);
  app.post('/api/events/:id/discard', changes.discardEvent);
  app.post('/api/sync-runs', changes.fullSync);
  app.post('/api/deletions/approve', changes.approveDeletions);
  app.post('/api/records/:kind/:id/refetch', changes.refetch);
  app.post('/api/quarantine/:id/release', changes.releaseQuarantined);
  app.post('/api/gaps/:id/resolve', changes.resolveGap);
  app.post('/api/pause', changes.pause);
  app.post('/api/resume', changes.resume);

  // A route of its own, not Hono's hook: it must also answer where this is mounted on another listener.
  app.all('*', notFound);
  return app;
}

function notTaken(_: unknown, methods: readonly string[]): Response {
  const allow = methods.join(', ');
  return problem(405, 'method_not_allowed', 'This method is not taken here.', `Allowed: ${allow}.`, {
    allow,
  });
}
