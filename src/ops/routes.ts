import { Hono } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { describeError, StoreUnavailable } from '../errors.ts';
import { problem } from '../problem.ts';
import { createAccess, type OpsEnv } from './access.ts';
import { createApi, notFound } from './api.ts';
import { createApiChanges } from './api-changes.ts';
import { createAuditLog } from './audit.ts';
import type { OpsContext } from './context.ts';
import { script, serveAsset, styleSheet } from './dashboard/assets.ts';
import { securityHeaders } from './headers.ts';
import { createReadiness } from './health.ts';
import { createOperations } from './operations.ts';
import { createPages } from './pages.tsx';
import { scrape } from './prometheus.ts';
import { createSnapshots } from './snapshot.ts';
import { createStream } from './stream.ts';

/** The largest thing anyone posts here is a token. */
const MAX_BODY_BYTES = 16 * 1024;

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
  const pages = createPages(access, operations, snapshots);
  const api = createApi(context.store, snapshots);
  const changes = createApiChanges(operations);
  const stream = createStream(context, { render: pages.statusParts, mayGoOn: access.stillSignedIn });

  const app = new Hono<OpsEnv>();

  app.onError((error) => {
    context.logger.error({ outcome: 'failed', error: describeError(error) }, 'operators’ request failed');
    if (error instanceof StoreUnavailable) {
      return problem(503, error.code, 'The database cannot be used now.', error.hint, { 'retry-after': '5' });
    }
    return problem(500, 'internal_error', 'Something went wrong here.', 'The log says what.');
  });
  app.use(securityHeaders());
  app.use(
    bodyLimit({
      maxSize: MAX_BODY_BYTES,
      onError: () => problem(413, 'too_large', 'The body is too large.'),
    }),
  );

  // ─── open to anyone ───
  app.get('/livez', (c) => c.json({ status: 'live' }));
  app.get('/readyz', async (c) => {
    const readiness = await ready();
    return readiness.ready
      ? c.json({ status: 'ready' })
      : c.json({ status: 'not_ready', reason: readiness.reason }, 503);
  });
  app.get('/sign-in', pages.signInForm);
  app.post('/sign-in', pages.signIn);
  app.get(styleSheet.path, serveAsset(styleSheet));
  app.get(script.path, serveAsset(script));

  // ─── with a token of either role ───
  app.use(access.identify);
  app.post('/sign-out', pages.signOut);

  // ─── reading with either role, changing with `operate` ───
  app.use(access.operateToChange);
  app.get('/', pages.status);
  app.get('/events/stream', stream);
  app.get('/metrics', async () => scrape(context.metrics, await snapshots.current()));

  app.post('/actions/sweep', pages.sweep);
  app.post('/actions/pause', pages.pause);
  app.post('/actions/resume', pages.resume);
  app.post('/actions/confirm-deletions', pages.confirmDeletions);

  app.get('/api/status', api.status);
  app.get('/api/events', api.events);
  app.get('/api/events/:id', api.event);
  app.get('/api/records/:kind', api.records);
  app.get('/api/records/:kind/:id', api.record);
  app.get('/api/records/:kind/:id/history', api.history);
  app.get('/api/changes', api.changes);
  app.get('/api/gaps', api.gaps);
  app.get('/api/sweeps', api.sweeps);
  app.get('/api/sweeps/:id', api.sweep);
  app.get('/api/quarantine', api.quarantine);
  app.get('/api/quarantine/:id', api.quarantined);
  app.get('/api/refusals', api.refusals);
  app.get('/api/audit', api.audit);

  app.post('/api/events/:id/retry', changes.retryEvent);
  app.post('/api/events/:id/discard', changes.discardEvent);
  app.post('/api/sweeps', changes.sweep);
  app.post('/api/sweeps/:id/confirm-deletions', changes.confirmDeletions);
  app.post('/api/records/:kind/:id/refetch', changes.refetch);
  app.post('/api/quarantine/:id/release', changes.releaseQuarantined);
  app.post('/api/pause', changes.pause);
  app.post('/api/resume', changes.resume);

  // A route of its own, not Hono's hook: it must also answer where this is mounted on another listener.
  app.all('*', notFound);
  return app;
}
