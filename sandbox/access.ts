import { hash, timingSafeEqual } from 'node:crypto';
import type { MiddlewareHandler } from 'hono';
import { basicAuth } from 'hono/basic-auth';
import { bearerAuth } from 'hono/bearer-auth';
import { every, some } from 'hono/combine';
import { isLoopback } from '../src/platform/addresses.ts';
import { Problem } from './problems.ts';

/** Compares digests, which all have the same length, so that the time taken reveals nothing about the secret. */
export function sameText(expected: string, given: string): boolean {
  return timingSafeEqual(hash('sha256', expected, 'buffer'), hash('sha256', given, 'buffer'));
}

/**
 * Rejects host names that are not of loopback. A page of another site could otherwise point its own name at this machine (DNS
 * rebinding) and read and write as if it were ours.
 */
export const requireLoopbackName: MiddlewareHandler = async function requireLoopbackName(context, next) {
  if (!isLoopback(new URL(context.req.url).hostname)) {
    throw new Problem(421, 'foreign_host', 'Without SANDBOX_TOKEN it answers to loopback names only.');
  }
  await next();
};

/** 401 unless the request has the token, as a bearer token or as a password with any user name. */
export function requireToken(token: string): MiddlewareHandler {
  const password = basicAuth({
    verifyUser: (_, given) => sameText(token, given),
    realm: 'compliance sandbox',
  });
  // The last one answers when none lets in, so a browser asks for the password.
  return some(bearerAuth({ token }), password);
}

/** With what the consent page says of each. */
export const SCOPES: Readonly<Record<string, string>> = {
  read: 'Read policies, risk assessments and vendors',
  write: 'Create policies and risk assessments, and register webhooks',
};

export type Scopes = ReadonlySet<string>;

declare module 'hono' {
  interface ContextVariableMap {
    /** What the request's credentials may do. */
    scopes: Scopes;
  }
}

/** The words of a `scope` parameter; null when one of them is not a scope. */
export function parseScopes(text: string): string[] | null {
  const words = [...new Set(text.split(' ').filter((word) => word !== ''))];
  return words.every((word) => Object.hasOwn(SCOPES, word)) ? words : null;
}

const EVERYTHING: Scopes = new Set(['read', 'write']);

/**
 * For the API: 401 unless the bearer value is one of `apiKeys` or a token that `scopesOf` knows; 403 without the scope that
 * the request needs: `read` for a GET, `write` for a POST.
 */
export function authenticate(
  apiKeys: readonly string[],
  scopesOf: (token: string) => Scopes | null,
): MiddlewareHandler {
  const identify = bearerAuth({
    verifyToken(token, context) {
      const isKey = apiKeys.some((key) => sameText(key, token));
      const scopes = isKey ? EVERYTHING : scopesOf(token);
      if (scopes !== null) context.set('scopes', scopes);
      return scopes !== null;
    },
  });
  const permit: MiddlewareHandler = async (context, next) => {
    const { method } = context.req;
    const scope = method === 'GET' || method === 'HEAD' ? 'read' : 'write';
    if (!context.get('scopes').has(scope)) {
      throw new Problem(403, 'insufficient_scope', `This request needs the scope ${scope}.`, {
        'www-authenticate': `Bearer error="insufficient_scope", scope="${scope}"`,
      });
    }
    await next();
  };
  return every(identify, permit);
}
