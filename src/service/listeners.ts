import { secured } from '../ops/headers.ts';
import type { Addresses } from '../platform/addresses.ts';
import type { Config } from '../platform/config.ts';
import { problem } from '../platform/problem.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';

type Fetch = ListenOptions['fetch'];

/** A start takes seconds, but the migration of a large database takes minutes. */
const RETRY_AFTER = { 'retry-after': '5' };

/** Answers until the database is open: a probe can tell a start from a crash, and a sender tries again later. */
export function createStartup(publicUrl: URL | null) {
  /** The step of the start, for `/readyz`. */
  let state: 'starting' | 'migrating' = 'starting';
  let apps: { receiver: Fetch; ops: Fetch } | null = null;

  const live = () => secured(Response.json({ status: 'live' }), publicUrl);
  const away = () =>
    secured(
      problem(503, 'starting', 'The service is starting.', 'Send it again later.', RETRY_AFTER),
      publicUrl,
    );
  const notReady = () =>
    secured(Response.json({ status: 'not_ready', reason: state }, { status: 503 }), publicUrl);

  const receiver: Fetch = (request, env) => {
    if (apps !== null) return apps.receiver(request, env);
    return pathOf(request) === '/livez' ? live() : away();
  };
  const ops: Fetch = (request, env) => {
    if (apps !== null) return apps.ops(request, env);
    const path = pathOf(request);
    if (path === '/livez') return live();
    return path === '/readyz' ? notReady() : away();
  };
  return {
    receiver,
    ops,
    at(to: typeof state): void {
      state = to;
    },
    /** From now on the apps answer. */
    open(to: typeof apps): void {
      apps = to;
    },
  };
}

export type Listeners = Awaited<ReturnType<typeof openListeners>>;

/** Opens both listeners, or one for both if they have the same address. Until `open` is called, the startup handlers answer. */
export async function openListeners(config: Pick<Config, 'host' | 'port' | 'ops'>, addresses: Addresses) {
  const { host, port, ops } = config;
  const startup = createStartup(ops.publicUrl);
  const shared = host === ops.host && port === ops.port && port !== 0;
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? startup.receiver(request, env) : startup.ops(request, env))
    : startup.receiver;
  const receiver = await listen({
    fetch,
    host,
    port,
    addresses,
    ...(shared ? { inTurns: { ...OPERATORS_TURNS, canWait: (request) => !isForWebhooks(request.url) } } : {}),
  });
  let own: Listener | null = null;
  try {
    if (!shared)
      own = await listen({
        fetch: startup.ops,
        host: ops.host,
        port: ops.port,
        addresses,
        settings: 'OPS_',
        inTurns: OPERATORS_TURNS,
      });
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
  const receiverUrl = urlOf(host, receiver.port);
  const opsUrl = own === null ? receiverUrl : urlOf(ops.host, own.port);
  return {
    at: startup.at,
    open: startup.open,
    receiver,
    receiverUrl,
    opsUrl,
    /** Null if the receiver's listener serves both. */
    ops: own,
    /** The operators' listener as seen from outside. */
    operatorsUrl: ops.publicUrl?.origin ?? opsUrl,
  };
}

/** A page takes a few milliseconds. Only one is served before a waiting delivery, however many are requested. */
const OPERATORS_TURNS = { perTurn: 1, canWait: () => true };

/** The usual spelling of the path. A delivery with another one only waits for its turn. */
const isForWebhooks = (target: string | undefined) => target?.split('?', 1)[0] === '/webhooks';
const isDelivery = (request: Request) => pathOf(request) === '/webhooks';
const pathOf = (request: Request) => new URL(request.url).pathname;

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
