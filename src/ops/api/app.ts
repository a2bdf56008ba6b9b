import { type Hook, OpenAPIHono } from '@hono/zod-openapi';
import { HTTPException } from 'hono/http-exception';
import PQueue from 'p-queue';
import { problem } from '../../platform/problem.ts';
import type { OpsEnv } from '../access.ts';
import type { AuditLog } from '../audit.ts';
import type { OpsContext } from '../context.ts';
import type { Snapshots } from '../status.ts';
import { createChanges } from './changes.ts';
import { createFeed } from './feed.ts';
import { createReads } from './reads.ts';

/** A page may have megabytes: hundreds at once would take gigabytes, and block the event loop for seconds. */
const READ_AT_ONCE = 8;
/** Of an exported address in the audit. */
const TARGET_MAX_CHARACTERS = 1_000;

/** The routes below `/api`, for programs. Every request here is already authenticated. */
export function createApi(context: OpsContext, audit: AuditLog, snapshots: Snapshots) {
  const api = new OpenAPIHono<OpsEnv>({ defaultHook: refuseUnusable });
  api.onError((error) => {
    if (!(error instanceof HTTPException)) throw error;
    // Without `res` it is Hono's own: the body is not JSON.
    return error.res ?? unusable('The body is not JSON.');
  });
  const reading = new PQueue({ concurrency: READ_AT_ONCE });
  api.use('/api/*', async (c, next) => {
    const { method, path } = c.req;
    const isWaiting = method === 'GET' && Number(c.req.query('wait')) > 0;
    // The status is answered even while the database is not.
    const isPage = method !== 'POST' && !isWaiting && path !== '/api/status';
    await (isPage ? reading.add(next) : next());
  });
  // An export is one entry of the audit, not one for each page.
  api.use('/api/*', async (c, next) => {
    await next();
    const isCsv = c.res.headers.get('content-type')?.startsWith('text/csv') === true;
    // One row is read only to see where the snapshot stands.
    const isSnapshot = c.req.path === '/api/snapshot' && c.res.ok && c.req.query('limit') !== '1';
    const isExport = isCsv || isSnapshot;
    if (!isExport || c.req.method !== 'GET' || c.req.query('after') !== undefined) return;
    const { pathname, search } = new URL(c.req.url);
    await audit.note(
      c.get('identity').name,
      'export',
      'ok',
      `${pathname}${search}`.slice(0, TARGET_MAX_CHARACTERS),
    );
  });
  // A body is JSON whatever its Content-Type says (curl says it is a form). An empty one counts as `{}`.
  api.use('/api/*', async (c, next) => {
    if (c.req.method === 'POST') {
      const text = await c.req.text();
      const headers = new Headers(c.req.raw.headers);
      headers.set('content-type', 'application/json');
      c.req.raw = new Request(c.req.raw, { headers, body: text.trim() === '' ? '{}' : text });
      c.req.bodyCache = {};
    }
    await next();
  });
  return api
    .route('/', createReads(context, snapshots))
    .route('/', createFeed(context))
    .route('/', createChanges(context, audit));
}

/**
 * Answers 400 and names the parameter, or 404 for an unusable path. An unknown parameter is unusable too: with a mistyped
 * filter that is ignored, everything would be shown.
 */
const refuseUnusable: Hook<unknown, OpsEnv, string, unknown> = (result, c) => {
  if (result.success) return;
  const issue = result.error.issues[0]!;
  const name = issue.code === 'unrecognized_keys' ? issue.keys[0]! : issue.path.join('.');
  if (result.target === 'param') {
    if (name !== 'kind') return problem(404, 'not_found', 'Not found.');
    const kinds = 'Kinds are policy, risk_assessment and vendor.';
    return problem(404, 'unknown_kind', 'There is no such kind.', kinds);
  }
  if (name === '') return unusable(`The body is not usable: ${issue.message}.`);
  const given = result.target === 'query' ? (c.req.queries(name)?.length ?? 0) : 1;
  if (given > 1) return unusable(`\`${name}\` is given ${given} times.`);
  const what = issue.code === 'unrecognized_keys' ? 'there is no such parameter' : issue.message;
  return unusable(`\`${name}\`: ${what}.`);
};

const unusable = (detail: string) => problem(400, 'invalid_parameter', 'A parameter is not usable.', detail);

/** OpenAPI 3.1, made from the routes. */
export function openApiDocument(
  app: OpenAPIHono<OpsEnv>,
  about: { version: string; origin: string },
): object {
  const document = app.getOpenAPI31Document({
    openapi: '3.1.0',
    info: {
      title: 'compliance-mirror, operators’ listener',
      version: about.version,
      description:
        'Lists are paged by key: `next` of one page is `after` of the following. Errors are RFC 9457 problems. ' +
        'Bearer tokens are those of OPS_TOKENS; the role `read` reads, `operate` changes as well.',
    },
    servers: [{ url: about.origin }],
    security: [{ token: [] }],
  });
  return {
    ...document,
    info: { ...document.info, license: { name: 'MIT', identifier: 'MIT' } },
    components: { ...document.components, securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
}
