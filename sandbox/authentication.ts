import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import type { Grants } from './oauth/grants.ts';
import { Problem, unauthorized } from './problems.ts';
import { neededScope, permits, type Scopes } from './scopes.ts';

interface Principal {
  /** Never the credential itself. */
  subject: string;
  scopes: Scopes;
}

/**
 * One way to authenticate: who a bearer value belongs to, or null when this way does not know it. The API asks
 * each in turn, so that a further way is one more entry in the list.
 */
export type Authenticator = (bearer: string) => Principal | null;

export type AuthVariables = { Variables: { principal: Principal } };

export function apiKeyAuthenticator(keys: readonly string[]): Authenticator {
  const principal: Principal = { subject: 'api_key', scopes: new Set(['read', 'write']) };
  return (bearer) => (keys.some((key) => sameText(key, bearer)) ? principal : null);
}

/** For the tokens of people and service accounts alike. */
export function tokenAuthenticator(grants: Grants): Authenticator {
  return (bearer) => {
    const holder = grants.holderOf(bearer);
    return holder === null ? null : { subject: holder.clientId, scopes: holder.scopes };
  };
}

/** 401 unless one of `authenticators` knows the bearer value; 403 when it lacks the scope its method needs. */
export function authenticate(authenticators: readonly Authenticator[]): MiddlewareHandler<AuthVariables> {
  return async function authenticate(context, next) {
    const bearer = bearerOf(context);
    const principal = bearer === null ? null : firstKnown(authenticators, bearer);
    if (principal === null) throw unauthorized();
    const { method, path } = context.req;
    if (!permits(principal.scopes, method, path)) {
      const { broad, narrow } = neededScope(method, path);
      throw new Problem(403, 'insufficient_scope', `This request needs the scope ${broad}, or ${narrow}.`, {
        'www-authenticate': `Bearer error="insufficient_scope", scope="${broad}"`,
      });
    }
    context.set('principal', principal);
    await next();
  };
}

function firstKnown(authenticators: readonly Authenticator[], bearer: string): Principal | null {
  for (const authenticator of authenticators) {
    const principal = authenticator(bearer);
    if (principal !== null) return principal;
  }
  return null;
}

export function bearerOf(context: Context): string | null {
  return /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1] ?? null;
}

/** Digests have one length, so the comparison's time says nothing about the secret's. */
export function sameText(expected: string, given: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}
