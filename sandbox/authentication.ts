import type { MiddlewareHandler } from 'hono';
import { bearerOf, sameText } from './access.ts';
import { Problem, unauthorized } from './problems.ts';

/**
 * What a credential may do. The specification shows `read` and `write` and speaks of fine-grained permissions
 * without naming any; the finer ones here are assumed: one resource's part of `read` or `write`.
 */
type Right = 'read' | 'write';

/** Resources by the first part of their path, and what can be done to each. */
const RESOURCES: Readonly<Record<string, readonly Right[]>> = {
  policies: ['read', 'write'],
  'risk-assessments': ['read', 'write'],
  vendors: ['read'],
  webhooks: ['write'],
};

/** Each with what a person reads on the consent page. */
export const SCOPES: Readonly<Record<string, string>> = {
  read: 'Read policies, risk assessments and vendors',
  write: 'Create policies and risk assessments, and register webhooks',
  ...Object.fromEntries(
    Object.entries(RESOURCES).flatMap(([resource, rights]) =>
      rights.map((right) => [
        `${resource}:${right}`,
        `${right === 'read' ? 'Read' : 'Create'} ${resource.replace('-', ' ')}`,
      ]),
    ),
  ),
};

export type Scopes = ReadonlySet<string>;

/** The words of a `scope` parameter; null when one of them is not a scope. */
export function parseScopes(text: string): string[] | null {
  const words = [...new Set(text.split(' ').filter((word) => word !== ''))];
  return words.every((word) => Object.hasOwn(SCOPES, word)) ? words : null;
}

/** True when each of `wanted` is held itself, or the broad scope that it is a part of. */
export function includesAll(held: Scopes, wanted: readonly string[]): boolean {
  return wanted.every((scope) => held.has(scope) || held.has(scope.slice(scope.indexOf(':') + 1)));
}

const EVERYTHING: Scopes = new Set(['read', 'write']);

/**
 * For the API: 401 unless the bearer value is one of `apiKeys` or a token that `scopesOf` knows; 403 without the
 * scope that the request needs: `read` for every GET, `write` for the rest, or the part of it for this resource.
 */
export function authenticate(
  apiKeys: readonly string[],
  scopesOf: (token: string) => Scopes | null,
): MiddlewareHandler {
  return async function authenticate(context, next) {
    const bearer = bearerOf(context);
    if (bearer === null) throw unauthorized();
    const scopes = apiKeys.some((key) => sameText(key, bearer)) ? EVERYTHING : scopesOf(bearer);
    if (scopes === null) throw unauthorized();
    const { method, path } = context.req;
    const broad: Right = method === 'GET' || method === 'HEAD' ? 'read' : 'write';
    const narrow = `${path.split('/')[2] ?? ''}:${broad}`;
    if (!includesAll(scopes, [narrow])) {
      throw new Problem(403, 'insufficient_scope', `This request needs the scope ${broad}, or ${narrow}.`, {
        'www-authenticate': `Bearer error="insufficient_scope", scope="${broad}"`,
      });
    }
    await next();
  };
}
