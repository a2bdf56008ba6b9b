import type { Socket } from 'node:net';
import type { OpsHandlerContext } from './access.ts';

/** For requests that stay open for some time, each with a connection. */

/** At most `limit` of them at once, and `limitOfOne` for one token, so that places are left for others. */
export function createPlaces(limit: number, limitOfOne: number) {
  /** The token's name, once for each open request. */
  const taken: string[] = [];
  return {
    isFull: (name: string) =>
      taken.length >= limit || taken.filter((other) => other === name).length >= limitOfOne,
    /** Takes a place, and frees it when it is disposed of. */
    take(name: string): Disposable {
      taken.push(name);
      return { [Symbol.dispose]: () => void taken.splice(taken.indexOf(name), 1) };
    },
  };
}

/** Its signal aborts when the client closes the connection, or only its own side, which the listener does not report. */
export function clientGone(c: OpsHandlerContext): Disposable & { signal: AbortSignal } {
  const ended = new AbortController();
  const end = () => ended.abort();
  const socket = c.env?.incoming?.socket as Partial<Pick<Socket, 'once' | 'off'>> | undefined;
  socket?.once?.('end', end);
  return {
    signal: AbortSignal.any([ended.signal, c.req.raw.signal]),
    [Symbol.dispose]() {
      socket?.off?.('end', end);
    },
  };
}
