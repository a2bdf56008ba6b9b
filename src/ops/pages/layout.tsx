import { type Child, createContext, type PropsWithChildren, useContext } from 'hono/jsx';
import type { Identity } from '../access.ts';
import type { Waiting } from '../attention.ts';
import { count, figure } from '../words.ts';
import { script, styleSheet } from './assets.ts';
import type { Notice } from './form-outcome.ts';
import { ActionForm } from './pieces.tsx';

/** A drop of ink: also keeps browsers from asking for /favicon.ico, which would be refused. */
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

/** What waits for a person, for the navigation of whatever page is made; null: not known. */
const WaitingContext = createContext<Waiting | null>(null);

/** How much of it stands behind each page, and in words what that is. */
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

/** The navigation. A part, so that its figures move with those of the page that is watched. */
export function Pages({ current }: { current: PageName | null }) {
  const waiting = useContext(WaitingContext);
  const counts = waiting === null ? {} : countsOf(waiting);
  return (
    <nav class="pages" aria-label="Pages" data-part="pages">
      <ul>
        {PAGES.map(([path, name]) => {
          const [number, words] = counts[name] ?? [0, ''];
          return (
            <li>
              <a href={path} {...(name === current ? { 'aria-current': 'page' } : {})}>
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

/** What every page is given. */
export interface PageView {
  identity: Identity;
  /** Wall-clock milliseconds. */
  now: number;
  told: Notice | null;
}

/** What a page of a list is given besides: where its other rows stand. */
export interface ListView extends PageView {
  next: string | null;
  first: string | null;
}

/** Everything around a page's own content. `stream`: where its parts are sent anew; null: it stands still. */
export function Frame({
  title,
  current,
  identity,
  now,
  stream = null,
  children,
}: PropsWithChildren<{
  title: string;
  current: PageName | null;
  identity: Identity | null;
  /** Wall-clock milliseconds. */
  now: number;
  stream?: string | null;
}>) {
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
          <span class="live" {...(stream === null ? {} : { 'data-live': true })}>
            as of{' '}
            <time datetime={new Date(now).toISOString()}>
              {new Date(now).toISOString().slice(11, 19)} UTC
            </time>
          </span>
          {identity === null ? null : (
            <span>
              {identity.name}
              {identity.role === 'read' ? ', may read' : ''}
            </span>
          )}
          {identity === null || identity.csrf === null ? null : (
            <ActionForm action="/sign-out" csrf={identity.csrf}>
              <button class="plain" type="submit">
                Sign out
              </button>
            </ActionForm>
          )}
        </header>
        <Pages current={current} />
        <main id="main" tabindex={-1} {...(stream === null ? {} : { 'data-stream': stream })}>
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

/** A part of a page, or parts, with what their navigation says. */
export function fragment(content: Child, waiting: Waiting): string {
  return String(<WaitingContext.Provider value={waiting}>{content}</WaitingContext.Provider>);
}

export function page(content: Child, waiting: Waiting | null = null): string {
  return `<!doctype html>${waiting === null ? String(content) : fragment(content, waiting)}`;
}
