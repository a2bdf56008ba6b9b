import { isIPv4 } from 'node:net';
import { Hono, type MiddlewareHandler } from 'hono';
import { secureHeaders } from 'hono/secure-headers';
import { problem } from '../platform/problem.ts';
import type { OpsEnv } from './access.ts';
import type { OpsContext } from './context.ts';

/** No host name may be longer (RFC 1035). */
const NAME_SHOWN_CHARACTERS = 253;

/**
 * Whether `host`, a Host header, may be ours. This stops DNS rebinding: a site makes its own name point to our address, so
 * that its pages count as ours. Such a name must be registered, so names that nobody can register pass: an address;
 * `localhost` and names below it; a name without a dot, as of a container. Other names pass only if they are `configured`.
 * Undefined passes, because every browser sends a Host header.
 */
export function isOwnHost(host: string | undefined, configured: readonly string[]): boolean {
  if (host === undefined) return true;
  const name = nameIn(host);
  if (name === null) return false;
  if (isIPv4(name) || !name.includes('.') || name.endsWith('.localhost')) return true;
  return configured.some((own) => nameIn(own) === name);
}

/** The name or address as browsers spell it: IPv4 in four decimals, IPv6 without a dot, a name in small letters. Null: none. */
function nameIn(host: string): string | null {
  const url = URL.parse(`http://${host}`);
  return url === null ? null : url.hostname.replace(/\.$/, '');
}

const FOREIGN_HOST =
  'operators’ listener asked for under a name that is not its own: if operators use it, set OPS_PUBLIC_URL to it, and have the proxy pass Host on';

/**
 * Rejects requests under a name that is not ours. A request with a bearer token passes, because no other site can have a
 * browser send one: scrapes and scripts may use any name.
 */
export function ownHosts({ host, publicUrl, lines, logger }: OpsContext): MiddlewareHandler<OpsEnv> {
  const configured = publicUrl === null ? [host] : [host, publicUrl.host];
  return async function ownHosts(c, next) {
    const asked = c.req.header('host');
    if (c.req.header('authorization') !== undefined || isOwnHost(asked, configured)) return next();
    const error = `asked for under the name ${JSON.stringify(asked?.slice(0, NAME_SHOWN_CHARACTERS))}`;
    lines.write(logger, 'warn', { outcome: 'refused', reason: 'foreign_host', error }, FOREIGN_HOST);
    // Anybody can get this answer, so only the log says what to set.
    return problem(421, 'foreign_host', 'This service does not go by that name.', 'Its log says more.');
  };
}

/** A year, as is usual. Without subdomains: they may belong to other services. */
const HTTPS_ONLY = 'max-age=31536000';

/**
 * On every answer of this listener, errors included: nothing from other sites, nothing inline, no framing. Even HTML in a record's
 * name that slipped through would do nothing.
 */
export const securityHeaders = (publicUrl: URL | null): MiddlewareHandler =>
  secureHeaders({
    contentSecurityPolicy: {
      defaultSrc: ["'none'"],
      scriptSrc: ["'self'"],
      styleSrc: ["'self'"],
      connectSrc: ["'self'"],
      imgSrc: ["'self'", 'data:'],
      formAction: ["'self'"],
      frameAncestors: ["'none'"],
      baseUri: ["'none'"],
    },
    xFrameOptions: 'DENY',
    // Not `no-referrer`: browsers then send `Origin: null` with a form, and the Origin check would have nothing to check.
    referrerPolicy: 'same-origin',
    strictTransportSecurity: publicUrl?.protocol === 'https:' ? HTTPS_ONLY : false,
  });

/** Unless a handler has set it. */
export const notCached: MiddlewareHandler = async function notCached(c, next) {
  await next();
  if (!c.res.headers.has('Cache-Control')) c.res.headers.set('Cache-Control', 'no-store');
};

/** For answers that are given before this listener's app exists. */
export function answering(publicUrl: URL | null, answer: (path: string) => Response) {
  const app = new Hono().use(securityHeaders(publicUrl), notCached);
  app.all('*', (c) => answer(c.req.path));
  return (request: Request) => app.fetch(request);
}
