import type { MiddlewareHandler } from 'hono';
import { raw } from 'hono/html';
import type { PropsWithChildren } from 'hono/jsx';
import { secureHeaders } from 'hono/secure-headers';
import { script, styleSheet } from './assets.ts';

/**
 * Allows nothing from other origins and nothing inline, so that a hostile name does nothing even if escaping fails.
 * `formTarget`: another origin that the answer to a form may redirect to.
 */
export function pageHeaders(formTarget?: string): MiddlewareHandler {
  const secure = secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      connectSrc: ["'self'"],
      imgSrc: ['data:'],
      formAction: ["'self'", ...(formTarget === undefined ? [] : [formTarget])],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
    xFrameOptions: 'DENY',
    // Not `no-referrer`: with that, browsers send `Origin: null` with a form.
    referrerPolicy: 'same-origin',
    // It is for https, and the sandbox speaks http.
    strictTransportSecurity: false,
  });
  return async function pageHeaders(context, next) {
    context.header('cache-control', 'no-store');
    await secure(context, next);
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
