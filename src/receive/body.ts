import type { IncomingMessage } from 'node:http';
import { dropPiece, readInTurn } from './connections.ts';

/**
 * Small pieces are copied into buffers of this size, and larger ones are kept as they come. So memory grows with the bytes that
 * have arrived, and not with Content-Length. The size is small, because a stranger can make us hold one for about 300 bytes.
 * Refused: one buffer that doubles. It copies each byte twice, and five hundred endless bodies left 90 MB of garbage.
 */
const ROOM_BYTES = 4_096;

/**
 * The most pieces of a body, plus one for each BYTES_A_PIECE: enough for a sender that writes word by word. A piece costs a tenth
 * of a small request, and 6 MB can hold a million pieces.
 */
const MOST_PIECES = 1_024;
const BYTES_A_PIECE = 64;

/**
 * Up to this many incomplete bodies are read as they come. More are read in turns: a read has up to 64 KiB, and five hundred
 * reads at once would block everybody else.
 */
const READ_FREELY = 16;

/** Why there is no body. `no_room`: all bodies together would exceed their limit. */
export type NoBody = 'too_large' | 'too_many_pieces' | 'aborted' | 'no_room';

/**
 * All bodies in flight, which together hold at most `maxHeldBytes`. At the limit the body that has been arriving for the longest
 * is dropped: a real delivery is complete within milliseconds, and an attacker's body must stay to fill the memory. To push out a
 * delivery, an attacker has to send all of `maxHeldBytes` while it arrives. A complete body is never dropped. Refused: to drop the
 * largest body, because many small ones could then shut out larger ones.
 */
export function createBodies(maxHeldBytes: number) {
  let held = 0;
  /** For each body that is still arriving, the oldest first, the function that drops it. */
  const coming = new Set<() => void>();

  /** Reserves bytes. If necessary, it drops bodies older than `own`. */
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

  /**
   * The whole body, or why there is none: `too_large` as soon as more than `maxBytes` have come, `aborted` when the sender
   * disconnected. Never rejects. `declaredBytes`: the Content-Length, 0 without one. Reads Node's own request, because its bytes
   * can be counted as they come, and a single piece needs no copy.
   */
  function read(
    incoming: IncomingMessage,
    maxBytes: number,
    declaredBytes: number,
  ): Promise<Buffer | NoBody> {
    return new Promise((resolve) => {
      /** Large pieces as they came, and buffers that small pieces share. */
      let parts: Buffer[] = [];
      /** Free bytes of the last part, if it is such a buffer. */
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
          // Unless it was dropped in the meantime.
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
        // A dropped body may still end.
        if (ended) return;
        closeRoom();
        end(parts.length === 1 ? parts[0]! : joined(parts, bytes));
      };
      // Listeners stay, because only the first event counts. `ended` is checked, because resolving a promise twice costs time.
      const onGone = () => {
        if (!ended) giveUp('aborted');
      };
      incoming.on('data', onData);
      incoming.on('end', onEnd);
      // Either may come alone: an error before the close, or a close without an error.
      incoming.on('error', onGone);
      incoming.on('close', onGone);
      if (incoming.destroyed && !incoming.readableEnded) onGone();
    });
  }

  /** Not Buffer.concat, whose memory may be part of a pool that then lives as long as the body. */
  function joined(parts: readonly Buffer[], bytes: number): Buffer {
    const body = Buffer.allocUnsafeSlow(bytes);
    let at = 0;
    for (const part of parts) at += part.copy(body, at);
    return body;
  }

  return {
    read,
    /** Frees the memory of a body once its delivery is answered. */
    release(body: Buffer): void {
      held -= body.length;
    },
    /** Bytes of memory that all bodies hold now. */
    heldBytes: () => held,
  };
}
