import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { getCookie, setCookie } from 'hono/cookie';
import { Problem, unauthorized } from './problems.ts';

const COOKIE = 'sandbox_session';
/** A bound on memory; the oldest session ends when one more begins. */
const MAX_SESSIONS = 100;

/** True for names and addresses that only this machine can reach. IPv6 with or without brackets. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  return bare === 'localhost' || bare === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

export function bearerOf(context: Context): string | null {
  return /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1] ?? null;
}

/** Compares digests, which have one length, so that the time taken says nothing about the secret. */
export function sameText(expected: string, given: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}

/**
 * Refuses other host names than those of loopback. Without a token a page of another site could otherwise point its
 * own name at this machine (DNS rebinding) and read and write as if it were ours.
 */
export function requireLoopbackName(token: string | null): MiddlewareHandler {
  return async function requireLoopbackName(context, next) {
    if (token === null && !isLoopbackHost(new URL(context.req.url).hostname)) {
      throw new Problem(421, 'foreign_host', 'Without SANDBOX_TOKEN it answers to loopback names only.');
    }
    await next();
  };
}

/** Refuses what another site's page sends. Programs send no Origin and are let through. */
export const requireOwnOrigin: MiddlewareHandler = async function requireOwnOrigin(context, next) {
  const origin = context.req.header('origin');
  const site = context.req.header('sec-fetch-site') ?? 'none';
  // Not the whole origin: behind a proxy that ends TLS the scheme is another.
  const isOwn = origin === undefined || URL.parse(origin)?.host === new URL(context.req.url).host;
  if (!isOwn || !['none', 'same-origin'].includes(site)) {
    throw new Problem(403, 'foreign_origin', 'These addresses take no requests from other sites.');
  }
  await next();
};

/** Lets those use the page and the controls who send the token or have signed in with it. Null: everyone. */
export class Access {
  readonly #token: string | null;
  readonly #sessions = new Set<string>();

  constructor(token: string | null) {
    this.#token = token;
  }

  isAllowed(context: Context): boolean {
    if (this.#token === null) return true;
    const bearer = bearerOf(context);
    if (bearer !== null) return sameText(this.#token, bearer);
    return this.#sessions.has(getCookie(context, COOKIE) ?? '');
  }

  /** False, and no session, for a wrong token. */
  signIn(context: Context, given: string): boolean {
    if (this.#token === null || !sameText(this.#token, given)) return false;
    const session = randomBytes(24).toString('base64url');
    this.#sessions.add(session);
    const [oldest] = this.#sessions;
    if (this.#sessions.size > MAX_SESSIONS && oldest !== undefined) this.#sessions.delete(oldest);
    const secure = new URL(context.req.url).protocol === 'https:';
    // Lax: a sign-in's consent page is reached by a link from elsewhere. Every change checks the Origin besides.
    setCookie(context, COOKIE, session, { httpOnly: true, sameSite: 'Lax', path: '/', secure });
    return true;
  }

  /** 401 for everybody else. */
  readonly required: MiddlewareHandler = async (context, next) => {
    if (!this.isAllowed(context)) throw unauthorized();
    await next();
  };
}
