import { secured } from '../ops/headers.ts';
import type { Addresses } from '../platform/addresses.ts';
import type { Config } from '../platform/config.ts';
import { problem } from '../platform/problem.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';

type Fetch = ListenOptions['fetch'];

/** A start takes seconds, a migration of a large database minutes. */
const RETRY_AFTER = { 'retry-after': '5' };

export interface Startup {
  /** Handlers of the two listeners. */
  receiver: Fetch;
  ops: Fetch;
  /** The step of the start, for `/readyz`. */
  at(state: 'starting' | 'migrating'): void;
  /** From now on the apps answer. */
  open(apps: { receiver: Fetch; ops: Fetch }): void;
}

/**
 * Answers until the database is open: a probe can tell a start from a crash, and a sender tries again later.
 */
export function createStartup(publicUrl: URL | null): Startup {
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

  return {
    receiver: (request, env) => {
      if (apps !== null) return apps.receiver(request, env);
      return pathOf(request) === '/livez' ? live() : away();
    },
    ops: (request, env) => {
      if (apps !== null) return apps.ops(request, env);
      const path = pathOf(request);
      if (path === '/livez') return live();
      return path === '/readyz' ? notReady() : away();
    },
    at(to) {
      state = to;
    },
    open(to) {
      apps = to;
    },
  };
}

export interface Listeners extends Pick<Startup, 'at' | 'open'> {
  receiverUrl: string;
  opsUrl: string;
  /** The operators' listener as seen from outside. */
  operatorsUrl: string;
  /** The receiver's listener; with one shared address it serves the operators too. */
  receiver: Listener;
  /** Null if the receiver's listener serves both. */
  ops: Listener | null;
}

/**
 * Opens both listeners, or one if the settings give both the same address (for platforms with one port). Until `open` is
 * called, the startup handlers answer.
 */
export async function openListeners(
  config: Pick<Config, 'host' | 'port' | 'ops'>,
  addresses: Addresses,
): Promise<Listeners> {
  const { host, port, ops } = config;
  const startup = createStartup(ops.publicUrl);
  const shared = host === ops.host && port === ops.port && port !== 0;
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? startup.receiver(request, env) : startup.ops(request, env))
    : startup.receiver;
  const receiver = await listen({
    ...{ fetch, host, port, addresses },
    ...(shared ? { inTurns: { ...OPERATORS_TURNS, canWait: (request) => !isForWebhooks(request.url) } } : {}),
  });
  const listening = (opsListener: Listener | null): Listeners => {
    const receiverUrl = urlOf(host, receiver.port);
    const opsUrl = opsListener === null ? receiverUrl : urlOf(ops.host, opsListener.port);
    const operatorsUrl = ops.publicUrl?.origin ?? opsUrl;
    return {
      ...{ receiver, ops: opsListener, receiverUrl, opsUrl, operatorsUrl },
      ...{ at: startup.at, open: startup.open },
    };
  };
  if (shared) return listening(null);
  try {
    return listening(
      await listen({
        ...{ fetch: startup.ops, host: ops.host, port: ops.port, addresses },
        inTurns: OPERATORS_TURNS,
      }),
    );
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
}

/** A page takes a few milliseconds: at most one is served before a waiting delivery, however many are requested. */
const OPERATORS_TURNS = { perTurn: 1, canWait: () => true };

/** As senders write it. Any other spelling only waits for its turn. */
const isForWebhooks = (target: string | undefined) => target?.split('?', 1)[0] === '/webhooks';
const isDelivery = (request: Request) => pathOf(request) === '/webhooks';
const pathOf = (request: Request) => new URL(request.url).pathname;

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
