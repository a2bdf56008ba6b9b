import { hash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import type { Child, PropsWithChildren } from 'hono/jsx';
import { PROBLEM_CONTENT_TYPE } from '../../platform/problem.ts';
import { acceptsPage, cameFrom, type OpsEnv, signInPath } from '../access.ts';
import type { OpsContext } from '../context.ts';
import { figure } from '../words.ts';
import { useVisit, type Visit, VisitContext } from './pieces.tsx';
import { SCRIPT } from './script.ts';
import { STYLE } from './style.ts';

/** Inline, so that browsers do not ask for /favicon.ico, which would be refused. */
const ICON =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E%3Cpath d=%22M3 2h4v12H3zM9 2h4v12H9z%22 fill=%22%23888%22/%3E%3C/svg%3E';

export function Layout({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <meta name="robots" content="noindex" />
        <title>{title} · compliance mirror</title>
        <link rel="icon" href={ICON} />
        <link rel="stylesheet" href={styleSheet.path} />
        <script src={script.path} defer></script>
      </head>
      <body>{children}</body>
    </html>
  );
}

const PAGES = [
  ['/', 'Overview'],
  ['/deliveries', 'Deliveries'],
  ['/records/policy', 'Records'],
  ['/syncs', 'Syncs'],
  ['/audit', 'Audit'],
] as const;

export type PageName = (typeof PAGES)[number][1];

/** A page without what stands around every page. */
export interface Content {
  title: string;
  /** Default: the title. Null: the body has its own. */
  heading?: Child;
  note?: Child;
  current: PageName | null;
  /** The address at which the script of the open page asks for its parts again; null: they do not change. */
  again?: string | null;
  body: Child;
}

/** The navigation. A part of every page, so that its count stays current. */
function Pages({ current }: Pick<Content, 'current'>) {
  const { waiting } = useVisit();
  return (
    <nav class="pages" aria-label="Pages" data-part="pages">
      <ul>
        {PAGES.map(([path, name]) => (
          <li>
            <a href={path} aria-current={name === current ? 'page' : undefined}>
              {name}
              {path !== '/' || waiting === 0 ? null : (
                <span class="count">
                  {figure(waiting)}
                  <span class="hidden"> {waiting === 1 ? 'problem needs you' : 'problems need you'}</span>
                </span>
              )}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}

/** A page as a whole. */
export function Frame({ title, heading = title, note = null, current, again = null, body }: Content) {
  const { identity, now, notice } = useVisit();
  return (
    <Layout title={title}>
      <a class="hidden skip" href="#main">
        Skip to the content
      </a>
      <div class="wrap">
        <header class="top">
          <a class="name" href="/">
            compliance mirror
          </a>
          <span class="live" {...(again === null ? {} : { 'data-live': true, role: 'status' })}>
            as of{' '}
            <time datetime={new Date(now).toISOString()}>
              {new Date(now).toISOString().slice(11, 19)} UTC
            </time>
          </span>
          {identity === null ? null : (
            <span>
              {identity.name}
              {identity.role === 'read' ? ', may only read' : ''}
            </span>
          )}
          {identity?.isSession !== true ? null : (
            <form method="post" action="/sign-out">
              <button class="plain" type="submit">
                Sign out
              </button>
            </form>
          )}
        </header>
        <Pages current={current} />
        <main id="main" tabindex={-1} data-again={again}>
          {heading === null ? null : (
            <header class="title">
              <h1>{heading}</h1>
              {note === null ? null : <p class="lead">{note}</p>}
            </header>
          )}
          {notice === null ? null : (
            <p class="notice" role="status">
              {notice}
            </p>
          )}
          {body}
        </main>
        <footer class="foot">
          <span>All times are UTC.</span>
          <a href="/api/status">The status as JSON</a>
          <a href="/metrics">Metrics</a>
          <a href="/openapi.json">API</a>
        </footer>
      </div>
    </Layout>
  );
}

export const page = (content: Child, visit: Visit): string =>
  `<!doctype html>${<VisitContext.Provider value={visit}>{content}</VisitContext.Provider>}`;

/** The hash in the name changes with the content, so that browsers may cache it forever. */
function asset(name: string, extension: string, contentType: string, text: string) {
  const headers = { 'content-type': contentType, 'cache-control': 'public, max-age=31536000, immutable' };
  return {
    path: `/assets/${name}.${hash('sha256', text).slice(0, 12)}.${extension}`,
    serve: () => new Response(text, { headers }),
  };
}

export const styleSheet = asset('style', 'css', 'text/css; charset=utf-8', STYLE);
export const script = asset('script', 'js', 'text/javascript; charset=utf-8', SCRIPT);

/** Shows a problem as a page with the same words to a browser. Programs and requests to the API get it as JSON. */
export function problemPages({ clock }: OpsContext): MiddlewareHandler<OpsEnv> {
  return async function problemPages(c, next) {
    await next();
    const { res } = c;
    if (res.headers.get('content-type') !== PROBLEM_CONTENT_TYPE) return;
    if (!acceptsPage(c) || (c.req.method === 'GET' && c.req.path.startsWith('/api/'))) return;
    const problem = (await res.json()) as { title: string; detail?: string };
    // Without a token, only a form gets 401: for a page, the sign-in is shown instead.
    const hasEnded = res.status === 401 && c.req.header('authorization') === undefined;
    const ended = {
      title: 'Your session has ended.',
      detail: 'Nothing was changed. Sign in and do it again.',
    };
    const { title, detail } = hasEnded ? ended : problem;
    const from = c.req.header('referer') ?? '/';
    const way = hasEnded ? (
      <a href={signInPath(from)}>Sign in</a>
    ) : c.req.method === 'POST' ? (
      <a href={cameFrom(c)}>Back</a>
    ) : (
      <a href="/">To the overview</a>
    );
    const visit = { identity: c.get('identity') ?? null, now: clock.wall(), notice: null, waiting: 0 };
    const content = { title, note: detail, current: null, body: <p class="note">{way}</p> };
    const headers = new Headers(res.headers);
    headers.set('content-type', 'text/html; charset=utf-8');
    c.res = undefined;
    c.res = new Response(page(<Frame {...content} />, visit), { status: res.status, headers });
  };
}
