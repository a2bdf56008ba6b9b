import type { IncomingMessage } from 'node:http';
import { dropPiece, readInTurn } from './connections.ts';

/**
 * Pieces that are smaller share rooms of this size. Small, because a stranger pays some 300 bytes for a connection that holds
 * one; and whatever Content-Length promises, room grows only with what has come. Larger ones are kept as they come. Refused:
 * one room that doubles. It copies each byte twice, and under five hundred endless bodies its leavings were 90 MB.
 */
const ROOM_BYTES = 4_096;

/**
 * Pieces that a body may come in, and one more for each so many bytes: enough for a sender that writes word by word. Each
 * costs as much time as a small request's tenth, and a million of them fit into 6 MB.
 */
const MOST_PIECES = 1_024;
const BYTES_A_PIECE = 64;

/**
 * Bodies that are read as they come, while no more are incomplete. More are read in turns: a piece has up to 64 KiB, and
 * five hundred of them at once would keep everybody else waiting.
 */
const READ_FREELY = 16;

/** Why there is no body. `no_room`: all bodies together would hold more than is allowed. */
export type NoBody = 'too_large' | 'too_many_pieces' | 'aborted' | 'no_room';

export interface Bodies {
  /**
   * The request's whole body, or why there is none: `too_large` as soon as more than `maxBytes` have come,
   * `too_many_pieces` when they come in crumbs, `aborted` when the sender went away first. Never rejects. `declaredBytes` is its Content-Length, 0 where it has none.
   */
  read(incoming: IncomingMessage, maxBytes: number, declaredBytes: number): Promise<Buffer | NoBody>;
  /** Gives back the room of a body that was read, once its delivery is answered. */
  release(body: Buffer): void;
  /** What all bodies hold now, in bytes of memory. */
  heldBytes(): number;
}

/**
 * All bodies in flight, which together hold at most `maxHeldBytes`. Where there is no room, the one that has been coming
 * for the longest gives way: bodies of real deliveries are whole within milliseconds, while those that are to take up the
 * room must stay. So whoever would push out a delivery has to send all of `maxHeldBytes` while it arrives. Refused: the
 * largest gives way, for then many small ones shut out whatever is larger. A whole body never gives way; it waits for us.
 */
export function createBodies(maxHeldBytes: number): Bodies {
  let held = 0;
  /** Those that are still coming, the oldest first; called, it gives way. */
  const coming = new Set<() => void>();

  /** Counts so many bytes more, where needed at the cost of those that came before `own`. */
  function take(bytes: number, own: () => void): boolean {
    if (bytes > maxHeldBytes) return false;
    while (held + bytes > maxHeldBytes) {
      const [oldest] = coming;
      if (oldest === undefined || oldest === own) return false;
      oldest();
    }
    held += bytes;
    return true;
  }

  /** Reads the request of Node itself: its bytes can be counted as they come, and a single piece needs no copy. */
  function read(
    incoming: IncomingMessage,
    maxBytes: number,
    declaredBytes: number,
  ): Promise<Buffer | NoBody> {
    return new Promise((resolve) => {
      /** Pieces as they came, and rooms that small ones share. */
      let parts: Buffer[] = [];
      /** Of the last part, where it is such a room: what is left of it. */
      let left = 0;
      let taken = 0;
      let bytes = 0;
      let pieces = 0;
      let ended = false;

      const end = (result: Buffer | NoBody) => {
        ended = true;
        coming.delete(giveWay);
        parts = [];
        held += (typeof result === 'string' ? 0 : bytes) - taken;
        resolve(result);
      };
      const giveUp = (reason: NoBody) => {
        // No more of it is read, nor made a buffer of.
        incoming.off('data', onData);
        incoming.push = () => true;
        dropPiece(incoming.socket);
        incoming.socket?.pause();
        end(reason);
      };
      const giveWay = () => giveUp('no_room');

      const onData = (chunk: Buffer) => {
        bytes += chunk.length;
        pieces += 1;
        if (bytes > maxBytes) giveUp('too_large');
        else if (pieces > MOST_PIECES && pieces > MOST_PIECES + bytes / BYTES_A_PIECE)
          giveUp('too_many_pieces');
        else {
          if (pieces === 1 && bytes !== declaredBytes) coming.add(giveWay);
          if (!keep(chunk)) giveWay();
        }
        if (coming.size > READ_FREELY && coming.has(giveWay)) {
          incoming.pause();
          // One that was given up meanwhile stays as it is.
          readInTurn(incoming.socket, () => !ended && incoming.resume());
        }
      };
      const keep = (chunk: Buffer): boolean => {
        const isSmall = pieces > 1 && chunk.length < ROOM_BYTES;
        if (!isSmall || chunk.length > left) {
          const size = isSmall ? ROOM_BYTES : chunk.length;
          if (!take(size, giveWay)) return false;
          taken += size;
          closeRoom();
          parts.push(isSmall ? Buffer.allocUnsafeSlow(size) : chunk);
          left = isSmall ? size : 0;
        }
        if (isSmall) {
          chunk.copy(parts.at(-1)!, ROOM_BYTES - left);
          left -= chunk.length;
        }
        return true;
      };
      const closeRoom = () => {
        if (left > 0) parts.push(parts.pop()!.subarray(0, -left));
        left = 0;
      };
      const onEnd = () => {
        // One that gave way may end all the same.
        if (ended) return;
        closeRoom();
        end(parts.length === 1 ? parts[0]! : joined(parts, bytes));
      };
      // The first to come counts: none of them need be taken off. And every request closes in the end, while Node looks into
      // each promise that is resolved twice.
      const onGone = () => {
        if (!ended) giveUp('aborted');
      };
      incoming.on('data', onData);
      incoming.on('end', onEnd);
      // Either may come alone: an error before the close, or a close without one.
      incoming.on('error', onGone);
      incoming.on('close', onGone);
      if (incoming.destroyed && !incoming.readableEnded) onGone();
    });
  }

  /** Memory of its own: Buffer.concat would take some of a pool, which then stays as long as the body. */
  function joined(parts: readonly Buffer[], bytes: number): Buffer {
    const body = Buffer.allocUnsafeSlow(bytes);
    let at = 0;
    for (const part of parts) at += part.copy(body, at);
    return body;
  }

  function release(body: Buffer): void {
    held -= body.length;
  }

  return { read, release, heldBytes: () => held };
}
