import type { IncomingMessage } from 'node:http';

/**
 * The request's whole body, or why there is none: `too_large` as soon as more than `maxBytes` have come,
 * `aborted` when the sender went away first. Never rejects. Reads the request of Node itself: its bytes come
 * without the copy that `arrayBuffer()` makes, and can be counted as they come.
 */
export function readBody(
  incoming: IncomingMessage,
  maxBytes: number,
): Promise<Buffer | 'too_large' | 'aborted'> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) {
        // Nobody listens from here on; the server discards what still comes, and not for long.
        incoming.off('data', onData);
        incoming.pause();
        resolve('too_large');
      } else chunks.push(chunk);
    };
    // The first to come counts: none of them need be taken off.
    let ended = false;
    const onEnd = () => {
      ended = true;
      // Most bodies come in one piece, which needs no copy.
      resolve(chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks));
    };
    // Every request closes in the end, and Node looks into each promise that is resolved twice.
    const onGone = () => {
      if (!ended) resolve('aborted');
    };
    incoming.on('data', onData);
    incoming.on('end', onEnd);
    // Either may come alone: an error before the close, or a close without one.
    incoming.on('error', onGone);
    incoming.on('close', onGone);
    if (incoming.destroyed && !incoming.readableEnded) onGone();
  });
}
