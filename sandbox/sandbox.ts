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
import { describeError, UsageError } from '../src/platform/errors.ts';
import { authenticate, requireLoopbackName, requireToken, urlOf } from './access.ts';
import { controlRoutes } from './controls.ts';
import { Deliveries } from './deliveries.ts';
import { consentRoutes } from './oauth/consent.tsx';
import { Grants } from './oauth/grants.ts';
import { tokenRoutes } from './oauth/tokens.ts';
import { type GivenOptions, isMadeSecret, resolveOptions, type SandboxOptions } from './options.ts';
import { assetRoutes } from './page/assets.ts';
import { pageRoutes } from './page/routes.tsx';
import { Problem, problemResponse, toProblem } from './problems.ts';
import { type Random, seededRandom } from './random.ts';
import { NAMES } from './records.ts';
import { Registrations } from './registrations.ts';
import { restRoutes } from './rest.ts';
import { Scenarios } from './scenarios.ts';
import { describeDeliveries, openApiDocument } from './schemas.ts';
import { RecordState } from './state.ts';
import { ScaledTimers } from './time.ts';
import { Upstream } from './upstream.ts';

const MAX_BODY_BYTES = 1024 * 1024;

export type Sandbox = Awaited<ReturnType<typeof startSandbox>>;

/** @throws UsageError if the options or the address cannot be used. */
export async function startSandbox(given: GivenOptions = {}) {
  const options = resolveOptions(given);
  const stopping = new AbortController();
  const timers = new ScaledTimers(options.timeScale);
  const random = seededRandom(options.seedNumber);
  const { app, deliveries, scenarios } = assemble(options, random, timers, stopping.signal);

  const server = createServer(getRequestListener(app.fetch));
  await listen(server, options);
  const { port } = server.address() as AddressInfo;
  let closing: Promise<void> | null = null;
  const close = async () => {
    stopping.abort();
    await scenarios.stop();
    timers.clear();
    await deliveries.stop();
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  };
  const { apiKeys, oauth, seedNumber } = options;
  return {
    /** Without a path: the API is below `/v1`, OAuth below `/oauth`, the controls below `/_sandbox`. */
    url: urlOf(options.host, port),
    port,
    /** The given ones, or those that were made for this run. */
    apiKeys,
    oauth,
    seedNumber,
    /** Cuts open connections and forgets deliveries still to be sent. */
    close: () => {
      closing ??= close();
      return closing;
    },
  };
}

function assemble(options: SandboxOptions, random: Random, timers: ScaledTimers, stopping: AbortSignal) {
  const atStart = { faults: options.faults, shapes: options.shapes };
  const settings = { ...atStart };
  const state = new RecordState();
  for (const kind of KINDS) {
    for (const record of options.seed[NAMES[kind].section]) state.seed(kind, record);
  }
  const registrations = new Registrations(random.fork('registrations'), options.signing.secret);
  const deliveries = new Deliveries({
    sending: options,
    registrations,
    settings,
    timers,
    random: random.fork('deliveries'),
  });
  const upstream = new Upstream({ state, deliveries, settings, random: random.fork('upstream') });
  const scenarios = new Scenarios(upstream, random.fork('scenarios'));

  const { oauth, seedNumber, token } = options;
  const grants = new Grants(oauth.accessTokenSeconds);
  const parts = {
    upstream,
    registrations,
    settings,
    atStart,
    scenarios,
    timers,
    seedNumber,
    random: random.fork('trigger'),
  };

  const rest = restRoutes({
    upstream,
    registrations,
    settings,
    stopping,
    random: random.fork('rest'),
    authenticate: authenticate(options.apiKeys, (token) => grants.scopesOf(token)),
  });
  describeDeliveries(rest, options.signing.header);

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
  const open = ['/v1/*', '/oauth/token', '/openapi.json', '/assets/*'];
  if (token !== null) app.use(except(open, requireToken(token)));
  app.route('/v1', rest);
  app.get('/openapi.json', (c) => c.json(openApiDocument(rest, new URL(c.req.url).origin)));
  app.route('/oauth', consentRoutes(oauth, grants));
  app.route('/oauth', tokenRoutes(oauth, grants));
  app.route('/_sandbox', controlRoutes(parts));
  app.route('/', assetRoutes());
  app.route('/', pageRoutes(parts, stopping));
  app.notFound((c) => problemResponse(c, new Problem(404, 'not_found', 'There is nothing at this path.')));
  app.onError((error, c) => {
    const problem = toProblem(error);
    if (problem.code === 'internal_error') console.error(error);
    return problemResponse(c, problem);
  });
  return { app, deliveries, scenarios };
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
      'Set SANDBOX_HOST or SANDBOX_PORT.',
    );
  }
}

/** Lines with what a person needs to use the sandbox, with the keys and secrets that were made for this run. */
export function introduction(sandbox: Sandbox, given: GivenOptions): string[] {
  const { application, serviceAccounts } = sandbox.oauth;
  const keys = given.apiKeys === undefined ? [`API key: ${sandbox.apiKeys[0]}`] : [];
  // Settings may give only a part of a client. A made secret is recognised by its beginning.
  const shown = (secret: string) => (isMadeSecret(secret) ? `, secret ${secret}` : '');
  return [
    `Sandbox: ${sandbox.url}/v1`,
    `Page: ${sandbox.url}/`,
    ...keys,
    `OAuth: ${sandbox.url}, client ${application.id}${shown(application.secret)}, redirects to ${application.redirectUri}`,
    ...serviceAccounts.map(
      ({ id, secret, scopes }) => `Service account: ${id}${shown(secret)}, scopes ${scopes.join(' ')}`,
    ),
  ];
}
