import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { networkOf } from '../platform/addresses.ts';

/**
 * Requests that one connection may send before the first is answered. Webhook senders do not pipeline, and one read of 64 KiB can
 * hold 1,500 requests.
 */
const MOST_AHEAD = 32;

export interface ConnectionLimits {
  maxConnections: number;
  maxConnectionsPerNetwork: number;
}

interface Connection {
  /** Null: a trusted proxy's. */
  network: string | null;
  /** The number of its newest request, or of its own beginning. */
  used: number;
  /** Requests in a row that came before an earlier one was answered. */
  ahead: number;
  /** To the newest request. */
  response: ServerResponse | null;
}

/**
 * The open connections of a listener. At a limit, the one that was used longest ago is closed for a new one. Refused: to leave it
 * to `server.maxConnections`, which drops the new one, so that whoever opens many and says nothing shuts everybody out. Refused
 * too: a listener for the end of each. It kept what a request had made alive until the next full garbage collection.
 */
export function createConnections(
  { maxConnections, maxConnectionsPerNetwork }: ConnectionLimits,
  isProxy: (address: string | undefined) => boolean,
) {
  /** Those that have closed are forgotten when the next one comes. */
  const open = new Map<Socket, Connection>();
  let uses = 0;

  function makeRoom(network: string | null): void {
    const own: Socket[] = [];
    for (const [socket, connection] of open) {
      if (socket.destroyed) open.delete(socket);
      else if (network !== null && connection.network === network) own.push(socket);
    }
    if (own.length >= maxConnectionsPerNetwork) longestUnused(own).destroy();
    else if (open.size >= maxConnections) longestUnused([...open.keys()]).destroy();
  }

  function longestUnused(sockets: readonly Socket[]): Socket {
    return sockets.reduce((oldest, each) => (open.get(each)!.used < open.get(oldest)!.used ? each : oldest));
  }

  return {
    add(socket: Socket): void {
      const { remoteAddress } = socket;
      const network = remoteAddress === undefined || isProxy(remoteAddress) ? null : networkOf(remoteAddress);
      makeRoom(network);
      uses += 1;
      open.set(socket, { network, used: uses, ahead: 0, response: null });
    },

    /** Notes a request. False: its connection is closed, or closed now because too many of its requests wait. */
    asked(socket: Socket, response: ServerResponse): boolean {
      const connection = open.get(socket);
      if (connection === undefined || !socket.writable) return false;
      uses += 1;
      connection.used = uses;
      connection.response = response;
      // A response gets the socket when it is its turn.
      connection.ahead = response.socket === null ? connection.ahead + 1 : 0;
      if (connection.ahead <= MOST_AHEAD) return true;
      socket.destroy();
      return false;
    },

    /** The response to the newest request of a connection. */
    responseOf: (socket: Socket): ServerResponse | null => open.get(socket)?.response ?? null,

    open: (): Socket[] => [...open.keys()],
  };
}
