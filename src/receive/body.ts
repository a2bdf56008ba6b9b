import type { IncomingMessage } from 'node:http';

/** What a chunk costs besides its bytes. Without that a million one-byte chunks (6 MB on the wire) would hold 380 MB. */
const CHUNK_BYTES = 400;

/**
 * The most chunks of a body, plus one for each BYTES_A_CHUNK: enough for a sender that writes word by word. A chunk takes a tenth
 * of the time of a small request.
 */
const MOST_CHUNKS = 1_024;
const BYTES_A_CHUNK = 64;

/**
 * After so many bytes of a body it waits for its next turn. By itself Node reads 2 MiB of one before it turns to the next, and
 * four hundred endless bodies blocked everybody else for half a minute.
 */
const BYTES_A_TURN = 65_536;
const BODIES_A_TURN = 4;

/** Why there is no body. `no_room`: all bodies together would exceed their limit. */
export type NoBody = 'too_large' | 'too_many_chunks' | 'aborted' | 'no_room';

/** Reads no more from the request's connection. The rest of what has just been read still comes. */
export function stopReading(incoming: IncomingMessage): void {
  // The stream takes this for a read under way. Otherwise it would begin one, and so resume the socket.
  incoming.read(0);
  incoming.socket?.pause();
}

/**
 * All bodies in flight, which together hold at most `maxHeldBytes`. At the limit the one that has been arriving for the longest
 * is dropped: a real delivery is complete within milliseconds, and an attacker's body must stay to fill the memory. A complete
 * body is never dropped. Refused: to drop the largest, or one of the network that holds most, because many small ones could then
 * shut out larger ones.
 */
export function createBodies({ maxBodyBytes, maxHeldBytes }: { maxBodyBytes: number; maxHeldBytes: number }) {
  const inTurn = createTurns(BODIES_A_TURN);
  let held = 0;
  /** Those that are still arriving, the oldest first, as functions that drop them. */
  const coming = new Set<() => void>();

  /** False: there is none. */
  function makeRoom(): boolean {
    for (const oldest of coming) {
      if (held <= maxHeldBytes) break;
      oldest();
    }
    return held <= maxHeldBytes;
  }

  /**
   * The whole body, or why there is none: `too_large` as soon as more than `maxBodyBytes` have come, `aborted` when the sender
   * disconnected. Never rejects. `declaredBytes`: the Content-Length, 0 without one. Reads Node's own request, because its bytes
   * can be counted as they come, and a single chunk needs no copy.
   */
  function read(incoming: IncomingMessage, declaredBytes: number): Promise<Buffer | NoBody> {
    return new Promise((resolve) => {
      let chunks: Buffer[] = [];
      let bytes = 0;
      /** The connection rests when so many bytes have come. */
      let restAt = BYTES_A_TURN;
      let ended = false;
      const drop = () => end('no_room');

      const end = (result: Buffer | NoBody) => {
        // Several events may end a body, and a dropped one may still come to its end.
        if (ended) return;
        ended = true;
        coming.delete(drop);
        held -= bytes + chunks.length * CHUNK_BYTES;
        chunks = [];
        // After so many chunks even an answer is too much: each of the rest that has been read would cost more than it.
        if (result === 'too_many_chunks') incoming.destroy();
        else if (typeof result === 'string') stopReading(incoming);
        else held += result.length;
        resolve(result);
      };
      const rest = () => {
        stopReading(incoming);
        restAt = Number.POSITIVE_INFINITY;
        inTurn(() => {
          restAt = bytes + BYTES_A_TURN;
          if (!ended) incoming.socket?.resume();
        });
      };
      // It stays until the end, so that Node does not keep the rest of a dropped body.
      incoming.on('data', (chunk: Buffer) => {
        if (ended) {
          if (!incoming.destroyed) stopReading(incoming);
          return;
        }
        chunks.push(chunk);
        bytes += chunk.length;
        held += chunk.length + CHUNK_BYTES;
        if (bytes > maxBodyBytes) end('too_large');
        else if (chunks.length > MOST_CHUNKS + bytes / BYTES_A_CHUNK) end('too_many_chunks');
        else if (held > maxHeldBytes && !makeRoom()) end('no_room');
        else if (!ended && bytes !== declaredBytes) {
          coming.add(drop);
          if (bytes >= restAt) rest();
        }
      });
      incoming.on('end', () => end(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)));
      // Either may come alone: an error before the close, or a close without an error.
      incoming.on('error', () => end('aborted'));
      incoming.on('close', () => end('aborted'));
      if (incoming.destroyed && !incoming.readableEnded) end('aborted');
    });
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

/**
 * Begins few tasks in a turn of the event loop, in the order of calls. Node accepts one connection a turn: where hundreds of tasks
 * begin in each, everybody waits behind all of them for each connection that comes before his own.
 */
export function createTurns(tasksATurn: number): (begin: () => void) => void {
  const waiting: (() => void)[] = [];
  function nextTurn(): void {
    for (const begin of waiting.splice(0, tasksATurn)) begin();
    if (waiting.length > 0) setImmediate(nextTurn);
  }
  return (begin) => {
    if (waiting.push(begin) === 1) setImmediate(nextTurn);
  };
}
