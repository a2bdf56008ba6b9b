import { problem } from '../../platform/problem.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { clientGone, createPlaces } from '../open-requests.ts';

/** How often a page is read again. */
const LOOK_MS = 1_000;
/** A comment this often keeps proxies from closing the stream, and detects a browser that went away. */
const KEEP_ALIVE_MS = 15_000;
/** Each open page needs a connection. */
export const MAX_STREAMS = 64;
/** For one token: enough for many tabs. */
export const MAX_STREAMS_OF_ONE = 16;

/**
 * Server-sent events: sends a page's fragment whenever it has changed, until the service drains. The limits count the
 * streams of all pages together. When `mayGoOn` is false the stream ends; the page then asks again, and is sent to sign in.
 */
export function createStream(
  { clock, signal }: OpsContext,
  mayGoOn: (c: OpsHandlerContext) => Promise<boolean>,
) {
  const places = createPlaces(MAX_STREAMS, MAX_STREAMS_OF_ONE);

  async function* fragments(
    c: OpsHandlerContext,
    render: () => Promise<string>,
    left: AbortController,
  ): AsyncGenerator<string> {
    const { name } = c.get('identity');
    // Others may have taken the last place since the request came.
    if (places.isFull(name)) return;
    using _ = places.take(name);
    using gone = clientGone(c);
    const ended = AbortSignal.any([left.signal, gone.signal, signal]);
    let sent: string | null = null;
    let lookedAt = 0;
    let writtenAt = clock.steady();
    for (;;) {
      if (sent !== null) await clock.sleep(Math.max(0, lookedAt + LOOK_MS - clock.steady()), ended);
      if (ended.aborted || !(await mayGoOn(c))) return;
      lookedAt = clock.steady();
      const html = await render();
      if (html === sent && lookedAt - writtenAt < KEEP_ALIVE_MS) continue;
      yield html === sent ? ': still here\n\n' : asEvent(html);
      sent = html;
      writtenAt = clock.steady();
    }
  }

  /** `start` reads the query and returns the function that renders the fragment. It throws if the query is unusable. */
  return (start: (c: OpsHandlerContext) => () => Promise<string>) =>
    (c: OpsHandlerContext): Response => {
      const render = start(c);
      if (places.isFull(c.get('identity').name)) {
        return problem(503, 'too_many_streams', 'Too many pages are open.', undefined, {
          'retry-after': '30',
        });
      }
      const left = new AbortController();
      const events = fragments(c, render, left);
      return new Response(bodyOf(events, left), {
        headers: {
          'content-type': 'text/event-stream; charset=utf-8',
          // A proxy that buffers the answer would show nothing.
          'x-accel-buffering': 'no',
        },
      });
    };
}

/**
 * Makes an event only when it is read: a slow reader gets the newest state when it reads again, and the answer to a HEAD costs
 * nothing. `ReadableStream.from` was refused: its cancel waits for the next event, while this one aborts the wait.
 */
function bodyOf(events: AsyncGenerator<string>, left: AbortController): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let isCancelled = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { value, done } = await events.next();
        if (isCancelled) return;
        if (done) controller.close();
        else controller.enqueue(encoder.encode(value));
      },
      async cancel() {
        isCancelled = true;
        left.abort();
        await events.return(undefined);
      },
    },
    { highWaterMark: 0 },
  );
}

function asEvent(html: string): string {
  const lines = html.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: status\n${lines.join('')}\n`;
}
