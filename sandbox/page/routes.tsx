import { setTimeout as sleep } from 'node:timers/promises';
import { type Context, Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import { type Access, requireOwnOrigin } from '../access.ts';
import { Problem, toProblem } from '../problems.ts';
import { act } from './actions.ts';
import { pageHeaders, SignInPage } from './layout.tsx';
import { type PageParts, pageModel, viewSchema } from './model.ts';
import { Parts, SandboxPage } from './sandbox-page.tsx';

/** How often an open page may change. */
const LOOK_MS = 500;
/** Each open page holds a connection and is drawn anew at every look. */
const MAX_STREAMS = 16;

/** The page at the root, the address of its forms, and the stream that keeps it up to date. */
export function pageRoutes(parts: PageParts, access: Access, stopping: AbortSignal): Hono {
  const routes = new Hono();
  let streams = 0;
  const headers = pageHeaders();
  for (const path of ['/', '/act', '/parts', '/sign-in']) routes.use(path, headers);
  routes.use('/act', requireOwnOrigin);
  routes.use('/sign-in', requireOwnOrigin);

  const modelFor = (c: Context) => pageModel(parts, viewSchema.parse(c.req.query()));

  routes.get('/', requireSignIn(access), (c) => c.html(<SandboxPage model={modelFor(c)} notice={null} />));

  routes.post('/act', access.required, async (c) => {
    try {
      await act(parts, await fieldsIn(c));
    } catch (error) {
      const problem = toProblem(error);
      if (problem.status >= 500) throw error;
      return c.html(<SandboxPage model={modelFor(c)} notice={problem.message} />, problem.status);
    }
    return c.redirect(`/${new URL(c.req.url).search}`, 303);
  });

  routes.get('/parts', access.required, (c) => {
    if (streams >= MAX_STREAMS) throw new Problem(503, 'too_many_streams', 'Too many pages are open.');
    streams += 1;
    c.header('x-accel-buffering', 'no');
    return streamSSE(c, async (stream) => {
      const ended = new AbortController();
      stream.onAbort(() => ended.abort());
      const signal = AbortSignal.any([ended.signal, stopping]);
      let sent = '';
      try {
        while (!signal.aborted) {
          const html = String(<Parts model={modelFor(c)} notice={null} />);
          if (html !== sent) await stream.writeSSE({ event: 'parts', data: html });
          sent = html;
          await sleep(LOOK_MS, undefined, { signal }).catch(() => undefined);
        }
      } finally {
        streams -= 1;
      }
    });
  });

  routes.post('/sign-in', async (c) => {
    const { token = '', next = '/' } = await fieldsIn(c);
    if (!access.signIn(c, token)) return c.html(<SignInPage next={next} failed={true} />, 401);
    return c.redirect(ownPath(next), 303);
  });
  return routes;
}

/** For pages: where nobody is signed in, the way to sign in instead of a problem document. */
export function requireSignIn(access: Access) {
  return async function requireSignIn(c: Context, next: () => Promise<void>) {
    if (access.isAllowed(c)) return await next();
    const { pathname, search } = new URL(c.req.url);
    return c.html(<SignInPage next={pathname + search} failed={false} />, 401);
  };
}

async function fieldsIn(c: Context): Promise<Record<string, string>> {
  const body = await c.req.parseBody();
  return Object.fromEntries(
    Object.entries(body).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );
}

/** A path of ours, whatever was sent: a sign-in must not lead to another site. */
export function ownPath(next: string): string {
  const base = 'http://sandbox.invalid';
  const url = URL.canParse(next, base) ? new URL(next, base) : null;
  return url?.origin === base ? url.pathname + url.search : '/';
}
