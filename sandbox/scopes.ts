/**
 * What a credential may do. The specification shows `read` and `write` and speaks of fine-grained permissions
 * without naming any; the finer ones here are assumed: one resource's part of `read` or `write`.
 */
type Access = 'read' | 'write';

/** Resources by the first part of their path, and what can be done to each. */
const RESOURCES: Readonly<Record<string, readonly Access[]>> = {
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
    Object.entries(RESOURCES).flatMap(([resource, accesses]) =>
      accesses.map((access) => [
        `${resource}:${access}`,
        `${access === 'read' ? 'Read' : 'Create'} ${resource.replace('-', ' ')}`,
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

/** The scope that a request needs: `read` for every GET, `write` for the rest, narrowed to its resource. */
export function neededScope(method: string, path: string): { broad: Access; narrow: string } {
  const broad = method === 'GET' || method === 'HEAD' ? 'read' : 'write';
  const resource = path.split('/')[2] ?? '';
  return { broad, narrow: `${resource}:${broad}` };
}

export function permits(held: Scopes, method: string, path: string): boolean {
  const { broad, narrow } = neededScope(method, path);
  return held.has(broad) || held.has(narrow);
}
