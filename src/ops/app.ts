import { OpenAPIHono } from '@hono/zod-openapi';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { MAX_ID_LENGTH } from '../compliance/pointers.ts';
import { MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { problem } from '../platform/problem.ts';
import { PAGE_LIMIT_MAX } from '../store/reports.ts';
import { createAccess, type OpsEnv } from './access.ts';
import { createApi, openApiDocument } from './api/app.ts';
import * as routes from './api/routes.ts';
import { createAuditLog } from './audit.ts';
import { cached, inTime } from './cached.ts';
import type { OpsContext } from './context.ts';
import { notCached, ownHosts, securityHeaders } from './headers.ts';
import { createPages } from './pages/app.tsx';
import { pageForms } from './pages/forms.ts';
import { problemPages, script, styleSheet } from './pages/layout.tsx';
import { createSignIn } from './pages/sign-in.tsx';
import { scrape } from './prometheus.ts';
import { createSnapshots, type Snapshots } from './status.ts';

/** Enough for every request body except the one that may hold many ids. */
const MAX_BODY_BYTES = 32 * 1024;
/** In JSON each character of an id may be an escape of six. */
export const MANY_IDS_BYTES =
  MAX_BODY_BYTES + PAGE_LIMIT_MAX * (MAX_ID_LENGTH * '\\u0000'.length + '"",'.length);

/** Several probes may ask at once; one check of the database serves all of them for this long. */
const READY_CACHE_MS = 2_000;
/** A check waits for the disk. Meanwhile the last good result counts for this long. */
const READY_KEPT_MS = 5_000;

/**
 * The operators' listener. Its middleware and routes are in the order in which requests pass them: nothing below `identify`
 * is reached without a token, however the path is spelled.
 */
export function createOps(
  context: OpsContext,
  snapshots: Snapshots = createSnapshots(context),
): OpenAPIHono<OpsEnv> {
  const audit = createAuditLog(context);
  const access = createAccess(context, audit);
  const whyNotReady = createReadiness(context);
  const door = createSignIn(access);

  const app = new OpenAPIHono<OpsEnv>();

  app.onError((error) => problemOf(error, context));
  app.use(securityHeaders(context.publicUrl), notCached);
  app.use(problemPages(context));
  app.use(methodNotAllowed({ app, onMethodNotAllowed: refuseMethod }));
  app.use((c, next) => (c.req.header('transfer-encoding') === undefined ? next() : lengthRequired()));
  const limited = (maxSize: number) =>
    bodyLimit({ maxSize, onError: () => problem(413, 'too_large', 'The body is too large.') });
  const [small, manyIds] = [limited(MAX_BODY_BYTES), limited(MANY_IDS_BYTES)];
  app.use((c, next) => (c.req.path === '/api/syncs' ? manyIds(c, next) : small(c, next)));

  // ─── open to anyone ───
  app.openapi(routes.livez, (c) => c.json({ status: 'live' as const }, 200));
  app.openapi(routes.readyz, async (c) => {
    const reason = await whyNotReady();
    return reason === null
      ? c.json({ status: 'ready' as const }, 200)
      : c.json({ status: 'not_ready' as const, reason }, 503);
  });

  // ─── open to anyone, if the Host header is ours ───
  app.use(ownHosts(context));
  app.get('/sign-in', door.signInForm);
  app.post('/sign-in', door.signIn);
  app.get(styleSheet.path, styleSheet.serve);
  app.get(script.path, script.serve);

  // ─── with a token of either role ───
  app.use(access.identify);
  app.post('/sign-out', door.signOut);

  // ─── reading with either role, changing with `operate` ───
  app.use(access.operateToChange);
  app.use(async (c, next) => {
    await next();
    if (c.req.method === 'POST') snapshots.forget();
  });
  app.use('/api/*', pageForms(context));
  app.openapi(routes.metrics, async (c) => {
    const { metrics } = context;
    // The facts of this process cost nothing, so they are newer than the snapshot.
    const text = await scrape(metrics, await snapshots.current(), context.facts().upstream);
    return c.text(text, 200, { 'content-type': metrics.registry.contentType });
  });
  app.openapi(routes.openapi, (c) => {
    const origin = context.publicUrl?.origin ?? new URL(c.req.url).origin;
    return c.json(
      openApiDocument(app, { version: context.facts().service.version, origin }) as Record<string, never>,
      200,
    );
  });
  app.route('/', createPages(context, snapshots));
  app.route('/', createApi(context, audit, snapshots));

  // Not Hono's `notFound` hook: that does not run when this app is mounted on the receiver's listener.
  app.all('*', () => problem(404, 'not_found', 'Page not found.'));
  return app;
}

function problemOf(error: unknown, { logger, lines }: OpsContext): Response {
  if (error instanceof HTTPException && error.res !== undefined) return error.res;
  const reason = error instanceof MirrorError ? error.code : null;
  lines.write(logger, 'error', { outcome: 'failed', reason, error }, 'operators’ request failed');
  if (error instanceof StoreUnavailable) {
    return problem(503, error.code, 'The database cannot be used now.', error.remedy, { 'retry-after': '5' });
  }
  return problem(500, 'internal_error', 'Something went wrong here.', 'The log says what.');
}

/** For chunks: before the limit of the body was reached, each byte of it could cost as much as a request. */
async function lengthRequired(): Promise<Response> {
  return problem(411, 'length_required', 'The request must tell the length of its body.');
}

function refuseMethod(_: unknown, methods: readonly string[]): Response {
  const allow = methods.join(', ');
  return problem(405, 'method_not_allowed', 'This method is not taken here.', `Allowed: ${allow}.`, {
    allow,
  });
}

/** Why the service is not ready; null: it is running and its database takes commits. It says no more, because anyone may ask. */
function createReadiness({ facts, store, clock, logger }: OpsContext): () => Promise<string | null> {
  let goodAt = Number.NEGATIVE_INFINITY;
  const writable = cached(clock, READY_CACHE_MS, async () => {
    const at = clock.steady();
    try {
      await store.checkWritable();
      goodAt = at;
      return true;
    } catch (error) {
      logger.warn({ outcome: 'not_ready', error }, 'database cannot commit');
      goodAt = Number.NEGATIVE_INFINITY;
      return false;
    }
  });
  return async () => {
    const { state } = facts().service;
    if (state !== 'running') return state;
    const checked = writable.current();
    if (clock.steady() - goodAt < READY_KEPT_MS) return null;
    // A database that lets a commit wait for a lock is not ready either.
    const isWritable = await inTime(clock, checked, READY_KEPT_MS).catch(() => false);
    return isWritable ? null : 'database_not_writable';
  };
}
