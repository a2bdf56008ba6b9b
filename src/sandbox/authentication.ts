import { createHash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { Problem, unauthorized } from './problems.ts';

type Scope = 'read' | 'write';

interface Principal {
  /** For logs and the rate limit; never the credential itself. */
  subject: string;
  scopes: ReadonlySet<Scope>;
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

/** 401 unless one of `authenticators` knows the bearer value; 403 when it lacks the scope its method needs. */
export function authenticate(authenticators: readonly Authenticator[]): MiddlewareHandler<AuthVariables> {
  return async function authenticate(context, next) {
    const bearer = bearerOf(context);
    const principal = bearer === null ? null : firstKnown(authenticators, bearer);
    if (principal === null) throw unauthorized();
    const needed: Scope = context.req.method === 'GET' || context.req.method === 'HEAD' ? 'read' : 'write';
    if (!principal.scopes.has(needed)) {
      throw new Problem(403, 'insufficient_scope', `This request needs the scope ${needed}.`);
    }
    context.set('principal', principal);
    await next();
  };
}

/** For the control endpoints: one fixed token; null leaves them open, which is for loopback alone. */
export function requireToken(token: string | null): MiddlewareHandler {
  return async function requireToken(context, next) {
    if (token !== null) {
      const bearer = bearerOf(context);
      if (bearer === null || !sameText(token, bearer)) throw unauthorized();
    }
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

function bearerOf(context: Context): string | null {
  return /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1] ?? null;
}

/** Digests have one length, so the comparison's time says nothing about the secret's. */
function sameText(expected: string, given: string): boolean {
  const digest = (text: string) => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(expected), digest(given));
}
