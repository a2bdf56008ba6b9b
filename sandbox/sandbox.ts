import { isUtf8 } from 'node:buffer';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { getRequestListener } from '@hono/node-server';
import { Hono, type MiddlewareHandler } from 'hono';
import { bodyLimit } from 'hono/body-limit';
import { except } from 'hono/combine';
import { methodNotAllowed } from 'hono/method-not-allowed';
import { KINDS } from '../src/compliance/kinds.ts';
import { urlOf } from '../src/platform/addresses.ts';
import { describeError, UsageError } from '../src/platform/errors.ts';
import { authenticate, requireLoopbackName, requireToken } from './access.ts';
import { controlRoutes, type SandboxParts } from './controls.ts';
import { Deliveries } from './deliveries.ts';
import { consentRoutes } from './oauth/consent.tsx';
import { Grants } from './oauth/grants.ts';
import { tokenRoutes } from './oauth/tokens.ts';
import { type GivenOptions, resolveOptions, type SandboxOptions } from './options.ts';
import { pageRoutes } from './page/page.tsx';
import { Problem, problemResponse, toProblem } from './problems.ts';
import { NAMES } from './records.ts';
import { Registrations } from './registrations.ts';
import { restRoutes } from './rest.ts';
import { Scenarios } from './scenarios.ts';
import { openApiDocument } from './schemas.ts';
import { RecordState } from './state.ts';
import { ScaledTimers } from './time.ts';
import { Upstream } from './upstream.ts';

const MAX_BODY_BYTES = 1024 * 1024;

export type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

/** @throws UsageError if the options or the address cannot be used. */
export async function startSandbox(given: GivenOptions = {}) {
  const options = resolveOptions(given);
  const stopping = new AbortController();
  const parts = partsOf(options);
  const { scenarios, upstream } = parts;
  const server = createServer(getRequestListener(assemble(options, parts, stopping.signal).fetch));
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    stopping.abort();
    await scenarios.stop();
    await upstream.deliveries.stop();
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  let closing: Promise<void> | null = null;
  return {
    /** Without a path: the API is below `/v1`, OAuth below `/oauth`, the controls below `/_sandbox`. */
    url: urlOf(options.host, port),
    options,
    /** For who runs it in his own process. */
    parts,
    /** Cuts open connections and forgets deliveries still to be sent. */
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

function partsOf(options: SandboxOptions): SandboxParts {
  const timers = new ScaledTimers(options.timeScale);
  const settings = { faults: options.faults };
  const state = new RecordState();
  for (const kind of KINDS) {
    for (const record of options.seed[NAMES[kind].section]) state.seed(kind, record);
  }
  const registrations = new Registrations(options.webhookSecret);
  const deliveries = new Deliveries({
    sending: options,
    registrations,
    settings,
    timers,
  });
  const upstream = new Upstream(state, deliveries);
  return {
    upstream,
    registrations,
    settings,
    scenarios: new Scenarios(upstream, settings),
    timers,
  };
}

function assemble(options: SandboxOptions, parts: SandboxParts, stopping: AbortSignal): Hono {
  const { oauth, token } = options;
  const grants = new Grants(oauth.accessTokenSeconds);
  const rest = restRoutes({
    ...parts,
    stopping,
    authenticate: authenticate(options.apiKeys, (token) => grants.scopesOf(token)),
  });

  const app = new Hono();
  if (token === null) app.use(requireLoopbackName);
  app.use(bodyLimit({ maxSize: MAX_BODY_BYTES, onError: tooLarge }));
  app.use(requireUtf8);
  app.use(
    methodNotAllowed({
      app,
      onMethodNotAllowed(c, methods) {
        const allow = methods.join(', ');
        return problemResponse(
          c,
          new Problem(405, 'method_not_allowed', `Allowed here: ${allow}.`, { allow }),
        );
      },
    }),
  );
  // The API and the token endpoint have credentials of their own; the other two paths show no records.
  const open = ['/v1/*', '/oauth/token', '/openapi.json'];
  if (token !== null) app.use(except(open, requireToken(token)));
  app.route('/v1', rest);
  app.get('/openapi.json', (c) => c.json(openApiDocument(rest, new URL(c.req.url).origin)));
  app.route('/oauth', consentRoutes(oauth, grants));
  app.route('/oauth', tokenRoutes(oauth, grants));
  app.route('/_sandbox', controlRoutes(parts));
  app.route('/', pageRoutes(parts));
  app.notFound((c) => problemResponse(c, new Problem(404, 'not_found', 'There is nothing at this path.')));
  app.onError((error, c) => {
    const problem = toProblem(error);
    if (problem.code === 'internal_error') console.error(error);
    return problemResponse(c, problem);
  });
  return app;
}

/** A decoder would replace invalid bytes by U+FFFD, so the stored record would differ from the sent one. */
const requireUtf8: MiddlewareHandler = async (c, next) => {
  if (c.req.raw.body !== null && !isUtf8(new Uint8Array(await c.req.arrayBuffer()))) {
    throw new Problem(400, 'invalid_utf8', 'The request body is not UTF-8.');
  }
  await next();
};

function tooLarge(): never {
  throw new Problem(413, 'too_large', `A request body may have at most ${MAX_BODY_BYTES} bytes.`, {
    // The rest of the body is not read and would follow on this connection.
    connection: 'close',
  });
}

async function listen(server: Server, { host, port }: SandboxOptions): Promise<void> {
  server.listen(port, host.replace(/^\[|\]$/g, ''));
  try {
    await once(server, 'listening');
  } catch (error) {
    throw new UsageError(
      `The sandbox cannot listen on ${host}:${port}: ${describeError(error)}`,
      'Choose another address with --host or --port.',
    );
  }
}

/** Lines with what a person needs to use the sandbox, with the keys and secrets that were made for this run. */
export function introduction({ url, options }: Sandbox, given: GivenOptions): string[] {
  const { application, serviceAccounts } = options.oauth;
  return [
    `Sandbox: ${url}/v1`,
    `Page: ${url}/`,
    ...(given.apiKeys === undefined ? [`API key: ${options.apiKeys[0]}`] : []),
    `OAuth: ${url}, client ${application.id}`,
    `  redirects to ${application.redirectUri}`,
    `  secret of ${application.id}: ${application.secret}`,
    ...serviceAccounts.flatMap(({ id, secret, scopes }) => [
      `Service account: ${id}, scopes ${scopes.join(' ')}`,
      `  secret of ${id}: ${secret}`,
    ]),
  ];
}
