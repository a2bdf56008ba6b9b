import type { Socket } from 'node:net';

/** Fewer are not worth looking through. */
const FEWEST_LOOKED_THROUGH = 64;

export interface Connections {
  add(socket: Socket): void;
  open(): Socket[];
  /** How many are remembered, with those that have closed since they were last looked for. */
  remembered(): number;
}

/**
 * The sockets that are open. Refused: a listener for the end of each. With one, whatever a request leaves behind hung on
 * that of the request before until the next full collection: 4 KB a request, and a quarter of what answering one cost.
 * So those that have closed are looked for, once there are twice as many as were open the last time.
 */
export function createConnections(): Connections {
  const sockets = new Set<Socket>();
  let lookAt = FEWEST_LOOKED_THROUGH;
  return {
    add(socket) {
      sockets.add(socket);
      if (sockets.size < lookAt) return;
      for (const each of sockets) if (each.closed) sockets.delete(each);
      lookAt = Math.max(FEWEST_LOOKED_THROUGH, 2 * sockets.size);
    },
    open: () => [...sockets].filter((socket) => !socket.closed),
    remembered: () => sockets.size,
  };
}
