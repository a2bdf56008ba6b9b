import type { PropsWithChildren } from 'hono/jsx';
import type { Identity } from '../access.ts';
import { script, styleSheet } from './assets.ts';
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

/** Everything around a page's own content. `stream`: where its parts are sent anew; null: it stands still. */
export function Frame({
  title,
  current,
  identity,
  now,
  stream = null,
  wide = false,
  children,
}: PropsWithChildren<{
  title: string;
  current: PageName | null;
  identity: Identity | null;
  /** Wall-clock milliseconds. */
  now: number;
  stream?: string | null;
  wide?: boolean;
}>) {
  return (
    <Layout title={title}>
      <a class="hidden skip" href="#main">
        Skip to the content
      </a>
      <div class={wide ? 'wrap wide-wrap' : 'wrap'}>
        <header class="top">
          <a class="name" href="/">
            compliance mirror
          </a>
          <span class="live" {...(stream === null ? {} : { 'data-live': true })}>
            as of{' '}
            <time datetime={new Date(now).toISOString()} title={new Date(now).toISOString()} data-clock>
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
        <nav class="pages" aria-label="Pages">
          <ul>
            {PAGES.map(([path, name]) => (
              <li>
                <a href={path} {...(name === current ? { 'aria-current': 'page' } : {})}>
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
        <main id="main" tabindex={-1} {...(stream === null ? {} : { 'data-stream': stream })}>
          {children}
        </main>
        <footer class="foot">
          <span data-zone>All times are UTC.</span>
          <a href="/api/status">The status as JSON</a>
          <a href="/metrics">Metrics</a>
          <a href="/openapi.json">API</a>
        </footer>
      </div>
    </Layout>
  );
}

export function page(content: unknown): string {
  return `<!doctype html>${String(content)}`;
}
