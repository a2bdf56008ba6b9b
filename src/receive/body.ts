import type { IncomingMessage } from 'node:http';
import { dropPiece } from './connections.ts';

/**
 * Room that a body's second piece brings at least. Small, because a stranger pays some 300 bytes for a connection that holds
 * it; and whatever Content-Length promises, room grows only with what has come.
 */
const FIRST_ROOM_BYTES = 4_096;

/**
 * Pieces that a body may come in, and one more for each so many bytes: enough for a sender that writes word by word. Each
 * costs as much time as a small request's tenth, and a million of them fit into 6 MB.
 */
const MOST_PIECES = 1_024;
const BYTES_A_PIECE = 64;

/**
 * Bodies that are read as they come, while no more are incomplete. Of more, one piece in each turn of the event loop: a
 * piece has up to 64 KiB, and five hundred of them in a turn would keep everybody else waiting.
 */
const READ_FREELY = 16;

const EMPTY = Buffer.alloc(0);

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

  /** Those of too many that wait for their turn to be read on. */
  const paused: (() => void)[] = [];

  function inTurn(goOn: () => void): void {
    if (paused.push(goOn) === 1) setImmediate(readOn);
  }

  function readOn(): void {
    paused.shift()?.();
    if (paused.length > 0) setImmediate(readOn);
  }

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
    const largest = declaredBytes === 0 ? maxBytes : Math.min(maxBytes, declaredBytes);
    return new Promise((resolve) => {
      /** The first piece as it came, until there is a second; then room to grow into. */
      let room: Buffer = EMPTY;
      let bytes = 0;
      let pieces = 0;
      let ended = false;

      const end = (result: Buffer | NoBody) => {
        ended = true;
        coming.delete(giveWay);
        resolve(result);
      };
      const giveUp = (reason: NoBody) => {
        // No more of it is read, nor made a buffer of.
        incoming.off('data', onData);
        incoming.push = () => true;
        dropPiece(incoming.socket);
        incoming.socket?.pause();
        release(room);
        room = EMPTY;
        end(reason);
      };
      const giveWay = () => giveUp('no_room');

      const onData = (chunk: Buffer) => {
        const before = bytes;
        bytes += chunk.length;
        pieces += 1;
        if (bytes > maxBytes) giveUp('too_large');
        else if (pieces > MOST_PIECES && pieces > MOST_PIECES + bytes / BYTES_A_PIECE)
          giveUp('too_many_pieces');
        else if (before === 0) {
          if (bytes !== declaredBytes) coming.add(giveWay);
          if (take(chunk.length, giveWay)) room = chunk;
          else giveWay();
        } else if (bytes <= room.length || grow(before)) chunk.copy(room, before);
        if (coming.size > READ_FREELY && coming.has(giveWay)) {
          incoming.pause();
          // One that was given up meanwhile stays as it is.
          inTurn(() => {
            if (!ended) incoming.resume();
          });
        }
      };
      /** Doubled each time, so that a byte is copied once more on average, however small the pieces are. */
      const grow = (before: number): boolean => {
        const capacity = Math.min(largest, Math.max(FIRST_ROOM_BYTES, 2 * room.length, bytes));
        if (!take(capacity - room.length, giveWay)) {
          giveWay();
          return false;
        }
        const small = room;
        room = Buffer.allocUnsafeSlow(capacity);
        small.copy(room, 0, 0, before);
        return true;
      };
      const onEnd = () => {
        // One that gave way may end all the same.
        if (!ended) end(bytes === room.length ? room : trimmed(room, bytes));
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

  /** What is only promised ends nobody knows where: such a body gives back what it has not filled. */
  function trimmed(room: Buffer, bytes: number): Buffer {
    const body = Buffer.allocUnsafeSlow(bytes);
    room.copy(body, 0, 0, bytes);
    held -= room.length - bytes;
    return body;
  }

  function release(body: Buffer): void {
    held -= body.length;
  }

  return { read, release, heldBytes: () => held };
}
