import { hash } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import type { Child, PropsWithChildren } from 'hono/jsx';
import { PROBLEM_CONTENT_TYPE } from '../../platform/problem.ts';
import { acceptsPage, type OpsEnv, signInPath } from '../access.ts';
import type { Waiting } from '../attention.ts';
import type { OpsContext } from '../context.ts';
import { count, figure } from '../words.ts';
import { PostForm } from './controls.tsx';
import type { noticeOf } from './forms.ts';
import { type Fact, Facts, Title, useVisit, type Visit, VisitContext } from './pieces.tsx';
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
  ['/', 'Status'],
  ['/deliveries', 'Deliveries'],
  ['/events', 'Events'],
  ['/records/policy', 'Records'],
  ['/gaps', 'Gaps'],
  ['/sync-runs', 'Sync runs'],
  ['/quarantine', 'Quarantine'],
  ['/rejections', 'Rejections'],
  ['/audit', 'Audit'],
] as const;

export type PageName = (typeof PAGES)[number][1];

/** How much waits for a person on each page, as a number and in words. */
function countsOf({ pendingDeletions, failed, quarantined, rejected, gaps }: Waiting) {
  const counts: Partial<Record<PageName, readonly [number, string]>> = {
    Events: [failed, `${figure(failed)} failed`],
    Gaps: [gaps, `${figure(gaps)} ${gaps === 1 ? 'needs' : 'need'} a person`],
    'Sync runs': [pendingDeletions, `${count(pendingDeletions, 'deletion')} to approve`],
    Quarantine: [quarantined, `${figure(quarantined)} not released`],
    Rejections: [rejected, `${figure(rejected)} in the last hour`],
  };
  return counts;
}

/** The navigation. A part of every stream, so that its counts stay current. */
export function Pages({ current }: { current: PageName | null }) {
  const { waiting } = useVisit();
  const counts = waiting === null ? {} : countsOf(waiting);
  return (
    <nav class="pages" aria-label="Pages" data-part="pages">
      <ul>
        {PAGES.map(([path, name]) => {
          const [number, words] = counts[name] ?? [0, ''];
          return (
            <li>
              <a href={path} aria-current={name === current ? 'page' : undefined}>
                {name}
                {number === 0 ? null : (
                  <span class="count" title={words}>
                    {figure(number)}
                    <span class="hidden"> ({words})</span>
                  </span>
                )}
              </a>
            </li>
          );
        })}
      </ul>
    </nav>
  );
}

type FrameOf = PropsWithChildren<{ title: string; current: PageName | null; stream?: string | null }>;

/** Everything around a page's own content. `stream`: where its changed parts come from; null: it has no stream. */
export function Frame({ title, current, stream = null, children }: FrameOf) {
  const { identity, now } = useVisit();
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
          <span class="live" {...(stream === null ? {} : { 'data-live': true, role: 'status' })}>
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
          {identity === null || identity.csrf === null ? null : (
            <PostForm action="/sign-out">
              <button class="plain" type="submit">
                Sign out
              </button>
            </PostForm>
          )}
        </header>
        <Pages current={current} />
        <main id="main" tabindex={-1} data-stream={stream}>
          {children}
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

interface OneThingOf {
  title: string;
  heading?: Child | Child[];
  note?: Child;
  current: PageName;
  facts: readonly (Fact | null | false)[];
  /** The notice of a form's outcome; default: that of all other pages. */
  say?: typeof noticeOf;
}

/** The page of one thing: its name, facts about it, and `children`. */
export function OneThing({ title, heading = title, children, ...rest }: PropsWithChildren<OneThingOf>) {
  return (
    <Frame title={title} current={rest.current}>
      <Title note={rest.note} say={rest.say}>
        {heading}
      </Title>
      <Facts facts={rest.facts} />
      {children}
    </Frame>
  );
}

export function fragment(content: Child, visit: Visit): string {
  return String(<VisitContext.Provider value={visit}>{content}</VisitContext.Provider>);
}

export function page(content: Child, visit: Visit): string {
  return `<!doctype html>${fragment(content, visit)}`;
}

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
    if (!acceptsPage(c) || c.req.path.startsWith('/api/')) return;
    const problem = (await res.json()) as { title: string; detail?: string };
    // Without a token, only a form gets 401: for a page, the sign-in is shown instead.
    const hasEnded = res.status === 401 && c.req.header('authorization') === undefined;
    const ended = {
      title: 'Your session has ended.',
      detail: 'Nothing was changed. Sign in and do it again.',
    };
    const { title, detail } = hasEnded ? ended : problem;
    const content = (
      <Frame title={title} current={null}>
        <Title note={detail}>{title}</Title>
        <p class="note">
          {hasEnded ? (
            <a href={signInPath(c.req.header('referer') ?? '/')}>Sign in</a>
          ) : (
            <a href="/">To the status page</a>
          )}
        </p>
      </Frame>
    );
    const visit = { identity: c.get('identity') ?? null, now: clock.wall(), outcome: null, waiting: null };
    const headers = new Headers(res.headers);
    headers.set('content-type', 'text/html; charset=utf-8');
    c.res = undefined;
    c.res = new Response(page(content, visit), { status: res.status, headers });
  };
}
