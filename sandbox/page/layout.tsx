import type { MiddlewareHandler } from 'hono';
import { raw } from 'hono/html';
import type { Child, PropsWithChildren } from 'hono/jsx';
import { script, styleSheet } from './assets.ts';

/**
 * Allows nothing from other origins and nothing inline, so that a hostile name does nothing even if escaping fails.
 * `formTarget`: another origin that the answer to a form may redirect to.
 */
export function pageHeaders(formTarget = ''): MiddlewareHandler {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    'img-src data:',
    `form-action 'self' ${formTarget}`.trim(),
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ');
  return async function pageHeaders(context, next) {
    await next();
    const { headers } = context.res;
    headers.set('content-security-policy', policy);
    headers.set('x-content-type-options', 'nosniff');
    headers.set('x-frame-options', 'DENY');
    // Not `no-referrer`: with that, browsers send `Origin: null` with a form.
    headers.set('referrer-policy', 'same-origin');
    if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  };
}

/** Also keeps browsers from asking for /favicon.ico. */
const ICON =
  'data:image/svg+xml,%3Csvg xmlns=%22http://www.w3.org/2000/svg%22 viewBox=%220 0 16 16%22%3E%3Cpath d=%22M0 12L12 0h4L0 16z%22 fill=%22%232f5fd0%22/%3E%3C/svg%3E';

export function Layout({ title, children }: PropsWithChildren<{ title: string }>) {
  return (
    <>
      {raw('<!doctype html>')}
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="robots" content="noindex" />
          <title>{title} · compliance sandbox</title>
          <link rel="icon" href={ICON} />
          <link rel="stylesheet" href={styleSheet.path} />
          <script src={script.path} defer></script>
        </head>
        <body>{children}</body>
      </html>
    </>
  );
}

type CardProps = PropsWithChildren<{
  /** The name by which the script replaces this part. */
  part: string;
  title: string;
  isTitleHidden?: boolean;
  /** In one line with the title. */
  aside?: Child;
}>;

export function Card({ part, title, isTitleHidden, aside, children }: CardProps) {
  return (
    <section class="card" data-part={part} aria-labelledby={`${part}-title`}>
      <header>
        <h2 id={`${part}-title`} class={isTitleHidden ? 'hidden' : undefined}>
          {title}
        </h2>
        {aside}
      </header>
      {children}
    </section>
  );
}
