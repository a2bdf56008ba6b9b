import { problem } from '../problem.ts';
import type { OpsHandlerContext } from './access.ts';
import type { OpsContext } from './context.ts';

/** How often a page may change. */
const LOOK_MS = 1_000;
/** A comment this often shows a proxy that the stream lives, and shows us a browser that went away. */
const KEEP_ALIVE_MS = 15_000;
/** Each open page holds a connection; more of them than this is not people watching. */
const MAX_STREAMS = 64;

interface StreamSource {
  /** The fragment as it stands now. */
  render(c: OpsHandlerContext): Promise<string>;
  mayGoOn(c: OpsHandlerContext): Promise<boolean>;
}

/**
 * Server-sent events: a page's fragment whenever it differs from what was last sent, until the service drains. The
 * limit is for all pages together. When `mayGoOn` says false the stream ends; the page then asks anew, and is sent
 * to sign in.
 */
export function createStream(
  context: Pick<OpsContext, 'clock' | 'signal'>,
  mayGoOn: StreamSource['mayGoOn'],
) {
  let open = 0;
  return (render: StreamSource['render']) =>
    (c: OpsHandlerContext): Response => {
      if (open >= MAX_STREAMS) {
        return problem(503, 'too_many_streams', 'Too many pages are open.', undefined, {
          'retry-after': '30',
        });
      }
      const body = fragments(
        c,
        context,
        { render, mayGoOn },
        {
          opened: () => {
            open += 1;
          },
          closed: () => {
            open -= 1;
          },
        },
      );
      return new Response(body, {
        headers: {
          'content-type': 'text/event-stream; charset=utf-8',
          // A proxy that gathers the answer before passing it on would show nothing.
          'x-accel-buffering': 'no',
        },
      });
    };
}

/**
 * Works only when read from: a reader that is slow is sent the newest state once it reads again, and an answer
 * to HEAD, which nobody reads, costs nothing.
 */
function fragments(
  c: OpsHandlerContext,
  { clock, signal }: Pick<OpsContext, 'clock' | 'signal'>,
  { render, mayGoOn }: StreamSource,
  count: { opened(): void; closed(): void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const gone = new AbortController();
  const ended = AbortSignal.any([gone.signal, signal]);
  let state: 'new' | 'open' | 'closed' = 'new';
  let sent: string | null = null;
  let lookedAt = 0;

  const close = () => {
    if (state === 'open') count.closed();
    state = 'closed';
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (state === 'new') {
          state = 'open';
          count.opened();
        }
        try {
          const pulledAt = clock.steady();
          for (;;) {
            if (sent !== null) await clock.sleep(Math.max(0, lookedAt + LOOK_MS - clock.steady()), ended);
            if (ended.aborted || !(await mayGoOn(c))) {
              close();
              if (!gone.signal.aborted) controller.close();
              return;
            }
            lookedAt = clock.steady();
            const html = await render(c);
            if (html !== sent) {
              sent = html;
              controller.enqueue(encoder.encode(asEvent(html)));
              return;
            }
            if (lookedAt - pulledAt >= KEEP_ALIVE_MS) {
              controller.enqueue(encoder.encode(': still here\n\n'));
              return;
            }
          }
        } catch (error) {
          close();
          if (!gone.signal.aborted) throw error;
        }
      },
      cancel() {
        gone.abort();
        close();
      },
    },
    { highWaterMark: 0 },
  );
}

function asEvent(html: string): string {
  const lines = html.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: status\n${lines.join('')}\n`;
}
