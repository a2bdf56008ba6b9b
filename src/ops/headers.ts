import type { MiddlewareHandler } from 'hono';

/** Nothing from elsewhere, nothing inline, no framing: a hostile name that slipped through would still do nothing. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ');

const SECURITY_HEADERS = [
  ['Content-Security-Policy', CONTENT_SECURITY_POLICY],
  ['X-Content-Type-Options', 'nosniff'],
  ['X-Frame-Options', 'DENY'],
  ['Cross-Origin-Opener-Policy', 'same-origin'],
  ['Cross-Origin-Resource-Policy', 'same-origin'],
  // Not `no-referrer`: browsers then send `Origin: null` with a form, and the Origin check would have nothing to check.
  ['Referrer-Policy', 'same-origin'],
] as const;

/** A year, as is usual. The name alone: what else goes by its subdomains is not ours to say. */
const HTTPS_ONLY = 'max-age=31536000';

/** On every answer of this listener, errors included. A handler that sets Cache-Control itself keeps its own. */
export function securityHeaders(publicUrl: URL | null): MiddlewareHandler {
  return async function securityHeaders(c, next) {
    await next();
    secured(c.res, publicUrl);
  };
}

/** The same answer with them. For what answers before the listener's own app is there, too. */
export function secured(response: Response, publicUrl: URL | null): Response {
  const { headers } = response;
  for (const [name, value] of SECURITY_HEADERS) headers.set(name, value);
  if (publicUrl?.protocol === 'https:') headers.set('Strict-Transport-Security', HTTPS_ONLY);
  if (!headers.has('Cache-Control')) headers.set('Cache-Control', 'no-store');
  return response;
}
