import { OpenAPIHono } from '@hono/zod-openapi';
import { bodyLimit } from 'hono/body-limit';
import { HTTPException } from 'hono/http-exception';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { describeError, MirrorError, StoreUnavailable } from '../platform/errors.ts';
import { problem } from '../platform/problem.ts';
import { createAccess, type OpsEnv } from './access.ts';
import { createApi, openApiDocument } from './api/app.ts';
import * as routes from './api/routes.ts';
import { createAuditLog } from './audit.ts';
import { cached } from './cached.ts';
import type { OpsContext } from './context.ts';
import { ownHosts, securityHeaders } from './headers.ts';
import { createOperations } from './operations.ts';
import { createPages } from './pages/app.tsx';
import { TICKED_BYTES, TICKED_PATH } from './pages/forms.ts';
import { problemPages, script, styleSheet } from './pages/layout.tsx';
import { createSignIn } from './pages/sign-in.tsx';
import { scrape } from './prometheus.ts';
import { createSnapshots, type Snapshots } from './snapshot.ts';

/** Enough for every form and JSON body but those with many ids, whose size follows from their own limits. */
const MAX_BODY_BYTES = 32 * 1024;
/** Of records to read again a body in JSON, which takes less for an id than a form does. */
const REFETCH_PATH = /^\/api\/records\/[a-z_]+\/refetch$/;

/** Several probes may ask at once; one check of the database serves all of them for this long. */
const READY_CACHE_MS = 2_000;
/** How long a good result is answered while the next check, which waits for the disk, is running. */
const READY_KEPT_MS = 5_000;

/**
 * The operators' listener: its open routes, the doors, the pages and the API, in the order in which requests meet them. What
 * is below `identify` is denied without a token, however its path is spelled, because nothing is reached
 * but through it.
 */
export function createOps(
  context: OpsContext,
  snapshots: Snapshots = createSnapshots(context),
): OpenAPIHono<OpsEnv> {
  const audit = createAuditLog(context);
  const access = createAccess(context, audit);
  const operations = createOperations(context, audit);
  const whyNotReady = createReadiness(context);
  const door = createSignIn(access);

  const app = new OpenAPIHono<OpsEnv>();

  app.onError((error) => {
    if (error instanceof HTTPException && error.res !== undefined) return error.res;
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
  const [small, manyIds] = [limited(MAX_BODY_BYTES), limited(MAX_BODY_BYTES + TICKED_BYTES)];
  app.use((c, next) => {
    const { path } = c.req;
    return path === TICKED_PATH || REFETCH_PATH.test(path) ? manyIds(c, next) : small(c, next);
  });

  // ─── open to anyone ───
  app.openapi(routes.livez, (c) => c.json({ status: 'live' as const }, 200));
  app.openapi(routes.readyz, async (c) => {
    const reason = await whyNotReady();
    return reason === null
      ? c.json({ status: 'ready' as const }, 200)
      : c.json({ status: 'not_ready' as const, reason }, 503);
  });

  // ─── open to anyone who asks for this service by a name of its own ───
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
  app.openapi(routes.metrics, async (c) => {
    // What the process itself knows costs nothing to ask for again.
    const snapshot = { ...(await snapshots.current()), live: context.facts() };
    const { contentType } = context.metrics.registry;
    return c.text(await scrape(context.metrics, snapshot, context.store), 200, {
      'content-type': contentType,
    });
  });
  app.openapi(routes.openapi, (c) => {
    const origin = context.publicUrl?.origin ?? new URL(c.req.url).origin;
    return c.json(
      openApiDocument(app, { version: context.facts().version, origin }) as Record<string, never>,
      200,
    );
  });
  app.route('/', createPages(context, { operations, snapshots, mayGoOn: access.stillSignedIn }));
  app.route('/', createApi(context, { operations, snapshots }));

  // A route of its own, not Hono's hook: it must also answer where this is mounted on another listener.
  app.all('*', () => problem(404, 'not_found', 'There is no such thing here.'));
  return app;
}

function notTaken(_: unknown, methods: readonly string[]): Response {
  const allow = methods.join(', ');
  return problem(405, 'method_not_allowed', 'This method is not taken here.', `Allowed: ${allow}.`, {
    allow,
  });
}

/** Why it is not ready; null: it runs, and the database takes a commit. Tells nothing else, because anyone may ask. */
function createReadiness({ facts, store, clock, logger }: OpsContext): () => Promise<string | null> {
  let goodAt = Number.NEGATIVE_INFINITY;
  const writable = cached(clock, READY_CACHE_MS, async () => {
    const at = clock.steady();
    try {
      await store.checkWritable();
      goodAt = at;
      return true;
    } catch (error) {
      logger.warn({ outcome: 'not_ready', error: describeError(error) }, 'database cannot commit');
      goodAt = Number.NEGATIVE_INFINITY;
      return false;
    }
  });
  return async () => {
    const { state } = facts();
    if (state !== 'running') return state;
    const checked = writable.current();
    if (clock.steady() - goodAt < READY_KEPT_MS) return null;
    const answered = new AbortController();
    // One that lets a commit wait for a lock is no better.
    const late = clock.sleep(READY_KEPT_MS, answered.signal).then(() => false);
    const isReady = await Promise.race([checked, late]);
    answered.abort();
    return isReady ? null : 'database_not_writable';
  };
}
