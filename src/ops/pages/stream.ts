import type { Socket } from 'node:net';
import { z } from 'zod';
import { problem } from '../../platform/problem.ts';
import type { OpsHandlerContext } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { pageQuery } from './query.ts';

/** How often a page may change. */
const LOOK_MS = 1_000;
/** A comment this often shows a proxy that the stream lives, and shows us a browser that went away. */
const KEEP_ALIVE_MS = 15_000;
/** Each open page holds a connection; more of them than this is not people watching. */
export const MAX_STREAMS = 64;
/** Those of one token: a person with many tabs, and not all that others could open. */
export const MAX_STREAMS_OF_ONE = 16;

interface StreamSource {
  /** The fragment as it stands now. */
  render(c: OpsHandlerContext): Promise<string>;
  mayGoOn(c: OpsHandlerContext): Promise<boolean>;
}

/**
 * Server-sent events: a page's fragment whenever it differs from what was last sent, until the service drains. The
 * limits are for all kinds of pages together. When `mayGoOn` says false the stream ends; the page then asks anew, and is sent
 * to sign in.
 */
export function createStream(
  context: Pick<OpsContext, 'clock' | 'signal'>,
  mayGoOn: StreamSource['mayGoOn'],
) {
  let open = 0;
  /** By the token's name. */
  const openOf = new Map<string, number>();
  const isFull = (name: string) => open >= MAX_STREAMS || (openOf.get(name) ?? 0) >= MAX_STREAMS_OF_ONE;
  /** `render` is given the query as `schema` reads it; one that it refuses is answered, and takes no place. */
  return <Query>(
    render: (c: OpsHandlerContext, query: Query) => Promise<string>,
    schema: z.ZodType<Query> = z.unknown() as z.ZodType<Query>,
  ) =>
    (c: OpsHandlerContext): Response => {
      const query = pageQuery(c, schema);
      if (!query.ok) return query.response;
      const { name } = c.get('identity');
      if (isFull(name)) {
        return problem(503, 'too_many_streams', 'Too many pages are open.', undefined, {
          'retry-after': '30',
        });
      }
      const body = fragments(
        c,
        context,
        { render: (c) => render(c, query.value), mayGoOn },
        {
          opened: () => {
            if (isFull(name)) return false;
            open += 1;
            openOf.set(name, (openOf.get(name) ?? 0) + 1);
            return true;
          },
          closed: () => {
            open -= 1;
            const left = (openOf.get(name) ?? 0) - 1;
            if (left > 0) openOf.set(name, left);
            else openOf.delete(name);
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
  /** `opened` says false where others have taken the last place since it was asked for. */
  count: { opened(): boolean; closed(): void },
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const gone = new AbortController();
  // The listener lets those still hear who have said all that they will. A browser that has closed a page is not among them.
  const left = new AbortController();
  const leave = () => left.abort();
  const socket = c.env?.incoming?.socket as Partial<Pick<Socket, 'once' | 'off'>> | undefined;
  const ended = AbortSignal.any([gone.signal, left.signal, signal]);
  let state: 'new' | 'open' | 'closed' = 'new';
  let sent: string | null = null;
  let lookedAt = 0;

  const close = () => {
    if (state === 'open') count.closed();
    state = 'closed';
    socket?.off?.('end', leave);
  };

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (state === 'new') {
          state = count.opened() ? 'open' : 'closed';
          if (state === 'closed') return controller.close();
          socket?.once?.('end', leave);
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
