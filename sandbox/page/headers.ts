import type { MiddlewareHandler } from 'hono';

/**
 * Nothing from elsewhere and nothing inline, so that a hostile name that slipped through the escaping would
 * still do nothing. `formTargets`: where else the answer to a form may lead.
 */
export function pageHeaders(formTargets: readonly string[] = []): MiddlewareHandler {
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "connect-src 'self'",
    'img-src data:',
    `form-action ${["'self'", ...formTargets].join(' ')}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ].join('; ');
  return async function pageHeaders(context, next) {
    await next();
    const { headers } = context.res;
    headers.set('content-security-policy', policy);
    headers.set('x-content-type-options', 'nosniff');
    headers.set('x-frame-options', 'DENY');
    // Not `no-referrer`, with which browsers send `Origin: null` along with a form.
    headers.set('referrer-policy', 'same-origin');
    if (!headers.has('cache-control')) headers.set('cache-control', 'no-store');
  };
}
