import { secured } from '../ops/headers.ts';
import type { Addresses } from '../platform/addresses.ts';
import type { Config } from '../platform/config.ts';
import { problem } from '../platform/problem.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';

type Fetch = ListenOptions['fetch'];

/** A start takes seconds, and a migration of a large database minutes: soon is enough. */
const RETRY_AFTER = { 'retry-after': '5' };

export interface Front {
  /** What the listeners call. */
  receiver: Fetch;
  ops: Fetch;
  /** What the start is at. */
  at(state: 'starting' | 'migrating'): void;
  /** From now on the stages answer themselves. */
  open(apps: { receiver: Fetch; ops: Fetch }): void;
}

/**
 * Answers while there is no database to answer from, so that whoever probes can tell a start from a death, and a
 * sender is told to come back. Nothing is received, shown or asked for here.
 */
export function createFront(publicUrl: URL | null): Front {
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

export interface Listeners extends Pick<Front, 'at' | 'open'> {
  receiverUrl: string;
  opsUrl: string;
  /** The operators' listener, as they reach it from outside. */
  operatorsUrl: string;
  /** Where deliveries come in; both, where one listener serves both. */
  receiver: Listener;
  /** Null where the receiver's serves both. */
  ops: Listener | null;
}

/**
 * Opens both listeners, or one where the settings name the same address twice, for platforms with one port. Until `open`
 * the front answers.
 */
export async function openListeners(
  config: Pick<Config, 'host' | 'port' | 'ops'>,
  addresses: Addresses,
): Promise<Listeners> {
  const { host, port, ops } = config;
  const front = createFront(ops.publicUrl);
  const shared = host === ops.host && port === ops.port && port !== 0;
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? front.receiver(request, env) : front.ops(request, env))
    : front.receiver;
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
      ...{ at: front.at, open: front.open },
    };
  };
  if (shared) return listening(null);
  try {
    return listening(
      await listen({
        ...{ fetch: front.ops, host: ops.host, port: ops.port, addresses },
        inTurns: OPERATORS_TURNS,
      }),
    );
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
}

/** A page costs a millisecond or a few: no more of them come before a delivery, however many are asked for at once. */
const OPERATORS_TURNS = { perTurn: 1, canWait: () => true };

/** As senders write it. Who spells it otherwise only waits for his turn. */
const isForWebhooks = (target: string | undefined) => target?.split('?', 1)[0] === '/webhooks';
const isDelivery = (request: Request) => pathOf(request) === '/webhooks';
const pathOf = (request: Request) => new URL(request.url).pathname;

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
