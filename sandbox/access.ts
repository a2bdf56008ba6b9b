import { hash, timingSafeEqual } from 'node:crypto';
import type { Context, MiddlewareHandler } from 'hono';
import { auth } from 'hono/utils/basic-auth';
import { Problem } from './problems.ts';

/** True for names and addresses that only this machine can reach. IPv6 with or without brackets. */
export function isLoopbackHost(host: string): boolean {
  const bare = host.replace(/^\[|\]$/g, '').toLowerCase();
  return bare === 'localhost' || bare === '::1' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(bare);
}

/** `host` may be an IPv6 address, with or without brackets. */
export function urlOf(host: string, port: number): string {
  return `http://${host.includes(':') ? `[${host.replace(/^\[|\]$/g, '')}]` : host}:${port}`;
}

function bearerOf(context: Context): string | null {
  return /^Bearer +(\S+)$/i.exec(context.req.header('authorization') ?? '')?.[1] ?? null;
}

/** Compares digests, which all have the same length, so that the time taken reveals nothing about the secret. */
export function sameText(expected: string, given: string): boolean {
  return timingSafeEqual(hash('sha256', expected, 'buffer'), hash('sha256', given, 'buffer'));
}

/**
 * Rejects host names that are not of loopback. A page of another site could otherwise point its own name at this machine (DNS
 * rebinding) and read and write as if it were ours.
 */
export const requireLoopbackName: MiddlewareHandler = async function requireLoopbackName(context, next) {
  if (!isLoopbackHost(new URL(context.req.url).hostname)) {
    throw new Problem(421, 'foreign_host', 'Without SANDBOX_TOKEN it answers to loopback names only.');
  }
  await next();
};

/** Rejects what a page of another site sends. Programs send no Origin, so their requests pass. */
export const requireOwnOrigin: MiddlewareHandler = async function requireOwnOrigin(context, next) {
  const origin = context.req.header('origin');
  const site = context.req.header('sec-fetch-site') ?? 'none';
  // Only the host is compared: behind a proxy that ends TLS the scheme differs.
  const isOwn = origin === undefined || URL.parse(origin)?.host === new URL(context.req.url).host;
  if (!isOwn || !['none', 'same-origin'].includes(site)) {
    throw new Problem(403, 'foreign_origin', 'These addresses take no requests from other sites.');
  }
  await next();
};

/** 401 unless the request has the token, as a bearer token or as a password with any user name. */
export function requireToken(token: string): MiddlewareHandler {
  return async function requireToken(context, next) {
    const given = bearerOf(context) ?? auth(context.req.raw)?.password;
    if (given === undefined || !sameText(token, given)) {
      const detail =
        'Send SANDBOX_TOKEN as Authorization: Bearer …, or as the password; the user name does not matter.';
      throw new Problem(401, 'unauthorized', detail, {
        'www-authenticate': 'Basic realm="compliance sandbox", charset="UTF-8"',
      });
    }
    await next();
  };
}

/**
 * Scopes, with what the consent page says of each. The specification shows `read` and `write`, and mentions fine-grained
 * permissions without naming any. The finer scopes here are assumed: the first part of a resource's path, and the right.
 */
export const SCOPES: Readonly<Record<string, string>> = {
  read: 'Read policies, risk assessments and vendors',
  write: 'Create policies and risk assessments, and register webhooks',
  'policies:read': 'Read policies',
  'policies:write': 'Create policies',
  'risk-assessments:read': 'Read risk assessments',
  'risk-assessments:write': 'Create risk assessments',
  'vendors:read': 'Read vendors',
  'webhooks:write': 'Create webhooks',
};

export type Scopes = ReadonlySet<string>;

/** The words of a `scope` parameter; null when one of them is not a scope. */
export function parseScopes(text: string): string[] | null {
  const words = [...new Set(text.split(' ').filter((word) => word !== ''))];
  return words.every((word) => Object.hasOwn(SCOPES, word)) ? words : null;
}

/** Whether `held` has each of `wanted`, or the broad scope that it is a part of. */
export function includesAll(held: Scopes, wanted: readonly string[]): boolean {
  return wanted.every((scope) => held.has(scope) || held.has(scope.slice(scope.indexOf(':') + 1)));
}

const EVERYTHING: Scopes = new Set(['read', 'write']);

/**
 * For the API: 401 unless the bearer value is one of `apiKeys` or a token that `scopesOf` knows; 403 without the scope that
 * the request needs: `read` for a GET, `write` for a POST, or that scope for this resource.
 */
export function authenticate(
  apiKeys: readonly string[],
  scopesOf: (token: string) => Scopes | null,
): MiddlewareHandler {
  return async function authenticate(context, next) {
    const bearer = bearerOf(context) ?? '';
    const scopes = apiKeys.some((key) => sameText(key, bearer)) ? EVERYTHING : scopesOf(bearer);
    if (scopes === null) {
      throw new Problem(401, 'unauthorized', 'Send valid credentials as Authorization: Bearer …', {
        'www-authenticate': 'Bearer',
      });
    }
    const { method, path } = context.req;
    const broad = method === 'GET' || method === 'HEAD' ? 'read' : 'write';
    const narrow = `${path.split('/')[2] ?? ''}:${broad}`;
    if (!includesAll(scopes, [narrow])) {
      throw new Problem(403, 'insufficient_scope', `This request needs the scope ${broad}, or ${narrow}.`, {
        'www-authenticate': `Bearer error="insufficient_scope", scope="${broad}"`,
      });
    }
    await next();
  };
}
