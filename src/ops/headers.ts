import { isIP } from 'node:net';
import type { MiddlewareHandler } from 'hono';
import { problem } from '../platform/problem.ts';
import type { OpsEnv } from './access.ts';
import type { OpsContext } from './context.ts';

/** Of the name. None may be longer (RFC 1035). */
const SHOWN_CHARACTERS = 253;

/**
 * Whether `host`, a Host header, may be ours. This keeps out DNS rebinding, where a site makes its own name point to this address,
 * so that its pages count as ours. For that somebody must be able to register the name. So these pass: an address; `localhost` and
 * names below it, which never leave the machine; a name without a dot, which only the network around us knows (a container's, a
 * machine's). Other names pass only if the settings have them. Undefined passes: every browser sends one.
 */
export function isOwnHost(host: string | undefined, configured: readonly string[]): boolean {
  if (host === undefined) return true;
  const name = nameIn(host);
  if (name === null) return false;
  if (isIP(name) !== 0 || !name.includes('.') || name.endsWith('.localhost')) return true;
  return configured.some((own) => nameIn(own) === name);
}

/** As the browser spells it: an IPv4 address in four decimals, IPv6 without brackets, a name in small letters. */
function nameIn(host: string): string | null {
  // Of a host alone nothing of these is a part.
  const url = /[/\\?#@\s]/.test(host) ? null : URL.parse(`http://${host}`);
  return url === null ? null : url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '');
}

const FOREIGN_HOST =
  'operators’ listener asked for under a name that is not its own: if operators use it, set OPS_PUBLIC_URL to it, and have the proxy pass Host on';

/**
 * Turns away what came under a name that is not ours. A request with a bearer passes, since no browser adds one by itself
 * and no other site knows one: so scrapes and scripts reach this by any name.
 */
export function ownHosts({ host, publicUrl, lines, logger }: OpsContext): MiddlewareHandler<OpsEnv> {
  const configured = publicUrl === null ? [host] : [host, publicUrl.host];
  const refused = { outcome: 'refused', reason: 'foreign_host' };
  return async function ownHosts(c, next) {
    const asked = c.req.header('host');
    if (c.req.header('authorization') !== undefined || isOwnHost(asked, configured)) return next();
    if (lines.admits(logger, 'warn', FOREIGN_HOST, refused)) {
      const name = JSON.stringify(asked?.slice(0, SHOWN_CHARACTERS));
      logger.warn({ ...refused, error: `asked for under the name ${name}` }, FOREIGN_HOST);
    }
    // To anybody: what to set is in the log.
    return problem(421, 'foreign_host', 'This service does not go by that name.', 'Its log says more.');
  };
}

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

/** A year, as is usual. Without subdomains: they may belong to other services. */
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
