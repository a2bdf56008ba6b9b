import type { Addresses } from '../platform/addresses.ts';
import type { Config } from '../platform/config.ts';
import { type Listener, type ListenOptions, listen } from '../receive/server.ts';

type Fetch = ListenOptions['fetch'];

export interface Listeners {
  receiverUrl: string;
  opsUrl: string;
  /** Where deliveries come in; both, where one listener serves both. */
  receiver: Listener;
  /** Null where the receiver's serves both. */
  ops: Listener | null;
}

/** Opens both listeners, or one where the settings name the same address twice, for platforms with one port. */
export async function openListeners(
  config: Pick<Config, 'host' | 'port' | 'ops'>,
  addresses: Addresses,
  apps: { receiver: Fetch; ops: Fetch },
): Promise<Listeners> {
  const { host, port, ops } = config;
  const shared = host === ops.host && port === ops.port && port !== 0;
  const fetch: Fetch = shared
    ? (request, env) => (isDelivery(request) ? apps.receiver(request, env) : apps.ops(request, env))
    : apps.receiver;
  const receiver = await listen({
    ...{ fetch, host, port, addresses },
    ...(shared ? { inTurns: { ...OPERATORS_TURNS, canWait: (request) => !isForWebhooks(request.url) } } : {}),
  });
  const receiverUrl = urlOf(host, receiver.port);
  if (shared) return { receiver, ops: null, receiverUrl, opsUrl: receiverUrl };
  try {
    const opsListener = await listen({
      ...{ fetch: apps.ops, host: ops.host, port: ops.port, addresses },
      inTurns: OPERATORS_TURNS,
    });
    return { receiver, ops: opsListener, receiverUrl, opsUrl: urlOf(ops.host, opsListener.port) };
  } catch (error) {
    await receiver.close(0);
    throw error;
  }
}

/** A page costs a millisecond or a few: no more of them come before a delivery, however many are asked for at once. */
const OPERATORS_TURNS = { perTurn: 1, canWait: () => true };

/** As senders write it. Who spells it otherwise only waits for his turn. */
const isForWebhooks = (target: string | undefined) => target?.split('?', 1)[0] === '/webhooks';
const isDelivery = (request: Request) => new URL(request.url).pathname === '/webhooks';

function urlOf(host: string, port: number): string {
  const reachable = host === '0.0.0.0' || host === '::' ? '127.0.0.1' : host;
  return `http://${reachable.includes(':') ? `[${reachable}]` : reachable}:${port}`;
}
